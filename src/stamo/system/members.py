"""One member of a gzip, bzip2 or xz file, behind one interface."""

from __future__ import annotations

import lzma
import zlib
from typing import Protocol

MAX_WINDOW_BYTES = 1 << 27
"""A decompressor's window at most; an archive that asks for more counts as damaged."""


class Member(Protocol):
    """One compressed member, as bz2 and lzma offer it."""

    @property
    def eof(self) -> bool: ...  # noqa: D102
    @property
    def needs_input(self) -> bool: ...  # noqa: D102
    @property
    def unused_data(self) -> bytes: ...  # noqa: D102
    def decompress(self, data: bytes, max_length: int = ...) -> bytes: ...  # noqa: D102


class GzipMember:
    """Give zlib's decompressor the interface of bz2 and lzma."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        """Tell whether the member is complete."""
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        """Tell whether more compressed bytes are needed to go on."""
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """Return what follows the member."""
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int = 1 << 18) -> bytes:
        """Return at most `max_length` bytes."""
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


def xz_member() -> Member:
    """Return a decompressor of one xz member."""
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_WINDOW_BYTES)
