"""Plain text: one file is one document, in UTF-8 or marked as UTF-16."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from stamo.corpus.formats.base import UTF8_MARK, UTF16_MARKS, ReadItem, ReadTask, read_whole
from stamo.corpus.parts import Part, ReadPart, Unreadable, find_cut
from stamo.corpus.skips import NO_MENTION, BadRecordError, cut_text, decode_utf8, make_id
from stamo.corpus.types import Document

_CHUNK_BYTES = 1 << 16


def read_text(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read the file as one document; one that is linked comes in parts."""
    if task.window is not None:
        yield from ((1, part) for part in _stream(blocks, task, task.window))
        return
    # Four bytes hold any character of UTF-8; one more tells that there is more.
    raw = read_whole(blocks, 4 * task.limits.max_characters + 1)
    yield 1, task.take(task.file, _tidy, raw) if task.first < 1 else None


def _tidy(raw: bytes, where: str, task: ReadTask) -> Document:
    if raw.startswith(UTF16_MARKS):
        text = raw.decode("utf-16", "replace")
    elif task.matcher and not task.matcher.may_be_in_text(raw):
        raise BadRecordError(NO_MENTION)
    else:
        text = decode_utf8(raw.removeprefix(UTF8_MARK), where, task.on_skip)
    text = cut_text(text, task.limits, where, task.on_skip)
    if not text.strip():
        raise BadRecordError("empty text")
    return Document(make_id(task.place, text), text)


def _stream(blocks: Iterator[bytes], task: ReadTask, window: int) -> Iterator[ReadPart]:
    """Yield the text in parts as long as the window allows."""
    name = task.file
    # Blocks are cut, so that what waits to be handed out stays short.
    chunks = (
        block[i : i + _CHUNK_BYTES] for block in blocks for i in range(0, len(block), _CHUNK_BYTES)
    )
    start = next(chunks, b"")
    encoding = "UTF-16" if start.startswith(UTF16_MARKS) else "UTF-8"
    decode = codecs.getincrementaldecoder(
        encoding if encoding == "UTF-16" else "utf-8-sig"
    )().decode
    rest, offset, number, more = "", 0, 0, True
    while more or rest:
        while more and len(rest) <= window:
            chunk, start = start or next(chunks, b""), b""
            more = bool(chunk)
            try:
                rest += decode(chunk, not more)
            except UnicodeDecodeError as error:
                wrong = error.object[error.start]
                message = (
                    f"{name} is not valid {encoding}: byte 0x{wrong:02x} follows about character "
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
