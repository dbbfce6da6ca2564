"""`import stamo` is quick and gives all public names."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import stamo


def modules_by_name():
    """Return in which modules each public function and class is defined.

    A function of the command line or of a route bears the name of what it calls.
    """
    root = Path(stamo.__file__).parent
    modules = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        is_door = path.parent.name == "cli" or path.name == "routes.py"
        for node in ast.parse(path.read_text()).body:
            is_defined = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if is_defined and node.name[0] != "_" and not is_door:
                modules[node.name].append(str(path.relative_to(root)))
    return modules


def test_no_two_public_things_share_a_name():
    """One word, one meaning: what is imported by a name is one thing, wherever it is met."""
    assert {name: where for name, where in modules_by_name().items() if len(where) > 1} == {}


@pytest.mark.parametrize("name", [n for n in stamo.__all__ if n != "__version__"])
def test_every_public_name_is_there(name):
    """Each name in `stamo.__all__` loads, carries its own name and is completed."""
    assert getattr(stamo, name).__name__ == name
    assert name in dir(stamo)
