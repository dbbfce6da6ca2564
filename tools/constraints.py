"""Write down the versions that the tests ran with: `make constraints`.

Listed is what `stamo[dev]` and `stamo-lab` need, directly or not, as it is installed here. The file
pins versions and says nothing of where they come from, so any index and torch's build without CUDA
fit it.
"""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PATH = ROOT / "constraints.txt"
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


def main() -> None:
    """Write the file."""
    versions = closure(tomllib.loads((ROOT / "pyproject.toml").read_text()))
    lines = (f"{name}=={version}\n" for name, version in sorted(versions.items()))
    PATH.write_text(HEAD + "".join(lines))
    sys.stdout.write(f"{PATH.name}: {len(versions)} versions\n")


if __name__ == "__main__":
    main()
