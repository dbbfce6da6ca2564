"""A suite on disk: a versioned directory with a manifest and checksums.

Documents are kept once; a problem points to its mentions by document and place. Entities are
kept by title, so that a suite can be read without the knowledge base it was made with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from stamo.errors import ArtifactMismatchError, SuiteError
from stamo.kb.base import KnowledgeBase
from stamo.kb.manifest import sha256_of
from stamo.system.files import RESULT_DIR, Bools, DirectoryKind, Int64, staged_directory

SetName = Literal["W", "test-web", "test-wiki"]
TEST_SETS: tuple[SetName, ...] = ("test-web", "test-wiki")
SplitName = Literal["development", "held-out", "training"]
SPLITS: tuple[SplitName, ...] = ("development", "held-out", "training")
TEST_SHARE = 0.3
"""Share of the documents that W has nothing of."""
PHI_SHARE = 0.5
"""Share of the held-out articles that train the linking model of natural names and nothing else."""


def stable_hash(text: str, modulus: int) -> int:
    """Return a number below `modulus` that depends on the text only."""
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % modulus


def lot(text: str) -> int:
    """Return a seed, or a place in an order, that depends on the text only."""
    return stable_hash(text, 2**62)


def are_drawn(texts: Iterable[str], share: float) -> Bools:
    """Return which texts are among a share of all texts, the same ones always, (n,)."""
    return np.array([stable_hash(text, 1000) < 1000 * share for text in texts], dtype=bool)


def split_of(title: str) -> SplitName:
    """Return whether an emerging entity is for development or held out."""
    return "development" if stable_hash("split " + title, 2) == 0 else "held-out"


@dataclass(frozen=True)
class Problem:
    """An emerging entity with its rivals, by entity number, and the mentions of each set."""

    title: str
    split: SplitName
    aliases: tuple[str, ...]
    """A(e*); in a conflated problem the one name that all entities of the group share."""
    group: tuple[int, ...]
    """The emerging entity first, then its rivals; the emerging entity alone where the rivals are
    whatever else the knowledge base knows under the aliases."""
    rows: dict[SetName, Int64]
    """Mentions of each set, as row numbers of the set's flat corpus."""
    gold: dict[SetName, Int64]
    """Place in the group of each mention's entity, 0 for the emerging one; in a problem without
    listed rivals 1 stands for any other entity."""

    @property
    def is_conflated(self) -> bool:
        """Return whether the rivals are listed."""
        return len(self.group) > 1

    @property
    def rivals(self) -> tuple[int, ...]:
        """Return the listed rivals."""
        return self.group[1:]


FORMAT_VERSION = 2
PROBLEMS, SUITE_MANIFEST = "problems.json", "manifest.json"


P = TypeVar("P")


@dataclass(frozen=True)
class OpenedSuite(Generic[P]):
    """An opened suite of any kind."""

    path: Path
    manifest: Mapping[str, Any]
    problems: tuple[P, ...]

    @property
    def kind(self) -> str:
        """Return conflated, natural, facc1 or wild."""
        return str(self.manifest["kind"])

    @property
    def checksum(self) -> str:
        """Return the hash of all files."""
        return str(self.manifest["checksum"])

    @property
    def name(self) -> str:
        """Return the kind, and the level of a conflated suite."""
        level = self.manifest["settings"].get("level")
        return f"{self.kind} {level}" if level else self.kind


class Suite(OpenedSuite[Problem]):
    """An opened suite of problems in linked text."""

    def corpus_of(self, set_name: SetName) -> Literal["web", "wiki"]:
        """Return where the mentions of a set come from: the documents, or the dump's articles."""
        return "wiki" if set_name == "test-wiki" or self.kind == "natural" else "web"


def save_problems(
    directory: Path, problems: Sequence[Problem], manifest: Mapping[str, Any], kb: KnowledgeBase
) -> None:
    """Write problems and manifest; the manifest comes last, so that it vouches for the rest."""
    described = [
        vars(p)
        | {
            "group": kb.titles(p.group),
            "rows": {name: rows.tolist() for name, rows in p.rows.items()},
            "gold": {name: gold.tolist() for name, gold in p.gold.items()},
        }
        for p in problems
    ]
    (directory / PROBLEMS).write_text(json.dumps(described, ensure_ascii=False))
    counts = {split: sum(p.split == split for p in problems) for split in SPLITS}
    write_manifest(directory, {**manifest, "counts": counts}, kb)


def write_manifest(directory: Path, manifest: Mapping[str, Any], kb: KnowledgeBase) -> None:
    """Vouch for all files of a suite: to be called last."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    files = {path.relative_to(directory).as_posix(): sha256_of(path) for path in paths}
    whole = {"format": "stamo-suite", "version": FORMAT_VERSION, **manifest, "files": files}
    whole["kb"] = kb.fingerprint
    whole["checksum"] = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    (directory / SUITE_MANIFEST).write_text(json.dumps(whole, indent=1, sort_keys=True))


def open_suite(path: Path, kb: KnowledgeBase) -> Suite:
    """Open a suite and check that it is complete, unchanged and made with this knowledge base."""
    manifest = read_manifest(path, kb)
    problems = tuple(
        Problem(
            title=described["title"],
            split=described["split"],
            aliases=tuple(described["aliases"]),
            group=tuple(kb.entity_ids(described["group"]).tolist()),
            rows={name: np.array(rows, np.int64) for name, rows in described["rows"].items()},
            gold={name: np.array(gold, np.int64) for name, gold in described["gold"].items()},
        )
        for described in json.loads((path / PROBLEMS).read_text())
    )
    return Suite(path, manifest, problems)


def kind_of(path: Path) -> str:
    """Return the kind of the suite in a directory; it is not checked further."""
    try:
        return str(json.loads((path / SUITE_MANIFEST).read_text())["kind"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_suite(path, error) from error


def read_manifest(path: Path, kb: KnowledgeBase) -> dict[str, Any]:
    """Read what a suite says of itself.

    All its files are there and unchanged, and the knowledge base is the one it was made with.
    """
    try:
        manifest: dict[str, Any] = json.loads((path / SUITE_MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise _no_suite(path, error) from error
    if manifest.get("format") != "stamo-suite" or manifest.get("version") != FORMAT_VERSION:
        raise SuiteError(f"{path} is not a suite of version {FORMAT_VERSION}; make it again.")
    for name, digest in manifest["files"].items():
        is_inside = not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts
        if not is_inside or not (path / name).is_file():
            raise SuiteError(f"The suite {path.name!r} lacks its file {name}; make it again.")
        if sha256_of(path / name) != digest:
            raise SuiteError(f"The file {name} of suite {path.name!r} changed; make it again.")
    if manifest["kb"] != kb.fingerprint:
        raise ArtifactMismatchError(
            f"The suite {path.name!r} was made with the knowledge base {manifest['kb'][:12]}, but "
            f"{kb.name!r} is {kb.fingerprint[:12]}; use that one or make the suite again."
        )
    return manifest


def _no_suite(path: Path, error: Exception) -> SuiteError:
    return SuiteError(
        f"{path} is no complete suite ({error}); make one with `stamo-lab suite make`."
    )


@contextmanager
def new_suite(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a directory that becomes the suite `target` when the block ends."""
    with staged_directory(target.absolute(), _KIND, overwrite=overwrite) as work:
        yield work / RESULT_DIR


_KIND = DirectoryKind("suite", lambda path: (path / SUITE_MANIFEST).is_file(), SuiteError)
