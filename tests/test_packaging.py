"""What a distribution holds."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.documents import ROOT

MADE = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*_cache")
FOLDERS = (".ci", "docs", "lab", "src", "tests", "tools")


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The files of a source distribution, below its one folder."""
    folder = tmp_path_factory.mktemp("sdist")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=MADE)
    for path in filter(Path.is_file, ROOT.iterdir()):
        shutil.copy(path, folder / "source")
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    subprocess.run(
        [sys.executable, "-c", code], cwd=folder / "source", check=True, capture_output=True
    )
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        return {name.partition("/")[2] for name in file.getnames()}


def committed(folder, pattern):
    return {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob(pattern)
        if "__pycache__" not in path.parts
    }


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [
        ("src/stamo", "*.py"),
        ("src/stamo/service/static", "*"),
        ("docs", "*.*"),
        ("tests", "*.py"),
        ("tools", "*.py"),
        ("lab/src/stamo_lab", "*.py"),
        ("lab/src/stamo_lab/experiments", "*.toml"),
    ],
)
def test_the_source_distribution_is_complete(names, folder, pattern):
    """It holds the package, and what one needs to read, test and run it."""
    wanted = committed(folder, pattern)
    assert wanted
    assert wanted - names == set()


def test_the_source_distribution_can_be_tested(names):
    """`make test` finds its files in it, and nothing of this machine is in it."""
    assert {"Makefile", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"} <= names
    assert not [name for name in names if name.endswith(".pyc") or "__pycache__" in name]


def test_the_tested_versions_are_allowed_and_say_nothing_of_a_place():
    """What `constraints.txt` pins fits the bounds of `pyproject.toml`, for all that it names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    assert all(
        re.fullmatch(r"[a-z0-9-]+==[0-9.]+(\.?(post|rc|b|a)[0-9]+)?", line) for line in lines
    )
    pinned = dict(line.split("==") for line in lines)
    texts = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    for extra in ("encoder", "figures", "web", "serve"):
        texts += project["optional-dependencies"][extra]
    for requirement in map(Requirement, texts):
        if requirement.name != project["name"]:
            version = pinned[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version, prereleases=True), requirement
