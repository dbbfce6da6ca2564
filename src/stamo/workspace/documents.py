"""The collected candidate documents of a workspace, written part by part as they are found.

Each part is one compressed file of JSON lines. The manifest names the parts that count and holds
the collector's state. A crash leaves parts that no manifest names: they are never read, and the
next collecting overwrites them.
"""

from __future__ import annotations

import hashlib
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
from stamo.system.streams import read_line_blocks

DOCUMENTS_VERSION = 1
DOCUMENTS_MANIFEST = "documents.json"
MAX_STORED_LINE = 256_000_000

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

    @property
    def n_documents(self) -> int:
        """Return how many documents all parts hold."""
        return sum(part.n_documents for part in self.parts)

    @property
    def n_mentions(self) -> int:
        """Return how many candidate mentions all parts hold."""
        return sum(part.n_mentions for part in self.parts)


class DocumentParts:
    """The documents in one folder; iterating reads them from disk in the order they came."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting: list[PartFile] = []

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
            state = dict(value["state"])
            for name in ("kb", "model", "kb_fingerprint", "model_fingerprint"):
                if not isinstance(state.get(name, ""), str):
                    raise TypeError(f"{name} is {str(state[name])[:80]}")
            parts = tuple(PartFile(**part) for part in value["parts"])
            for part in parts:
                names, counts = (part.name, part.digest), (part.n_documents, part.n_mentions)
                are_counts = all(type(n) is int and 0 <= n < 1 << 31 for n in counts)
                if not (are_counts and all(isinstance(name, str) for name in names)):
                    raise TypeError(f"a part is {str(part)[:80]}")
            return CollectedParts(parts, state, bool(value["complete"]))
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
        parts = (*self.manifest.parts, *self._waiting)
        if documents:
            # The number names the file, never anything that a document says.
            name = f"{len(parts):05d}.jsonl.zst"
            lines = (json.dumps(document_to_json(d), ensure_ascii=False) + "\n" for d in documents)
            data = zstandard.ZstdCompressor(level=3).compress("".join(lines).encode())
            write_atomic(self.folder / name, data)
            n_mentions = sum(m.entity is None for d in documents for m in d.mentions)
            part = PartFile(name, _digest(data).hexdigest(), len(documents), n_mentions)
            self._waiting.append(part)
            parts = (*parts, part)
        if state is not None:
            self._write(CollectedParts(parts, dict(state), complete))

    def clear(self) -> None:
        """Forget all documents, to collect anew."""
        if self.folder.exists():
            self._write(CollectedParts())

    def _write(self, manifest: CollectedParts) -> None:
        data = to_json({"version": DOCUMENTS_VERSION} | asdict(manifest))
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
                with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                    blocks = iter(partial(reader.read, 1 << 20), b"")
                    for block in read_line_blocks(blocks, MAX_STORED_LINE, _refuse_long):
                        for line in filter(None, block.split(b"\n")):
                            yield document_from_json(parse_json(line.decode()), part.name)
            except (CorpusFormatError, ValueError, zstandard.ZstdError) as error:
                raise WorkspaceError(f"{path} holds no documents ({error}).") from error


def _refuse_long() -> None:
    raise CorpusFormatError(f"a line has more than {MAX_STORED_LINE:,} bytes")


def free_id(name: str, taken: Container[str], sign: str = "~") -> str:
    """Return a name that is not taken, if need be with a number; two sources may use the same."""
    others = (f"{name}{sign}{number}" for number in count(2))
    return next(free for free in chain([name], others) if free not in taken)
