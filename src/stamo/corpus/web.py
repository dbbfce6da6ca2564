"""Web archives (WARC, also WET): records one by one, past whatever is broken.

Our own parser: with one record in forty damaged (a gzip member cut or overwritten, a wrong length,
garbage between two) it finds all the others, where fastwarc 1.1 raises at the first one. On clean
archives fastwarc is faster, 295 against 166 MB/s of gzip; extracting pages runs at 67 MB/s.
"""

from __future__ import annotations

import atexit
import os
import re
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, NamedTuple

from stamo.corpus.reading import (
    NO_MENTION,
    BadRecordError,
    ReadItem,
    ReadTask,
    cut_text,
    decode_utf8,
    read_whole,
)
from stamo.corpus.types import Document
from stamo.errors import CorpusFormatError, need

CPU_SECONDS = 5
"""What one page may take; a page of a megabyte takes some 30 ms."""
WALL_SECONDS = 120.0
"""For a child that waits instead of computing."""
MAX_MEMORY = 450 * 2**20
MAX_REPLY = 256 * 2**20

TOO_LONG = "HTML that takes too long to parse"
TOO_LARGE = "HTML that takes too much memory to parse"
BAD = "HTML that the parser fails on"

_DETECT, _DECODED = b"D", b"T"
_SIZES = struct.Struct(">cII")
_CODE = "from stamo.corpus.web import serve; serve()"


class _Reply(NamedTuple):
    kind: bytes
    first: bytes
    second: bytes


class HtmlPage(NamedTuple):
    """What a reader of a web page sees."""

    title: str
    text: str


def extract_html(page: bytes | str, charset: str | None = None) -> HtmlPage:
    """Extract title and main content; nothing in the page is run or fetched.

    Args:
        page: The page as it was sent, or decoded.
        charset: What the HTTP header says, if anything; it wins over the page's own declaration.

    Raises:
        CorpusFormatError: The page takes too much time or memory; the message is a short reason.
    """
    kind = _DETECT if isinstance(page, bytes) else _DECODED
    raw = page if isinstance(page, bytes) else page.encode("utf-8", "replace")
    with _lock:
        reply = _child_of_this_process().ask(kind, (charset or "").encode("utf-8", "replace"), raw)
    first, second = (part.decode("utf-8", "replace") for part in reply[1:])
    if reply.kind != b"+":
        raise CorpusFormatError(first)
    return HtmlPage(first, second)


class _Child:
    """A process that extracts one page after the other."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, kind: bytes, charset: bytes, raw: bytes) -> _Reply:
        """Extract a page; whatever happens to the child, there is a reply."""
        for _ in range(2):  # an idle child may have been killed; that is not this page's fault
            process = self._process = self._process or _start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                _write(process.stdin, kind, charset, raw)
            except OSError:
                self.close()
                continue
            try:
                return _receive(process.stdout, time.monotonic() + WALL_SECONDS)
            except TimeoutError:
                reason = TOO_LONG
            except EOFError:
                reason = {-signal.SIGXCPU: TOO_LONG, -signal.SIGKILL: TOO_LARGE}.get(
                    process.wait(), BAD
                )
            self.close()
            return _Reply(b"-", reason.encode(), b"")
        return _Reply(b"-", BAD.encode(), b"")

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and self.owner == os.getpid():
            process.kill()
            process.communicate()


_lock = threading.Lock()
_child: _Child | None = None


@atexit.register
def close() -> None:
    """End the child of this process, if there is one; the next page starts another."""
    with _lock:
        if _child is not None:
            _child.close()


def _child_of_this_process() -> _Child:
    global _child
    if _child is None or _child.owner != os.getpid():  # a fork must not talk to its parent's child
        _child = _Child()
    return _child


def _start() -> subprocess.Popen[bytes]:
    need("resiliparse", "web")
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", _CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
    )


def _write(file: IO[bytes], kind: bytes, first: bytes, second: bytes) -> None:
    file.write(_SIZES.pack(kind, len(first), len(second)) + first)
    file.write(second)
    file.flush()


def _receive(file: IO[bytes], deadline: float) -> _Reply:
    with selectors.DefaultSelector() as selector:
        selector.register(file, selectors.EVENT_READ)

        def read(size: int) -> bytes:
            parts = []
            while size:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise TimeoutError
                part = os.read(file.fileno(), min(size, 1 << 20))
                if not part:
                    raise EOFError
                parts.append(part)
                size -= len(part)
            return b"".join(parts)

        kind, *sizes = _SIZES.unpack(read(_SIZES.size))
        if sum(sizes) > MAX_REPLY:
            raise EOFError
        return _Reply(kind, read(sizes[0]), read(sizes[1]))


def serve() -> None:
    """Be the child: extract pages from stdin until it ends."""
    import resource

    from stamo.corpus.html_child import decode_html, extract_tree

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reading process decides what Ctrl-C means
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    while len(head := requests.read(_SIZES.size)) == _SIZES.size:
        kind, *sizes = _SIZES.unpack(head)
        charset, raw = (requests.read(size) for size in sizes)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + CPU_SECONDS, most))
        try:
            html = decode_html(raw, charset.decode()) if kind == _DETECT else raw.decode()
            answer = b"+", *(part.encode("utf-8", "replace") for part in extract_tree(html))
        except CorpusFormatError as error:
            answer = b"-", str(error).encode(), b""
        except MemoryError:
            answer = b"-", TOO_LARGE.encode(), b""
        except Exception:
            answer = b"-", BAD.encode(), b""
        _write(replies, *answer)


def read_html(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read the page."""
    raw = read_whole(blocks, task.limits.max_record_bytes + 1)
    yield 1, task.take(task.file, read_page, raw) if task.first < 1 else None


def read_page(
    raw: bytes, where: str, task: ReadTask, *, id: str = "", charset: str | None = None
) -> Document:
    """Turn one page into a document.

    Args:
        raw: The page as it was sent.
        where: Where the page is, for a person to look up.
        task: The file being read.
        id: The page's own id; made from the place and the text when empty.
        charset: The character set of the HTTP header, if any.

    Raises:
        CorpusFormatError: It is left out; the message is a short reason.
    """
    if len(raw) > task.limits.max_record_bytes:
        raise BadRecordError("page larger than the limit")
    if task.matcher and not task.matcher.may_be_in_html(raw):
        raise BadRecordError(NO_MENTION)
    page = extract_html(raw, charset)
    if not page.text:
        raise BadRecordError("no main content")
    text = cut_text(page.text, task.limits, where, task.on_skip)
    return Document(task.id_of(id, where, text), text, title=page.title or None)


MAX_HEADER_BYTES = 1 << 16
# The start of a record may follow garbage without a line break; a field tells it from a quotation.
_RECORD = re.compile(rb"WARC/\d\.\d+[ \t]*\r?\n(?=[A-Za-z-]+:)")
_LONGEST_MARK = 80
_STEP = 1 << 20
_HEAD_BYTES = 4096
_EMPTY_LINES = re.compile(rb"(?:\r\n)+\n*|\n+")
_VERSION = re.compile(rb"WARC/\d\.\d+\s*\r?\n")
_PAGE_TYPES = ("text/html", "application/xhtml+xml", "")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_CHUNK_SIZE = re.compile(rb"\s*([0-9a-fA-F]{1,8})[^\n]*\n")


@dataclass(frozen=True, slots=True)
class WarcRecord:
    """One record: its header fields by lower-case name, and its block."""

    headers: Mapping[str, str]
    block: bytes

    @property
    def type(self) -> str:
        """Return what the record holds: response, conversion, request, ..."""
        return self.headers.get("warc-type", "").lower()

    @property
    def id(self) -> str:
        """Return the TREC id where there is one (ClueWeb), else the record id without brackets."""
        trec_id = self.headers.get("warc-trec-id", "")
        return trec_id or self.headers.get("warc-record-id", "").strip("<>")


class _Buffer:
    """Bytes that can be looked at before they are passed; every byte is moved a few times only."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._data = bytearray()
        self._at = 0

    def fill(self, size: int) -> int:
        """Hold the next `size` bytes; return how many there are, fewer only at the end."""
        if len(self._data) - self._at < size and self._at > len(self._data) // 2:
            del self._data[: self._at]
            self._at = 0
        while len(self._data) - self._at < size:
            block = next(self._blocks, None)
            if block is None:
                break
            self._data += block
        return min(len(self._data) - self._at, size)

    def peek(self, size: int, skip: int = 0) -> bytes:
        """Return up to `size` bytes behind the next `skip`; fewer only at the end."""
        n = self.fill(skip + size)
        with memoryview(self._data) as view:  # a slice of the array itself would be a second copy
            return bytes(view[self._at + skip : self._at + n])

    def move(self, size: int) -> None:
        """Move behind bytes that were looked at."""
        self._at += size

    def take(self, size: int) -> bytes:
        """Return up to `size` next bytes and move behind them."""
        taken = self.peek(size)
        self._at += len(taken)
        return taken

    def seek(self, size: int | None = None) -> bool:
        """Move to the next start of a record, at most `size` bytes on; tell whether there is one.

        Without one, move `size` bytes, or to the end.
        """
        left = size
        while left is None or left > 0:
            step = _STEP if left is None else min(left, _STEP)
            # Some bytes more: a mark may lie across two steps.
            n = self.fill(step + _LONGEST_MARK)
            found = _RECORD.search(self._data, self._at, self._at + n)
            if found and found.start() < self._at + step:
                self._at = found.start()
                return True
            if not n:
                return False
            self._at += min(step, n)
            left = None if left is None else left - step
        return False

    def next_start(self, size: int) -> int:
        """Return how far the next start of a record is, behind this place; at most `size`."""
        n = self.fill(size)
        found = _RECORD.search(self._data, self._at + 1, self._at + n)
        return found.start() - self._at if found else n


def read_records(
    blocks: Iterator[bytes], max_record_bytes: int, on_fault: Callable[[str], None]
) -> Iterator[WarcRecord | None]:
    """Yield the records of an archive; None stands for one that was left out, and why is reported.

    Args:
        blocks: The decompressed archive.
        max_record_bytes: Larger records are left out without being held in memory.
        on_fault: Called with a short reason for each record that is left out.
    """
    buffer = _Buffer(blocks)
    while True:
        headers = _read_headers(buffer)
        if headers is None:
            if _seek_record(buffer, on_fault):
                continue
            return
        length = _length(headers)
        if length is None:
            on_fault("WARC record without a valid length")
            yield None
        elif length > max_record_bytes:
            on_fault("WARC record larger than the limit")
            # A length this large is more often wrong than right: look for records inside.
            buffer.seek(length)
            yield None
        else:
            yield _read_block(buffer, headers, length, on_fault)


def _read_headers(buffer: _Buffer) -> dict[str, str] | None:
    start = buffer.peek(_HEAD_BYTES)
    while lines := _EMPTY_LINES.match(start):
        buffer.move(lines.end())
        # Few of them: the rest of what was looked at will do.
        start = start[lines.end() :] if lines.end() < 5 else buffer.peek(_HEAD_BYTES)
    if not _VERSION.match(start):
        return None
    head, size = split_head(start)
    if not size:
        # A header ends before the next record starts, so none is looked at again and again.
        head, size = split_head(buffer.peek(buffer.next_start(MAX_HEADER_BYTES)))
    if not size:
        return None
    buffer.move(size)
    return header_fields(head)


def _length(headers: Mapping[str, str]) -> int | None:
    value = headers.get("content-length", "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None


def _seek_record(buffer: _Buffer, on_fault: Callable[[str], None]) -> bool:
    """Move to the next line that starts a record; tell whether there is one."""
    if not buffer.peek(1):
        return False
    on_fault("damaged WARC record")
    buffer.take(1)
    return buffer.seek()


def _read_block(
    buffer: _Buffer, headers: dict[str, str], length: int, on_fault: Callable[[str], None]
) -> WarcRecord | None:
    if buffer.fill(length) < length:
        on_fault("WARC record ends early")
    elif not _ends_rightly(buffer, length):
        on_fault("WARC record of a wrong length")
    else:
        return WarcRecord(headers, buffer.take(length))
    # A length that is too long reaches over the next records; go on with those.
    buffer.seek(length)
    return None


def _ends_rightly(buffer: _Buffer, length: int) -> bool:
    """Tell whether a block of this length is followed by a record, the end, or a damaged record."""
    behind = buffer.peek(16, skip=length)
    if behind.strip(b"\r\n")[:5] in (b"", b"WARC/"):
        return True
    # The next record is damaged; but a wrong length also meets a line break now and then.
    return behind[:1] in (b"\r", b"\n", b"W") and buffer.next_start(length) == length


def read_archive(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read the pages and plain texts of an archive."""
    n = 0

    def on_fault(reason: str) -> None:
        if n >= task.first:
            task.skip(reason, task.where("record", n + 1))

    for record in read_records(blocks, task.limits.max_record_bytes, on_fault):
        n += 1
        if n > task.first and record is not None:
            yield n, task.take(task.where("record", n), _read_record, record)


def _read_record(record: WarcRecord, where: str, task: ReadTask) -> Document | None:
    if record.type in ("conversion", "resource"):
        kind = record.headers.get("content-type", "").partition(";")[0].strip().lower()
        return _read_payload(record.block, kind, None, record, where, task)
    if record.type != "response":
        return None
    message = parse_http(record.block, task.limits.max_record_bytes + 1)
    if message is None:
        raise BadRecordError("response that is not HTTP")
    if message.status != 200:
        raise BadRecordError("HTTP status other than 200")
    return _read_payload(message.body, message.content_type, message.charset, record, where, task)


def _read_payload(
    raw: bytes, kind: str, charset: str | None, record: WarcRecord, where: str, task: ReadTask
) -> Document:
    if kind in _PAGE_TYPES:
        return read_page(raw, where, task, id=record.id, charset=charset)
    if kind != "text/plain":
        raise BadRecordError("neither HTML nor plain text")
    if task.matcher and not task.matcher.may_be_in_text(raw):
        raise BadRecordError(NO_MENTION)
    text = decode_utf8(raw, where, task.on_skip)
    text = cut_text(text, task.limits, where, task.on_skip)
    if not text.strip():
        raise BadRecordError("empty text")
    return Document(task.id_of(record.id, where, text), text)


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """The answer of a web server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        """Return the media type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """Return the character set of the header, if it names one."""
        found = _CHARSET.search(self.headers.get("content-type", ""))
        return found.group(1) if found else None


def split_head(data: bytes) -> tuple[bytes, int]:
    """Find the empty line behind header fields; return the head and the size with that line."""
    ends = [(data.find(mark), len(mark)) for mark in (b"\r\n\r\n", b"\n\n")]
    found = min((end for end in ends if end[0] >= 0), default=(-1, 0))
    return (data[: found[0]], found[0] + found[1]) if found[0] >= 0 else (b"", 0)


def header_fields(head: bytes) -> dict[str, str]:
    """Return the fields behind the first line by their lower-case names."""
    fields: dict[str, str] = {}
    for line in head.decode("utf-8", "replace").split("\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def parse_http(block: bytes, max_bytes: int) -> HttpMessage | None:
    """Parse an HTTP answer, undoing chunks and compression; None where it is not one.

    Args:
        block: Status line, header fields, empty line and body.
        max_bytes: The body is cut here when it unpacks to more.
    """
    head, size = split_head(block)
    status = head[:64].split(None, 2)
    if not head.startswith(b"HTTP/") or len(status) < 2 or not status[1].isdigit():
        return None
    headers = header_fields(head)
    body = block[size:]
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _join_chunks(body)
    body = _unpack(body, headers.get("content-encoding", "").lower(), max_bytes)
    return HttpMessage(int(status[1]), headers, body)


def header_size(block: bytes) -> int:
    """Return how many bytes an HTTP message's header takes, with the empty line; 0 without one."""
    return split_head(block)[1] if block.startswith(b"HTTP/") else 0


def _join_chunks(body: bytes) -> bytes:
    """Join HTTP chunks; many archives store the body joined already, which is returned as is."""
    chunks: list[bytes] = []
    at = 0
    while found := _CHUNK_SIZE.match(body, at):
        size = int(found.group(1), 16)
        if size == 0:
            return b"".join(chunks)
        chunks.append(body[found.end() : found.end() + size])
        at = found.end() + size
    return b"".join(chunks) if chunks else body


def _unpack(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Undo gzip and deflate up to `max_bytes`; some archives keep the header but not the coding."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return body
    # With a gzip or zlib header; what calls itself deflate may also have none.
    for wbits in (47, -15) if encoding == "deflate" else (47,):
        try:
            return zlib.decompressobj(wbits).decompress(body, max_bytes)
        except zlib.error:
            continue
    return body
