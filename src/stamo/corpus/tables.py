"""Records with named columns: which one is the text, and the document that a record makes.

Here also tables as CSV or TSV: a header with the names of the columns, then one document a row.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stamo.corpus.reading import (
    NO_MENTION,
    UTF8_MARK,
    BadRecordError,
    ReadItem,
    ReadTask,
    cut_text,
    decode_utf8,
    make_id,
)
from stamo.corpus.types import Document, clean_surrogates
from stamo.system.streams import in_utf8, read_line_blocks

TEXT_NAMES = ("text", "content", "body", "article", "document", "sentence")
ID_NAMES = ("id", "doc_id", "document_id", "guid", "uri", "url", "link")
TITLE_NAMES = ("title", "headline")
_SHOWN = 12
_DELIMITERS = ",;\t|"
_LONG_ROW = "row longer than the limit"
_LONG_ADVICE = "a quotation mark may be missing; nothing behind it was read"


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Where the parts of a document stand in a record."""

    text: int
    id: int | None = None
    title: int | None = None


def choose_columns(names: Sequence[str], wanted: str = "") -> RowColumns:
    """Find the columns of text, id and title by their names.

    Args:
        names: The names of all columns.
        wanted: The column of the text; the usual names are tried without it.

    Raises:
        BadRecordError: No column is the text.
    """
    lowered = [name.strip().lower() for name in names]

    def first(usual: Sequence[str]) -> int | None:
        return next((lowered.index(name) for name in usual if name in lowered), None)

    text = first([wanted.strip().lower()] if wanted else TEXT_NAMES)
    if text is None:
        shown = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
        raise BadRecordError(
            f"no column {wanted!r}" if wanted else "no column that is called text",
            f"its columns are {shown}; name the one with --text-column",
        )
    places = (first(ID_NAMES), first(TITLE_NAMES))
    id, title = (None if place == text else place for place in places)
    return RowColumns(text, id, title)


def row_document(
    text: str, id: str, title: str, number: int, where: str, task: ReadTask
) -> Document:
    """Turn one record into a document.

    Args:
        text: The text.
        id: The record's own id, or "".
        title: Its title, or "".
        number: Its number in the file.
        where: Where it is, for a person to look up.
        task: The file being read.

    Raises:
        BadRecordError: It is left out; the message is a short reason.
    """
    if task.window is not None:
        return Document(id or where, text, title=title or None)
    text, id, title = map(clean_surrogates, (text, id, title))
    if not text.strip():
        raise BadRecordError("empty text")
    if task.matcher and not task.matcher.may_be_in_text(text.encode()):
        raise BadRecordError(NO_MENTION)
    text = cut_text(text, task.limits, where, task.on_skip)
    id = task.id_of(id, where, text) if id else make_id(f"{task.place}#{number}", text)
    return Document(id, text, title=title or None)


def read_table(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
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
