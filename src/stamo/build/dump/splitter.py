"""Cut the byte stream of a dump into its header and chunks of whole `<page>` elements.

The cuts depend on the bytes alone, not on how many of them arrive at a time.
A page longer than `max_page_bytes` is reduced, while it streams past, to its head and its last
revision; when those two are still too long the page is counted and dropped without being buffered.

Memory: at most `chunk_bytes + 3 * max_page_bytes` and one block for the splitter, and the chunk
handed out, which is at most `chunk_bytes + max_page_bytes` long.

Markup is never escaped inside itself, so "</page" in the bytes is the end of a page.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_SITE_BYTES = 1 << 20

MALFORMED = "malformed page"
CUT_OFF = "page cut off at the end of the dump"
NOT_CLOSED = "dump ends without </mediawiki>"

PAGE_START = re.compile(rb"<page[\s/>]")
_PAGE_END = b"</page"
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
        position = self._buffer.find(_PAGE_END, scanned)
        while position >= 0:
            if match := _PAGE_END_CLOSED.match(self._buffer, position):
                return match.end()
            position = self._buffer.find(_PAGE_END, position + 1)
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
