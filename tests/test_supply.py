"""What is installed is named with hashes and licences, and nothing that is read is unpickled."""

import ast
import csv

import pytest

from tests.documents import ROOT
from tools.constraints import UNHASHED, bill

PINNED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines()[1:])
FORBIDDEN = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
RUNS = {"eval", "exec", "compile", "__import__"}
LOADS = {"torch.load", "yaml.load", "yaml.unsafe_load", "pandas.read_pickle", "pd.read_pickle"}
OWN = {("names.py", "marshal")}
"""What a process packs for itself, in its memory."""
SOURCES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize(
    "path", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix()
)
def test_nothing_is_unpickled_or_run(path):
    """No module imports a pickle, evaluates text, or lets a library unpickle."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules = {name.name.partition(".")[0] for name in node.names}
            assert {(path.name, name) for name in modules & FORBIDDEN} <= OWN
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] not in FORBIDDEN
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            is_known = all(isinstance(given, ast.Constant) for given in node.args)
            assert called not in LOADS, f"line {node.lineno}"
            assert called not in RUNS or is_known, f"line {node.lineno}"
            for option in node.keywords:
                if option.arg == "allow_pickle":
                    assert ast.unparse(option.value) == "False"


def test_every_pinned_package_but_torch_has_hashes():
    """`hashes.txt` names files of the very versions of `constraints.txt`."""
    lines = (ROOT / "hashes.txt").read_text().splitlines()
    named = dict(line.rstrip(" \\").split("==") for line in lines if line[:1].isalnum())
    assert named == {name: v for name, v in PINNED.items() if name not in UNHASHED}
    assert sum("--hash=sha256:" in line for line in lines) >= len(named)


def test_the_table_of_licences_names_every_package():
    """What a product ships or the tests need is there with its version and a licence."""
    with (ROOT / "docs" / "data" / "licences.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["package"]: row["version"] for row in rows} == PINNED
    assert all(row["licence"] for row in rows)


def test_the_bill_of_materials_is_cyclonedx():
    """Each component has a name, a version, a package URL, a licence and hashes."""
    made = bill({"numpy": PINNED["numpy"]}, {"numpy": ["0" * 64]})
    (part,) = made["components"]
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.5")
    assert part["purl"] == f"pkg:pypi/numpy@{PINNED['numpy']}"
    assert part["hashes"] == [{"alg": "SHA-256", "content": "0" * 64}]
    assert part["licenses"][0]["license"]["name"]
