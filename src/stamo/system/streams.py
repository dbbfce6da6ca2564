"""Read a file's bytes, whatever its compression, with bounded memory and past what is damaged.

The compression is told from the first bytes, never from the file's name; nothing is raised. At a
fault a stream ends, and `ByteStream.fault` says what was wrong; what comes before the fault is
handed out, perhaps without the last 32 KiB. A web archive, stored as one gzip member per page, is
read on at the next member (`skips_damage`), so that a fault costs one page.

Memory: one input block, one output block, and the decompressor's window, which may take at most
128 MiB; an archive that asks for more counts as damaged.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Protocol

import zstandard

IN_BYTES = 1 << 16
ZSTD_IN_BYTES = 1 << 9
"""What zstandard gets at once: four bytes may stand for 128 KiB, so this for 16 MiB."""
MAX_WINDOW_BYTES = 1 << 27
MAX_UNPACKED = 32 << 20
MAX_UNPACKED_RATIO = 100
"""What a file may unpack to: so many bytes, and so many for each that is stored. Text unpacks to
ten at most, a dump to twenty."""

MAGIC = {
    "gzip": b"\x1f\x8b\x08",
    "bzip2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
    "zstd": b"\x28\xb5\x2f\xfd",
}
PLAIN = "plain"
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UNSUPPORTED = {b"7z\xbc\xaf\x27\x1c": "7z", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_DAMAGE = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, zstandard.ZstdError)


class Readable(Protocol):
    """Anything bytes can be read from; it need not be seekable."""

    def read(self, size: int, /) -> bytes: ...  # noqa: D102


def compression(start: bytes) -> str | None:
    """Tell the compression from a file's first bytes: gzip, bzip2, xz, zstd, or None."""
    for kind, magic in MAGIC.items():
        if start.startswith(magic):
            return kind
    return "zstd" if _SKIPPABLE.match(start) else None


class _FaultError(Exception):
    """The bytes of a stream stop making sense: the reason, the place, what the reader says."""


class ByteStream:
    """Iterate over the decompressed bytes of an open file.

    Args:
        file: The file; it need not be seekable.
        kind: The compression; told from the first bytes by default.
        position: Where the file stands.
        end: Where reading ends; None is the end of the file.
        block_bytes: How many bytes come out at once, at most.
        on_fault: Called with a short reason for each fault, the same wherever it was.
        on_bytes: Called with the number of bytes, as they are stored, after each read.
    """

    def __init__(
        self,
        file: Readable,
        kind: str | None = None,
        *,
        position: int = 0,
        end: int | None = None,
        block_bytes: int = 1 << 15,
        on_fault: Callable[[str], None] = lambda reason: None,
        on_bytes: Callable[[int], None] = lambda n: None,
    ) -> None:
        self.fault: str | None = None
        """Why the stream ended, if early; of several faults the last."""
        self.skips_damage = False
        """Whether reading goes on at the next gzip member behind a fault."""
        # A pipe is handed on as it arrives.
        self._read, self._position, self._end = getattr(file, "read1", file.read), position, end
        self._block_bytes, self._on_fault, self._on_bytes = block_bytes, on_fault, on_bytes
        self._ahead = b""
        self.kind = kind or compression(self.peek(8)) or PLAIN

    @property
    def consumed(self) -> int:
        """Return the position in the file up to which bytes were taken."""
        return self._position - len(self._ahead)

    def peek(self, size: int) -> bytes:
        """Return the first bytes as they are stored, before any is taken; fewer at a fault."""
        try:
            while len(self._ahead) < size and (more := self._fetch(size - len(self._ahead))):
                self._ahead += more
        except _FaultError as fault:
            self._report(fault)
        return self._ahead[:size]

    def read(self, size: int = IN_BYTES) -> bytes:
        """Return up to `size` bytes as they are stored; empty at the end."""
        if self._ahead:
            taken, self._ahead = self._ahead[:size], self._ahead[size:]
            return taken
        return self._fetch(size)

    def __iter__(self) -> Iterator[bytes]:
        goes_on = self.fault is None
        while goes_on:
            try:
                if self.kind == PLAIN:
                    while block := self.read(max(1 << 18, self._block_bytes)):
                        yield block
                else:
                    yield from self._members()
                return
            except _FaultError as fault:
                self._report(fault)
            goes_on = self.skips_damage and self.kind == "gzip" and self._seek_member()
            if goes_on:
                yield b"\n"  # so that what the fault cut off does not swallow the next record

    def _report(self, fault: _FaultError) -> None:
        reason, place, detail = fault.args
        about = f" ({str(detail).rstrip('.')})" if detail else ""
        self.fault = " ".join(filter(None, (reason, place))) + about
        self._on_fault(reason + about)

    def _fetch(self, size: int) -> bytes:
        if self._end is not None:
            size = min(size, self._end - self._position)
        try:
            data = self._read(size) if size else b""
        except OSError as error:
            self._end = self._position  # a disk that failed is not asked again
            place = f"after {self._position:,} bytes"
            raise _FaultError("reading failed", place, error) from error
        self._position += len(data)
        self._on_bytes(len(data))
        return data

    def _members(self) -> Iterator[bytes]:
        """Decompress the concatenated members of a file."""
        in_bytes = ZSTD_IN_BYTES if self.kind == "zstd" else IN_BYTES
        pending, n_unpacked, begin = b"", 0, self.consumed
        while True:
            # Zero padding between members is legal in xz and common after gzip on tapes.
            while len(pending) < 6 and (more := self.read(in_bytes)):
                pending = (pending + more).lstrip(b"\x00")
            pending = pending.lstrip(b"\x00")
            if not pending:
                return
            if compression(pending) != self.kind and not MAGIC[self.kind].startswith(pending):
                self._ahead = pending + self._ahead
                foreign = "archive is followed by bytes that do not belong to it"
                raise _FaultError(foreign, "", "")
            member = _member(self.kind)
            fed = pending[1:]
            while not member.eof:
                if not pending and member.needs_input:
                    pending = self.read(in_bytes)
                    if not pending:
                        place = f"after {self.consumed:,} bytes"
                        raise _FaultError("archive ends early", place, "")
                    fed = fed[-IN_BYTES:] + pending
                try:
                    block = member.decompress(pending, self._block_bytes)
                except _DAMAGE as error:
                    place, detail = f"before byte {self.consumed:,}", str(error) or "unknown error"
                    # The next member is looked for here too: damage may show late.
                    self._ahead = fed + self._ahead
                    raise _FaultError("archive is damaged", place, detail) from None
                pending = b""
                n_unpacked += len(block)
                if n_unpacked > MAX_UNPACKED + MAX_UNPACKED_RATIO * (self.consumed - begin):
                    self._end, self._ahead = self._position, b""  # no other member is looked for
                    place = f"before byte {self.consumed:,}"
                    much = f"archive unpacks to more than {MAX_UNPACKED_RATIO} times its size"
                    raise _FaultError(much, place, "")
                if block:
                    yield block
            pending = member.unused_data

    def _seek_member(self) -> bool:
        magic = MAGIC["gzip"]
        try:
            while (found := self._ahead.find(magic)) < 0:
                more = self._fetch(IN_BYTES)
                if not more:
                    return False
                self._ahead = self._ahead[1 - len(magic) :] + more
        except _FaultError:  # told already
            return False
        self._ahead = self._ahead[found:]
        return True


class _Member:
    """Give the decompressors of zlib and zstandard the interface of those of bz2 and lzma."""

    eof, needs_input, unused_data = False, True, b""

    def __init__(self, unpacker: Any, *, is_bounded: bool) -> None:
        self._unpacker, self._is_bounded = unpacker, is_bounded
        self._rest = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._is_bounded:
            block = self._unpacker.decompress(self._rest + data, max_length)
            self._rest = self._unpacker.unconsumed_tail
        else:
            block = self._unpacker.decompress(data)
        self.eof, self.unused_data = self._unpacker.eof, self._unpacker.unused_data
        self.needs_input = not self._rest
        return bytes(block)


def _member(kind: str) -> Any:
    if kind == "gzip":
        return _Member(zlib.decompressobj(wbits=31), is_bounded=True)
    if kind == "zstd":
        unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        return _Member(unpacker.decompressobj(), is_bounded=False)
    if kind == "bzip2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_WINDOW_BYTES)


def in_utf8(blocks: Iterator[bytes], encoding: str = "") -> Iterator[bytes]:
    """Yield text in UTF-8 without its mark; a mark tells that it is in UTF-8 or UTF-16.

    Args:
        blocks: The text.
        encoding: That of a text without a mark, where it is not UTF-8.

    Raises:
        UnicodeDecodeError: It is not in the encoding that is named.
    """
    first = b""
    while len(first) < 3 and (more := next(blocks, b"")):
        first += more
    whole = chain([first.removeprefix(codecs.BOM_UTF8)], blocks)
    if first.startswith(UTF_16_MARKS):
        return (text.encode() for text in codecs.iterdecode(whole, "utf-16", "replace"))
    if encoding and not first.startswith(codecs.BOM_UTF8):
        return (text.encode() for text in codecs.iterdecode(whole, encoding))
    return whole


def read_line_blocks(
    blocks: Iterator[bytes], max_line_bytes: int, on_long: Callable[[], None]
) -> Iterator[bytes]:
    r"""Regroup bytes into blocks of whole lines, each ending in "\n".

    A line longer than `max_line_bytes` is reported, never held in memory, and replaced by an empty
    one, so that line numbers stay right.
    """
    held: list[bytes] = []
    n_held = 0
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        first = block.find(b"\n") + 1
        n_held += first or len(block)
        if n_held <= max_line_bytes:
            held.append(block[: cut or len(block)])
        else:
            held = []
        if cut:
            if n_held > max_line_bytes:
                on_long()
                held = [b"\n" + block[first:cut]]
            yield b"".join(held)
            held, n_held = [block[cut:]], len(block) - cut
    if n_held > max_line_bytes:
        on_long()
        yield b"\n"
    elif n_held:
        yield b"".join(held) + b"\n"
