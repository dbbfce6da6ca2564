"""The manifest: what a knowledge base was made from, how, and which files belong to it.

It holds neither times nor absolute paths, so that the same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash

from stamo.errors import KnowledgeBaseError

KB_FORMAT = "stamo knowledge base"
KB_VERSION = 2
MANIFEST_FILE = "manifest.json"
ARTICLES_FILE = "articles.parquet"
ALIAS_COUNTS = "alias_counts.npy"
ENTITY_VECTORS = "entity_vectors.closed-form.npy"
BACKGROUND = "background.npy"
SEARCH = "search_"
"""What the names of the files of the index of names start with."""
MATCHER = "linked_aliases"
"""The matcher of all aliases that are linked at least once."""
MAX_SMALL_BYTES = 4 * 2**20
"""Arrays up to this size are compared with their hash when a knowledge base is opened."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that went into the build: its name without the folder, its size and its hash."""

    name: str
    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> SourceFile:
        """Describe a file; of a pipe or standard input only the name can be told."""
        if not path.is_file():
            return cls(path.name, 0, "")
        return cls(path.name, path.stat().st_size, sha256_of(path))


@dataclass(frozen=True)
class Manifest:
    """What is written to `manifest.json`."""

    sources: Mapping[str, SourceFile]
    """The dump, and the word vectors when they were given."""

    settings: Mapping[str, Any]
    """The settings that shape the result; not the number of workers."""

    site: Mapping[str, Any]
    """What the dump says of its wiki."""

    counts: Mapping[str, int]
    """Pages, links, entities, aliases and so on."""

    skipped: Mapping[str, int]
    """What was left out, by reason."""

    files: Mapping[str, Mapping[str, Any]]
    """Size and sha256 of every other file, by name; of index files also XXH3 (64 bits)."""

    version: int = KB_VERSION

    @property
    def fingerprint(self) -> str:
        """The hash over the files' hashes: two knowledge bases with one fingerprint are equal.

        The index of names is made from the other files, and what links does not read it.
        """
        names = sorted(name for name in self.files if not name.startswith(SEARCH))
        lines = [f"{name} {self.files[name]['sha256']}\n" for name in names]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def save(self, directory: Path) -> None:
        """Write the manifest into `directory`."""
        record = {"format": KB_FORMAT, **asdict(self), "fingerprint": self.fingerprint}
        text = json.dumps(record, ensure_ascii=False, indent=1)
        (directory / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> Manifest:
        """Read and check the manifest of a knowledge base.

        Raises:
            KnowledgeBaseError: It is missing, damaged or of another format version.
        """
        try:
            record = json.loads((directory / MANIFEST_FILE).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _is_none(directory, f"it has no {MANIFEST_FILE}") from error
        except (OSError, ValueError) as error:
            raise _damaged(directory, f"its {MANIFEST_FILE} cannot be read ({error})") from error
        if not isinstance(record, dict) or record.get("format") != KB_FORMAT:
            raise _is_none(directory, f"its {MANIFEST_FILE} belongs to something else")
        version = record.pop("version", None)
        if version != KB_VERSION:
            raise KnowledgeBaseError(
                f"The knowledge base {directory.name!r} has format version {version!r}, this "
                f"stamo reads version {KB_VERSION}; build it again from its dump."
            )
        fingerprint = record.pop("fingerprint", None)
        record.pop("format")
        try:
            sources = {key: SourceFile(**value) for key, value in record.pop("sources").items()}
            manifest = cls(sources=sources, **record)
            intact = manifest.fingerprint == fingerprint
            sizes = [entry["size"] for entry in manifest.files.values()]
            if not all(type(n) is int and n >= 0 for n in (*manifest.counts.values(), *sizes)):
                raise TypeError("a count or a size is no whole number")
        except (AttributeError, KeyError, TypeError) as error:
            what = f"its {MANIFEST_FILE} has unexpected content ({error})"
            raise _damaged(directory, what) from error
        if not intact:
            raise _damaged(directory, f"its {MANIFEST_FILE} does not match its own fingerprint")
        return manifest

    def verify(self, directory: Path, *, index_only: bool = False) -> None:
        """Compare the size and the hash of every file with the manifest; reads everything.

        Args:
            directory: Where the files are.
            index_only: Hash only the tries, for a wrong bit in one can end the process, and small
                arrays. XXH3 finds what a disk does to a file at seven times the speed of sha256; it
                is no proof against somebody who means harm, who could change the manifest too.

        Raises:
            KnowledgeBaseError: A file is missing or has other content.
        """
        for name, entry in self.files.items():
            try:
                size = os.stat(os.path.join(directory, name)).st_size  # noqa: PTH116, PTH118 - fast
            except OSError as error:
                raise KnowledgeBaseError(
                    f"The knowledge base {directory.name!r} is incomplete: the file {name} is "
                    "missing; build it again."
                ) from error
            if size != entry["size"]:
                what = f"the file {name} has {size} bytes instead of {entry['size']}"
                raise _damaged(directory, what)
        kind, digest = ("xxh3", xxhash.xxh3_64) if index_only else ("sha256", hashlib.sha256)
        for name, entry in self.files.items():
            if not name.endswith(".trie") and kind not in entry:
                continue
            with (directory / name).open("rb") as file:
                found = hashlib.file_digest(file, digest).hexdigest()
            if found != entry.get(kind):
                what = f"the content of the file {name} has changed since the build"
                raise _damaged(directory, what)


def _is_none(directory: Path, why: str) -> KnowledgeBaseError:
    return KnowledgeBaseError(
        f"{str(directory)!r} is not a knowledge base: {why}; make one with `stamo build DUMP KB`."
    )


def _damaged(directory: Path, what: str) -> KnowledgeBaseError:
    return KnowledgeBaseError(
        f"The knowledge base {directory.name!r} is corrupted: {what}; build it again."
    )


def is_knowledge_base(directory: Path) -> bool:
    """Tell whether a directory is a knowledge base of any version."""
    try:
        record = json.loads((directory / MANIFEST_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("format") == KB_FORMAT


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file's content in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_files(directory: Path) -> dict[str, dict[str, Any]]:
    """Return size and hashes of each file of a knowledge base, in the order of the names."""
    described: dict[str, dict[str, Any]] = {}
    for path in sorted(set(directory.iterdir()) - {directory / MANIFEST_FILE}):
        size = path.stat().st_size
        described[path.name] = {"size": size, "sha256": sha256_of(path)}
        is_small = path.suffix == ".npy" and size <= MAX_SMALL_BYTES
        if size and (path.suffix == ".trie" or is_small):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, xxhash.xxh3_64)
            described[path.name]["xxh3"] = digest.hexdigest()
    return described
