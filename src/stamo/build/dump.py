"""Read MediaWiki XML dumps: streaming, in chunks that workers parse, past every fault.

    with DumpReader("enwiki-latest-pages-articles.xml.bz2") as reader:
        for chunk in reader.chunks():
            pages, skipped = parse_chunk(chunk, reader.site)   # in a worker process

All export versions are read, plain or compressed (gzip, bzip2, xz, zstd, told by their first
bytes), from a file or from standard input. A single bad page never ends the reading: it is counted
under its reason in `DumpReader.skipped` or in the counter that `parse_chunk` returns. Only a page
with several revisions does: a full-history dump is another thing.

A multistream .bz2 is many streams of pages in one file: workers get ranges of it and decompress
them side by side.

Memory, whatever the input: the reader holds at most `2 * chunk_bytes + 2 * MAX_PAGE_BYTES` and the
decompressor's window (at most 128 MiB, usually below 10 MiB); a worker holds its chunk and the
pages in it, or, for a range of a multistream archive, at most 256 MiB of pages besides what a
reader holds.
"""

from __future__ import annotations

import bz2
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple
from xml.parsers import expat

from stamo.build.site import Site
from stamo.errors import DumpError
from stamo.system.files import Closing
from stamo.system.streams import UNSUPPORTED, ByteStream, compression

CHUNK_BYTES = 2 << 20
MAX_PAGE_BYTES = 8 << 20
"""Longer pages are left out; MediaWiki's own limit is 2 MiB."""
MAX_SITE_BYTES = 1 << 20
"""Where the first page must begin."""
MAX_RANGE_BYTES = 8 << 20
"""Compressed length above which a range is not one of a usual multistream archive."""
MAX_RANGE_TEXT = 256 << 20
ARTICLES = frozenset({0})
"""The namespaces that hold articles."""

MALFORMED = "malformed page"
TOO_LARGE = f"page larger than {MAX_PAGE_BYTES >> 20} MiB"
CUT_OFF = "page cut off at the end of the dump"
NOT_CLOSED = "dump ends without </mediawiki>"
OTHER_NAMESPACE = "page outside the wanted namespaces"
OTHER_MODEL = "page whose content is not wikitext"
INVALID_TEXT = "page with invalid characters, which were replaced"
NO_TEXT = "page whose text is not in the dump"
RANGE_TOO_LARGE = f"rest of a multistream range with over {MAX_RANGE_TEXT >> 20} MiB of text"

_PAGE_START = re.compile(rb"<page[\s/>]")
_PAGE_EDGE = re.compile(rb"<(?:page[\s/>]|/page\s{0,32}>)")
_PAGE_END = re.compile(rb"</page\s{0,32}>")
_NAMESPACE = re.compile(rb"<ns>(-?[0-9]{1,9})</ns>")
_TITLE = re.compile(rb"<title>([^<&]*)</title>")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENCODING = re.compile(rb"""<\?xml[^<>]*?encoding\s*=\s*["']([^"'<>]{1,40})""")
_STREAM_START = re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)")
_START_BYTES = 10
# No tag that we look for is longer, so this many bytes of look-back find one cut in two.
_OVERLAP = 64
# bzip2 makes about a quarter of wikitext, so a range holds about chunk_bytes of pages.
_RATIO = 4
_SCAN_BYTES = 1 << 20


class RawPage(NamedTuple):
    """One page of a dump as it stands there; the title is neither normalised nor resolved."""

    title: str
    namespace: int
    page_id: int
    """The wiki's number for the page; 0 when the dump does not give one."""
    redirect: str | None
    """The target that the dump itself names (export 0.6 and later), not one found in the text."""
    text: str
    """The wikitext; empty when the dump does not hold it."""


class StreamRange(NamedTuple):
    """Whole bzip2 streams that lie between two bytes of a file."""

    path: Path
    start: int
    end: int
    expects_end: bool
    """Whether the dump's closing tag belongs to this range."""


class PageChunk(NamedTuple):
    """Whole pages, in the order of the dump: their bytes, or where a worker finds them."""

    number: int
    data: bytes | StreamRange


class DumpReader(Closing):
    """Open a dump and give it out as chunks of whole pages, once, from the front to the end.

    Args:
        path: The dump, or "-" for standard input.
        chunk_bytes: Bytes of pages after which a chunk ends, with the page that is open then.
        language: The language of a dump that does not say it; English without.

    Raises:
        DumpError: The input is missing, is no dump, or holds no page.
    """

    site: Site
    """What the dump says of its wiki."""

    def __init__(
        self, path: str | Path, *, chunk_bytes: int = 0, language: str | None = None
    ) -> None:
        self._is_stdin = str(path) == "-"
        self._path, self._chunk_bytes = Path(path), chunk_bytes or CHUNK_BYTES
        self.name = "standard input" if self._is_stdin else str(path)
        self.skipped: Counter[str] = Counter()
        self._file = sys.stdin.buffer if self._is_stdin else _open_file(self._path)
        # A named pipe has no size to compare with.
        self._n_bytes = 0 if self._is_stdin else os.fstat(self._file.fileno()).st_size
        self._n_handed_out = 0
        try:
            self._stream = _open_stream(self._file, self.name)
            self._splitter = PageSplitter(self._stream, self._chunk_bytes)
            header = self._splitter.read_header()
            if header is None and self._stream.fault:
                fault = self._stream.fault
                raise DumpError(f"{self.name} holds no complete header and page: {fault}.")
            if header is None:
                raise DumpError(
                    f"{self.name} has no <page> within the first {MAX_SITE_BYTES >> 20} MiB of its "
                    "content; expected a MediaWiki XML dump in UTF-8, such as pages-articles."
                )
            declared = _ENCODING.search(header)
            if declared and declared[1].lower() not in {b"utf-8", b"utf8", b"ascii", b"us-ascii"}:
                code = declared[1].decode("ascii", "replace")
                raise DumpError(
                    f"{self.name} declares the encoding {code}; convert it to UTF-8 first."
                )
            self.site = Site.parse(header, language)
            self._expects_end = b"<mediawiki" in header
        except BaseException:
            self.close()
            raise

    def chunks(self) -> Iterator[PageChunk]:
        """Yield the chunks; afterwards `skipped` is complete."""
        is_file = self._stream.kind == "bzip2" and not self._is_stdin and self._n_bytes
        cuts = _find_cuts(self._path, self._chunk_bytes // _RATIO) if is_file else None
        if cuts is not None:
            for number, (start, end) in enumerate(pairwise([*cuts, self._n_bytes])):
                self._n_handed_out = end
                is_last = end == self._n_bytes
                yield PageChunk(
                    number, StreamRange(self._path, start, end, self._expects_end and is_last)
                )
            return
        for number, data in enumerate(self._splitter.chunks(expects_end=self._expects_end)):
            yield PageChunk(number, data)
        self.skipped.update(_faults(self._splitter, self._stream))

    def progress(self) -> float | None:
        """Return the share of the compressed bytes that is read, or None when that is unknown."""
        if not self._n_bytes:
            return None
        return min(1.0, (self._n_handed_out or self._stream.consumed) / self._n_bytes)

    def close(self) -> None:
        """Close the input; the counts stay."""
        if not self._is_stdin:
            self._file.close()


def _open_file(path: Path) -> BinaryIO:
    try:
        if path.is_dir():
            raise DumpError(f"{path} is a directory; expected the file of a MediaWiki XML dump.")
        return path.open("rb")
    except FileNotFoundError as error:
        raise DumpError(f"There is no file {path}; expected a MediaWiki XML dump.") from error
    except (OSError, ValueError) as error:
        raise DumpError(f"{path} cannot be opened: {error}.") from error


def _open_stream(file: BinaryIO, name: str) -> ByteStream:
    """Return the decompressed bytes of an open dump.

    Raises:
        DumpError: It cannot be read, or is no dump.
    """
    stream = ByteStream(file)
    start = stream.peek(64)
    if stream.fault:
        raise DumpError(f"{name} cannot be read: {stream.fault}.")
    is_xml = start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")
    if compression(start) or (is_xml and start[1:2] != b"\0"):
        return stream
    if not start:
        raise DumpError(f"{name} is empty; expected a MediaWiki XML dump.")
    for magic, kind in UNSUPPORTED.items():
        if start.startswith(magic):
            raise DumpError(
                f"{name} is a {kind} archive, which cannot be streamed; unpack it and pass the "
                "XML file, or pipe the XML in and pass '-'."
            )
    raise DumpError(
        f"{name} begins with the bytes {start[:8]!r}; expected a MediaWiki XML dump in UTF-8, "
        "plain or compressed as .gz, .bz2, .xz or .zst."
    )


def _faults(splitter: PageSplitter, stream: ByteStream) -> Counter[str]:
    reasons = Counter(splitter.skipped)
    if stream.fault:
        del reasons[NOT_CLOSED]  # the fault says it better
        reasons[stream.fault] += 1
    return reasons


class PageSplitter:
    """Take blocks of bytes and give out runs of whole pages; `skipped` counts the others.

    Call `read_header` once, unless the bytes begin with pages, then iterate over `chunks`.
    """

    def __init__(self, blocks: Iterable[bytes], chunk_bytes: int) -> None:
        self._blocks = filter(None, blocks)
        self._chunk_bytes = chunk_bytes
        self._buffer = bytearray()
        self.skipped: Counter[str] = Counter()

    def read_header(self) -> bytes | None:
        """Return what stands before the first page, or None when no page starts within 1 MiB."""
        searched = 0
        while not (start := _PAGE_START.search(self._buffer, searched)):
            searched = max(0, len(self._buffer) - _OVERLAP)
            if searched > MAX_SITE_BYTES or not self._fill():
                return None
        if start.start() > MAX_SITE_BYTES:
            return None
        return self._take(start.start())

    def chunks(self, *, expects_end: bool) -> Iterator[bytes]:
        """Yield runs of whole pages, each cut at the first page end after `chunk_bytes`.

        Args:
            expects_end: Whether the bytes should close with `</mediawiki>`.
        """
        done = scanned = 0
        while True:
            end = self._find_page_end(scanned)
            if end is None and len(self._buffer) - done <= MAX_PAGE_BYTES:
                scanned = max(done, len(self._buffer) - _OVERLAP)
                if self._fill():
                    continue
                break
            if end is None or end - done > MAX_PAGE_BYTES:
                if done:
                    yield self._take(done)
                self._drop_page()
                done = scanned = 0
                continue
            done = scanned = end
            if done >= self._chunk_bytes:
                yield self._take(done)
                done = scanned = 0
        if done:
            yield self._take(done)
        if _PAGE_START.search(self._buffer):
            self.skipped[CUT_OFF] += 1
        elif expects_end and b"</mediawiki" not in self._buffer:
            self.skipped[NOT_CLOSED] += 1

    def _fill(self) -> bool:
        block = next(self._blocks, b"")
        self._buffer += block
        return bool(block)

    def _take(self, length: int) -> bytes:
        taken = bytes(memoryview(self._buffer)[:length])
        del self._buffer[:length]
        return taken

    def _find_page_end(self, scanned: int) -> int | None:
        # To find the plain bytes first is much faster than the pattern.
        position = self._buffer.find(b"</page", scanned)
        while position >= 0:
            if match := _PAGE_END.match(self._buffer, position):
                return match.end()
            position = self._buffer.find(b"</page", position + 1)
        return None

    def _drop_page(self) -> None:
        """Leave out one page that is too long, or the bytes before the next page."""
        start = _PAGE_START.search(self._buffer)
        if start is None or start.start():
            del self._buffer[: start.start() if start else -_OVERLAP]
            return
        while not (edge := _PAGE_EDGE.search(self._buffer, 1)):
            del self._buffer[6:-_OVERLAP]  # all but the start of this page
            if not self._fill():
                return
        is_end = edge[0].startswith(b"</")
        self.skipped[TOO_LARGE if is_end else MALFORMED] += 1
        del self._buffer[: edge.end() if is_end else edge.start()]


def _find_cuts(path: Path, least_bytes: int) -> list[int] | None:
    """Return where ranges of streams begin; None unless a file is surely a multistream archive."""
    cuts, position = [0], max(1, least_bytes)
    with path.open("rb") as file:
        if not _has_header_stream(file.read(MAX_SITE_BYTES)):
            return None
        file.seek(position)
        while block := file.read(_SCAN_BYTES):
            if found := _STREAM_START.search(block):
                cuts.append(position + found.start())
                position = cuts[-1] + max(1, least_bytes)
            elif len(block) == _SCAN_BYTES:
                position += _SCAN_BYTES - _START_BYTES + 1  # a start may be cut in two
            else:
                break
            file.seek(position)
        ends = [*cuts[1:], path.stat().st_size]
        if max(end - start for start, end in zip(cuts, ends, strict=True)) > MAX_RANGE_BYTES:
            return None
    return cuts


def _has_header_stream(start: bytes) -> bool:
    """Tell whether the first stream ends before the first page, and pages begin the second."""
    member = bz2.BZ2Decompressor()
    try:
        header = member.decompress(start, MAX_SITE_BYTES)
    except OSError:
        return False
    if not member.eof or _PAGE_START.search(header):
        return False
    try:
        text = bz2.BZ2Decompressor().decompress(member.unused_data, 1 << 10)
    except OSError:
        return False
    return text.lstrip().startswith((b"<page", b"</mediawiki"))


def parse_chunk(
    chunk: PageChunk, site: Site, namespaces: frozenset[int] = ARTICLES
) -> tuple[list[RawPage], Counter[str]]:
    """Parse the pages of a chunk; made to run in worker processes.

    Args:
        chunk: A chunk of a `DumpReader`.
        site: The reader's site; gives the namespace of a title where the dump does not (0.3).
        namespaces: Pages of other namespaces are counted and left out.

    Returns:
        The pages in the dump's order, and how often something was left out or amiss, by reason.

    Raises:
        DumpError: A page has several revisions.
    """
    counts: Counter[str] = Counter()
    if isinstance(chunk.data, bytes):
        return list(_parse_pages(chunk.data, site, namespaces, counts)), counts
    pages: list[RawPage] = []
    n_kept = 0
    path, start, end, expects_end = chunk.data
    with _open_file(path) as file:
        file.seek(start)
        stream = ByteStream(file, "bzip2", position=start, end=end)
        splitter = PageSplitter(stream, CHUNK_BYTES)
        for data in splitter.chunks(expects_end=expects_end):
            for page in _parse_pages(data, site, namespaces, counts):
                n_kept += sys.getsizeof(page.text)
                if n_kept > MAX_RANGE_TEXT:
                    counts[RANGE_TOO_LARGE] += 1
                    return pages, counts
                pages.append(page)
    return pages, counts + _faults(splitter, stream)


def _parse_pages(
    data: bytes, site: Site, namespaces: frozenset[int], counts: Counter[str]
) -> Iterator[RawPage]:
    """Yield the wanted pages in a run of bytes; count the others and the oddities by reason."""
    starts = [found.start() for found in _PAGE_START.finditer(data)]
    # One without its end runs to the start of the next.
    for start, end in pairwise([*starts, len(data)]):
        page = _parse_page(data, start, end, site, namespaces, counts)
        if isinstance(page, str):
            counts[page] += 1
        else:
            yield page


def _parse_page(
    data: bytes,
    start: int,
    end: int,
    site: Site,
    namespaces: frozenset[int],
    counts: Counter[str],
) -> RawPage | str:
    """Return a page, or the reason why it is left out."""
    closing = _PAGE_END.search(data, max(start, data.rfind(b"</page", start, end)), end)
    if closing is None:
        return MALFORMED
    revision = data.find(b"<revision", start, end)
    if _is_elsewhere(data[start : revision if revision >= 0 else end], site, namespaces):
        return OTHER_NAMESPACE
    if revision >= 0 and data.find(b"<revision", revision + 1, end) >= 0:
        raise DumpError(
            "The dump holds several revisions of a page; full-history dumps are not read: give one "
            "with the last revision of each page, such as pages-articles."
        )
    page = data[start : closing.end()]
    try:
        head, last, redirect, is_shown = _parse_xml(page)
    except expat.ExpatError:
        clean = _NOT_XML.sub("\ufffd", page.decode("utf-8", "replace")).encode()
        try:
            head, last, redirect, is_shown = _parse_xml(clean)
        except expat.ExpatError:
            return MALFORMED
        counts[INVALID_TEXT] += 1
    title, page_id = head.get("title", "").strip(), head.get("id", "0").strip()
    number = head.get("ns", "").strip() if "ns" in head else str(site.namespace_of(title)[0])
    if not title or not (_WHOLE_NUMBER.fullmatch(page_id) and _WHOLE_NUMBER.fullmatch(number)):
        return MALFORMED
    if int(number) not in namespaces:
        return OTHER_NAMESPACE
    kind = last.get("model", last.get("format", "wikitext")).strip()
    if kind not in ("wikitext", "text/x-wiki"):
        return OTHER_MODEL
    text = last.get("text", "")
    if not text and not is_shown:
        counts[NO_TEXT] += 1
    return RawPage(title, int(number), int(page_id), redirect or None, text)


def _is_elsewhere(head: bytes, site: Site, namespaces: frozenset[int]) -> bool:
    """Tell from the head of a page, where it is plain, that the page is in no wanted namespace."""
    if b"<!" in head:
        return False
    if namespace := _NAMESPACE.search(head):
        return int(namespace[1]) not in namespaces
    if b"<ns" in head or not (title := _TITLE.search(head)):
        return False
    # Titles with a reference or invalid bytes are left for the parser to decide.
    return title[1].isascii() and site.namespace_of(title[1].decode())[0] not in namespaces


def _parse_xml(page: bytes) -> tuple[dict[str, str], dict[str, str], str | None, bool]:
    """Return the fields of a page, those of its revision, its redirect, and whether it has text."""
    head: dict[str, str] = {}
    revision: dict[str, str] = {}
    redirect: str | None = None
    is_shown = False
    path: list[str] = []
    texts: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal redirect, is_shown
        texts.clear()
        path.append(name)
        if path == ["page", "redirect"]:
            redirect = attributes.get("title")
        elif path == ["page", "revision", "text"]:
            n_bytes = attributes.get("bytes", "").strip().lstrip("0")
            is_shown = "deleted" not in attributes and not n_bytes

    def end(name: str) -> None:
        path.pop()
        if path == ["page"]:
            head[name] = "".join(texts)
        elif path == ["page", "revision"]:
            revision[name] = "".join(texts)
        texts.clear()

    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.buffer_size = 1 << 16
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = texts.append
    parser.Parse(page, True)
    return head, revision, redirect, is_shown
