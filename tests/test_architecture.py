"""Imports point downwards only, importing only defines, and torch stays out of the lower layers."""

import ast
import fnmatch
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "stamo"

LAYERS = [
    {"__main__"},
    {"cli", "service", "integrations"},
    {"discovery"},
    {"workspace"},
    {"evaluation"},
    {"linking", "learning"},
    {"packs"},
    {"models"},
    {"features"},
    {"world"},
    {"build"},
    {"kb"},
    {"corpus"},
    {"system"},
    {"errors"},
]
"""From the outside in; a package imports only from the layers below its own."""
WITHOUT_TORCH = {"errors", "system", "corpus", "kb", "build", "world"}
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
SAME_LAYER_MAY_MEET = {("cli", "service"), ("cli", "integrations")}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path.name} line {node.lineno}: imports are absolute"
            names = [node.module]
            if node.module == "stamo":
                names = [f"stamo.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("stamo.")}
    return rooms


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_downwards(path):
    """A package imports only from the layers below it."""
    here = room(path)
    assert here in RANK, f"{here} is not a layer; add it to LAYERS where it belongs"
    for other in imported_rooms(path) - {here, "__version__"}:
        meets = (here, other) in SAME_LAYER_MAY_MEET
        assert RANK[other] > RANK[here] or meets, f"{path.name} imports {other}, not below {here}"


def test_every_layer_is_a_package():
    """The list of layers names what is there, and nothing that is gone."""
    rooms = {room(path) for path in MODULES}
    assert rooms == set(RANK)


@pytest.mark.parametrize(("here", "other"), [("linking", "learning"), ("learning", "linking")])
def test_linking_and_learning_are_strangers(here, other):
    """Neither imports the other: what both need lies below."""
    met = [path.name for path in MODULES if room(path) == here and other in imported_rooms(path)]
    assert met == []


def test_the_product_does_not_know_the_laboratory():
    """`stamo_lab` imports `stamo`, never the other way."""
    assert [path.name for path in MODULES if "stamo_lab" in path.read_text()] == []


def test_lower_layers_work_without_torch():
    """The layers up to the embedded world never load torch, so their commands start at once."""
    names = [
        "stamo." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in MODULES
        if room(path) in WITHOUT_TORCH and path.stem != "__init__"
    ]
    code = (
        f"import sys, importlib\nfor name in {names!r}: importlib.import_module(name)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_command_line_starts_without_heavy_parts():
    """`stamo --help` loads neither torch nor the numeric stack; commands import them inside."""
    code = (
        "import sys\nfrom stamo.cli.main import create_app\ncreate_app()\n"
        "print(sorted({'torch', 'duckdb', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_folder_of_tests_is_collected(pytestconfig):
    """No folder below tests has a name that the test runner passes over."""
    folders = {path.parent.name for path in Path(__file__).parent.rglob("test_*.py")}
    for pattern in pytestconfig.getini("norecursedirs"):
        assert fnmatch.filter(folders, pattern) == []
