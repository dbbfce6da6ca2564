"""`import stamo` is quick and gives all public names."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import stamo
from stamo.cli.main import create_app

EVERYWHERE = {"logger", "create_app"}
"""What each module of its kind has: its logger, how it makes an application."""


def public_names(path):
    """Return the functions, classes and constants that a module defines at its top level."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return {name for name in names if not name.startswith("_")} - EVERYWHERE


def command_names(app):
    """Return the names of the functions behind the commands of an application."""
    names = {command.callback.__name__ for command in app.registered_commands}
    return names.union(*(command_names(group.typer_instance) for group in app.registered_groups))


def modules_by_name():
    """Return in which modules each public name is defined.

    A function of the command line bears the name of its command, whatever it calls.
    """
    root = Path(stamo.__file__).parent
    commands = command_names(create_app())
    modules = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        for name in public_names(path):
            if path.parent.name != "cli" or name not in commands:
                modules[name].append(str(path.relative_to(root)))
    return modules


def test_no_two_public_things_share_a_name():
    """One word, one meaning: what is imported by a name is one thing, wherever it is met."""
    assert {name: where for name, where in modules_by_name().items() if len(where) > 1} == {}


@pytest.mark.parametrize("name", [n for n in stamo.__all__ if n != "__version__"])
def test_every_public_name_is_there(name):
    """Each name in `stamo.__all__` loads and carries its own name."""
    assert getattr(stamo, name).__name__ == name


def test_public_names_are_listed():
    """Completion shows what one needs, before anything is loaded."""
    code = "import stamo; print(dir(stamo))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == sorted(stamo.__all__)
    assert {"Linker", "Workspace", "collect", "learn", "open_linker"} <= set(stamo.__all__)


def test_values_show_themselves_in_one_line(installed_reprs):
    """What one meets first in a notebook is short, whatever it holds."""
    for value in installed_reprs:
        assert "\n" not in repr(value)
        assert len(repr(value)) < 120
        assert type(value).__name__ in repr(value)


@pytest.fixture
def installed_reprs(world, world_corpus, world_kb, world_model):
    from datetime import UTC, datetime

    linker = stamo.Linker(world_kb, world_model)
    entity = world.emerging[0]
    pack = stamo.EntityPack.project(
        entity,
        world_kb,
        priors=[0.5] * len(entity.aliases),
        neighbours=[0, 2],
        relatedness=[0.5, 0.25],
        vector=[1.0] * world_kb.dimensions,
        model_fingerprint=world_model.fingerprint,
    )
    at = datetime.now(UTC)
    return [
        world_kb,
        world_model,
        linker,
        pack,
        stamo.Linker(world_kb, world_model, [pack]),
        stamo.Corpus(world_corpus),
        stamo.Workspace(Path("rey"), entity, "me", at),
    ]


def test_unknown_names_are_attribute_errors():
    """A misspelt name fails as in any module."""
    with pytest.raises(AttributeError, match="nonsense"):
        _ = stamo.nonsense


def test_importing_loads_nothing_heavy():
    """`import stamo` alone loads neither numpy nor torch."""
    code = "import sys, stamo\nprint(sorted({'numpy', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_torch_a_name_says_what_to_install():
    """What needs torch says so in a sentence; the other names are there."""
    code = "import sys; sys.modules['torch'] = None; import stamo; stamo.Linker; stamo.learn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "stamo.learn needs the package 'torch'" in done.stderr
    assert "pip install 'stamo[torch]'" in done.stderr
