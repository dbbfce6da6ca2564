"""Extract web pages in a process with limits, so that no page takes more time or memory than that.

No check before parsing can foresee every page that is made to exhaust a parser. Each process that
reads pages keeps one such child; it costs some 30 MB and a copy of each page. A page at which the
child reaches a limit, or crashes, is refused, and the next page gets a new child.
"""

from __future__ import annotations

import atexit
import os
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
from typing import IO, NamedTuple

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
_CODE = "from stamo.corpus.formats.html_process import serve; serve()"


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

    from stamo.corpus.formats.html_extract import decode_html, extract_tree

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
