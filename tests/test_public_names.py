"""`import stamo` is quick and gives all public names."""

import subprocess
import sys

import pytest

import stamo


@pytest.mark.parametrize("name", [n for n in stamo.__all__ if n != "__version__"])
def test_every_public_name_is_there(name):
    """Each name in `stamo.__all__` loads and carries its own name."""
    assert getattr(stamo, name).__name__ == name


def test_unknown_names_are_attribute_errors():
    """A misspelt name fails as in any module."""
    with pytest.raises(AttributeError, match="nonsense"):
        _ = stamo.nonsense


def test_importing_loads_nothing_heavy():
    """`import stamo` alone loads neither numpy nor torch."""
    code = "import sys, stamo\nprint(sorted({'numpy', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
