"""Tables as CSV or TSV: a header with the names of the columns, then one document a row."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from stamo.corpus.formats.base import UTF8_MARK, ReadItem, ReadTask
from stamo.corpus.formats.rows import RowColumns, choose_columns, row_document
from stamo.corpus.skips import BadRecordError, decode_utf8
from stamo.corpus.types import Document
from stamo.system.streams import in_utf8, read_line_blocks

_DELIMITERS = ",;\t|"
_LONG_ROW = "row longer than the limit"
_LONG_ADVICE = "a quotation mark may be missing; nothing behind it was read"


class TextTable:
    """A table of texts; only a file's name tells it from plain text."""

    suffixes = (".csv", ".tsv")
    begins = None

    def read(self, blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
        """Read one document per row; bad rows are counted and left out."""
        lines = _Lines(blocks, task)
        csv.field_size_limit(max(csv.field_size_limit(), lines.limit))
        rows = csv.reader(lines, delimiter=lines.delimiter)
        number = -1
        try:
            names = next(rows, [])
            columns = choose_columns(names, task.text_column)
            for number, row in enumerate(rows, start=1):
                lines.n_held = 0
                where, is_new = task.where("row", number), number > task.first and row
                record = (row, len(names), columns, number)
                yield number, task.take(where, _document, *record) if is_new else None
        except BadRecordError as error:
            where = task.file if number < 0 else task.where("row", number + 1)
            task.skip(str(error), where, advice=error.advice)
        except csv.Error as error:
            task.skip(f"not a table of CSV ({error})", task.where("row", max(number, 0) + 1))


def _document(
    row: list[str], n_columns: int, columns: RowColumns, number: int, where: str, task: ReadTask
) -> Document:
    if len(row) != n_columns:
        reason = "row with another number of columns than the header"
        raise BadRecordError(reason, f"it has {len(row)}, the header has {n_columns}")
    id = row[columns.id] if columns.id is not None else ""
    title = row[columns.title] if columns.title is not None else ""
    return row_document(row[columns.text], id, title, number, where, task)


class _Lines:
    """The lines of a table, decoded; what one row may hold is bounded, quotes open or not."""

    def __init__(self, blocks: Iterator[bytes], task: ReadTask) -> None:
        self._task = task
        self.limit = task.limits.max_record_bytes
        self.n_held = 0
        self._too_long = False
        self._lines = self._split(blocks)
        self._ahead: bytes | None = next(self._lines, b"")
        self._ahead = self._ahead.removeprefix(UTF8_MARK)
        header = self._ahead.decode("utf-8", "replace")
        self.delimiter = max(_DELIMITERS, key=header.count)

    def _split(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        def on_long() -> None:
            self._too_long = True

        for block in read_line_blocks(in_utf8(blocks), self.limit, on_long):
            yield from (
                block.splitlines(keepends=True)
                if b"\r" not in block
                else (line + b"\n" for line in block[:-1].split(b"\n"))
            )

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line, self._ahead = self._ahead, None
        if line is None:
            line = next(self._lines)
        self.n_held += len(line)
        if self._too_long or self.n_held > self.limit:
            raise BadRecordError(_LONG_ROW, _LONG_ADVICE)
        return decode_utf8(line, self._task.file, self._task.on_skip)
