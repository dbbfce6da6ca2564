"""Parquet, also as Hugging Face stores data sets: a folder of shards, one document a row.

Row groups are read column by column in small batches; values that repeat are kept once, however
often they stand there. A reader unpacks a page as a whole. The file's footer tells the size of all
pages of a column together, so that one page of a gigabyte hides among empty rows; only the heads of
the pages tell how much each unpacks to, before that is done. They are structures of Thrift's
compact protocol; the second field of each is the size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stamo.corpus.formats.base import ReadItem, ReadTask
from stamo.corpus.formats.rows import choose_columns, row_document
from stamo.corpus.skips import BadRecordError, decode_utf8

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

MAX_COLUMN_PAGE = 48 << 20
"""Bytes that one page may unpack to; reading takes up to seven times as much for a moment."""
_BATCH_ROWS = 256
_BATCH_BYTES = 1 << 25
_FIXED = {1: 0, 2: 0, 3: 1, 7: 8}
"""Bytes of values whose kind tells their size: true, false, a byte, a double."""
_BINARY, _LIST, _SET, _STRUCT = 8, 9, 10, 12
_UNPACKED, _STORED = 2, 3
"""The fields of a page's head that hold its size, unpacked and as it is stored."""


def read_parquet(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read one document per row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if task.path is None:
        task.skip(
            "Parquet from a pipe or inside an archive", task.file, advice="give the file itself"
        )
        return
    try:
        with pq.ParquetFile(task.path) as file:
            names = _names(file.schema_arrow, task)
            texts = [n for n in names.values() if _is_text(file.schema_arrow.field(n).type)]
        with pq.ParquetFile(task.path, read_dictionary=texts) as file:
            yield from _read_groups(file, names, task)
    except BadRecordError as error:
        task.skip(str(error), task.file, advice=error.advice)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        task.skip("damaged Parquet file", task.file, advice=f"the reader says: {reason}")
    for _ in blocks:  # so that progress counts its bytes
        pass


def _names(schema: pa.Schema, task: ReadTask) -> dict[str, str]:
    """Return the names of the columns of text, id and title, as far as there are such."""
    columns = choose_columns(schema.names, task.text_column)
    kind = schema.types[columns.text]
    if not _is_text(kind):
        raise BadRecordError(
            f"column {schema.names[columns.text]!r} is not text but {str(kind)[:40]}",
            "name another one with --text-column",
        )
    places = {"text": columns.text, "id": columns.id, "title": columns.title}
    names = {
        role: schema.names[place]
        for role, place in places.items()
        if place is not None and _is_plain(schema.types[place])
    }
    twice = next((name for name in names.values() if schema.names.count(name) > 1), None)
    if twice is not None:
        raise BadRecordError(f"two columns that are called {twice[:40]!r}", "name them apart")
    return names


def _is_plain(kind: pa.DataType) -> bool:
    """Tell whether values are texts or numbers: what has parts, or is a time, is no id or title."""
    import pyarrow.types as is_type

    return _is_text(kind) or bool(is_type.is_integer(kind) or is_type.is_floating(kind))


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as is_type

    if is_type.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(
        is_type.is_string(kind) or is_type.is_large_string(kind) or is_type.is_string_view(kind)
    )


def _read_groups(file: pq.ParquetFile, names: dict[str, str], task: ReadTask) -> Iterator[ReadItem]:
    number = task.before
    wanted = list(names.values())
    for group in range(*task.groups) if task.groups else range(file.num_row_groups):
        about = file.metadata.row_group(group)
        if number + about.num_rows <= task.first:
            number += about.num_rows
            continue
        _check_pages(about, wanted, task)
        n_rows = _batch_rows(about, wanted)
        for batch in file.iter_batches(n_rows, row_groups=[group], columns=wanted):
            values = {role: batch.column(name) for role, name in names.items()}
            for row in range(batch.num_rows):
                number += 1
                if number > task.first:
                    where = task.where("row", number)
                    text, id, title = (
                        _text(values[role][row], where, task) if role in values else ""
                        for role in ("text", "id", "title")
                    )
                    yield number, task.take(where, row_document, text, id, title, number)
        yield number, None


def _check_pages(about: Any, names: list[str], task: ReadTask) -> None:
    assert task.path is not None
    size = largest_page(task.path, about, names)
    if size > MAX_COLUMN_PAGE:
        raise BadRecordError(
            "page larger than the limit",
            f"some of its texts unpack to {size:,} bytes at once; write it with smaller pages "
            "(pyarrow: write_batch_size=16)",
        )


def _batch_rows(about: Any, names: list[str]) -> int:
    """Return how many rows are read at once: fewer where they are long."""
    columns = (about.column(i) for i in range(about.num_columns))
    size = sum(c.total_uncompressed_size for c in columns if c.path_in_schema in names)
    return max(1, min(_BATCH_ROWS, int(_BATCH_BYTES * about.num_rows // max(size, 1))))


def _text(value: pa.Scalar, where: str, task: ReadTask) -> str:
    try:
        known = value.as_py()
        return "" if known is None else str(known)
    except UnicodeDecodeError:
        bytes_of = value.value if hasattr(value, "dictionary") else value
        return decode_utf8(bytes_of.as_buffer().to_pybytes(), where, task.on_skip)


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
