"""Read a file's bytes, whatever its compression, with bounded memory and as far as it is intact.

The compression is told from the first bytes, never from the file's name.
An archive that ends early yields everything that was there; a damaged one yields what comes before
the damage, perhaps without the last 32 KiB. `ByteStream.fault` then says what was wrong; nothing is
raised.

Memory: one input block, one output block, and the decompressor's window, which may take at most
128 MiB; an archive that asks for more counts as damaged.
"""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import zstandard

from stamo.errors import DumpError
from stamo.system.members import MAX_WINDOW_BYTES, GzipMember, Member, xz_member

IN_BYTES = 1 << 16
OUT_BYTES = 1 << 15
PLAIN_BYTES = 1 << 18

GZIP = b"\x1f\x8b"
BZIP2 = b"BZh"
XZ = b"\xfd7zXZ\x00"
ZSTD = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
UNSUPPORTED = {b"7z\xbc\xaf\x27\x1c": "7z", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class StreamEndError(Exception):
    """End a stream at the place where its bytes stop making sense."""


class Source:
    """Hand out a file's raw bytes, counted, up to an optional end position."""

    def __init__(self, file: BinaryIO, position: int = 0, end: int | None = None) -> None:
        self._file = file
        self._end = end
        self._ahead = b""
        self._position = position

    @property
    def consumed(self) -> int:
        """Return the position in the file up to which bytes were handed out."""
        return self._position - len(self._ahead)

    def peek(self, size: int) -> bytes:
        """Return the next bytes without handing them out; `size` may only grow the look-ahead."""
        if len(self._ahead) < size:
            self._ahead += self._fetch(size - len(self._ahead))
        return self._ahead[:size]

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; empty at the end."""
        if self._ahead:
            taken, self._ahead = self._ahead[:size], self._ahead[size:]
            return taken
        return self._fetch(size)

    def read_exactly(self, size: int) -> bytes:
        """Return `size` bytes or end the stream with a fault."""
        data = self.read(size)
        while len(data) < size:
            more = self.read(size - len(data))
            if not more:
                raise self.ends_early()
            data += more
        return data

    def ends_early(self) -> StreamEndError:
        """Make the fault of an archive that stops in the middle."""
        return StreamEndError(f"archive ends early after {self.consumed:,} bytes")

    def damaged(self, detail: object) -> StreamEndError:
        """Make the fault of an archive whose bytes cannot be decompressed."""
        text = str(detail).rstrip(".") or "unknown error"
        return StreamEndError(f"archive is damaged before byte {self.consumed:,} ({text})")

    def _fetch(self, size: int) -> bytes:
        if self._end is not None:
            size = min(size, self._end - self._position)
        try:
            data = self._file.read(size) if size else b""
        except OSError as error:
            raise StreamEndError(
                f"reading failed after {self._position:,} bytes ({error})"
            ) from error
        self._position += len(data)
        return data


def _plain_blocks(source: Source) -> Iterator[bytes]:
    while block := source.read(PLAIN_BYTES):
        yield block


def _member_blocks(source: Source, magic: bytes, new: Callable[[], Member]) -> Iterator[bytes]:
    """Decompress the concatenated members of a gzip, bzip2 or xz file."""
    pending = b""
    while True:
        # Zero padding between members is legal in xz and common after gzip on tapes.
        while len(pending) < len(magic) and (more := source.read(IN_BYTES)):
            pending = (pending + more).lstrip(b"\x00")
        pending = pending.lstrip(b"\x00")
        if not pending:
            return
        if not magic.startswith(pending[: len(magic)]):
            raise StreamEndError("archive is followed by bytes that do not belong to it")
        member = new()
        yield from _one_member(source, member, pending)
        pending = member.unused_data


def _one_member(source: Source, member: Member, pending: bytes) -> Iterator[bytes]:
    while not member.eof:
        if not pending and member.needs_input:
            pending = source.read(IN_BYTES)
            if not pending:
                raise source.ends_early()
        try:
            block = member.decompress(pending, OUT_BYTES)
        except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
            raise source.damaged(error) from error
        pending = b""
        if block:
            yield block


def _zstd_blocks(source: Source) -> Iterator[bytes]:
    """Decompress zstandard frames block by block, so that no call returns more than 128 KiB."""
    while source.peek(1):
        magic = source.read_exactly(4)
        if ZSTD_SKIPPABLE.fullmatch(magic):
            n_left = int.from_bytes(source.read_exactly(4), "little")
            while n_left:
                n_left -= len(source.read_exactly(min(n_left, IN_BYTES)))
        elif magic == ZSTD:
            try:
                yield from _zstd_frame(source)
            except zstandard.ZstdError as error:
                raise source.damaged(error) from error
        else:
            raise StreamEndError("archive is followed by bytes that do not belong to it")


def _zstd_frame(source: Source) -> Iterator[bytes]:
    """Decompress one frame after its magic number (layout: RFC 8878, section 3.1.1)."""
    flags = source.read_exactly(1)
    single_segment = flags[0] & 0x20
    n_header = (0, 1, 2, 4)[flags[0] & 3] + (1 if single_segment else 0, 2, 4, 8)[flags[0] >> 6]
    header = source.read_exactly(n_header + (0 if single_segment else 1))
    frame = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
    frame.decompress(ZSTD + flags + header)
    is_last = False
    while not is_last:
        head = source.read_exactly(3)
        number = int.from_bytes(head, "little")
        is_last, kind, size = bool(number & 1), number >> 1 & 3, number >> 3
        if kind == 3 or size > 1 << 17:
            raise source.damaged("a block of impossible size")
        block = frame.decompress(head + source.read_exactly(1 if kind == 1 else size))
        if block:
            yield block
    if flags[0] & 4 and (block := frame.decompress(source.read_exactly(4))):
        yield block


def compression(start: bytes) -> str | None:
    """Tell the compression from a file's first bytes: gzip, bzip2, xz, zstd, or None."""
    for magic, kind in ((GZIP, "gzip"), (BZIP2, "bzip2"), (XZ, "xz"), (ZSTD, "zstd")):
        if start.startswith(magic):
            return kind
    return "zstd" if ZSTD_SKIPPABLE.match(start) else None


def detect(start: bytes, name: str) -> str:
    """Tell the format of a dump from its first bytes: a compression, or plain XML.

    Raises:
        DumpError: It is none of them.
    """
    if kind := compression(start):
        return kind
    if start.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"<"):
        return "plain"
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


class ByteStream:
    """Iterate over the decompressed bytes of a source; `fault` tells why it ended, if early."""

    def __init__(self, source: Source, name: str, kind: str | None = None) -> None:
        self.source = source
        self.fault: str | None = None
        try:
            self.kind = kind or detect(source.peek(64), name)
        except StreamEndError as fault:
            raise DumpError(f"{name} cannot be read: {fault}.") from fault

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._blocks()
        except StreamEndError as fault:
            self.fault = str(fault)

    def _blocks(self) -> Iterator[bytes]:
        if self.kind == "gzip":
            return _member_blocks(self.source, GZIP, GzipMember)
        if self.kind == "bzip2":
            return _member_blocks(self.source, BZIP2, bz2.BZ2Decompressor)
        if self.kind == "xz":
            return _member_blocks(self.source, XZ, xz_member)
        if self.kind == "zstd":
            return _zstd_blocks(self.source)
        return _plain_blocks(self.source)
