"""Streams of documents: plain text and JSON lines, long texts in parts, bad ones as records.

Memory is bounded by the window, not by the file: a text of any length passes through in parts that
end with a paragraph, a sentence or at least a word.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from stamo.corpus.types import Document, Mention
from stamo.errors import CorpusFormatError
from stamo.linking.results import LinkedDocument

MAX_LINE_BYTES = 256 * 2**20
CHUNK_BYTES = 2**16
_BOUNDARIES = (("\n\n",), ("\n",), (". ", "! ", "? ", "。", "؟ ", "। "), (" ",))


@dataclass(frozen=True, slots=True)
class Part:
    """A document, or a part of a long one that starts at `offset`."""

    document: Document
    number: int | None = None
    """None when the document is whole."""
    offset: int = 0

    @property
    def id(self) -> str:
        """The document's id."""
        return self.document.id


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A document that could not be read, and why."""

    id: str
    error: str
    number: int | None = None


Source = Part | Unreadable


def find_cut(text: str, window: int, begin: int = 0) -> int:
    """Return where to cut at most `window` characters after `begin`, in the second half.

    The end of a paragraph is best, then of a line, a sentence, a word.
    """
    limit = begin + window
    for boundaries in _BOUNDARIES:
        cuts = [text.rfind(sign, begin + window // 2, limit) + len(sign) for sign in boundaries]
        found = [cut for cut, sign in zip(cuts, boundaries, strict=True) if cut >= len(sign)]
        if found:
            return max(found)
    return limit


def split_document(document: Document, window: int) -> Iterator[Part]:
    """Cut a document that is longer than the window; never inside one of its mentions."""
    text = document.text
    if len(text) <= window:
        yield Part(document)
        return
    begin = number = 0
    mentions = sorted(document.mentions, key=lambda m: m.start)
    while begin < len(text):
        end = len(text) if len(text) - begin <= window else find_cut(text, window, begin)
        for mention in mentions:
            if mention.start < end < mention.end:
                end = mention.start if mention.start > begin else mention.end
        inside = tuple(
            replace(m, start=m.start - begin, end=m.end - begin)
            for m in mentions
            if begin <= m.start and m.end <= end
        )
        piece = replace(document, text=text[begin:end], mentions=inside)
        yield Part(piece, number, begin)
        begin, number = end, number + 1


def merge_parts(linked: Iterable[LinkedDocument]) -> Iterator[LinkedDocument]:
    """Join the parts of long documents again."""
    waiting: list[LinkedDocument] = []
    for part in linked:
        if waiting and not part.part:
            yield _merge(waiting)
            waiting = []
        waiting.append(part)
    if waiting:
        yield _merge(waiting)


def _merge(parts: list[LinkedDocument]) -> LinkedDocument:
    if len(parts) == 1:
        return replace(parts[0], part=None)
    return LinkedDocument(
        parts[0].id,
        "".join(part.text for part in parts),
        tuple(mention for part in parts for mention in part.mentions),
        error=next((part.error for part in parts if part.error is not None), None),
    )


def read_path(path: Path, window: int, *, jsonl: bool | None = None) -> Iterator[Source]:
    """Read a file: JSON lines when it is called so (.jsonl, .ndjson), else one document of text."""
    as_jsonl = path.suffix in {".jsonl", ".ndjson"} if jsonl is None else jsonl
    try:
        with path.open("rb") as file:
            name = path.name if as_jsonl else str(path)
            yield from (read_jsonl if as_jsonl else read_text)(file, name, window)
    except OSError as error:
        reason = error.strerror or str(error)
        yield Unreadable(str(path), f"{path} cannot be read: {reason}; check the path.")


def read_text(stream: BinaryIO, name: str, window: int) -> Iterator[Source]:
    """Read one text in UTF-8, in parts as long as the window allows."""
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    rest, offset, number, more = "", 0, 0, True
    while more or rest:
        while more and len(rest) <= window:
            chunk = stream.read(CHUNK_BYTES)
            more = bool(chunk)
            try:
                rest += decode(chunk, not more)
            except UnicodeDecodeError as error:
                wrong = error.object[error.start]
                message = (
                    f"{name} is not valid UTF-8: byte 0x{wrong:02x} follows about character "
                    f"{offset + len(rest)}; convert it to UTF-8."
                )
                yield Unreadable(name, message, number or None)
                return
        end = len(rest) if not more and len(rest) <= window else find_cut(rest, window)
        whole = number == 0 and end == len(rest) and not more
        yield Part(Document(name, rest[:end]), None if whole else number, offset)
        rest, offset, number = rest[end:], offset + end, number + 1
    if not number:
        yield Part(Document(name, ""))


def read_jsonl(stream: BinaryIO, name: str, window: int) -> Iterator[Source]:
    """Read one document from each line; a bad line gives an `Unreadable` and nothing more."""
    for number, line in enumerate(_lines(stream), start=1):
        if not line.strip():
            continue
        fallback = f"{name}:{number}"
        if len(line) > MAX_LINE_BYTES:
            yield Unreadable(
                fallback,
                f"Line {number} of {name} has more than {MAX_LINE_BYTES} bytes; give long texts "
                "as plain text files.",
            )
            continue
        try:
            document = parse_document(line, fallback)
        except CorpusFormatError as error:
            yield Unreadable(fallback, str(error))
        else:
            yield from split_document(document, window)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines; of one that is too long only its beginning."""
    while line := stream.readline(MAX_LINE_BYTES + 1):
        yield line
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE_BYTES + 1)
            if not line:
                return


def parse_document(line: bytes, fallback_id: str) -> Document:
    """Turn a line of JSON into a document.

    The line holds `text`, and may hold `id`, `title` and `mentions`: a list of objects with `start`
    and `end`, or of [start, end].

    Raises:
        CorpusFormatError: It is not UTF-8, not JSON or not of this form.
    """
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CorpusFormatError(
            f"{fallback_id} is not valid UTF-8 (byte {error.start} of the line); convert it."
        ) from error
    except (ValueError, RecursionError) as error:
        raise CorpusFormatError(
            f"{fallback_id} is not valid JSON ({error}); give one JSON object a line."
        ) from error
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise CorpusFormatError(
            f'{fallback_id} has no "text"; give one object like {{"id": "a", "text": "b"}} a line.'
        )
    name = str(record["id"]) if record.get("id") is not None else fallback_id
    title = record.get("title")
    return Document(
        name,
        record["text"],
        parse_mentions(record.get("mentions") or [], record["text"], name),
        title if isinstance(title, str) else None,
    )


def parse_mentions(values: Any, text: str, name: str) -> tuple[Mention, ...]:
    """Turn JSON mentions into values, ordered by their start.

    Raises:
        CorpusFormatError: They are not of the documented form, or lie outside the text.
    """
    if not isinstance(values, list):
        raise CorpusFormatError(f'The "mentions" of {name!r} are no list; give a list of spans.')
    mentions = []
    for value in values:
        span = (value.get("start"), value.get("end")) if isinstance(value, dict) else value
        if not isinstance(span, list | tuple) or [type(x) for x in span] != [int, int]:
            raise CorpusFormatError(
                f"{name!r} has a mention {json.dumps(value)[:80]}; give "
                '{"start": n, "end": n} in characters.'
            )
        start, end = span
        given = value.get("surface") if isinstance(value, dict) else None
        surface = given if isinstance(given, str) else text[max(start, 0) : max(end, 0)]
        mentions.append(Mention(surface, start, end))
    return tuple(sorted(mentions, key=lambda m: (m.start, m.end)))
