"""Read documents from files, folders, web archives and standard input, whatever state they are in.

Every source is streamed. What cannot be read is counted with its reason and never stops the rest.
Nothing is fetched from a network and nothing in a document is run.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.formats.html import read_html, read_whole
from stamo.corpus.formats.jsonl import ReadItem, ReadTask, make_id, read_jsonl
from stamo.corpus.formats.warc import read_warc
from stamo.corpus.skips import (
    NO_MENTION,
    OnSkip,
    ReadLimits,
    Skip,
    cut_text,
    decode_utf8,
    ignore_skips,
)
from stamo.corpus.types import Document
from stamo.errors import CorpusFormatError
from stamo.system.streams import Readable, read_blocks

STDIN = "-"
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
_SNIFF_BYTES = 4096
_UTF16 = (b"\xff\xfe", b"\xfe\xff")

FileReader = Callable[[Iterator[bytes], ReadTask], Iterator[ReadItem]]


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where reading stands: everything before it was handed out, everything after it was not."""

    source: int = 0
    """Index of the source."""
    file: str = ""
    """The file inside the source, by its name; files are read in the order of their names."""
    record: int = 0
    """How many records of the file were read."""

    def to_json(self) -> list[int | str]:
        """Return plain values to store."""
        return [self.source, self.file, self.record]

    @classmethod
    def from_json(cls, value: object) -> Position:
        """Read back what `to_json` gave.

        Raises:
            CorpusFormatError: It is something else.
        """
        kinds = [type(part) for part in value] if isinstance(value, list) else []
        if kinds != [int, str, int]:
            raise CorpusFormatError(
                f"A reading position is {value!r}; expected [source, file, record]."
            )
        return cls(*value)  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far reading has come."""

    position: Position
    """Start here to go on; all documents before it were handed out."""
    n_bytes: int
    """Bytes read so far, as they are on disk."""


def read_documents(
    sources: Sequence[str | Path],
    *,
    on_skip: OnSkip = ignore_skips,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    matcher: AliasMatcher | None = None,
    start: Position | None = None,
    limits: ReadLimits | None = None,
    stdin: BinaryIO | None = None,
) -> Iterator[Document]:
    """Stream the documents of several sources in a fixed order.

    Args:
        sources: Files (plain text, JSON lines, HTML, WARC; also as .gz, .xz, .bz2, .zst), folders
            (read recursively, in the order of their names), or "-" for standard input.
        on_skip: Called for everything that is left out or mended.
        on_progress: Called from time to time, when all documents before the position were taken.
        matcher: Leave out documents that cannot contain its aliases, mostly before parsing them.
        start: Go on at this position of an earlier reading of the same sources.
        limits: How much of one document is read at most.
        stdin: What "-" reads; the process's standard input by default.

    Raises:
        CorpusFormatError: A source does not exist (raised at once, before the first document).
        MissingExtraError: A web page is met and the extra `web` is not installed.
    """
    for source in sources:
        if str(source) != STDIN and not Path(source).exists():
            raise CorpusFormatError(
                f"There is no file or folder {str(source)!r}; give the path of existing documents "
                'or "-" for standard input.'
            )
    task = ReadTask("", on_skip, limits or ReadLimits(), matcher)
    return _read_sources(sources, task, on_progress, start or Position(), stdin)


def count_bytes(sources: Sequence[str | Path]) -> int:
    """Return the size on disk of all files that `read_documents` would read."""
    return sum(_size(file) for source in sources for file in _list_files(source))


class _File(NamedTuple):
    """A file to read, or the reason why it is not read."""

    name: str
    path: Path
    fault: str = ""


class _CountingFile:
    """Count the bytes read from a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.n_bytes = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.n_bytes += len(data)
        return data


def _read_sources(
    sources: Sequence[str | Path],
    task: ReadTask,
    on_progress: Callable[[Progress], None],
    start: Position,
    stdin: BinaryIO | None,
) -> Iterator[Document]:
    n_bytes = 0
    for index, source in enumerate(sources):
        for entry in _list_files(source):
            here = Position(index, entry.name)
            if here < replace(start, record=0):
                n_bytes += _size(entry)
                continue
            first = start.record if here == replace(start, record=0) else 0
            with _open(entry, stdin, task.on_skip) as file:
                counted = _CountingFile(file)
                there = replace(task, place=entry.name, first=first)
                for record, document in _read_file(counted, entry.path, there):
                    if document is not None:
                        yield document
                    reached = replace(here, record=max(record, first))
                    on_progress(Progress(reached, n_bytes + counted.n_bytes))
                n_bytes += counted.n_bytes


@contextmanager
def _open(entry: _File, stdin: BinaryIO | None, on_skip: OnSkip) -> Iterator[BinaryIO]:
    """Open a file; one that cannot be opened is counted and reads as an empty one."""
    if str(entry.path) == STDIN:
        yield stdin or sys.stdin.buffer
        return
    fault = entry.fault
    if not fault:
        try:
            file = entry.path.open("rb")
        except OSError as error:
            fault = f"file cannot be opened ({error.strerror})"
    if fault:
        on_skip(Skip(fault, entry.name))
        yield io.BytesIO()
        return
    with file:
        if not _size(entry) and entry.path.is_file():
            on_skip(Skip("empty file", entry.name))
        yield file


def _size(entry: _File) -> int:
    try:
        return 0 if entry.fault else entry.path.stat().st_size
    except OSError:
        return 0


def _list_files(source: str | Path) -> list[_File]:
    """List a file, or all files of a folder and what it holds besides, in the order of names."""
    if str(source) == STDIN:
        return [_File("stdin", Path(STDIN))]
    root = Path(source)
    if not root.is_dir():
        return [_File(root.name, root)]
    label = root.resolve().name
    found: list[tuple[Path, str]] = []
    errors: list[OSError] = []
    for folder, folders, files in os.walk(root, onerror=errors.append):
        here = Path(folder)
        links = (here / name for name in folders if (here / name).is_symlink())
        found += [(path, "symbolic link to a folder") for path in links]
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = (here / name for name in files if not name.startswith("."))
        found += [(path, _file_fault(path, root)) for path in paths]
    found += map(_closed, errors)
    return sorted(
        _File(f"{label}/{path.relative_to(root).as_posix()}", path, fault) for path, fault in found
    )


def _closed(error: OSError) -> tuple[Path, str]:
    return Path(error.filename), f"folder cannot be opened ({error.strerror})"


def _file_fault(path: Path, root: Path) -> str:
    try:
        resolved = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return "symbolic link that leads nowhere"
    if not resolved.is_relative_to(root.resolve()):
        return "symbolic link that leaves the folder"
    return "" if resolved.is_file() else "not a regular file"


def _read_file(file: Readable, path: Path, task: ReadTask) -> Iterator[ReadItem]:
    blocks = read_blocks(file, lambda fault: task.skip(fault, task.place))
    head = next(blocks, b"")
    reader = _choose_reader(path.name, head)
    if reader is None:
        if head:
            task.skip("binary file" if head.strip() else "empty text", task.place)
        yield 0, None
        return
    yield from reader(chain([head], blocks), task)


def _choose_reader(name: str, head: bytes) -> FileReader | None:
    """Choose by what the file looks like; its name decides where that leaves a doubt."""
    sample = head[:_SNIFF_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not sample:
        return None
    suffix = Path(name.lower().removesuffix(next(filter(name.lower().endswith, _COMPRESSED), "")))
    if sample.startswith(b"WARC/"):
        return read_warc
    if suffix.suffix in (".html", ".htm", ".xhtml"):
        return read_html
    if b"\0" in sample and not head.startswith(_UTF16):
        return None
    if suffix.suffix in (".jsonl", ".ndjson", ".json"):
        return read_jsonl
    if suffix.suffix == ".warc":
        return read_warc
    if suffix.suffix not in (".txt", ".text", ".md"):
        if sample.startswith(b"{"):
            return read_jsonl
        if sample[:200].lower().startswith((b"<!doctype html", b"<html")):
            return read_html
    return read_text


def read_text(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read a file that is one plain text, in UTF-8 or marked as UTF-16."""
    # Four bytes hold any character of UTF-8; one more tells that there is more.
    raw = read_whole(blocks, 4 * task.limits.max_characters + 1)
    yield 1, _read_text(raw, task) if task.first < 1 else None


def _read_text(raw: bytes, task: ReadTask) -> Document | None:
    if raw.startswith(_UTF16):
        text = raw.decode("utf-16", "replace")
    elif task.matcher and not task.matcher.may_be_in_text(raw):
        task.skip(NO_MENTION, task.place)
        return None
    else:
        text = decode_utf8(raw.removeprefix(b"\xef\xbb\xbf"), task.place, task.on_skip)
    text = cut_text(text, task.limits, task.place, task.on_skip)
    if not text.strip():
        task.skip("empty text", task.place)
        return None
    return Document(make_id(task.place, text), text)
