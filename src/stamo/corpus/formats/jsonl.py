"""Documents as lines of JSON: `{"id", "title", "text", "mentions"}`, only `text` is needed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.skips import NO_MENTION, OnSkip, ReadLimits, Skip, cut_text, decode_utf8
from stamo.corpus.types import Document, Mention
from stamo.errors import CorpusFormatError
from stamo.system.streams import read_line_blocks

MAX_ID_CHARACTERS = 512
_LONG_LINE = "line longer than the limit"


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What a reader needs to know about the file it reads."""

    place: str
    """The file's name inside its source; part of the ids that documents get."""
    on_skip: OnSkip
    limits: ReadLimits
    matcher: AliasMatcher | None = None
    """Documents that cannot contain any of its aliases are left out before they are parsed."""
    first: int = 0
    """The record to start with, when an interrupted reading goes on."""

    def skip(self, reason: str, where: str, count: int = 1) -> None:
        """Count records that are left out."""
        self.on_skip(Skip(reason, where, count))


ReadItem = tuple[int, Document | None]
"""The number of records read so far, and the document that the last one gave, if any."""


def read_jsonl(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read one document per line; bad lines are counted and left out."""
    lines = read_line_blocks(
        blocks, task.limits.max_record_bytes, lambda: task.skip(_LONG_LINE, task.place)
    )
    n = 0
    for block in lines:
        n_lines = block.count(b"\n")
        if n + n_lines <= task.first:
            n += n_lines
        elif task.matcher and n >= task.first and not task.matcher.may_be_in_json(block):
            n += n_lines
            task.skip(NO_MENTION, task.place, n_lines)
        else:
            for line in block[:-1].split(b"\n"):
                n += 1
                if n > task.first and line.strip():
                    yield n, _read_line(line, n, task)
        yield n, None


def _read_line(line: bytes, number: int, task: ReadTask) -> Document | None:
    where = f"{task.place} line {number}"
    if len(line) > task.limits.max_record_bytes:
        task.skip(_LONG_LINE, where)
        return None
    if task.matcher and not task.matcher.may_be_in_json(line):
        task.skip(NO_MENTION, where)
        return None
    try:
        record = parse_json(decode_utf8(line.removeprefix(b"\xef\xbb\xbf"), where, task.on_skip))
        document = document_from_json(record, f"{task.place}#{number}")
    except CorpusFormatError as error:
        task.skip(str(error), where)
        return None
    if len(document.text) > task.limits.max_characters:
        text = cut_text(document.text, task.limits, where, task.on_skip)
        inside = tuple(m for m in document.mentions if m.end <= len(text))
        return Document(document.id, text, inside, document.title)
    return document


def parse_json(text: str) -> Any:
    """Parse JSON from an untrusted source.

    Raises:
        CorpusFormatError: It is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise CorpusFormatError("JSON is nested too deeply") from None
    except ValueError:
        raise CorpusFormatError("not valid JSON") from None


def document_to_json(document: Document) -> dict[str, Any]:
    """Return the plain values of a document; `document_from_json` reads them back."""
    record: dict[str, Any] = {"id": document.id, "text": document.text}
    if document.title is not None:
        record["title"] = document.title
    if document.mentions:
        record["mentions"] = [
            {"surface": m.surface, "start": m.start, "end": m.end}
            | ({"entity": m.entity} if m.entity is not None else {})
            for m in document.mentions
        ]
    return record


def document_from_json(record: Any, place: str) -> Document:
    """Check and convert the parsed JSON of one document.

    Args:
        record: The parsed JSON.
        place: Where it comes from; with the text's digest, the id of a document without one.

    Raises:
        CorpusFormatError: It does not have the documented form; the message is a short reason.
    """
    if not isinstance(record, dict):
        raise CorpusFormatError("not a JSON object")
    text = record.get("text")
    if not isinstance(text, str):
        raise CorpusFormatError('no "text" string')
    text = clean_surrogates(text)
    if not text.strip():
        raise CorpusFormatError("empty text")
    title = record.get("title")
    return Document(
        id=_id_of(record.get("id")) or make_id(place, text),
        text=text,
        mentions=_mentions(record.get("mentions", []), text),
        title=clean_surrogates(title) if isinstance(title, str) else None,
    )


def make_id(place: str, text: str) -> str:
    """Make an id that stays the same on every machine and differs for different texts."""
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{clean_id(place)}:{digest}"


def clean_id(value: str) -> str:
    """Return a printable id of bounded length; what is cut is replaced by a digest."""
    printable = "".join(c if c.isprintable() else "�" for c in clean_surrogates(value)).strip()
    if len(printable) <= MAX_ID_CHARACTERS:
        return printable
    digest = hashlib.blake2b(printable.encode(), digest_size=6).hexdigest()
    return f"{printable[: MAX_ID_CHARACTERS - 16]}~{digest}"


def clean_surrogates(text: str) -> str:
    r"""Replace lone surrogates, which JSON escapes can smuggle in and no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Escapes may also spell a pair one by one, which is a character.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _id_of(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return clean_id(str(value))


def _mentions(value: object, text: str) -> tuple[Mention, ...]:
    if not isinstance(value, list):
        raise CorpusFormatError('"mentions" is not a list')
    mentions = sorted((_mention(item, text) for item in value), key=lambda m: (m.start, m.end))
    return tuple(mentions)


def _mention(item: object, text: str) -> Mention:
    if not isinstance(item, dict):
        raise CorpusFormatError("a mention is not a JSON object")
    start, end, entity = item.get("start"), item.get("end"), item.get("entity")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
        raise CorpusFormatError("a mention lies outside the text")
    if entity is not None and not isinstance(entity, str):
        raise CorpusFormatError("a mention's entity is not a string")
    surface = item.get("surface", text[start:end])
    if not isinstance(surface, str):
        raise CorpusFormatError("a mention's surface is not a string")
    return Mention(clean_surrogates(surface), start, end, entity)
