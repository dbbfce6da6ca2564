"""Stream the bytes of a possibly compressed file in bounded memory, past damaged stretches.

The compression is told from the first bytes. Where a gzip, bzip2 or xz member is damaged, reading
goes on at the next member: crawls are stored as one member per page, so a fault costs one page.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import zstandard

from stamo.system.members import MAX_WINDOW_BYTES, GzipMember, Member, xz_member

IN_BYTES = 1 << 18
OUT_BYTES = 1 << 20

OnFault = Callable[[str], None]


class Readable(Protocol):
    """Anything bytes can be read from; it need not be seekable."""

    def read(self, size: int = ..., /) -> bytes: ...  # noqa: D102


class _Format(NamedTuple):
    magic: bytes
    new: Callable[[], Member]


_FORMATS = (
    _Format(b"\x1f\x8b\x08", GzipMember),
    _Format(b"BZh", bz2.BZ2Decompressor),
    _Format(b"\xfd7zXZ\x00", xz_member),
)
_ZSTD = b"\x28\xb5\x2f\xfd"
_LONGEST_MAGIC = 6


def read_blocks(file: Readable, on_fault: OnFault) -> Iterator[bytes]:
    """Yield the decompressed bytes of an open file.

    Args:
        file: The open file.
        on_fault: Called with a sentence for each damaged stretch; the rest is still read.
    """
    head = _read(file, IN_BYTES, on_fault)
    while 0 < len(head) < _LONGEST_MAGIC and (more := _read(file, IN_BYTES, on_fault)):
        head += more
    for form in _FORMATS:
        if head.startswith(form.magic):
            yield from _read_members(head, file, form, on_fault)
            return
    if head.startswith(_ZSTD):
        yield from _read_zstd(head, file, on_fault)
        return
    while head:
        yield head
        head = _read(file, OUT_BYTES, on_fault)


def _read(file: Readable, size: int, on_fault: OnFault) -> bytes:
    try:
        return file.read(size)
    except OSError as error:
        on_fault(f"reading failed ({error})")
        return b""


def _read_members(
    pending: bytes, file: Readable, form: _Format, on_fault: OnFault
) -> Iterator[bytes]:
    while pending := _find_member(pending, file, form, on_fault):
        member = form.new()
        while not member.eof:
            if member.needs_input and not pending:
                pending = _read(file, IN_BYTES, on_fault)
                if not pending:
                    on_fault("compressed data ends early")
                    return
            try:
                block = member.decompress(pending, OUT_BYTES)
            except (zlib.error, lzma.LZMAError, OSError, ValueError) as error:
                on_fault(f"compressed data is damaged ({error})")
                # Skip this member's own magic, so that the search finds a later one.
                pending = pending[len(form.magic) :]
                break
            pending = b""
            if block:
                yield block
        else:
            pending = member.unused_data


def _find_member(pending: bytes, file: Readable, form: _Format, on_fault: OnFault) -> bytes:
    """Return the bytes from the next member's magic on; empty at the end of the file."""
    while True:
        found = pending.find(form.magic)
        if found >= 0:
            return pending[found:]
        more = _read(file, IN_BYTES, on_fault)
        if not more:
            return b""
        pending = pending[1 - len(form.magic) :] + more


def _read_zstd(head: bytes, file: Readable, on_fault: OnFault) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    source: Any = _Rejoined(head, file)  # zstandard only calls `read`
    reader = decompressor.stream_reader(source, read_across_frames=True)
    while True:
        try:
            block = reader.read(OUT_BYTES)
        except (zstandard.ZstdError, OSError) as error:
            on_fault(f"compressed data is damaged ({error})")
            return
        if not block:
            return
        yield block


class _Rejoined:
    """A file whose first bytes were already taken."""

    def __init__(self, head: bytes, file: Readable) -> None:
        self._head = head
        self._file = file

    def read(self, size: int = IN_BYTES) -> bytes:
        if self._head:
            taken, self._head = self._head[:size], self._head[size:]
            return taken
        return self._file.read(size)


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
            held = [] if too_long else [*held, block]
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
