"""Read a file's bytes, whatever its compression, with bounded memory and past what is damaged.

The compression is told from the first bytes, never from the file's name; nothing is raised. At a
fault a stream either ends, and `ByteStream.fault` says what was wrong (a dump is one whole), or it
reports the fault and goes on at the next member: crawls are stored as one member per page, so that
a fault costs one page. What comes before the fault is handed out, perhaps without the last 32 KiB.

Memory: one input block, one output block, and the decompressor's window, which may take at most
128 MiB; an archive that asks for more counts as damaged.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Protocol

import zstandard

IN_BYTES = 1 << 16
PLAIN_BYTES = 1 << 18
MAX_WINDOW_BYTES = 1 << 27

MAGIC = {
    "gzip": b"\x1f\x8b\x08",
    "bzip2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
    "zstd": b"\x28\xb5\x2f\xfd",
}
PLAIN = "plain"
UTF_16_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
UNSUPPORTED = {b"7z\xbc\xaf\x27\x1c": "7z", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_FOREIGN = "archive is followed by bytes that do not belong to it"

OnFault = Callable[[str], None]


class Readable(Protocol):
    """Anything bytes can be read from; it need not be seekable."""

    def read(self, size: int, /) -> bytes: ...  # noqa: D102


class StreamFault(Exception):  # noqa: N818 - it ends a stretch of bytes and never leaves a stream
    """The place where the bytes of a stream stop making sense."""

    def __init__(self, reason: str, place: str = "", detail: object = "") -> None:
        text = str(detail).rstrip(".")
        about = f" ({text})" if text else ""
        self.reason = reason + about
        """What was wrong, in the same words wherever it was."""
        super().__init__(" ".join(filter(None, (reason, place))) + about)


@dataclass(eq=False)
class ByteSource:
    """Hand out a file's raw bytes, counted, up to an optional end position."""

    file: Readable
    position: int = 0
    end: int | None = None
    _ahead: bytes = b""
    _at: int = 0
    """How much of what was read ahead is handed out; a place moves, bytes are not copied."""

    @property
    def consumed(self) -> int:
        """Return the position in the file up to which bytes were handed out."""
        return self.position - (len(self._ahead) - self._at)

    def peek(self, size: int) -> bytes:
        """Return the next bytes without handing them out; fewer only at the end."""
        while (missing := size - (len(self._ahead) - self._at)) > 0:
            more = self._fetch(missing)
            if not more:
                break
            self._ahead, self._at = self._ahead[self._at :] + more, 0
        return self._ahead[self._at : self._at + size]

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; empty at the end."""
        if self._at < len(self._ahead):
            taken = self._ahead[self._at : self._at + size]
            self._at += len(taken)
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

    def push_back(self, data: bytes) -> None:
        """Put bytes that were handed out in front again."""
        before = self._at - len(data)
        if before >= 0 and self._ahead.startswith(data, before):
            self._at = before
        else:
            self._ahead, self._at = data + self._ahead[self._at :], 0

    def seek(self, mark: bytes) -> bool:
        """Move to where a mark comes next; tell whether it does."""
        while (found := self._ahead.find(mark, self._at)) < 0:
            kept = max(self._at, len(self._ahead) - len(mark) + 1)
            more = self._fetch(IN_BYTES)
            self._ahead, self._at = self._ahead[kept:] + more, 0
            if not more:
                self._at = len(self._ahead)
                return False
        self._at = found
        return True

    def ends_early(self) -> StreamFault:
        """Make the fault of an archive that stops in the middle."""
        return StreamFault("archive ends early", f"after {self.consumed:,} bytes")

    def damaged(self, detail: object, again: bytes = b"") -> StreamFault:
        """Make the fault of an archive whose bytes cannot be decompressed, but read in part again.

        Whoever raises it keeps it in no variable: a frame that holds its own error lives, with its
        decompressor's window, until the garbage collector comes, one for each damaged member.
        """
        place = f"before byte {self.consumed:,}"
        self.push_back(again)
        return StreamFault("archive is damaged", place, detail or "unknown error")

    def _fetch(self, size: int) -> bytes:
        if self.end is not None:
            size = min(size, self.end - self.position)
        try:
            data = self.file.read(size) if size else b""
        except OSError as error:
            self.end = self.position  # a disk that failed is not asked again
            place = f"after {self.position:,} bytes"
            raise StreamFault("reading failed", place, error) from error
        self.position += len(data)
        return data


class _GzipMember:
    """Give zlib's decompressor the interface of bz2 and lzma."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int = PLAIN_BYTES) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


_Member = bz2.BZ2Decompressor | lzma.LZMADecompressor | _GzipMember
"""One compressed member."""

_MEMBERS: dict[str, Callable[[], _Member]] = {
    "gzip": _GzipMember,
    "bzip2": bz2.BZ2Decompressor,
    "xz": partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=MAX_WINDOW_BYTES),
}


def compression(start: bytes) -> str | None:
    """Tell the compression from a file's first bytes: gzip, bzip2, xz, zstd, or None."""
    for kind, magic in MAGIC.items():
        if start.startswith(magic):
            return kind
    return "zstd" if _SKIPPABLE.match(start) else None


@dataclass(eq=False)
class ByteStream:
    """Iterate over the decompressed bytes of a source."""

    source: ByteSource
    """The bytes as they are in the file."""
    kind: str | None = None
    """The compression; told from the first bytes by default."""
    block_bytes: int = 1 << 15
    """How many bytes come out at once, at most."""
    on_fault: OnFault | None = None
    """Called with a sentence for each damaged stretch, after which reading goes on at the next
    member; without it the stream ends at the first fault."""
    fault: str | None = None
    """Why the stream ended, if early."""

    def __iter__(self) -> Iterator[bytes]:
        goes_on = True
        while goes_on:
            try:
                yield from self._blocks()
                return
            except StreamFault as fault:
                self.fault = str(fault)
                if self.on_fault is None:
                    return
                self.on_fault(fault.reason)
            goes_on = self._seek_member()
            if goes_on:
                yield b"\n"  # so that a line cut by the fault does not swallow the next one

    def _blocks(self) -> Iterator[bytes]:
        if self.kind is None:
            self.kind = compression(self.source.peek(8)) or PLAIN
        if self.kind in _MEMBERS:
            yield from self._members(MAGIC[self.kind], _MEMBERS[self.kind])
        elif self.kind == "zstd":
            yield from _zstd_blocks(self.source)
        else:
            while block := self.source.read(max(PLAIN_BYTES, self.block_bytes)):
                yield block

    def _seek_member(self) -> bool:
        try:
            return self.kind in MAGIC and self.source.seek(MAGIC[self.kind])
        except StreamFault:  # told already
            return False

    def _members(self, magic: bytes, new: Callable[[], _Member]) -> Iterator[bytes]:
        """Decompress the concatenated members of a gzip, bzip2 or xz file."""
        pending = b""
        while True:
            # Zero padding between members is legal in xz and common after gzip on tapes.
            while len(pending) < len(magic) and (more := self.source.read(IN_BYTES)):
                pending = (pending + more).lstrip(b"\x00")
            pending = pending.lstrip(b"\x00")
            if not pending:
                return
            if not magic.startswith(pending[: len(magic)]):
                self.source.push_back(pending)
                raise StreamFault(_FOREIGN)
            member = new()
            yield from self._one_member(member, pending, len(magic))
            pending = member.unused_data

    def _one_member(self, member: _Member, pending: bytes, n_magic: int) -> Iterator[bytes]:
        # Where another member is looked for should this one be damaged, which may show late.
        fed = pending[n_magic:]
        while not member.eof:
            if not pending and member.needs_input:
                pending = self.source.read(IN_BYTES)
                if not pending:
                    raise self.source.ends_early()
                fed = fed[-IN_BYTES:] + pending
            try:
                block = member.decompress(pending, self.block_bytes)
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
                raise self.source.damaged(error, fed) from error
            pending = b""
            if block:
                yield block


def _zstd_blocks(source: ByteSource) -> Iterator[bytes]:
    """Decompress zstandard frames block by block, so that no call returns more than 128 KiB."""
    while source.peek(1):
        magic = source.read_exactly(4)
        if _SKIPPABLE.fullmatch(magic):
            n_left = int.from_bytes(source.read_exactly(4), "little")
            while n_left:
                n_left -= len(source.read_exactly(min(n_left, IN_BYTES)))
        elif magic == MAGIC["zstd"]:
            yield from _zstd_frame(source)
        else:
            source.push_back(magic)
            raise StreamFault(_FOREIGN)


def _zstd_frame(source: ByteSource) -> Iterator[bytes]:
    """Decompress one frame after its magic number (layout: RFC 8878, section 3.1.1)."""
    flags = source.read_exactly(1)
    single_segment = flags[0] & 0x20
    n_header = (0, 1, 2, 4)[flags[0] & 3] + (1 if single_segment else 0, 2, 4, 8)[flags[0] >> 6]
    header = source.read_exactly(n_header + (0 if single_segment else 1))
    frame = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
    data = MAGIC["zstd"] + flags + header
    is_last = False
    try:
        frame.decompress(data)
        while not is_last:
            head = source.read_exactly(3)
            number = int.from_bytes(head, "little")
            is_last, kind, size = bool(number & 1), number >> 1 & 3, number >> 3
            if kind == 3 or size > 1 << 17:
                raise source.damaged("a block of impossible size")
            data = head + source.read_exactly(1 if kind == 1 else size)
            if block := frame.decompress(data):
                yield block
        if flags[0] & 4:
            data = source.read_exactly(4)
            if block := frame.decompress(data):
                yield block
    except zstandard.ZstdError as error:
        raise source.damaged(error, data[1:]) from error


def read_blocks(file: Readable, on_fault: OnFault) -> Iterator[bytes]:
    """Yield the decompressed bytes of an open file in large blocks, past damaged stretches.

    Args:
        file: The open file.
        on_fault: Called with a sentence for each damaged stretch; the rest is still read.
    """
    return iter(ByteStream(ByteSource(file), block_bytes=1 << 20, on_fault=on_fault))


def in_utf8(blocks: Iterator[bytes], marks: Mapping[bytes, str] = UTF_16_MARKS) -> Iterator[bytes]:
    """Yield text in UTF-8, also where its first two bytes tell that it is in UTF-16.

    Args:
        blocks: The bytes of the text.
        marks: The encoding by these two bytes.
    """
    first = next(blocks, b"")
    encoding = marks.get(first[:2])
    whole = chain([first], blocks)
    if encoding is None:
        yield from whole
    else:
        yield from (text.encode() for text in codecs.iterdecode(whole, encoding, "replace"))


def read_line_blocks(
    blocks: Iterator[bytes], max_line_bytes: int, on_long: Callable[[], None]
) -> Iterator[bytes]:
    r"""Regroup bytes into blocks of whole lines, each ending in "\n".

    A line longer than `max_line_bytes` is reported, never held in memory, and replaced by an empty
    one, so that line numbers stay right.
    """
    held: list[bytes] = []
    n_held = 0
    too_long = False
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if not cut:
            n_held += len(block)
            too_long = too_long or n_held > max_line_bytes
            if too_long:
                held = []
            else:
                held.append(block)
            continue
        first = block.find(b"\n") + 1
        if too_long or n_held + first > max_line_bytes:
            on_long()
            yield b"\n" + block[first:cut]
        else:
            yield b"".join([*held, block[:cut]])
        held, n_held, too_long = [block[cut:]], len(block) - cut, False
    if too_long:
        on_long()
        yield b"\n"
    elif n_held:
        yield b"".join(held) + b"\n"
