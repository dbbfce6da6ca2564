"""Write down what the tests ran with: `make constraints`.

Listed is what `stamo[dev]` and `stamo-lab` need, directly or not, as it is installed here.

- `constraints.txt` pins versions and says nothing of where they come from, so any index and torch's
  build without CUDA fit it.
- `hashes.txt` names the files that PyPI has of these versions, by their hashes. Torch is not in it:
  which of its builds fits depends on the machine, and most come from an index of their own.
- `build/sbom.json` lists all of it as CycloneDX, with licences and hashes;
  `docs/data/licences.csv` is the table of licences.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import tomllib
import urllib.request
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PATH = ROOT / "constraints.txt"
INDEX = "https://pypi.org/simple"
UNHASHED = {"torch"}
HASHES_HEAD = """\
# The files of constraints.txt, without torch. Made by: make constraints. To install from them:
#   pip install "$(grep ^torch== constraints.txt)"
#   pip install --no-deps --require-hashes -r hashes.txt
"""
HEAD = "# What the tests ran with; see docs/service.md. Made by: make constraints\n"


def needed(requirements: list[str], extras: frozenset[str]) -> list[Requirement]:
    """Return the requirements that hold here, given some extras."""
    parsed = map(Requirement, requirements)
    return [
        r
        for r in parsed
        if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in extras | {""})
    ]


def closure(project: dict[str, dict[str, object]]) -> dict[str, str]:
    """Return name and version of all that the project's `dev` and the laboratory need."""
    own = project["project"]
    extras: dict[str, list[str]] = own["optional-dependencies"]  # type: ignore[assignment]
    lab = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text())["project"]
    versions: dict[str, str] = {}
    seen = set()
    first: list[str] = [*own["dependencies"], *lab["dependencies"], "stamo[dev]"]  # type: ignore[misc]
    open_ones = [Requirement(text) for text in first]
    while open_ones:
        requirement = open_ones.pop()
        name, wanted = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        if name == own["name"]:
            open_ones += needed([text for extra in wanted for text in extras[extra]], frozenset())
            continue
        try:
            found = distribution(name)
        except PackageNotFoundError:
            sys.exit(f"{name} is not installed; run: make test")
        versions[name] = Version(found.version).public
        open_ones += needed(found.requires or [], wanted)
    return versions


def hashes(name: str, version: str) -> list[str]:
    """Return the hashes of all files that the index has of a version."""
    with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60) as answer:
        page = answer.read().decode()
    found = set()
    for digest, file in re.findall(r"#sha256=([0-9a-f]{64})\"[^>]*>([^<]+)</a>", page):
        try:
            is_wheel = file.endswith(".whl")
            told = parse_wheel_filename(file)[1] if is_wheel else parse_sdist_filename(file)[1]
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue
        if told == Version(version):
            found.add(digest)
    return sorted(found)


def licence(name: str) -> str:
    """Return the licence that a package declares: its expression, its classifiers or its text."""
    about = distribution(name).metadata
    classifiers = [c for c in about.get_all("Classifier") or [] if c.startswith("License ::")]
    told = " or ".join(c.rpartition(" :: ")[2] for c in classifiers if "Approved" not in c[-12:])
    text = (about.get("License") or "").strip().split("\n")[0][:60]
    return about.get("License-Expression") or told or text or "not declared"


def bill(versions: dict[str, str], files: dict[str, list[str]]) -> dict[str, object]:
    """Return a software bill of materials in CycloneDX 1.5."""
    components = []
    for name, version in sorted(versions.items()):
        reference = f"pkg:pypi/{name}@{version}"
        part = {"type": "library", "name": name, "version": version, "purl": reference}
        licences = [{"license": {"name": licence(name)}}]
        known = [{"alg": "SHA-256", "content": digest} for digest in files[name]]
        components.append(part | {"bom-ref": reference, "licenses": licences, "hashes": known})
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}


def main() -> None:
    """Write the files."""
    versions = closure(tomllib.loads((ROOT / "pyproject.toml").read_text()))
    ordered = sorted(versions.items())
    files = {n: [] if n in UNHASHED else hashes(n, version) for n, version in ordered}
    missing = sorted(name for name in files if not files[name] and name not in UNHASHED)
    if missing:
        sys.exit(f"{INDEX} has no file of: {', '.join(missing)}")
    PATH.write_text(HEAD + "".join(f"{name}=={version}\n" for name, version in ordered))
    with (ROOT / "hashes.txt").open("w") as file:
        file.write(HASHES_HEAD)
        for name, version in ordered:
            if files[name]:
                ends = "".join(f" \\\n    --hash=sha256:{digest}" for digest in files[name])
                file.write(f"{name}=={version}{ends}\n")
    with (ROOT / "docs" / "data" / "licences.csv").open("w", newline="") as table:
        rows = [(name, version, licence(name)) for name, version in ordered]
        csv.writer(table, lineterminator="\n").writerows([("package", "version", "licence"), *rows])
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "sbom.json").write_text(json.dumps(bill(versions, files), indent=1))
    sys.stdout.write(
        f"{PATH.name}: {len(versions)} versions, {sum(map(len, files.values()))} hashes\n"
    )


if __name__ == "__main__":
    main()
