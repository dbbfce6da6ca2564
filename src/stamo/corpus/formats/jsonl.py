"""Documents as lines of JSON: `{"id", "title", "date", "text", "mentions"}`; `text` is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.formats.base import UTF8_MARK, ReadItem, ReadTask
from stamo.corpus.skips import (
    NO_MENTION,
    BadRecordError,
    clean_id,
    clean_surrogates,
    cut_text,
    decode_utf8,
    make_id,
)
from stamo.corpus.types import Document, Mention
from stamo.system.arrays import Int64
from stamo.system.streams import read_line_blocks

_LINE_BREAK = ord("\n")
MAX_DATE = 40
_EXAMPLE = 'give one object like {"id": "a", "text": "b"} a line'
_LONG_LINE, _LONG_ADVICE = "line longer than the limit", "give long texts as plain text files"


def read_json_lines(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read one document per line; bad lines are counted and left out."""
    n = task.before

    def on_long() -> None:
        where = task.place if task.window is None else task.where("line", n + 1)
        task.skip(_LONG_LINE, where, advice=_LONG_ADVICE)

    for block in read_line_blocks(blocks, _most(task), on_long):
        n_lines = block.count(b"\n")
        if n + n_lines > task.first:
            for number, line, is_checked in _suspects(block, n, task):
                where = task.where("line", number)
                yield number, task.take(where, _read_line, line, number, is_checked)
        n += n_lines
        yield n, None


def _suspects(block: bytes, n: int, task: ReadTask) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the lines to look at, with their numbers and whether they are known to hold a name.

    The others are counted and left out: lines of JSON objects, by their first and last sign, that
    cannot contain an alias. What is no object is looked at, to be told what it is.
    """
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == _LINE_BREAK)
    rows = None
    if task.matcher and n >= task.first and _are_objects(block, ends):
        rows = task.matcher.lines_in_json(block, ends)
    if rows is None:
        for number, line in enumerate(block[:-1].split(b"\n"), n + 1):
            if number > task.first and line.strip():
                yield number, line, False
        return
    done = 0
    for row in [*rows, len(ends)]:
        # Counted just before the next suspect: who stops there has counted no line twice.
        if row > done:
            task.skip(NO_MENTION, task.place, row - done)
        done = row + 1
        if row < len(ends):
            yield n + row + 1, block[int(ends[row - 1]) + 1 if row else 0 : int(ends[row])], True


def _are_objects(block: bytes, ends: Int64) -> bool:
    codes = np.frombuffer(block, dtype=np.uint8)
    starts = np.append(0, ends[:-1] + 1)
    return bool((codes[starts] == ord("{")).all() and (codes[ends - 1] == ord("}")).all())


def _is_ruled_out(line: bytes, matcher: AliasMatcher) -> bool:
    """Tell of one line whether it is an object without any alias."""
    inside = line.removeprefix(UTF8_MARK).strip()
    is_object = inside[:1] == b"{" and inside[-1:] == b"}"
    return is_object and not matcher.may_be_in_json(line)


def _most(task: ReadTask) -> int:
    return task.limits.max_line_bytes or task.limits.max_record_bytes


def _read_line(line: bytes, number: int, is_checked: bool, where: str, task: ReadTask) -> Document:
    """Make a document of a line as the task wants it."""
    if len(line) > _most(task):
        raise BadRecordError(_LONG_LINE, _LONG_ADVICE)
    if task.matcher and not is_checked and _is_ruled_out(line, task.matcher):
        raise BadRecordError(NO_MENTION)
    line = line.removeprefix(UTF8_MARK)
    if task.window is not None:
        return document_as_written(parse_json(_decode(line)), where)
    record = parse_json(decode_utf8(line, where, task.on_skip))
    document = document_from_json(record, f"{task.place}#{number}")
    if len(document.text) > task.limits.max_characters:
        text = cut_text(document.text, task.limits, where, task.on_skip)
        inside = tuple(m for m in document.mentions if m.end <= len(text))
        return replace(document, text=text, mentions=inside)
    return document


def _decode(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte {error.start} of the line is wrong"
        raise BadRecordError("not valid UTF-8", f"{place}, convert it to UTF-8") from error


def parse_json(text: str) -> Any:
    """Parse JSON from an untrusted source.

    Raises:
        BadRecordError: It is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise BadRecordError("JSON is nested too deeply") from None
    except ValueError as error:
        raise BadRecordError("not valid JSON", f"give one object a line ({error})") from None


def document_to_json(document: Document) -> dict[str, Any]:
    """Return the plain values of a document; `document_from_json` reads them back."""
    record: dict[str, Any] = {"id": document.id, "text": document.text}
    if document.title is not None:
        record["title"] = document.title
    if document.date is not None:
        record["date"] = document.date
    if document.mentions:
        record["mentions"] = [
            {"surface": m.surface, "start": m.start, "end": m.end}
            | ({"entity": m.entity} if m.entity is not None else {})
            for m in document.mentions
        ]
    return record


def document_from_json(record: Any, place: str) -> Document:
    """Check and tidy the parsed JSON of one document.

    Args:
        record: The parsed JSON.
        place: Where it comes from; with the text's digest, the id of a document without one.

    Raises:
        BadRecordError: It does not have the documented form.
    """
    text = clean_surrogates(_text_of(record))
    if not text.strip():
        raise BadRecordError("empty text")
    given, title = record.get("id"), record.get("title")
    has_id = isinstance(given, str | int) and not isinstance(given, bool)
    return Document(
        id=(has_id and clean_id(str(given))) or make_id(place, text),
        text=text,
        mentions=tuple(map(_tidy, _mentions_of(record, text))),
        title=clean_surrogates(title) if isinstance(title, str) else None,
        date=_date_of(record),
    )


def document_as_written(record: Any, fallback_id: str) -> Document:
    """Take a document from its parsed JSON as it is.

    Raises:
        BadRecordError: It does not have the documented form.
    """
    text = _text_of(record)
    id, title = record.get("id"), record.get("title")
    return Document(
        fallback_id if id is None else str(id),
        text,
        tuple(replace(mention, entity=None) for mention in _mentions_of(record, text)),
        title if isinstance(title, str) else None,
        _date_of(record),
    )


def _text_of(record: Any) -> str:
    if not isinstance(record, dict):
        raise BadRecordError("not a JSON object", _EXAMPLE)
    text = record.get("text")
    if not isinstance(text, str):
        raise BadRecordError('no "text" string', _EXAMPLE)
    return text


def _date_of(record: dict[str, Any]) -> str | None:
    """Return the day, or the second in UTC, that a record names; None where it names none."""
    value = record.get("date")
    if not isinstance(value, str) or len(value) > MAX_DATE:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if len(value) <= len("2020-01-31"):
        return moment.date().isoformat()
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC).isoformat(timespec="seconds")


def _mentions_of(record: dict[str, Any], text: str) -> list[Mention]:
    """Return the mentions in order: objects with `start` and `end`, or pairs [start, end]."""
    values = record.get("mentions") or []
    if not isinstance(values, list):
        raise BadRecordError('"mentions" is not a list', "give a list of spans")
    return sorted((_mention(value, text) for value in values), key=lambda m: (m.start, m.end))


def _mention(value: Any, text: str) -> Mention:
    fields = value if isinstance(value, dict) else {}
    span = [fields.get("start"), fields.get("end")] if isinstance(value, dict) else value
    if not isinstance(span, list) or [type(place) for place in span] != [int, int]:
        raise BadRecordError("a mention without start and end", f"{json.dumps(value)[:80]} is one")
    start, end = span
    if not 0 <= start < end <= len(text):
        advice = f"{start}-{end} is not inside its {len(text)} characters"
        raise BadRecordError("a mention lies outside the text", advice)
    surface = fields.get("surface")
    if not isinstance(surface, str):
        surface = text[start:end]
    return Mention(surface, start, end, fields.get("entity"))


def _tidy(mention: Mention) -> Mention:
    if mention.entity is not None and not isinstance(mention.entity, str):
        raise BadRecordError("a mention's entity is not a string")
    return replace(mention, surface=clean_surrogates(mention.surface))
