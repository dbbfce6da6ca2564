"""Imports point downwards only, importing only defines, and torch stays out of the lower layers."""

import ast
import fnmatch
import subprocess
import sys
from pathlib import Path

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


def test_imports_point_downwards():
    """A package imports only from the layers below it; linking and learning are strangers."""
    assert {room(path) for path in MODULES} == set(RANK), "LAYERS names what is there"
    met = {(room(p), other, p.name) for p in MODULES for other in imported_rooms(p)}
    wrong = {
        (here, other, name)
        for here, other, name in met
        if other not in (here, "__version__")
        and RANK[other] <= RANK[here]
        and (here, other) not in SAME_LAYER_MAY_MEET
    }
    assert wrong == set()


def test_the_product_does_not_know_the_laboratory():
    """`stamo_lab` imports `stamo`, never the other way."""
    assert [path.name for path in MODULES if "stamo_lab" in path.read_text()] == []


def loaded_by(code: str, names: set[str]) -> str:
    """Which of some libraries a fresh process has loaded after running code."""
    code += f"\nimport sys; print(sorted({names!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_nothing_heavy_is_loaded_before_it_is_needed():
    """Neither lower layers nor `stamo --help` load torch; commands import inside."""
    names = [
        "stamo." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in MODULES
        if room(path) in WITHOUT_TORCH and path.stem != "__init__"
    ]
    assert loaded_by("\n".join(f"import {name}" for name in names), {"torch"}) == "[]"
    start = "from stamo.cli.main import create_app; create_app()"
    assert loaded_by(start, {"torch", "duckdb", "matplotlib", "scipy"}) == "[]"
    assert loaded_by("import stamo", {"numpy", "torch"}) == "[]"


def test_every_folder_of_tests_is_collected(pytestconfig):
    """No folder below tests has a name that the test runner passes over."""
    folders = {path.parent.name for path in Path(__file__).parent.rglob("test_*.py")}
    for pattern in pytestconfig.getini("norecursedirs"):
        assert fnmatch.filter(folders, pattern) == []
