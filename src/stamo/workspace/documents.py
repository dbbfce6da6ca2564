"""The collected candidate documents of a workspace, written part by part as they are found.

Each part is one compressed file of JSON lines. The manifest names the parts that count and holds
the collector's state. A crash leaves parts that no manifest names: they are never read, and the
next collecting removes them.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import zstandard

from stamo.corpus.formats import document_from_json, document_to_json, parse_json
from stamo.corpus.types import Corpus, Document
from stamo.errors import CorpusFormatError, WorkspaceError
from stamo.system.files import read_json, to_json, write_atomic

DOCUMENTS_VERSION = 1
DOCUMENTS_MANIFEST = "documents.json"

_digest = partial(hashlib.blake2b, digest_size=16)


@dataclass(frozen=True, slots=True)
class PartFile:
    """One file of documents."""

    name: str
    digest: str
    n_documents: int
    n_mentions: int
    """Candidate mentions: those that are not linked yet."""


@dataclass(frozen=True, slots=True)
class CollectedParts:
    """What is collected, and where the collector stands."""

    parts: tuple[PartFile, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    """Whatever the collector needs to go on (plain JSON values)."""
    complete: bool = False
    n_documents: int = 0
    n_mentions: int = 0
    """Candidate mentions of all documents."""


@dataclass
class DocumentParts:
    """The documents in one folder; iterating reads them from disk in the order they came."""

    folder: Path
    _waiting: list[PartFile] = field(default_factory=list)
    _number: int = 0

    @property
    def manifest(self) -> CollectedParts:
        """Read the manifest; without one, nothing is collected."""
        path = self.folder / DOCUMENTS_MANIFEST
        if not path.exists():
            return CollectedParts()
        try:
            value = read_json(path)
            if value["version"] != DOCUMENTS_VERSION:
                raise WorkspaceError(
                    f"{path} has the format version {value['version']!r}; this release reads "
                    f"version {DOCUMENTS_VERSION}: collect again."
                )
            parts = tuple(PartFile(**part) for part in value["parts"])
            counts = [sum(p.n_documents for p in parts), sum(p.n_mentions for p in parts)]
            return CollectedParts(parts, dict(value["state"]), bool(value["complete"]), *counts)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise WorkspaceError(
                f"{path} is not as it was written ({error}); collect again."
            ) from error

    def append(
        self,
        documents: Sequence[Document],
        *,
        state: Mapping[str, Any] | None = None,
        complete: bool = False,
    ) -> None:
        """Add documents, each with an id of its own.

        They count from the moment on when a state is given, which replaces the collector's state
        in one step.
        """
        self.folder.mkdir(exist_ok=True)
        if documents:
            # The number names the file, never anything that a document says. Nothing is written
            # over: a collecting that fails leaves what was there before.
            while (self.folder / (name := f"{self._number:05d}.jsonl.zst")).exists():
                self._number += 1
            lines = (json.dumps(document_to_json(d), ensure_ascii=False) + "\n" for d in documents)
            data = zstandard.ZstdCompressor(level=3).compress("".join(lines).encode())
            write_atomic(self.folder / name, data)
            n_mentions = sum(m.entity is None for d in documents for m in d.mentions)
            part = PartFile(name, _digest(data).hexdigest(), len(documents), n_mentions)
            self._waiting.append(part)
        if state is not None:
            self._write([*self.manifest.parts, *self._waiting], state, complete)

    def clear(self) -> None:
        """Forget all documents, to collect anew; `restore` brings them back until `tidy`."""
        if self.folder.exists():
            self._write([], {}, complete=False)

    def restore(self, manifest: CollectedParts) -> None:
        """Go back to what an earlier manifest named."""
        if manifest.state or manifest.parts:
            self._write(manifest.parts, manifest.state, manifest.complete)
        else:
            (self.folder / DOCUMENTS_MANIFEST).unlink(missing_ok=True)
        self.tidy()

    def tidy(self) -> None:
        """Remove parts that the manifest does not name."""
        named = {part.name for part in self.manifest.parts}
        for path in self.folder.glob("*.jsonl.zst"):
            if path.name not in named:
                path.unlink(missing_ok=True)

    def _write(self, parts: Sequence[PartFile], state: Mapping[str, Any], complete: bool) -> None:
        value = {"parts": [asdict(part) for part in parts], "state": state, "complete": complete}
        data = to_json({"version": DOCUMENTS_VERSION} | value)
        write_atomic(self.folder / DOCUMENTS_MANIFEST, data)
        self._waiting = []

    def read(self) -> Corpus:
        """Read all documents."""
        return Corpus(tuple(self))

    def __iter__(self) -> Iterator[Document]:
        for part in self.manifest.parts:
            path = self.folder / part.name
            if path.parent != self.folder or path.suffix != ".zst":
                raise WorkspaceError(
                    f"{DOCUMENTS_MANIFEST} names {part.name!r}, which is no part; collect again."
                )
            try:
                data = path.read_bytes()
            except OSError as error:
                raise WorkspaceError(f"{path} cannot be read; collect again.") from error
            if _digest(data).hexdigest() != part.digest:
                raise WorkspaceError(f"{path} was changed or damaged; collect again.")
            try:
                # Unpacked line by line, however much all of them are.
                with zstandard.open(
                    io.BytesIO(data), "rt", encoding="utf-8", newline="\n"
                ) as lines:
                    for line in lines:
                        yield document_from_json(parse_json(line), part.name)
            except (CorpusFormatError, ValueError, zstandard.ZstdError) as error:
                raise WorkspaceError(f"{path} holds no documents ({error}).") from error


def free_id(name: str, taken: Container[str], sign: str = "~") -> str:
    """Return a name that is not taken, if need be with a number; two sources may use the same."""
    others = (f"{name}{sign}{number}" for number in count(2))
    return next(free for free in chain([name], others) if free not in taken)
