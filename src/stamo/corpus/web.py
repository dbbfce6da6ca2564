"""Web pages and web archives (WARC, also WET): records one by one, past whatever is broken.

A page is parsed in a process of its own, whose time and memory are bounded (`serve`).

Archives have our own parser: with one record in forty damaged (a gzip member cut or overwritten, a
wrong length, garbage between two) it finds all the others, where fastwarc 1.1 raises at the first
one. On clean archives fastwarc is faster, 295 against 166 MB/s of gzip; extracting pages runs at
67 MB/s.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection, Pipe
from typing import NamedTuple

from stamo.corpus.reading import (
    MAX_RECORD_BYTES,
    NO_MENTION,
    BadRecordError,
    ReadItem,
    ReadTask,
    Record,
    Skip,
    decode,
    read_whole,
)
from stamo.corpus.types import clean_surrogates
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

_CODE = "import sys; from stamo.corpus.web import serve; serve(int(sys.argv[1]))"
_lock = threading.Lock()
_child: tuple[int, subprocess.Popen[bytes], Connection] | None = None
"""Which process started the one that extracts pages, that one, and how both talk.

Each page is a message, the character set and the page, and each answer one of JSON whose length is
bounded: nothing of what the child says is unpickled, for it may have been taken over by a page.
"""


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
    if isinstance(page, str):
        page, charset = page.encode("utf-8", "replace"), "utf-8"
    with _lock:
        reason, title, text = _ask(f"{charset or ''}\n".encode("utf-8", "replace") + page)
    if reason:
        raise CorpusFormatError(reason)
    return HtmlPage(title, text)


def _ask(request: bytes) -> list[str]:
    """Let the child extract a page; return what was wrong, the title and the text."""
    global _child
    for _ in range(2):  # an idle child may have been killed; that is not this page's fault
        if _child is None or _child[0] != os.getpid():  # a fork must not talk to its parent's child
            need("resiliparse", "web")
            ours, theirs = Pipe()
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-c", _CODE, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
            _child = os.getpid(), process, ours
        _, process, connection = _child
        try:
            connection.send_bytes(request)
        except OSError:
            _end_child()
            continue
        try:
            if connection.poll(WALL_SECONDS):
                said: list[str] = json.loads(connection.recv_bytes(MAX_REPLY))
                return said
            reason = TOO_LONG
        except ValueError:
            reason = BAD
        except (EOFError, OSError):
            connection.close()  # so that a child that still writes ends, too
            by_signal = {-signal.SIGXCPU: TOO_LONG, -signal.SIGKILL: TOO_LARGE}
            reason = by_signal.get(process.wait(), BAD)
        _end_child()
        return [reason, "", ""]
    return [BAD, "", ""]


def _end_child() -> None:
    global _child
    child, _child = _child, None
    if child is not None and child[0] == os.getpid():
        child[1].kill()
        child[1].wait()
        child[2].close()


@atexit.register
def close() -> None:
    """End the child of this process, if there is one; the next page starts another."""
    with _lock:
        _end_child()


def serve(descriptor: int) -> None:
    """Be the child: extract pages until nobody asks any more."""
    import resource

    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5
    from resiliparse.parse.html import HTMLTree

    options = {"links": False, "list_bullets": False, "alt_texts": False}
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reading process decides what Ctrl-C means
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    connection = Connection(descriptor)
    while True:
        try:
            told, _, raw = connection.recv_bytes().partition(b"\n")
        except (EOFError, OSError):
            return
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + CPU_SECONDS, most))
        reason = title = text = ""
        try:
            # What the HTTP header says wins over the page's own declaration.
            known = map_encoding_to_html5(told.decode(), fallback_utf8=False) if told else None
            encoding = known or detect_encoding(raw, from_html_meta=True)
            html = clean_surrogates(str(bytes_to_str(raw, encoding, errors="replace")))
            tree = HTMLTree.parse(html)
            text = extract_plain_text(tree, main_content=True, **options)
            if not text.strip():  # the heuristics find no main part in very short pages
                text = extract_plain_text(tree, main_content=False, **options)
            title = " ".join((tree.title or "").split())
        except MemoryError:
            reason = TOO_LARGE
        except Exception:
            reason = BAD
        said = [reason, *(clean_surrogates(part) for part in (title, text.strip()))]
        connection.send_bytes(json.dumps(said, ensure_ascii=False).encode())


def read_page(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read a file that is one page."""
    yield _page_record(read_whole(blocks, MAX_RECORD_BYTES + 1), task.file, task)


def _page_record(
    raw: bytes, where: str, task: ReadTask, id: str = "", charset: str | None = None
) -> Record:
    if len(raw) > MAX_RECORD_BYTES:
        raise BadRecordError("page larger than the limit")
    if task.matcher and not task.matcher.may_be_in_html(raw):
        raise BadRecordError(NO_MENTION)
    page = extract_html(raw, charset)
    if not page.text:
        raise BadRecordError("no main content")
    return Record(page.text, where, id or None, title=page.title or None, is_checked=True)


MAX_HEADER_BYTES = 1 << 16
# The start of a record may follow garbage without a line break; a field tells it from a quotation.
_RECORD = re.compile(rb"WARC/\d\.\d+[ \t]*\r?\n(?=[A-Za-z-]+:)")
_LONGEST_MARK = 80
_HEAD_BYTES = 4096
_LINE_ENDS = re.compile(rb"[\r\n]+")
_PAGE_TYPES = ("text/html", "application/xhtml+xml", "")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_CHUNK_SIZE = re.compile(rb"\s*([0-9a-fA-F]{1,8})[^\n]*\n")


class WarcRecord(NamedTuple):
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


def read_records(blocks: Iterator[bytes]) -> Iterator[WarcRecord | str]:
    """Yield the records of an archive; for each that is left out, why in a few words.

    Past what is damaged the next start of a record is looked for, also inside of a record of a
    wrong length, which often reaches over the next ones.
    """
    data, at, is_lost = bytearray(), 0, False

    def fill(size: int) -> int:
        """Hold `size` bytes from `at` on; return how many there are, fewer only at the end."""
        nonlocal at
        if len(data) - at < size and at > len(data) // 2:
            del data[:at]
            at = 0
        while len(data) - at < size and (block := next(blocks, None)) is not None:
            data.extend(block)
        return min(len(data) - at, size)

    while fill(_HEAD_BYTES):
        if blank := _LINE_ENDS.match(data, at):
            at = blank.end()
            continue
        found = _RECORD.search(data, at)
        if found is None or found.start() > at:
            if not is_lost:
                yield "damaged WARC record"
            is_lost = True
            at = found.start() if found else max(at + 1, len(data) - _LONGEST_MARK)
            continue
        head, size = split_head(bytes(data[at : at + _HEAD_BYTES]))
        if not size:  # it ends before the next record starts: none is looked at again and again
            fill(MAX_HEADER_BYTES)
            last = at + MAX_HEADER_BYTES
            following = _RECORD.search(data, at + 1, last)
            head, size = split_head(bytes(data[at : following.start() if following else last]))
        headers = header_fields(head)
        value = headers.get("content-length", "")
        is_number = value.isascii() and value.isdigit() and len(value) < 16
        length = int(value) if is_number else -1
        at += size or len(found[0])
        fault = ""
        if not size:
            fault = "damaged WARC record"
        elif not is_number:
            fault = "WARC record without a valid length"
        elif length > MAX_RECORD_BYTES:
            fault = "WARC record larger than the limit"
        elif fill(length + 16) < length:
            fault = "WARC record ends early"
        else:
            end = at + length
            behind = bytes(data[end : end + 16])
            if behind.strip(b"\r\n")[:5] not in (b"", b"WARC/") and (
                # The next record is damaged; but a wrong length also meets a line break at times.
                behind[:1] not in (b"\r", b"\n", b"W") or _RECORD.search(data, at, end)
            ):
                fault = "WARC record of a wrong length"
        is_lost = bool(fault)
        if fault:
            yield fault
            continue
        with memoryview(data) as view:  # a slice of the array itself would be a second copy
            block = bytes(view[at:end])
        at = end
        yield WarcRecord(headers, block)


def read_archive(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem | None]:
    """Read the pages and plain texts of an archive; of what holds neither, None is told."""
    for number, record in enumerate(read_records(blocks), start=1):
        where = task.where("record", number)
        try:
            if isinstance(record, str):
                raise BadRecordError(record)
            yield from _read_record(record, where, task)
        except CorpusFormatError as error:
            yield Skip(str(error), where, advice=getattr(error, "advice", ""))


def _read_record(record: WarcRecord, where: str, task: ReadTask) -> Iterator[ReadItem | None]:
    raw, charset = record.block, None
    kind = media_type(record.headers)
    if record.type == "response":
        message = parse_http(raw, MAX_RECORD_BYTES + 1)
        if message is None:
            raise BadRecordError("response that is not HTTP")
        if message.status != 200:
            raise BadRecordError("HTTP status other than 200")
        raw, kind = message.body, media_type(message.headers)
        found = _CHARSET.search(message.headers.get("content-type", ""))
        charset = found[1] if found else None
    elif record.type not in ("conversion", "resource"):
        yield None
        return
    if kind in _PAGE_TYPES:
        yield _page_record(raw, where, task, record.id, charset)
    elif kind != "text/plain":
        raise BadRecordError("neither HTML nor plain text")
    elif task.matcher and not task.matcher.may_be_in_text(raw):
        raise BadRecordError(NO_MENTION)
    else:
        yield Record(decode(raw), where, record.id or None, is_checked=True)


class HttpMessage(NamedTuple):
    """The answer of a web server."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def media_type(headers: Mapping[str, str]) -> str:
    """Return the content type without its parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


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
    headers, body = header_fields(head), block[size:]
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _join_chunks(body)
    encoding = headers.get("content-encoding", "").lower()
    if encoding in ("gzip", "x-gzip", "deflate"):
        # With a gzip or zlib header; what calls itself deflate may also have none. Some archives
        # keep the header but not the coding.
        for wbits in (47, -15) if encoding == "deflate" else (47,):
            try:
                body = zlib.decompressobj(wbits).decompress(body, max_bytes)
                break
            except zlib.error:
                continue
    return HttpMessage(int(status[1]), headers, body)


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
