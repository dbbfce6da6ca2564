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

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from stamo.build.dump.multistream import StreamRange, find_index, find_ranges, plan_ranges
from stamo.build.dump.opening import TranslatedStream, open_file, open_stream
from stamo.build.dump.pages import RawPage, parse_pages
from stamo.build.dump.site import Site
from stamo.build.dump.splitter import MAX_SITE_BYTES, NOT_CLOSED, PageLimits, PageSplitter
from stamo.errors import DumpError, SettingsError
from stamo.system.closing import Closing
from stamo.system.streams import ByteSource, ByteStream

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

    def _open(self) -> "_OpenDump":
        if self._opened is None:
            self._opened = _OpenDump.open(self.path, self.name, self._limits, self._language)
        return self._opened

    def _ranges(self, dump: "_OpenDump") -> list[StreamRange] | None:
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

    def _chunks_of_bytes(self, dump: "_OpenDump") -> Iterator[Chunk]:
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
    ) -> "_OpenDump":
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
