"""How large the pages of a Parquet file unpack to, before any is unpacked.

A reader unpacks a page as a whole. The file's footer tells the size of all pages of a column
together, so that one page of a gigabyte hides among empty rows; only the heads of the pages tell.
They are structures of Thrift's compact protocol; the second field of each is the size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

_FIXED = {1: 0, 2: 0, 3: 1, 7: 8}
"""Bytes of values whose kind tells their size: true, false, a byte, a double."""
_BINARY, _LIST, _SET, _STRUCT = 8, 9, 10, 12
_UNPACKED, _STORED = 2, 3
"""The fields of a page's head that hold its size, unpacked and as it is stored."""


def largest_page(source: Path | BinaryIO, about: Any, names: list[str]) -> int:
    """Return the size of the largest page of some columns of a row group.

    Args:
        source: The file; its position moves.
        about: What its footer says of the row group.
        names: The columns.

    Raises:
        ValueError: The heads of the pages make no sense.
    """
    columns = (about.column(i) for i in range(about.num_columns))
    wanted = [column for column in columns if column.path_in_schema in names]
    with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
        sizes = (size for column in wanted for size in _page_sizes(file, column))
        return max(sizes, default=0)


def _page_sizes(file: BinaryIO, column: Any) -> Iterator[int]:
    first = column.dictionary_page_offset if column.has_dictionary_page else None
    at = column.data_page_offset if first is None else min(first, column.data_page_offset)
    end = at + column.total_compressed_size
    while at < end:
        file.seek(at)
        try:
            fields = _Head(file).read_struct()
            unpacked, stored = fields[_UNPACKED], fields[_STORED]
        except (KeyError, OverflowError, RecursionError) as error:
            raise ValueError("the head of a page is damaged") from error
        if stored < 0 or unpacked < 0:
            raise ValueError("a page has less than no bytes")
        yield unpacked
        at = file.tell() + stored


class _Head:
    """Reads a structure of Thrift's compact protocol, and of its fields the numbers."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def read_struct(self) -> dict[int, int]:
        """Read up to the structure's end; return its numbers by field."""
        numbers: dict[int, int] = {}
        field = 0
        while kind := self._byte():
            step, kind = kind >> 4, kind & 15
            field = field + step if step else self._number()
            if kind in (4, 5, 6):
                numbers[field] = self._number()
            else:
                self._skip(kind)
        return numbers

    def _skip(self, kind: int) -> None:
        if kind in _FIXED:
            self.file.seek(_FIXED[kind], 1)
        elif kind in (4, 5, 6):
            self._varint()
        elif kind == _BINARY:
            self.file.seek(self._varint(), 1)
        elif kind in (_LIST, _SET):
            head = self._byte()
            n_items = head >> 4 if head >> 4 < 15 else self._varint()
            if head & 15 in _FIXED:  # nothing is read, so no end of the file would stop a loop
                self.file.seek(n_items * (_FIXED[head & 15] or 1), 1)
            else:
                for _ in range(n_items):
                    self._skip(head & 15)
        elif kind == _STRUCT:
            self.read_struct()
        else:
            raise ValueError(f"a page's head has a field of kind {kind}")

    def _byte(self) -> int:
        byte = self.file.read(1)
        if not byte:
            raise ValueError("the head of a page ends early")
        return byte[0]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number in a page's head has no end")

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
