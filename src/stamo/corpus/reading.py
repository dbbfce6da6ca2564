"""Read documents from files, folders, web archives and standard input, whatever state they are in.

Every source is streamed. What cannot be read is counted with its reason and never stops the rest.
Nothing is fetched from a network and nothing in a document is run.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NamedTuple

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.types import Document, clean_surrogates
from stamo.errors import CorpusFormatError
from stamo.system.streams import UNSUPPORTED, ByteSource, Readable, read_blocks

_BOUNDARIES = (("\n\n",), ("\n",), (". ", "! ", "? ", "。", "؟ ", "। "), (" ",))


@dataclass(frozen=True, slots=True)
class Chunk:
    """A document, or a part of a long one that starts at `offset`."""

    document: Document
    number: int | None = None
    """None when the document is whole."""
    offset: int = 0

    @property
    def id(self) -> str:
        """The document's id."""
        return self.document.id


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A document that could not be read, and why."""

    id: str
    error: str
    number: int | None = None


ReadChunk = Chunk | Unreadable


def find_cut(text: str, window: int, begin: int = 0) -> int:
    """Return where to cut at most `window` characters after `begin`, in the second half.

    The end of a paragraph is best, then of a line, a sentence, a word.
    """
    limit = begin + window
    for boundaries in _BOUNDARIES:
        cuts = [text.rfind(sign, begin + window // 2, limit) + len(sign) for sign in boundaries]
        found = [cut for cut, sign in zip(cuts, boundaries, strict=True) if cut >= len(sign)]
        if found:
            return max(found)
    return limit


def split_document(document: Document, window: int) -> Iterator[Chunk]:
    """Cut a document that is longer than the window; never inside one of its mentions."""
    text = document.text
    if len(text) <= window:
        yield Chunk(document)
        return
    begin = number = 0
    mentions = sorted(document.mentions, key=lambda m: m.start)
    while begin < len(text):
        end = len(text) if len(text) - begin <= window else find_cut(text, window, begin)
        for mention in mentions:
            if mention.start < end < mention.end:
                end = mention.start if mention.start > begin else mention.end
        inside = tuple(
            replace(m, start=m.start - begin, end=m.end - begin)
            for m in mentions
            if begin <= m.start and m.end <= end
        )
        piece = replace(document, text=text[begin:end], mentions=inside)
        yield Chunk(piece, number, begin)
        begin, number = end, number + 1


MAX_ID_CHARACTERS = 512
NO_MENTION = "contains no alias"
"""The one reason that is no fault: the document does not speak of the entity's names."""


@dataclass(frozen=True, slots=True)
class Skip:
    """One or more records that were left out, or mended and kept."""

    reason: str
    where: str
    """The file and record, for a person to look up."""
    count: int = 1
    kept: bool = False
    """True where the document was mended (cut, characters replaced) and still handed on."""
    advice: str = ""
    """What to do about this one, besides its reason."""

    @property
    def sentence(self) -> str:
        """Say what happened to a person who waits for this document."""
        return f"{self.where}: {self.reason}{self.advice and f'; {self.advice}'}."


class BadRecordError(CorpusFormatError):
    """A record that is no document: its message is a short reason to count it by."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.advice = advice


OnSkip = Callable[[Skip], None]


def ignore_skips(skip: Skip) -> None:
    """Take a skip and do nothing with it."""


@dataclass
class SkipCounter:
    """Count skips by reason; an instance is an `OnSkip`."""

    skipped: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """Where each reason was met first."""

    def __call__(self, skip: Skip) -> None:
        """Count one skip."""
        (self.mended if skip.kept else self.skipped)[skip.reason] += skip.count
        self.examples.setdefault(skip.reason, skip.where)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much of one document is read at most, so that no input can exhaust the memory."""

    max_characters: int = 2_000_000
    """A longer text is cut at the last white space before this length."""
    max_record_bytes: int = 16_000_000
    """A longer JSON line, HTML page or WARC record is left out."""
    max_line_bytes: int | None = None
    """Where it is given, JSON lines may be as long as this."""


def cut_text(text: str, limits: ReadLimits, where: str, on_skip: OnSkip) -> str:
    """Return `text`, cut between two words and counted where it is longer than the limit."""
    if len(text) <= limits.max_characters:
        return text
    on_skip(Skip(f"text cut at {limits.max_characters:,} characters", where, kept=True))
    head = text[: limits.max_characters]
    # Look for white space near the end only: a text without any stays within the limit too.
    tail = max(len(head) - 1000, 1)
    cut = max((head.rfind(space, tail) for space in " \n\t"), default=-1)
    return head[:cut] if cut > 0 else head


def decode_utf8(raw: bytes, where: str, on_skip: OnSkip) -> str:
    """Decode UTF-8; invalid bytes become U+FFFD and are counted."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        on_skip(Skip("invalid UTF-8 replaced", where, kept=True))
        return raw.decode("utf-8", "replace")


def make_id(place: str, text: str) -> str:
    """Make an id that stays the same on every machine and differs for different texts."""
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{clean_id(place)}:{digest}"


def clean_id(value: str) -> str:
    """Return a printable id of bounded length; what is cut is replaced by a digest."""
    printable = "".join(c if c.isprintable() else "�" for c in clean_surrogates(value)).strip()
    if len(printable) <= MAX_ID_CHARACTERS:
        return printable
    digest = hashlib.blake2b(printable.encode(), digest_size=6).hexdigest()
    return f"{printable[: MAX_ID_CHARACTERS - 16]}~{digest}"


UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

ReadItem = tuple[int, Document | ReadChunk | None]
"""The number of records read so far, and what the last one gave, if anything."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What a format needs to know about the file it reads.

    Documents are collected or linked. To collect, they are tidied: long texts are cut, empty ones
    left out, broken characters replaced, ids made unique and printable. To link (`window`), they
    come as they were written, long texts in parts, and what cannot be read is a fault.
    """

    on_skip: OnSkip
    limits: ReadLimits
    matcher: AliasMatcher | None = None
    """Documents that cannot contain any of its aliases are left out before they are parsed."""
    window: int | None = None
    """Characters of a part; None tidies documents and leaves them whole."""
    place: str = ""
    """The file's name inside its source; part of the ids that documents get."""
    file: str = ""
    """What to call the file as a whole."""
    first: int = 0
    """The record to start with, when an interrupted reading goes on."""
    path: Path | BinaryIO | None = None
    """A Parquet file, which is not read from front to back; None for a pipe or a compressed one."""
    text_column: str = ""
    """The column of a table that holds the texts; one of the usual names without it."""
    before: int = 0
    """Records of the file that lie before the bytes that are read, when others read those."""
    groups: tuple[int, int] | None = None
    """The row groups of a Parquet file that are read, the second exclusive; None is all."""

    def where(self, kind: str, number: int) -> str:
        """Name one record of the file, for a person to look up."""
        tidied = self.window is None
        return f"{self.place} {kind} {number}" if tidied else f"{self.place}:{number}"

    def id_of(self, given: str, where: str, text: str) -> str:
        """Return the id of a document that may bring its own."""
        if self.window is not None:
            return given or where
        return clean_id(given) or make_id(self.place, text)

    def take(
        self, where: str, make: Callable[..., Document | None], *record: Any
    ) -> Document | None:
        """Make a document of a record, which the maker gets with place and task; or count why not.

        Args:
            where: Where the record is, for a person to look up.
            make: Raises a `CorpusFormatError` where the record is none; its message is the reason.
            record: The record, as the maker takes it.
        """
        try:
            return make(*record, where, self)
        except CorpusFormatError as error:
            self.skip(str(error), where, advice=getattr(error, "advice", ""))
            return None

    def skip(self, reason: str, where: str, count: int = 1, advice: str = "") -> None:
        """Count records that are left out."""
        self.on_skip(Skip(reason, where, count, advice=advice))


@dataclass(frozen=True, eq=False)
class Format:
    """One format of documents."""

    reader: str
    """Module and function that read the documents of a file from its decompressed bytes."""
    suffixes: tuple[str, ...]
    """The endings of file names, before that of a compression."""
    begins: re.Pattern[bytes] | None = None
    """How files of this format begin, behind white space; None: as any text may."""


def read_whole(blocks: Iterator[bytes], max_bytes: int) -> bytes:
    """Join blocks up to `max_bytes`; what comes after is not read."""
    taken = []
    size = 0
    for block in blocks:
        taken.append(block[: max_bytes - size])
        size += len(taken[-1])
        if size >= max_bytes:
            break
    return b"".join(taken)


XML_PROLOGUE = re.compile(rb"(?:<\?.{0,500}?\?>|<!--.{0,2000}?-->|\s)++", re.DOTALL)
"""What may stand before the root of an XML file."""
_FEED_ROOT = rb"(?:<!DOCTYPE (?:rss|rdf)[^>[]{0,300}>\s*)?<(?:rss|feed|rdf:RDF)[\s>]"
_FEED_START = re.compile(rb"(?:%b)?+%b" % (XML_PROLOGUE.pattern, _FEED_ROOT), re.I | re.S)
_PAGE_START = re.compile(rb"<!doctype html|<html", re.I)
_NIF_START = rb"(?=[@<#p]).*?(?:nlp2rdf/ontologies/nif-core#|prefix nif:)"
ARCHIVE = Format("web.read_archive", (".warc", ".wet"), re.compile(rb"WARC/"))
PARQUET = Format("formats.read_parquet", (".parquet",), re.compile(rb"PAR1"))
PAGE = Format("web.read_html", (".html", ".htm", ".xhtml"), _PAGE_START)
FEED = Format("formats.read_feed", (".rss", ".atom"), _FEED_START)
LINES = Format(
    "formats.read_json_lines", (".jsonl", ".ndjson", ".json"), re.compile(rb"\{\s*[\"}]")
)
_CONTEXTS = Format("nif.read_contexts", (".ttl", ".nif"), re.compile(_NIF_START, re.I | re.S))
_TABLE = Format("tables.read_table", (".csv", ".tsv"))
"""Only a file's name tells a table of texts from plain text."""
TEXT = Format("formats.read_text", (".txt", ".text", ".md"))
"""What is of no other format is read as plain text."""
FORMATS = (ARCHIVE, PARQUET, PAGE, FEED, LINES, _CONTEXTS, _TABLE, TEXT)
KNOWN = (
    "give plain text, JSON lines, CSV, TSV, Parquet, HTML, WARC, RSS, Atom or NIF, also as .gz, "
    ".bz2, .xz or .zst"
)
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
_SNIFF_BYTES = 4096
_FOREIGN = {magic: f"{kind} archive" for magic, kind in UNSUPPORTED.items()} | {
    b"%PDF-": "PDF file",
    b"{\\rtf": "RTF file",
    b"SQLite format 3": "SQLite database",
    b"<mediawiki": "MediaWiki dump",
}


def choose_format(name: str, head: bytes) -> Format | str:
    """Choose by what a file looks like, and by its name where that leaves a doubt.

    Args:
        name: The file's name.
        head: Its first bytes, decompressed.

    Returns:
        The format, or what the file is instead.
    """
    path = PurePath(name.lower())
    suffix = PurePath(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix
    named = next((form for form in FORMATS if suffix in form.suffixes), None)
    start = _as_utf8(head).removeprefix(UTF8_MARK).lstrip()[:_SNIFF_BYTES]
    told = next((form for form in FORMATS if form.begins and form.begins.match(start)), TEXT)
    if told in (ARCHIVE, PARQUET, FEED):
        return told
    if named in (PAGE, FEED):
        return named
    inside = XML_PROLOGUE.sub(b"", start, count=1) if start.startswith(b"<?xml") else start
    for magic, kind in _FOREIGN.items():
        if inside.startswith(magic):
            return kind
    if inside is not start:
        return PAGE if _PAGE_START.match(inside) else "XML file of another kind"
    if named is PARQUET:
        return "file that is called .parquet and is none"
    if b"\0" in start and not head.startswith(UTF16_MARKS):
        return "binary file"
    return named or told


def _as_utf8(head: bytes) -> bytes:
    """Write the start of marked-up text in UTF-8; other text in UTF-16 is told by its mark."""
    if not head.startswith(UTF16_MARKS):
        return head
    text = head[: len(head) & ~1].decode("utf-16", "ignore")
    return text.encode("utf-8", "ignore") if text.lstrip().startswith("<") else head


STDIN = "-"
LINK_LIMITS = ReadLimits(max_characters=sys.maxsize, max_line_bytes=256 << 20)
_ENOUGH_TO_CHOOSE = 4096
_SIGNATURE = 8
"""Bytes that come alone, for compression is told by them; those of an image may be one line."""


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


_Read = tuple[Progress, Document | ReadChunk | None]


def read_documents(
    sources: Sequence[str | Path],
    *,
    on_skip: OnSkip = ignore_skips,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    matcher: AliasMatcher | None = None,
    start: Position | None = None,
    limits: ReadLimits | None = None,
    stdin: BinaryIO | None = None,
    text_column: str = "",
) -> Iterator[Document]:
    """Stream the documents of several sources in a fixed order.

    Args:
        sources: Files (plain text, JSON lines, CSV, TSV, Parquet, HTML, WARC, RSS, Atom, NIF; also
            as .gz, .xz, .bz2, .zst), folders (read recursively, in the order of their names), or
            "-" for standard input.
        on_skip: Called for everything that is left out or mended.
        on_progress: Called from time to time, when all documents before the position were taken.
        matcher: Leave out documents that cannot contain its aliases, mostly before parsing them.
        start: Go on at this position of an earlier reading of the same sources.
        limits: How much of one document is read at most.
        stdin: What "-" reads; the process's standard input by default.
        text_column: The column of tables that holds the texts; `text` and the like by default.

    Raises:
        CorpusFormatError: A source does not exist (raised at once, before the first document).
        MissingExtraError: A web page is met and the extra `web` is not installed.
    """
    check_sources(sources)
    task = ReadTask(on_skip, limits or ReadLimits(), matcher, text_column=text_column)
    return _tidied(_read_sources(sources, task, start or Position(), stdin), on_progress)


def refuse_one_text(sources: Sequence[str | Path]) -> None:
    """Refuse a text where a list of them is needed: its letters would be taken for paths.

    Raises:
        CorpusFormatError: It is one.
    """
    if isinstance(sources, str):
        raise CorpusFormatError(f"The sources are one text; give a list of paths: [{sources!r}].")


def check_sources(sources: Sequence[str | Path]) -> None:
    """Refuse sources that do not exist.

    Raises:
        CorpusFormatError: One does not, or a text is given where a list of them is needed.
    """
    refuse_one_text(sources)
    for source in sources:
        if str(source) != STDIN and not Path(source).exists():
            raise CorpusFormatError(
                f"There is no file or folder {str(source)!r}; give the path of existing documents "
                'or "-" for standard input.'
            )


@dataclass(frozen=True)
class SourceReader:
    """How sources are looked at and read."""

    read: Callable[..., Iterator[Document]] = read_documents
    """Reads documents as `read_documents` does: this machine, or a cluster."""
    check: Callable[[Sequence[str]], None] = check_sources
    """Refuses sources that cannot be read, with a `CorpusFormatError`."""
    count: Callable[[Sequence[str]], int] = lambda sources: count_bytes(sources)
    """Returns their size, as they are stored."""


def _tidied(items: Iterator[_Read], on_progress: Callable[[Progress], None]) -> Iterator[Document]:
    for progress, item in items:
        if isinstance(item, Document):
            yield item
        on_progress(progress)


def read_chunks(
    sources: Sequence[str | Path],
    window: int,
    *,
    json_lines: bool = False,
    stdin: BinaryIO | None = None,
    text_column: str = "",
) -> Iterator[ReadChunk]:
    """Stream the same sources to link them: texts as they are written, long ones in parts.

    What cannot be read comes as an `Unreadable` in its place, also a source that does not exist.

    Args:
        sources: Files, folders, or "-" for standard input.
        window: Characters of a part.
        json_lines: Whether every file holds JSON lines, whatever it looks like.
        stdin: What "-" reads; the process's standard input by default.
        text_column: The column of tables that holds the texts; `text` and the like by default.

    Raises:
        MissingExtraError: A web page is met and the extra `web` is not installed.
    """
    form = LINES if json_lines else None
    yield from read_in_chunks(
        lambda task: (item for _, item in _read_sources(sources, task, Position(), stdin, form)),
        window,
        text_column,
    )


def read_in_chunks(
    read: Callable[[ReadTask], Iterator[Document | ReadChunk | None]],
    window: int,
    text_column: str = "",
) -> Iterator[ReadChunk]:
    """Cut what is read into parts to link; faults come as `Unreadable` in their place."""
    waiting: list[Unreadable] = []

    def note(skip: Skip) -> None:
        if not skip.kept:
            waiting.append(Unreadable(skip.where, skip.sentence))

    for item in read(ReadTask(note, LINK_LIMITS, window=window, text_column=text_column)):
        yield from waiting
        waiting.clear()
        if isinstance(item, Document):
            yield from split_document(item, window)
        elif item is not None:
            yield item
    yield from waiting


def count_bytes(sources: Sequence[str | Path]) -> int:
    """Return the size on disk of all files that `read_documents` would read."""
    return sum(_size(file) for source in sources for file in list_files(source))


class FoundFile(NamedTuple):
    """A file to read, or the reason why it is not read."""

    name: str
    path: Path
    fault: str = ""


@dataclass(frozen=True, slots=True)
class _Arriving:
    """Standard input, handed on as it arrives and not when a whole block is there."""

    file: BinaryIO

    def read(self, size: int = -1) -> bytes:
        data: bytes = getattr(self.file, "read1", self.file.read)(size)
        return data


def _read_sources(
    sources: Sequence[str | Path],
    task: ReadTask,
    start: Position,
    stdin: BinaryIO | None,
    form: Format | None = None,
) -> Iterator[_Read]:
    n_bytes = 0
    for index, source in enumerate(sources):
        for entry in list_files(source):
            here = Position(index, entry.name)
            if here < replace(start, record=0):
                n_bytes += _size(entry)
                continue
            first = start.record if here == replace(start, record=0) else 0
            there = replace(task_of(task, entry.name, str(entry.path)), first=first)
            with _open(entry, stdin, there) as file:
                if file is None:
                    yield Progress(replace(here, record=first), n_bytes), None
                    continue
                counted = ByteSource(file)
                items = read_opened(counted, entry.path, there, form)
                for record, item in items:
                    reached = Position(index, entry.name, max(record, first))
                    yield Progress(reached, n_bytes + counted.position), item
                n_bytes += counted.position


def task_of(task: ReadTask, name: str, path: str) -> ReadTask:
    """Return the task of one file: ids and faults name it as the way of reading does."""
    if task.window is None:
        return replace(task, place=name, file=name)
    return replace(task, place=STDIN if path == STDIN else name, file=path)


@contextmanager
def _open(entry: FoundFile, stdin: BinaryIO | None, task: ReadTask) -> Iterator[Readable | None]:
    """Open a file; one that cannot be opened is counted and None."""
    if str(entry.path) == STDIN:
        yield _Arriving(stdin or sys.stdin.buffer)
        return
    fault, advice = entry.fault, ""
    if not fault:
        try:
            file = entry.path.open("rb")
        except OSError as error:
            fault, advice = f"file cannot be opened ({error.strerror})", "check the path"
    if fault:
        task.skip(fault, task.file, advice=advice)
        yield None
        return
    with file:
        if task.window is None and not _size(entry) and entry.path.is_file():
            task.skip("empty file", task.file)
        yield file


def _size(entry: FoundFile) -> int:
    try:
        return 0 if entry.fault else entry.path.stat().st_size
    except OSError:
        return 0


def list_files(source: str | Path) -> list[FoundFile]:
    """List a file, or all files of a folder and what it holds besides, in the order of names."""
    if str(source) == STDIN:
        return [FoundFile("stdin", Path(STDIN))]
    root = Path(source)
    if not root.is_dir():
        return [FoundFile(root.name, root)]
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
        FoundFile(f"{label}/{path.relative_to(root).as_posix()}", path, fault)
        for path, fault in found
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


def read_opened(
    file: Readable, path: Path, task: ReadTask, form: Format | None = None
) -> Iterator[ReadItem]:
    """Read the documents of an open file; without a format it is told by the first bytes."""
    blocks = read_blocks(file, lambda fault: task.skip(fault, task.file))
    head = b""
    while len(head) <= _SIGNATURE or (len(head) < _ENOUGH_TO_CHOOSE and b"\n" not in head.lstrip()):
        more = next(blocks, b"")
        head += more
        if not more:
            break
    if not head and task.window is None:
        yield 0, None
        return
    chosen = form or choose_format(path.name, head)
    if isinstance(chosen, str):
        task.skip(chosen, task.file, advice=KNOWN)
        yield 0, None
        return
    if chosen is PARQUET and _is_plain(path, head):
        task = replace(task, path=path)
    module, _, function = chosen.reader.partition(".")
    read = getattr(importlib.import_module(f"stamo.corpus.{module}"), function)
    yield from read(chain([head], blocks), task)


def _is_plain(path: Path, head: bytes) -> bool:
    """Tell whether a file holds its content as it is, not compressed."""
    if str(path) == STDIN or not path.is_file():
        return False
    with path.open("rb") as file:
        return head.startswith(file.read(4))
