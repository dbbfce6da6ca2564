"""Read MediaWiki XML dumps: streaming, in chunks that workers parse, past every fault.

    with DumpReader("enwiki-latest-pages-articles.xml.bz2") as reader:
        for chunk in reader.chunks():
            pages, skipped = parse_chunk(chunk, reader.site)   # in a worker process

All export versions are read, plain or compressed (gzip, bzip2, xz, zstd, told by their first
bytes), from a file or from standard input. A single bad page never ends the reading: it is counted
under its reason in `DumpReader.skipped` or in the counter that `parse_chunk` returns.

Memory, whatever the input: the reader holds at most `2 * chunk_bytes + 4 * max_page_bytes`
(36 MiB with the defaults) and the decompressor's window (at most 128 MiB, usually below 10 MiB);
a worker holds its chunk and the pages in it, or, for a range of a multistream archive, at most
256 MiB of pages besides what a reader holds.
"""

from __future__ import annotations

import bz2
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

from stamo.build.site import Site
from stamo.errors import DumpError, SettingsError
from stamo.system.files import Closing
from stamo.system.streams import (
    PLAIN,
    UNSUPPORTED,
    UTF_16_MARKS,
    ByteSource,
    ByteStream,
    StreamFault,
    compression,
    in_utf8,
)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16 = UTF_16_MARKS | {b"<\x00": "utf-16-le", b"\x00<": "utf-16-be"}
"""The encoding by the first two bytes of XML in UTF-16."""


class TranslatedStream(ByteStream):
    """The decompressed bytes of a dump in UTF-8; UTF-16 is told from the first two bytes."""

    encoding: str | None = None
    """The encoding that is being translated, once bytes were handed out."""

    def __iter__(self) -> Iterator[bytes]:
        blocks = super().__iter__()
        first = next(blocks, b"")
        self.encoding = UTF_16.get(first[:2])
        yield from in_utf8(chain([first], blocks), UTF_16)


def open_file(path: str | Path, name: str) -> tuple[BinaryIO, int | None]:
    """Open a dump, or standard input for "-"; return also its size where it has one.

    Raises:
        DumpError: It cannot be opened.
    """
    if str(path) == "-":
        return sys.stdin.buffer, None
    try:
        if Path(path).is_dir():
            raise DumpError(f"{name} is a directory; expected the file of a MediaWiki XML dump.")
        file = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
    except FileNotFoundError as error:
        raise DumpError(f"There is no file {name}; expected a MediaWiki XML dump.") from error
    except (OSError, ValueError) as error:
        raise DumpError(f"{name} cannot be opened: {error}.") from error
    # A named pipe has no size to compare with.
    return file, os.fstat(file.fileno()).st_size or None


def open_stream(file: BinaryIO, name: str) -> TranslatedStream:
    """Return the decompressed bytes of an open dump, in UTF-8.

    Raises:
        DumpError: It cannot be read, or is no dump.
    """
    source = ByteSource(file)
    try:
        return TranslatedStream(source, detect(source.peek(64), name))
    except StreamFault as fault:
        raise DumpError(f"{name} cannot be read: {fault}.") from fault


def detect(start: bytes, name: str) -> str:
    """Tell the format of a dump from its first bytes: a compression, or plain XML.

    Raises:
        DumpError: It is none of them.
    """
    if kind := compression(start):
        return kind
    if start.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"<") or start[:2] in UTF_16:
        return PLAIN
    if not start:
        raise DumpError(f"{name} is empty; expected a MediaWiki XML dump.")
    for magic, kind in UNSUPPORTED.items():
        if start.startswith(magic):
            raise DumpError(
                f"{name} is a {kind} archive, which cannot be streamed; unpack it and pass the "
                "XML file, or pipe the XML in and pass '-'."
            )
    raise DumpError(
        f"{name} begins with the bytes {start[:8]!r}; expected a MediaWiki XML dump in UTF-8 "
        "or UTF-16, plain or compressed as .gz, .bz2, .xz or .zst."
    )


OTHER_NAMESPACE = "page outside the wanted namespaces"
OTHER_MODEL = "page whose content is not wikitext"
INVALID_TEXT = "page with invalid characters, which were replaced"
NO_TEXT = "page whose text is not in the dump"

_PAGE_END = re.compile(rb"</page\s*>")
_NAMESPACE = re.compile(rb"<ns>(-?[0-9]{1,9})</ns>")
_TITLE = re.compile(rb"<title>([^<&]*)</title>")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BUFFER_BYTES = 1 << 16
# A page made of tags alone would take expat some thirty times its length in memory.
_TAG_START = re.compile(rb"<[^!]")
_LONGEST_TAG = 1 << 16
_MAX_TAGS = 100_000
_MAX_DEPTH = 16


@dataclass(frozen=True, slots=True)
class RawPage:
    """One page of a dump as it stands there; the title is neither normalised nor resolved."""

    title: str
    namespace: int
    page_id: int
    """The wiki's number for the page; 0 when the dump does not give one."""
    redirect: str | None
    """The target that the dump itself names (export 0.6 and later), not one found in the text."""
    text: str
    """The wikitext of the last revision; empty when the dump does not hold it."""


class _PageSkippedError(Exception):
    """A page is left out; the argument is the reason to count."""


def parse_pages(
    data: bytes, site: Site, namespaces: frozenset[int], counts: Counter[str]
) -> Iterator[RawPage]:
    """Yield the wanted pages in a run of bytes; count the others and the oddities by reason."""
    for start, end in _page_spans(data):
        try:
            page, notes = _read_page(data, start, end, site, namespaces)
        except _PageSkippedError as reason:
            counts[str(reason)] += 1
        else:
            counts.update(notes)
            yield page


def _page_spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Give the bytes of each page; one without its end runs to the start of the next."""
    start = PAGE_START.search(data)
    while start is not None:
        following = PAGE_START.search(data, start.end())
        yield start.start(), len(data) if following is None else following.start()
        start = following


def _read_page(
    data: bytes, start: int, end: int, site: Site, namespaces: frozenset[int]
) -> tuple[RawPage, list[str]]:
    closing = _PAGE_END.search(data, max(start, data.rfind(b"</page", start, end)), end)
    if closing is None:
        raise _PageSkippedError(MALFORMED)
    first = data.find(b"<revision", start, end)
    if _is_elsewhere(data[start : first if first >= 0 else end], site, namespaces):
        raise _PageSkippedError(OTHER_NAMESPACE)
    last = data.rfind(b"<revision", start, end)
    page = data[start : closing.end()]
    if first < last:
        page = data[start:first] + data[last : closing.end()]
    fields, notes = _parse(page)
    return _make_page(fields, site, namespaces, notes), notes


def _is_elsewhere(head: bytes, site: Site, namespaces: frozenset[int]) -> bool:
    """Tell from the head of a page, where it is plain, that the page is in no wanted namespace."""
    if b"<!" in head:
        return False
    if namespace := _NAMESPACE.search(head):
        return int(namespace[1]) not in namespaces
    if b"<ns" in head or not (title := _TITLE.search(head)):
        return False
    # Titles with a reference or invalid bytes are left for the parser to decide.
    return title[1].isascii() and _namespace(title[1].decode(), site) not in namespaces


def _namespace(title: str, site: Site) -> int:
    return site.namespace_of(title)[0]


@dataclass(slots=True)
class _Fields:
    """What one page says, filled by expat's events."""

    head: dict[str, str]
    revision: dict[str, str]
    redirect: str | None = None
    is_shown: bool = False


def _has_long_tag(page: bytes) -> bool:
    for part in page.split(b">"):
        tag = _TAG_START.search(part) if len(part) > _LONGEST_TAG else None
        if tag is not None and len(part) - tag.start() > _LONGEST_TAG:
            return True
    return False


def _parse(page: bytes) -> tuple[_Fields, list[str]]:
    """Parse a page; try again with invalid characters replaced before giving it up."""
    if len(page) > 1 << 20 and (page.count(b"<") > _MAX_TAGS or _has_long_tag(page)):
        raise _PageSkippedError(MALFORMED)
    try:
        return _parse_strictly(page), []
    except expat.ExpatError as error:
        clean = _NOT_XML.sub("\ufffd", page.decode("utf-8", "replace")).encode()
        if clean == page:
            raise _PageSkippedError(MALFORMED) from error
    try:
        return _parse_strictly(clean), [INVALID_TEXT]
    except expat.ExpatError as error:
        raise _PageSkippedError(MALFORMED) from error


def _parse_strictly(page: bytes) -> _Fields:
    fields = _Fields({}, {})
    path: list[str] = []
    parts: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        parts.clear()
        path.append(name)
        if len(path) > _MAX_DEPTH:
            raise _PageSkippedError(MALFORMED)
        if path == ["page", "revision"]:
            fields.revision, fields.is_shown = {}, False
        elif path == ["page", "redirect"]:
            fields.redirect = attributes.get("title")
        elif path == ["page", "revision", "text"]:
            n_bytes = attributes.get("bytes", "").strip().lstrip("0")
            fields.is_shown = "deleted" not in attributes and not n_bytes

    def end(name: str) -> None:
        path.pop()
        if path == ["page"]:
            fields.head[name] = "".join(parts)
        elif path == ["page", "revision"]:
            fields.revision[name] = "".join(parts)
        parts.clear()

    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.buffer_size = _BUFFER_BYTES
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = parts.append
    parser.Parse(page, True)
    return fields


def _make_page(
    fields: _Fields, site: Site, namespaces: frozenset[int], notes: list[str]
) -> RawPage:
    title = fields.head.get("title", "").strip()
    if not title:
        raise _PageSkippedError(MALFORMED)
    page_id = _whole_number(fields.head.get("id", "0"))
    declared = fields.head.get("ns")
    namespace = _namespace(title, site) if declared is None else _whole_number(declared)
    if namespace not in namespaces:
        raise _PageSkippedError(OTHER_NAMESPACE)
    if not _is_wikitext(fields.revision):
        raise _PageSkippedError(OTHER_MODEL)
    text = fields.revision.get("text", "")
    if not text and not fields.is_shown:
        notes.append(NO_TEXT)
    return RawPage(title, namespace, page_id, fields.redirect or None, text)


def _whole_number(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text.strip()):
        raise _PageSkippedError(MALFORMED)
    return int(text)


def _is_wikitext(revision: dict[str, str]) -> bool:
    if "model" in revision:
        return revision["model"].strip() == "wikitext"
    return revision.get("format", "text/x-wiki").strip() == "text/x-wiki"


MAX_SITE_BYTES = 1 << 20

MALFORMED = "malformed page"
CUT_OFF = "page cut off at the end of the dump"
NOT_CLOSED = "dump ends without </mediawiki>"

PAGE_START = re.compile(rb"<page[\s/>]")
_PAGE_END_splitter = b"</page"
_PAGE_END_CLOSED = re.compile(rb"</page\s{0,32}>")
_DUMP_END = b"</mediawiki"
_PAGE_PART = re.compile(rb"<(?:(page|revision)[\s/>]|(/page|/revision)\s{0,32}>)")
# No tag that we look for is longer, so this many bytes of look-back find one cut in two.
_OVERLAP = 64


def too_large(max_page_bytes: int) -> str:
    """Name the reason under which pages above the limit are counted."""
    n_mebibytes, rest = divmod(max_page_bytes, 1 << 20)
    return (
        f"page larger than {max_page_bytes:,} bytes"
        if rest
        else f"page larger than {n_mebibytes} MiB"
    )


@dataclass(frozen=True, slots=True)
class PageLimits:
    """How long chunks and pages may be, in bytes."""

    chunk_bytes: int
    """A chunk ends with the first page end after so many bytes."""
    max_page_bytes: int
    """A page whose head and last revision are longer is left out."""


class PageSplitter:
    """Take blocks of bytes and give out chunks of whole pages; `skipped` counts the others.

    Call `read_header` once, then iterate over `chunks`.
    """

    def __init__(self, blocks: Iterable[bytes], limits: PageLimits) -> None:
        self._blocks = iter(blocks)
        self._chunk_bytes = limits.chunk_bytes
        self._max_page_bytes = limits.max_page_bytes
        self._buffer = bytearray()
        self.skipped: Counter[str] = Counter()

    def read_header(self) -> bytes | None:
        """Return what stands before the first page, or None when no page starts within 1 MiB."""
        searched = 0
        while not (start := PAGE_START.search(self._buffer, searched)):
            searched = max(0, len(self._buffer) - _OVERLAP)
            if searched > MAX_SITE_BYTES or not self._fill():
                return None
        if start.start() > MAX_SITE_BYTES:
            return None
        header = bytes(self._buffer[: start.start()])
        del self._buffer[: start.start()]
        return header

    def chunks(self, *, expects_end: bool) -> Iterator[bytes]:
        """Yield runs of whole pages, each cut at the first page end after `chunk_bytes`.

        Args:
            expects_end: Whether the bytes should close with `</mediawiki>`.
        """
        done = scanned = 0
        while True:
            end = self._find_page_end(scanned)
            if end is None and len(self._buffer) - done <= self._max_page_bytes:
                scanned = max(done, len(self._buffer) - _OVERLAP)
                if self._fill():
                    continue
                break
            if end is None or end - done > self._max_page_bytes:
                yield from self._cut(done)
                yield from self._reduce_page()
                done = scanned = 0
                continue
            done = scanned = end
            if done >= self._chunk_bytes:
                yield from self._cut(done)
                done = scanned = 0
        yield from self._cut(done)
        self._finish(expects_end)

    def _fill(self) -> bool:
        for block in self._blocks:
            if block:
                self._buffer += block
                return True
        return False

    def _find_page_end(self, scanned: int) -> int | None:
        position = self._buffer.find(_PAGE_END_splitter, scanned)
        while position >= 0:
            if match := _PAGE_END_CLOSED.match(self._buffer, position):
                return match.end()
            position = self._buffer.find(_PAGE_END_splitter, position + 1)
        return None

    def _cut(self, length: int) -> Iterator[bytes]:
        if length:
            chunk = bytes(memoryview(self._buffer)[:length])
            del self._buffer[:length]
            yield chunk

    def _finish(self, expects_end: bool) -> None:
        if PAGE_START.search(self._buffer):
            self.skipped[CUT_OFF] += 1
        elif expects_end and _DUMP_END not in self._buffer:
            self.skipped[NOT_CLOSED] += 1

    def _reduce_page(self) -> Iterator[bytes]:
        """Read past one long page, or past bytes between pages, and keep its last revision."""
        if not self._skip_to_page():
            return
        page = _LongPage(self._max_page_bytes)
        while not page.is_complete:
            n_used = page.take(self._buffer)
            del self._buffer[:n_used]
            if not page.is_complete and not self._fill():
                self.skipped[CUT_OFF] += 1
                return
        if page.reason:
            self.skipped[page.reason] += 1
        else:
            yield page.result

    def _skip_to_page(self) -> bool:
        while not (start := PAGE_START.search(self._buffer)):
            del self._buffer[:-_OVERLAP]
            if not self._fill():
                return False
        del self._buffer[: start.start()]
        return True


class _LongPage:
    """Keep the head and the last revision of a page that streams past in a growing buffer."""

    def __init__(self, max_bytes: int) -> None:
        self.is_complete = False
        self.reason = ""
        self.result = b""
        self._max_bytes = max_bytes
        self._scanned = 1  # past the start of this page
        self._head: bytes | None = None
        self._last = b""
        self._in_revision = False
        self._overflows = False

    def take(self, buffer: bytearray) -> int:
        """Look at the new bytes; return how many at the front of the buffer are done with."""
        n_used = 0
        for tag in _PAGE_PART.finditer(buffer, self._scanned):
            self._scanned = tag.end()
            name = tag[1] or tag[2]
            if name == b"page":
                return self._finish(MALFORMED, tag.start())
            if name == b"/page":
                self._close_page(bytes(buffer[n_used : tag.end()]))
                return tag.end()
            if name == b"revision":
                self._open_revision(bytes(buffer[n_used : tag.start()]))
                n_used = tag.start()
            elif name == b"/revision":
                self._close_revision(bytes(buffer[n_used : tag.end()]))
                n_used = tag.end()
        return self._forget(n_used, len(buffer))

    def _forget(self, n_used: int, length: int) -> int:
        between = self._head is not None and not self._in_revision
        if between or length - n_used > self._max_bytes:
            self._overflows = self._overflows or not between
            n_used = max(n_used, length - _OVERLAP)
        self._scanned = max(self._scanned, length - _OVERLAP) - n_used
        return n_used

    def _open_revision(self, before: bytes) -> None:
        if self._head is None:
            self._head = before
            if self._overflows or len(before) > self._max_bytes:
                self.reason = too_large(self._max_bytes)
        self._in_revision, self._overflows = True, False

    def _close_revision(self, revision: bytes) -> None:
        fits = not self._overflows and len(self._head or b"") + len(revision) <= self._max_bytes
        self._last = revision if fits else b""
        self._in_revision = self._overflows = False

    def _close_page(self, rest: bytes) -> None:
        if self._head is None:
            self.result = b"" if self._overflows or len(rest) > self._max_bytes else rest
        elif self._last:
            self.result = self._head + self._last + b"</page>"
        self._finish(self.reason or ("" if self.result else too_large(self._max_bytes)), 0)

    def _finish(self, reason: str, n_used: int) -> int:
        self.reason, self.is_complete = reason, True
        return n_used


MAX_RANGE_BYTES = 64 << 20
"""Compressed length above which a range is not one of a usual multistream archive."""

MAX_FOUND_BYTES = 8 << 20
"""The same where no index says how an archive was made: its pages fit in a worker's memory."""

_STREAM_START = re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)")
_LINE = re.compile(rb"^(\d{1,18}):\d+:", re.MULTILINE)
_MAX_LINE_BYTES = 1 << 16
# bzip2 makes about a quarter of wikitext, so a range holds about chunk_bytes of pages.
_RATIO = 4
_N_PROBES = 16
_N_PROBES_FOUND = 4  # its second stream was looked at already, and each decompresses a block
_SCAN_BYTES = 1 << 20
_START_BYTES = 10


@dataclass(frozen=True, slots=True)
class StreamRange:
    """Whole bzip2 streams that lie between two bytes of a file."""

    path: Path
    start: int
    end: int
    limits: PageLimits
    expects_end: bool
    """Whether the dump's closing tag belongs to this range."""


def find_index(dump_path: Path) -> Path | None:
    """Return the index that lies beside a multistream dump under Wikimedia's name, if any."""
    name = dump_path.name
    if "multistream" not in name:
        return None
    renamed = name.replace("multistream", "multistream-index", 1).replace(".xml", ".txt", 1)
    for candidate in (renamed, renamed.removesuffix(".bz2")):
        path = dump_path.with_name(candidate)
        if candidate != name and path.is_file():
            return path
    return None


def plan_ranges(
    dump_path: Path, index_path: Path, limits: PageLimits, *, expects_end: bool
) -> list[StreamRange]:
    """Group the streams of an archive into ranges that cover it from its first byte to its last.

    Raises:
        DumpError: The index cannot be read or does not belong to the archive.
    """
    n_bytes = dump_path.stat().st_size
    # A shorter archive than the index describes is a broken download; what is there is read.
    offsets = [offset for offset in sorted(read_offsets(index_path)) if 0 < offset < n_bytes]
    cuts = [0]
    for offset in offsets:
        if offset - cuts[-1] >= _least_bytes(limits):
            cuts.append(offset)
    with dump_path.open("rb") as file:
        if (misfit := _first_misfit(file, cuts, _N_PROBES)) is not None:
            raise DumpError(
                f"The index {index_path} does not belong to {dump_path}: no stream of pages begins "
                f"at byte {misfit:,}; remove the index or download the one of the same date."
            )
    if _longest(cuts, n_bytes) > MAX_RANGE_BYTES:
        raise DumpError(f"The index {index_path} does not cover {dump_path}; download it anew.")
    return _ranges(dump_path, cuts, n_bytes, limits, expects_end=expects_end)


def find_ranges(
    dump_path: Path, limits: PageLimits, *, expects_end: bool
) -> list[StreamRange] | None:
    """Group the streams of an archive without an index; None unless it is surely a multistream."""
    n_bytes = dump_path.stat().st_size
    with dump_path.open("rb") as file:
        if not _has_header_stream(file):
            return None
        cuts = [0, *_find_cuts(file, _least_bytes(limits))]
        if _longest(cuts, n_bytes) > MAX_FOUND_BYTES:
            return None
        if _first_misfit(file, cuts, _N_PROBES_FOUND) is not None:
            return None
    return _ranges(dump_path, cuts, n_bytes, limits, expects_end=expects_end)


def _least_bytes(limits: PageLimits) -> int:
    return max(1, limits.chunk_bytes // _RATIO)


def _longest(cuts: list[int], n_bytes: int) -> int:
    return max(end - start for start, end in pairwise([*cuts, n_bytes]))


def _ranges(
    dump_path: Path, cuts: list[int], n_bytes: int, limits: PageLimits, *, expects_end: bool
) -> list[StreamRange]:
    return [
        StreamRange(dump_path, start, end, limits, expects_end and end == n_bytes)
        for start, end in pairwise([*cuts, n_bytes])
    ]


def _has_header_stream(file: BinaryIO) -> bool:
    """Tell whether the first stream ends before the first page, and pages begin the second."""
    member = bz2.BZ2Decompressor()
    try:
        header = member.decompress(file.read(MAX_SITE_BYTES), MAX_SITE_BYTES)
    except OSError:
        return False
    after = member.unused_data
    return (
        member.eof
        and not PAGE_START.search(header)
        and bool(_STREAM_START.match(after))
        and _begins_with_page(after)
    )


def _find_cuts(file: BinaryIO, least_bytes: int) -> Iterator[int]:
    """Yield where streams begin, each at least so many bytes behind the one before."""
    position = least_bytes
    while True:
        file.seek(position)
        block = file.read(_SCAN_BYTES)
        if found := _STREAM_START.search(block):
            yield position + found.start()
            position += found.start() + least_bytes
        elif len(block) == _SCAN_BYTES:
            position += _SCAN_BYTES - _START_BYTES + 1  # a start may be cut in two
        else:
            return


def read_offsets(index_path: Path) -> set[int]:
    """Return the distinct stream offsets of an index, plain or compressed.

    Raises:
        DumpError: The file cannot be read or is not an index.
    """
    try:
        with index_path.open("rb") as file:
            stream = ByteStream(ByteSource(file))
            offsets = {
                int(offset)
                for lines in _whole_lines(stream)
                for offset in _offsets(lines, index_path)
            }
    except OSError as error:
        raise DumpError(f"The index {index_path} cannot be read: {error}.") from error
    if not offsets:
        raise DumpError(f"The index {index_path} is empty; expected lines offset:page id:title.")
    return offsets


def _whole_lines(stream: ByteStream) -> Iterator[bytes]:
    rest = b""
    for block in stream:
        lines, newline, rest = (rest + block).rpartition(b"\n")
        yield lines + newline
        if len(rest) > _MAX_LINE_BYTES:
            break
    yield rest


def _offsets(lines: bytes, index_path: Path) -> set[bytes]:
    found = _LINE.findall(lines)
    n_lines = lines.count(b"\n") + (not lines.endswith(b"\n") and bool(lines))
    if len(found) != n_lines:
        raise DumpError(
            f"The index {index_path} holds lines that are not offset:page id:title; "
            "expected the multistream-index file that belongs to the dump."
        )
    return set(found)


def _first_misfit(file: BinaryIO, cuts: list[int], n_probes: int) -> int | None:
    """Look at the first bytes at every cut, and at the first page at some of them."""
    step = max(1, len(cuts) // n_probes)
    for number, offset in enumerate(cuts[1:]):
        file.seek(offset)
        start = file.read(_START_BYTES)
        if not _STREAM_START.match(start) and not _is_cut_start(start):
            return offset
        if number % step == 0 and not _begins_with_page(start + file.read(1 << 20)):
            return offset
    return None


def _is_cut_start(start: bytes) -> bool:
    return len(start) < _START_BYTES and b"BZh91AY&SY".startswith(start)


def _begins_with_page(data: bytes) -> bool:
    """Tell whether a stream may hold pages; one that is damaged or cut is its reader's business."""
    try:
        text = bz2.BZ2Decompressor().decompress(data, 1 << 10)
    except OSError:
        return True
    return not text or text.lstrip().startswith((b"<page", b"</mediawiki"))


__all__ = ["ARTICLES", "Chunk", "DumpReader", "RawPage", "parse_chunk"]

CHUNK_BYTES = 2 << 20
MAX_PAGE_BYTES = 8 << 20
MAX_RANGE_TEXT = 256 << 20
ARTICLES = frozenset({0})
"""The namespaces that hold articles."""
RANGE_TOO_LARGE = f"rest of a multistream range with over {MAX_RANGE_TEXT >> 20} MiB of text"

_ENCODING = re.compile(rb"""<\?xml[^<>]*?encoding\s*=\s*["']([^"'<>]{1,40})""")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole pages, in the order of the dump: their bytes, or where a worker finds them."""

    index: int
    data: bytes | StreamRange


class DumpReader(Closing):
    """Give out one dump as chunks of whole pages; read once, from the front to the end.

    Args:
        path: The dump, or "-" for standard input.
        index_path: Index of a multistream .bz2 (lines "offset:page id:title"), so that workers
            decompress it in parallel; found by itself beside the dump under the usual name. Without
            one the streams of such an archive are found by their first bytes.
        chunk_bytes: Bytes of pages after which a chunk ends, with the page that is open then.
        max_page_bytes: Largest page (head and last revision) to keep; MediaWiki's limit is 2 MiB.
        language: The language of a dump that does not say it; English without.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        index_path: str | Path | None = None,
        chunk_bytes: int = CHUNK_BYTES,
        max_page_bytes: int = MAX_PAGE_BYTES,
        language: str | None = None,
    ) -> None:
        if chunk_bytes < 1 or max_page_bytes < 1:
            raise SettingsError(
                f"chunk_bytes={chunk_bytes} and max_page_bytes={max_page_bytes} must be positive."
            )
        self.path = path
        self.skipped: Counter[str] = Counter()
        self._is_stdin = str(path) == "-"
        self._index_path = None if index_path is None else Path(index_path)
        self._limits = PageLimits(chunk_bytes, max_page_bytes)
        self._language = language
        self._opened: _OpenDump | None = None
        self._is_used = False
        self._n_handed_out = 0

    @property
    def name(self) -> str:
        """Name the input for messages."""
        return "standard input" if self._is_stdin else str(self.path)

    @property
    def site(self) -> Site:
        """What the dump says of its wiki; opens the dump and reads its header.

        Raises:
            DumpError: The input is missing, is no dump, or holds no page.
        """
        return self._open().site

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks; afterwards `skipped` is complete. To read again, make a new reader.

        Raises:
            DumpError: The input is missing, is no dump, or holds no page; the index does not fit.
        """
        dump = self._open()
        if self._is_used:
            raise DumpError(f"{self.name} was read already; make a new DumpReader to read again.")
        self._is_used = True
        try:
            ranges = self._ranges(dump)
            if ranges is None:
                yield from self._chunks_of_bytes(dump)
            else:
                yield from self._chunks_of_ranges(ranges)
        finally:
            self.close()

    def progress(self) -> float | None:
        """Return the share of the compressed bytes that is read, or None when that is unknown."""
        if self._opened is None or not self._opened.n_bytes:
            return None
        n_read = self._n_handed_out or self._opened.stream.source.consumed
        return min(1.0, n_read / self._opened.n_bytes)

    def close(self) -> None:
        """Close the input; the counts stay."""
        if self._opened is not None and not self._is_stdin:
            self._opened.file.close()

    def _open(self) -> _OpenDump:
        if self._opened is None:
            self._opened = _OpenDump.open(self.path, self.name, self._limits, self._language)
        return self._opened

    def _ranges(self, dump: _OpenDump) -> list[StreamRange] | None:
        if self._is_stdin or dump.stream.kind != "bzip2":
            if self._index_path is not None:
                raise DumpError(
                    f"{self.name} cannot be read with the index {self._index_path}; "
                    "an index goes with a multistream .bz2 file only."
                )
            return None
        path = Path(self.path)
        index_path = self._index_path or find_index(path)
        if dump.stream.encoding is not None:
            return None  # a range of UTF-16 would not tell its encoding
        if index_path is not None:
            try:
                return plan_ranges(path, index_path, self._limits, expects_end=dump.expects_end)
            except DumpError as error:
                if self._index_path is not None:
                    raise
                self.skipped[f"index not used: {error}"] += 1
        if not dump.n_bytes:
            return None  # a pipe is read once
        return find_ranges(path, self._limits, expects_end=dump.expects_end)

    def _chunks_of_bytes(self, dump: _OpenDump) -> Iterator[Chunk]:
        pages = dump.splitter.chunks(expects_end=dump.expects_end)
        for index, data in enumerate(pages):
            yield Chunk(index, data)
        self.skipped.update(_reasons(dump.splitter, dump.stream))

    def _chunks_of_ranges(self, ranges: list[StreamRange]) -> Iterator[Chunk]:
        for index, part in enumerate(ranges):
            self._n_handed_out = part.end
            yield Chunk(index, part)


@dataclass(frozen=True)
class _OpenDump:
    """A dump whose header has been read."""

    file: BinaryIO
    n_bytes: int | None
    stream: TranslatedStream
    splitter: PageSplitter
    site: Site
    expects_end: bool

    @classmethod
    def open(
        cls, path: str | Path, name: str, limits: PageLimits, language: str | None
    ) -> _OpenDump:
        file, n_bytes = open_file(path, name)
        try:
            stream = open_stream(file, name)
            splitter = PageSplitter(stream, limits)
            header = splitter.read_header()
            if header is None:
                raise _no_page(name, stream)
            if stream.encoding is None:
                _check_encoding(header, name)
            site = Site.parse(header, language)
        except BaseException:
            if str(path) != "-":
                file.close()
            raise
        has_root = b"<mediawiki" in header
        return cls(file, n_bytes, stream, splitter, site, has_root)


def parse_chunk(
    chunk: Chunk, site: Site, namespaces: frozenset[int] = ARTICLES
) -> tuple[list[RawPage], Counter[str]]:
    """Parse the pages of a chunk; made to run in worker processes.

    Args:
        chunk: A chunk of a `DumpReader`.
        site: The reader's site; gives the namespace of a title where the dump does not (0.3).
        namespaces: Pages of other namespaces are counted and left out.

    Returns:
        The pages in the dump's order, and how often something was left out or amiss, by reason.
    """
    counts: Counter[str] = Counter()
    if isinstance(chunk.data, bytes):
        return list(parse_pages(chunk.data, site, namespaces, counts)), counts
    return _parse_range(chunk.data, site, namespaces, counts), counts


def _parse_range(
    part: StreamRange, site: Site, namespaces: frozenset[int], counts: Counter[str]
) -> list[RawPage]:
    pages: list[RawPage] = []
    n_kept = 0
    file, _ = open_file(part.path, str(part.path))
    with file:
        file.seek(part.start)
        source = ByteSource(file, position=part.start, end=part.end)
        stream = ByteStream(source, "bzip2")
        splitter = PageSplitter(stream, part.limits)
        for data in splitter.chunks(expects_end=part.expects_end):
            for page in parse_pages(data, site, namespaces, counts):
                n_kept += sys.getsizeof(page.text)
                if n_kept > MAX_RANGE_TEXT:
                    counts[RANGE_TOO_LARGE] += 1
                    return pages
                pages.append(page)
    counts.update(_reasons(splitter, stream))
    return pages


def _reasons(splitter: PageSplitter, stream: ByteStream) -> Counter[str]:
    reasons = Counter(splitter.skipped)
    if stream.fault:
        del reasons[NOT_CLOSED]  # the fault says it better
        reasons[stream.fault] += 1
    return reasons


def _no_page(name: str, stream: ByteStream) -> DumpError:
    if stream.fault:
        return DumpError(f"{name} holds no complete header and page: {stream.fault}.")
    return DumpError(
        f"{name} has no <page> within the first {MAX_SITE_BYTES >> 20} MiB of its content; "
        "expected a MediaWiki XML dump such as pages-articles."
    )


def _check_encoding(header: bytes, name: str) -> None:
    declared = _ENCODING.search(header)
    if declared and declared[1].lower() not in {b"utf-8", b"utf8", b"ascii", b"us-ascii"}:
        encoding = declared[1].decode("ascii", "replace")
        raise DumpError(f"{name} declares the encoding {encoding}; convert it to UTF-8 first.")
