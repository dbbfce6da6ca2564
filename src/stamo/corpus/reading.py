"""Read documents from files, folders, web archives and standard input, whatever state they are in.

Every file is streamed. What cannot be read is counted with its reason and never stops the rest.
Nothing is fetched from a network and nothing in a document is run.

A format is a function: it takes the decompressed bytes of a file and a `ReadTask`, and yields
`Record`s, and a `Skip` for what it leaves out. What happens to a record afterwards is the same for
all formats and stands here.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NamedTuple

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.types import Document, Mention, clean_surrogates
from stamo.errors import CorpusFormatError
from stamo.system.streams import (
    MAX_UNPACKED,
    MAX_UNPACKED_RATIO,
    PLAIN,
    UNSUPPORTED,
    UTF_16_MARKS,
    ByteStream,
    in_utf8,
)

STDIN = "-"
MAX_CHARACTERS = 2_000_000
"""A longer text is cut at the last white space before this length when it is collected."""
MAX_RECORD_BYTES = 16_000_000
"""A longer row, HTML page or WARC record is left out."""
MAX_LINKED_LINE = 64 << 20
"""A JSON line that is linked may have as many bytes; one that is collected, those of a record."""
MAX_ITEMS = 20_000
"""Records of a file: so many, and one for each two bytes that are stored."""
NO_MENTION = "contains no alias"
"""The one reason that is no fault: the document does not speak of the entity's names."""
CONVERT = "convert the file, for example with: iconv -f WINDOWS-1252 -t UTF-8"
RECODE = f"name its encoding with --encoding, or {CONVERT}"
_MAX_ID = 512
_BOUNDARIES = (("\n\n",), ("\n",), (". ", "! ", "? ", "。", "؟ ", "। "), (" ",))


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


class BadRecordError(CorpusFormatError):
    """A record that is no document: its message is a short reason to count it by."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.advice = advice


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


@dataclass(frozen=True, slots=True)
class Record:
    """What a format found in one record of a file, as it is written there."""

    text: str
    where: str
    """The file and record, for a person to look up."""
    id: Any = None
    """Its own id, if any."""
    place: str = ""
    """Makes an id, with the text, where there is none; the file's name by default."""
    title: str | None = None
    mentions: Sequence[Mention] = ()
    date: str | None = None
    is_checked: bool = False
    """Whether the matcher has seen it already."""


ReadItem = Record | Skip | ReadChunk
"""What a format yields; chunks of a plain text that is linked are ready as they come."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What a format needs to know about the file it reads.

    Documents are collected or linked. To collect, they are tidied: long texts are cut, empty ones
    left out, broken characters replaced, ids made unique and printable. To link (`window`), they
    come as they were written, long texts in chunks, and what cannot be read is a fault.
    """

    name: str
    """The file's name; part of the ids that documents get."""
    file: str
    """What to call the file as a whole."""
    matcher: AliasMatcher | None = None
    """Documents that cannot contain any of its aliases are left out before they are parsed."""
    window: int | None = None
    """Characters of a chunk; None tidies documents and leaves them whole."""
    text_column: str = ""
    """The column of a table that holds the texts; one of the usual names without it."""
    encoding: str = ""
    """That of its text, where it is neither UTF-8 nor UTF-16 with a mark. Web pages, archives,
    feeds and Parquet name theirs."""
    table: str = ""
    """A Parquet file, which is not read from front to back; "" for a pipe or a compressed one."""
    span: tuple[int, int] | None = None
    """The bytes of the file that are read, the second exclusive; None is all."""
    before: int = 0
    """Records of the file that lie before the bytes that are read, when others read those."""
    groups: tuple[int, int] | None = None
    """The row groups of a Parquet file that are read, the second exclusive; None is all."""

    def where(self, kind: str, number: int) -> str:
        """Name one record of the file, for a person to look up."""
        return f"{self.name} {kind} {number}" if self.window is None else f"{self.name}:{number}"


def finish_record(record: Record, task: ReadTask, on_skip: OnSkip = ignore_skips) -> Document:
    """Make the document of a record, tidied if it is collected.

    Raises:
        BadRecordError: It is left out; the message is a short reason.
    """
    if task.window is not None:
        given = tuple(replace(mention, entity=None) for mention in record.mentions)
        id = record.where if record.id is None else str(record.id)
        return Document(id, record.text, given, record.title, record.date)
    text = clean_surrogates(record.text)
    if not text.strip():
        raise BadRecordError("empty text")
    if task.matcher and not record.is_checked and not task.matcher.may_be_in_text(text.encode()):
        raise BadRecordError(NO_MENTION)
    if len(text) > MAX_CHARACTERS:
        on_skip(Skip(f"text cut at {MAX_CHARACTERS:,} characters", record.where, kept=True))
        # White space is looked for near the end only: a text without any is cut at the limit.
        cut = max(text.rfind(space, MAX_CHARACTERS - 1000, MAX_CHARACTERS) for space in " \n\t")
        text = text[: cut if cut > 0 else MAX_CHARACTERS]
    mentions = []
    for mention in record.mentions:
        if mention.entity is not None and not isinstance(mention.entity, str):
            raise BadRecordError("a mention's entity is not a string")
        if mention.end <= len(text):
            mentions.append(replace(mention, surface=clean_surrogates(mention.surface)))
    has_id = isinstance(record.id, str | int) and not isinstance(record.id, bool)
    id = clean_id(str(record.id)) if has_id else ""
    if not id:
        # The same on every machine, and another one for another text.
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
        id = f"{clean_id(record.place or task.name)}:{digest}"
    title = record.title if record.title is None else clean_surrogates(record.title)
    return Document(id, text, tuple(mentions), title, record.date)


def clean_id(value: str) -> str:
    """Return a printable id of bounded length; what is cut is replaced by a digest."""
    printable = "".join(c if c.isprintable() else "�" for c in clean_surrogates(value)).strip()
    if len(printable) <= _MAX_ID:
        return printable
    digest = hashlib.blake2b(printable.encode(), digest_size=6).hexdigest()
    return f"{printable[: _MAX_ID - 16]}~{digest}"


def decode(raw: bytes, *, is_whole: bool = True) -> str:
    """Decode UTF-8, the one encoding of texts; where it was cut off, the last sign may be missing.

    Raises:
        BadRecordError: It is in another encoding.
    """
    try:
        return codecs.utf_8_decode(raw, "strict", is_whole)[0]
    except UnicodeDecodeError as error:
        advice = f"byte {error.start} of it is wrong, {RECODE}"
        raise BadRecordError("not valid UTF-8", advice) from None


def read_text_file(path: Path, encoding: str = "") -> str:
    """Read a file of text that people give beside documents, such as labels.

    Raises:
        CorpusFormatError: It cannot be opened, or is in another encoding.
    """
    try:
        raw = b"".join(in_utf8(iter([path.read_bytes()]), encoding))
        return decode(raw)
    except OSError as error:
        reason = f"{path} cannot be read ({error.strerror}); give another file."
        raise CorpusFormatError(reason) from error
    except UnicodeDecodeError:
        raise CorpusFormatError(f"{path} is not in {encoding}; name another encoding.") from None
    except BadRecordError as error:
        raise CorpusFormatError(f"{path} is {error}: {error.advice}.") from None


def read_whole(blocks: Iterable[bytes], max_bytes: int) -> bytes:
    """Join blocks up to `max_bytes`; what comes after is not read."""
    taken = bytearray()
    for block in blocks:
        taken += block[: max_bytes - len(taken)]
        if len(taken) >= max_bytes:
            break
    return bytes(taken)


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
        yield Chunk(replace(document, text=text[begin:end], mentions=inside), number, begin)
        begin, number = end, number + 1


class InputFile(NamedTuple):
    """A file to read, or the reason why it is not read."""

    name: str
    """Of a file in a folder, the way to it from there, with the folder's own name first."""
    path: str
    """A path, an address such as s3://bucket/file, or "-"."""
    fault: str = ""
    size: int = 0
    """Bytes as it is stored; 0 where that is not known."""
    source: int = 0
    """Which of the paths that were given it belongs to."""


def list_files(paths: Sequence[str | Path], *, must_exist: bool = True) -> list[InputFile]:
    """List the files of several paths: files, folders with all they hold, addresses, or "-".

    Files of a folder come in the order of their names; links out of it are not followed.

    Raises:
        CorpusFormatError: A path does not exist or may not be read, or a text is given where a list
            is needed.
    """
    if isinstance(paths, str):
        raise CorpusFormatError(f"The sources are one text; give a list of paths: [{paths!r}].")
    files: list[InputFile] = []
    for source, given in enumerate(map(str, paths)):
        root = Path(given)
        if given == STDIN:
            found = [InputFile("stdin", STDIN)]
        elif "://" in given:
            found = _list_address(given)
        elif must_exist and not os.access(root, os.R_OK):
            raise CorpusFormatError(
                f"There is no file or folder {given!r} that can be read; give the path of "
                'existing documents or "-" for standard input.'
            )
        elif root.is_dir():
            found = _list_folder(root)
        else:
            size = root.stat().st_size if root.exists() else 0
            found = [InputFile(root.name, given, size=size)]
        files += [file._replace(source=source) for file in found]
    return files


def content_key(file: InputFile, how: str) -> str:
    """Return what tells a file from all others: what it holds as it is stored, and how it is read.

    What lies at an address is told by that and its size, or it would be fetched twice. It is empty
    of what can be read only once or not at all.
    """
    digest = hashlib.blake2b(how.encode(), digest_size=8)
    if "://" in file.path:
        digest.update(f"{file.path} {file.size}".encode())
    elif file.fault or not Path(file.path).is_file():
        return ""
    else:
        try:
            with open_file(file.path) as opened:
                while block := opened.read(1 << 20):
                    digest.update(block)
        except OSError:
            return ""
    return digest.hexdigest()


def _list_folder(root: Path) -> list[InputFile]:
    label, inside = root.resolve().name, root.resolve()
    found: list[tuple[Path, str, int]] = []
    errors: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=errors.append):
        here = Path(folder)
        links = (here / name for name in folders if (here / name).is_symlink())
        found += [(path, "symbolic link to a folder", 0) for path in links]
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (here / name for name in names if not name.startswith(".")):
            fault, size = "", 0
            try:
                resolved = path.resolve(strict=True)
                if not resolved.is_relative_to(inside):
                    fault = "symbolic link that leaves the folder"
                elif not resolved.is_file():
                    fault = "not a regular file"
                else:
                    size = resolved.stat().st_size
            except (OSError, RuntimeError):
                fault = "symbolic link that leads nowhere"
            found.append((path, fault, size))
    found += [(Path(e.filename), f"folder cannot be opened ({e.strerror})", 0) for e in errors]
    return sorted(
        InputFile(f"{label}/{path.relative_to(root).as_posix()}", str(path), fault, size)
        for path, fault, size in found
    )


def _list_address(address: str) -> list[InputFile]:
    from pyarrow import fs

    system, root = _file_system(address)
    found = system.get_file_info(root)
    if found.type == fs.FileType.NotFound:
        raise CorpusFormatError(
            f"There is nothing at {address!r}; give the address of existing documents."
        )
    if found.type == fs.FileType.File:
        return [InputFile(Path(root).name, address, size=found.size)]
    base = address.removesuffix(root) if address.endswith(root) else address.split("://")[0]
    base = base if base.endswith("/") else f"{base}://"
    files = []
    for info in system.get_file_info(fs.FileSelector(root, recursive=True)):
        name = Path(info.path).relative_to(root).as_posix()
        if info.type == fs.FileType.File and not f"/{name}".count("/."):
            path = f"{base}{info.path}"
            files.append(InputFile(f"{Path(root).name}/{name}", path, size=info.size))
    return sorted(files)


def _file_system(address: str) -> tuple[Any, str]:
    import pyarrow as pa
    from pyarrow import fs

    try:
        return fs.FileSystem.from_uri(address)  # type: ignore[no-any-return]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorpusFormatError(
            f"{address!r} cannot be reached ({error}); give a path or an address such as s3://."
        ) from error


def open_file(path: str) -> BinaryIO:
    """Open a path or an address.

    Raises:
        OSError: It cannot be opened.
    """
    if "://" not in path:
        return Path(path).open("rb")
    system, inside = _file_system(path)
    return system.open_input_file(inside)  # type: ignore[no-any-return]


_KNOWN = (
    "give plain text, JSON lines, CSV, TSV, Parquet, HTML, WARC, RSS, Atom or NIF, also as .gz, "
    ".bz2, .xz or .zst"
)
_SUFFIXES = {
    "archive": (".warc", ".wet"),
    "parquet": (".parquet",),
    "page": (".html", ".htm", ".xhtml"),
    "feed": (".rss", ".atom"),
    "lines": (".jsonl", ".ndjson", ".json"),
    "nif": (".ttl", ".nif"),
    "table": (".csv", ".tsv"),  # only a file's name tells a table of texts from plain text
    "text": (".txt", ".text", ".md"),
}
"""The formats, and the endings of file names before that of a compression."""
_PROLOGUE = re.compile(rb"(?:<\?.{0,500}?\?>|<!--.{0,2000}?-->|\s)++", re.DOTALL)
"""What may stand before the root of an XML file."""
_FEED_ROOT = rb"(?:<!DOCTYPE (?:rss|rdf)[^>[]{0,300}>\s*)?<(?:rss|feed|rdf:RDF)[\s>]"
_BEGINS = {
    "archive": re.compile(rb"WARC/"),
    "parquet": re.compile(rb"PAR1"),
    "page": re.compile(rb"<!doctype html|<html", re.I),
    "feed": re.compile(rb"(?:%b)?+%b" % (_PROLOGUE.pattern, _FEED_ROOT), re.I | re.S),
    "lines": re.compile(rb"\{\s*[\"}]"),
    "nif": re.compile(rb"(?=[@<#p]).*?(?:nlp2rdf/ontologies/nif-core#|prefix nif:)", re.I | re.S),
}
"""How files of a format begin, behind white space; what is of no format is read as text."""
_IN_BYTES = ("archive", "parquet", "page")
"""The formats that are no text, or that tell their encoding otherwise than by a mark."""
_FOREIGN = {magic: f"{kind} archive" for magic, kind in UNSUPPORTED.items()} | {
    b"%PDF-": "PDF file",
    b"{\\rtf": "RTF file",
    b"SQLite format 3": "SQLite database",
    b"<mediawiki": "MediaWiki dump",
}
_SNIFFED = 4096


def choose_format(name: str, head: bytes, encoding: str = "") -> str:
    """Choose a format by what a file looks like, and by its name where that leaves a doubt.

    Args:
        name: The file's name.
        head: Its first bytes, decompressed.
        encoding: That of its text, where it is named.

    Raises:
        BadRecordError: The file is of no format that is read; the message says what it is.
    """
    path = PurePath(name.lower())
    is_packed = path.suffix in (".gz", ".xz", ".bz2", ".zst")
    suffix = PurePath(path.stem).suffix if is_packed else path.suffix
    named = next((form for form, suffixes in _SUFFIXES.items() if suffix in suffixes), None)
    if encoding and not head.startswith((codecs.BOM_UTF8, *UTF_16_MARKS)):
        head = head.decode(encoding, "ignore").encode()  # its last character may be cut off
    start = b"".join(in_utf8(iter([head]))).lstrip()[:_SNIFFED]
    told = next((form for form, begins in _BEGINS.items() if begins.match(start)), "text")
    if told in ("archive", "parquet", "feed"):
        return told
    if named in ("page", "feed"):
        return named
    inside = _PROLOGUE.sub(b"", start, count=1) if start.startswith(b"<?xml") else start
    kind = next((kind for magic, kind in _FOREIGN.items() if inside.startswith(magic)), "")
    if not kind and inside is not start:
        if _BEGINS["page"].match(inside):
            return "page"
        kind = "XML file of another kind"
    if not kind and named == "parquet":
        kind = "file that is called .parquet and is none"
    if not kind and b"\0" in start:
        kind = "binary file"
    if kind:
        raise BadRecordError(kind, _KNOWN)
    return named or told


def read_items(
    file: InputFile,
    task: ReadTask,
    *,
    form: str = "",
    stdin: BinaryIO | None = None,
    on_bytes: Callable[[int], None] = lambda n: None,
) -> Iterator[ReadItem]:
    """Read the records of a file; what cannot be opened or read on is left out with its reason.

    Args:
        file: What `list_files` found.
        task: How its documents are read.
        form: Its format; told by its first bytes and its name without.
        stdin: What "-" reads; the process's standard input by default.
        on_bytes: Called with the number of bytes, as they are stored, after each read.
    """
    if file.fault:
        yield Skip(file.fault, task.file)
        return
    is_stdin = file.path == STDIN
    try:
        opened = nullcontext(stdin or sys.stdin.buffer) if is_stdin else open_file(file.path)
    except OSError as error:
        reason = f"file cannot be opened ({error.strerror or error})"
        yield Skip(reason, task.file, advice="check the path")
        return
    faults: list[str] = []
    n_items = n_characters = 0
    begin, end = task.span or (0, None)
    with opened as source:
        if begin:
            source.seek(begin)
        stream = ByteStream(
            source,
            position=begin,
            end=end,
            block_bytes=1 << 20,
            on_fault=faults.append,
            on_bytes=on_bytes,
        )
        table = "" if is_stdin or stream.kind != PLAIN else file.path
        for item in chain(_read_stream(stream, replace(task, table=table), form), [None]):
            yield from (Skip(fault, task.file) for fault in faults)
            faults.clear()
            if item is not None:
                yield item
            n_items += 1
            n_characters += len(item.text) if isinstance(item, Record) else 0
            stored = max(file.size, stream.consumed - begin)
            are_too_many = n_items > MAX_ITEMS + stored // 2
            if are_too_many or n_characters > MAX_UNPACKED + MAX_UNPACKED_RATIO * stored:
                reason = f"more {'records' if are_too_many else 'text'} than its bytes hold"
                yield Skip(reason, task.file, advice="nothing behind it was read")
                return


def _read_stream(stream: ByteStream, task: ReadTask, form: str) -> Iterator[ReadItem | None]:
    from stamo.corpus import formats, nif, tables, web

    readers = {
        "archive": web.read_archive,
        "page": web.read_page,
        "nif": nif.read_contexts,
        "table": tables.read_table,
        "parquet": formats.read_parquet,
        "feed": formats.read_feed,
        "lines": formats.read_json_lines,
        "text": formats.read_text,
    }
    # Pages of web archives are gzip members of their own: a damaged one is left out.
    stream.skips_damage = ".warc" in task.name.lower() or ".wet" in task.name.lower()
    blocks = iter(stream)
    head = more = next(blocks, b"")
    # More than a signature, and a line where there are any.
    while more and (len(head) <= 8 or (len(head) < _SNIFFED and b"\n" not in head.lstrip())):
        more = next(blocks, b"")
        head += more
    if not head and task.window is None:
        if not stream.fault:
            yield Skip("empty file", task.file)
        return
    try:
        form = form or choose_format(task.name, head, task.encoding)
        stream.skips_damage = form == "archive"
        whole: Iterator[bytes] = chain([head], blocks)
        encoding = "" if form == "feed" else task.encoding
        yield from readers[form](whole if form in _IN_BYTES else in_utf8(whole, encoding), task)
    except UnicodeDecodeError:
        yield Skip(f"not in the encoding {task.encoding}", task.file, advice="name another one")
    except CorpusFormatError as error:
        advice = getattr(error, "advice", "")
        yield Skip(str(error).rstrip("."), task.file, advice=advice)


def tidy_documents(
    items: Iterable[ReadItem], task: ReadTask, on_skip: OnSkip
) -> Iterator[Document]:
    """Make the documents of records that are collected; tell what is left out or mended."""
    for item in items:
        if isinstance(item, Skip):
            on_skip(item)
        elif isinstance(item, Record):
            try:
                document = finish_record(item, task, on_skip)
            except BadRecordError as error:
                on_skip(Skip(str(error), item.where, advice=error.advice))
            else:
                yield document


def cut_documents(items: Iterable[ReadItem], task: ReadTask) -> Iterator[ReadChunk]:
    """Make the chunks of records that are linked; faults come as `Unreadable` in their place."""
    assert task.window is not None
    for item in items:
        if isinstance(item, Record):
            yield from split_document(finish_record(item, task), task.window)
        elif isinstance(item, Skip):
            if not item.kept:
                yield Unreadable(item.where, item.sentence)
        else:
            yield item


ReadFiles = Callable[..., Iterator[tuple[InputFile, Iterator[Document]]]]
"""Reads files as `read_files` does, on this machine or many."""


def read_files(
    files: Iterable[InputFile],
    *,
    matcher: AliasMatcher | None = None,
    on_skip: OnSkip = ignore_skips,
    on_bytes: Callable[[int], None] = lambda n: None,
    stdin: BinaryIO | None = None,
    text_column: str = "",
    encoding: str = "",
) -> Iterator[tuple[InputFile, Iterator[Document]]]:
    """Yield each file with its documents, which are read as they are taken.

    Args:
        files: What `list_files` found.
        matcher: Leave out documents that cannot contain its aliases, mostly before parsing them.
        on_skip: Called for everything that is left out or mended.
        on_bytes: Called with the number of bytes, as they are stored, after each read.
        stdin: What "-" reads; the process's standard input by default.
        text_column: The column of tables that holds the texts; `text` and the like by default.
        encoding: That of texts which are neither UTF-8 nor UTF-16 with a mark.

    Raises:
        MissingExtraError: A web page is met and the extra `web` is not installed.
    """
    for file in files:
        task = ReadTask(file.name, file.name, matcher, text_column=text_column, encoding=encoding)
        items = read_items(file, task, stdin=stdin, on_bytes=on_bytes)
        yield file, tidy_documents(items, task, on_skip)


def read_documents(
    paths: Sequence[str | Path],
    *,
    matcher: AliasMatcher | None = None,
    on_skip: OnSkip = ignore_skips,
    stdin: BinaryIO | None = None,
    text_column: str = "",
    encoding: str = "",
) -> Iterator[Document]:
    """Stream the documents of several paths in a fixed order.

    Args:
        paths: Files (plain text, JSON lines, CSV, TSV, Parquet, HTML, WARC, RSS, Atom, NIF; also
            as .gz, .xz, .bz2, .zst), folders (read recursively, in the order of their names), or
            "-" for standard input.
        matcher: Leave out documents that cannot contain its aliases, mostly before parsing them.
        on_skip: Called for everything that is left out or mended.
        stdin: What "-" reads; the process's standard input by default.
        text_column: The column of tables that holds the texts; `text` and the like by default.
        encoding: That of texts which are neither UTF-8 nor UTF-16 with a mark.

    Raises:
        CorpusFormatError: A path does not exist (raised at once, before the first document).
        MissingExtraError: A web page is met and the extra `web` is not installed.
    """
    read = read_files(
        list_files(paths),
        matcher=matcher,
        on_skip=on_skip,
        stdin=stdin,
        text_column=text_column,
        encoding=encoding,
    )
    return chain.from_iterable(documents for _, documents in read)


def read_chunks(
    paths: Sequence[str | Path],
    window: int,
    *,
    json_lines: bool = False,
    stdin: BinaryIO | None = None,
    text_column: str = "",
    encoding: str = "",
) -> Iterator[ReadChunk]:
    """Stream the same files to link them: texts as they are written, long ones in chunks.

    What cannot be read comes as an `Unreadable` in its place, also a path that does not exist.

    Args:
        paths: Files, folders, or "-" for standard input.
        window: Characters of a chunk.
        json_lines: Whether every file holds JSON lines, whatever it looks like.
        stdin: What "-" reads; the process's standard input by default.
        text_column: The column of tables that holds the texts; `text` and the like by default.
        encoding: That of texts which are neither UTF-8 nor UTF-16 with a mark.

    Raises:
        MissingExtraError: A web page is met and the extra `web` is not installed.
    """
    for file in list_files(paths, must_exist=False):
        name = STDIN if file.path == STDIN else file.name
        task = ReadTask(name, file.path, window=window, text_column=text_column, encoding=encoding)
        items = read_items(file, task, form="lines" if json_lines else "", stdin=stdin)
        yield from cut_documents(items, task)
