"""Tables as CSV or TSV: the one reader of rows, and a table of documents, one a row."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from stamo.corpus.reading import (
    CONVERT,
    MAX_RECORD_BYTES,
    RECODE,
    BadRecordError,
    ReadItem,
    ReadTask,
    Record,
    Skip,
)
from stamo.corpus.types import clean_surrogates
from stamo.errors import CorpusFormatError
from stamo.system.streams import in_utf8, read_line_blocks

TEXT_NAMES = ("text", "content", "body", "article", "document", "sentence")
ID_NAMES = ("id", "doc_id", "document_id", "guid", "uri", "url", "link")
TITLE_NAMES = ("title", "headline")
MAX_COLUMNS = 10_000
_SHOWN = 12
_DELIMITERS = ",;\t|"


class RowError(CorpusFormatError):
    """A row that cannot be read; nothing behind it is. The message goes on behind "line 7 "."""

    def __init__(self, line: int, what: str, reason: str = "") -> None:
        super().__init__(what)
        self.line = line
        """The line of the file, from 1."""
        self.reason = reason or what
        """The same in a few words, to count it by."""


def read_rows(
    blocks: Iterable[bytes],
    *,
    max_row_bytes: int = MAX_RECORD_BYTES,
    delimiters: str = _DELIMITERS,
    strict: bool = True,
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table, each with the number of its last line; the header comes first.

    The sign that the first line has most of divides the columns. Text in UTF-16 is told by its
    mark; everything else is UTF-8.

    Args:
        blocks: The decompressed bytes.
        max_row_bytes: A longer row is refused: a quotation mark may be missing.
        delimiters: What may divide columns.
        strict: Refuse bytes that are no UTF-8, zero bytes, and signs behind a closing quotation
            mark. Otherwise bytes that are no UTF-8 come as half characters, for the caller to see.

    Raises:
        RowError: The table cannot be read on.
    """
    held = [0]  # bytes of the row that is read
    lines = _table_lines(blocks, max_row_bytes, strict, held)
    first = next(lines, "")
    csv.field_size_limit(max(csv.field_size_limit(), max_row_bytes))
    delimiter = max(delimiters, key=first.count)
    rows = csv.reader(chain([first], lines), delimiter=delimiter, strict=strict)
    try:
        for row in rows:
            held[0] = 0
            if len(row) > MAX_COLUMNS:
                raise RowError(rows.line_num, f"has more than {MAX_COLUMNS:,} columns")
            yield rows.line_num, row
    except csv.Error as error:
        reason = f"not a table of CSV ({error})"
        raise RowError(rows.line_num, f"is no CSV ({error})", reason) from error


def _table_lines(
    blocks: Iterable[bytes], max_bytes: int, strict: bool, held: list[int]
) -> Iterator[str]:
    too_long: list[bool] = []
    line_blocks = read_line_blocks(in_utf8(iter(blocks)), max_bytes, lambda: too_long.append(True))
    lines = (line for block in line_blocks for line in block[:-1].split(b"\n"))
    for number, line in enumerate(lines, start=1):
        held[0] += len(line) + 1
        if too_long or held[0] > max_bytes:
            what = f"is in a row of more than {max_bytes:,} bytes; is a quotation mark missing?"
            raise RowError(number, what, "row longer than the limit")
        try:
            text = line.decode("utf-8", "strict" if strict else "surrogateescape")
        except UnicodeDecodeError:
            what = f"is not UTF-8, nor is the table marked as UTF-16; {CONVERT}"
            raise RowError(number, what) from None
        if strict and "\0" in text:
            raise RowError(number, "holds a zero byte; give a table as text")
        yield f"{text}\n"


def choose_columns(names: Sequence[str], wanted: str = "") -> tuple[int, int | None, int | None]:
    """Find the columns of text, id and title by their names.

    Args:
        names: The names of all columns.
        wanted: The column of the text; the usual names are tried without it.

    Raises:
        BadRecordError: No column is the text.
    """
    lowered = [name.strip().lower() for name in names]
    usual = ([wanted.strip().lower()] if wanted else TEXT_NAMES, ID_NAMES, TITLE_NAMES)
    text, id, title = (
        next((lowered.index(n) for n in some if n in lowered), None) for some in usual
    )
    if text is None:
        shown = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
        raise BadRecordError(
            f"no column {wanted!r}" if wanted else "no column that is called text",
            f"its columns are {shown}; name the one with --text-column",
        )
    return text, None if id == text else id, None if title == text else title


def row_record(cells: Sequence[str], kind: str, number: int, task: ReadTask) -> Record:
    """Return the record of a row or item by its text, its id and its title."""
    text, id, title = cells
    place = f"{task.name}#{number}"
    return Record(text, task.where(kind, number), id or None, place, title or None)


def read_table(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read one document per row; bad rows are counted and left out."""
    number, rows = 0, read_rows(blocks, strict=False)
    try:
        _, names = next(rows, (0, []))
        text, id, title = choose_columns(names, task.text_column)
        for number, (_, row) in enumerate(rows, start=1):
            where = task.where("row", number)
            if row and len(row) != len(names):
                advice = f"it has {len(row)}, the header has {len(names)}"
                reason = "row with another number of columns than the header"
                yield Skip(reason, where, advice=advice)
            elif clean_surrogates(joined := "".join(row)) != joined:
                yield Skip("not valid UTF-8", where, advice=RECODE)
            elif row:
                cells = [row[i] if i is not None else "" for i in (text, id, title)]
                yield row_record(cells, "row", number, task)
    except RowError as error:
        is_long = error.reason.startswith("row longer")
        advice = "a quotation mark may be missing; nothing behind it was read" if is_long else ""
        yield Skip(error.reason, task.where("row", number + 1), advice=advice)
