"""Records with named columns: which one is the text, and the document that a record makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stamo.corpus.formats.base import ReadTask
from stamo.corpus.skips import NO_MENTION, BadRecordError, clean_surrogates, cut_text, make_id
from stamo.corpus.types import Document

TEXT_NAMES = ("text", "content", "body", "article", "document", "sentence")
ID_NAMES = ("id", "doc_id", "document_id", "guid", "uri", "url", "link")
TITLE_NAMES = ("title", "headline")
_SHOWN = 12


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
