"""News feeds, RSS and Atom: one document for each item, its markup taken off.

The XML is read as a stream with entities switched off, so that it can neither reach other files
nor grow; a feed that is cut off gives the items before the cut.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from xml.sax import SAXException
from xml.sax.handler import ContentHandler, feature_namespaces

import numpy as np

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.reading import (
    NO_MENTION,
    UTF8_MARK,
    UTF16_MARKS,
    BadRecordError,
    Chunk,
    ReadChunk,
    ReadItem,
    ReadTask,
    Unreadable,
    clean_id,
    cut_text,
    decode_utf8,
    find_cut,
    make_id,
    read_whole,
)
from stamo.corpus.tables import choose_columns, row_document
from stamo.corpus.types import Document, Mention, clean_surrogates
from stamo.corpus.web import extract_html
from stamo.errors import need
from stamo.system.files import Int64
from stamo.system.streams import read_line_blocks

if TYPE_CHECKING:
    from xml.sax.xmlreader import IncrementalParser

    import pyarrow as pa
    import pyarrow.parquet as pq


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


def _stream(blocks: Iterator[bytes], task: ReadTask, window: int) -> Iterator[ReadChunk]:
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
        yield Chunk(Document(name, rest[:end]), None if whole else number, offset)
        rest, offset, number = rest[end:], offset + end, number + 1
    if not number:
        yield Chunk(Document(name, ""))


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
        mentions=tuple(map(_tidy_jsonl, _mentions_of(record, text))),
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


def _tidy_jsonl(mention: Mention) -> Mention:
    if mention.entity is not None and not isinstance(mention.entity, str):
        raise BadRecordError("a mention's entity is not a string")
    return replace(mention, surface=clean_surrogates(mention.surface))


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


MAX_FEED_BYTES = 64 << 20
MAX_FEED_DEPTH = 512
MAX_FEED_TAG = 4 << 20
"""Bytes of one tag with its attributes, or of a comment: the parser holds it until it ends."""
MAX_FEED_NAMES = 50_000
"""Different names of elements and attributes: the parser keeps them all."""

_ENCODING = re.compile(rb"\s*<\?xml\b[^<>]{0,200}?\bencoding\s*=\s*[\"']([\w.-]{1,40})[\"']")
_SEVERAL_BYTES = {
    **dict.fromkeys(("gb2312", "gbk", "x-gbk", "gb18030"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "windows-949"), "cp949"),
    **{"big5": "big5hkscs", "big5-hkscs": "big5hkscs", "euc-jp": "euc_jp"},
    "iso-2022-jp": "iso2022_jp",
}
"""Encodings that the parser does not know, each read as the largest that goes by its name."""
_ITEMS = {"item", "entry"}
_TEXTS = ("encoded", "content", "description", "summary")
_IDS = ("guid", "id", "link")
_FIELDS = {"title", *_TEXTS, *_IDS}
_BLOCKS = {"p", "div", "br", "li", "h1", "h2", "h3", "h4", "blockquote", "tr"}
_MARKUP = re.compile(r"<[a-zA-Z/!]|&[#\w]{1,30};")


def read_feed(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read one document per item."""
    number = 0
    feed = _FeedStream(task.limits.max_record_bytes)
    for block in blocks:
        for item in feed.items_of(block):
            number += 1
            where, is_new = task.where("item", number), number > task.first
            yield number, task.take(where, _document, item, number) if is_new else None
        if feed.fault:
            break
    feed.end()
    if feed.n_long:
        task.skip("item larger than the limit", task.file, feed.n_long)
    if feed.fault:
        task.skip(feed.fault, task.file, advice=f"{number} items before it were read")


class _FeedStream:
    """Reads a feed piece by piece; at a fault it says what is wrong and ends."""

    def __init__(self, max_item: int) -> None:
        make_parser = need("defusedxml.sax", "web", "A feed", package="defusedxml").make_parser
        self.fault = ""
        self._items = _Items(max_item)
        self._size = 0
        self._decode: Callable[[bytes], bytes | str] | None = None
        self._n_quiet = 0
        """Bytes since the last that meant something."""
        self._parser: IncrementalParser = make_parser()
        self._parser.setFeature(feature_namespaces, True)
        self._parser.setContentHandler(self._items)

    @property
    def n_long(self) -> int:
        """Items that were left out because they are too long."""
        return self._items.n_long

    def items_of(self, block: bytes) -> list[dict[str, str]]:
        """Return the items that end with this block."""
        self._size += len(block)
        if self._size > MAX_FEED_BYTES:
            self.fault = "feed larger than the limit"
            return []
        self._try(lambda: self._parser.feed(self._decoded(block)))
        self._n_quiet = 0 if self._items.hears() else self._n_quiet + len(block)
        if self._n_quiet > MAX_FEED_TAG:
            self.fault = self.fault or "tag longer than the limit"
        return self._items.take()

    def _decoded(self, block: bytes) -> bytes | str:
        """Decode what the parser cannot: encodings of several bytes, as the feed declares them."""
        if self._decode is None:
            self._decode = _decoder_of(block)
        return self._decode(block)

    def end(self) -> None:
        """Check that nothing is missing."""
        if not self.fault:
            self._try(self._parser.close)

    def _try(self, step: Callable[[], object]) -> None:
        from defusedxml.common import DefusedXmlException

        try:
            step()
        except DefusedXmlException:
            self.fault = "XML that declares entities"
        except _OddFeedError as error:
            self.fault = str(error)
        except LookupError:
            self.fault = "XML in an encoding that is not known"
        except (SAXException, ValueError):
            self.fault = "not well-formed XML"


def _decoder_of(start: bytes) -> Callable[[bytes], bytes | str]:
    """Return what decodes a feed that starts so; most encodings are left to the parser."""
    declared = _ENCODING.match(start)
    codec = _SEVERAL_BYTES.get(declared[1].decode("ascii").lower()) if declared else None
    return codecs.getincrementaldecoder(codec)("replace").decode if codec else bytes


def _document(item: dict[str, str], number: int, where: str, task: ReadTask) -> Document:
    texts = [item[name] for name in _TEXTS if item.get(name, "").strip()]
    body = plain_text(max(texts, key=len)) if texts else ""
    title = " ".join(plain_text(item.get("title", "")).split())
    # A headline is part of what an item says, and often all of it.
    text = f"{title}\n\n{body}".strip() if not body.startswith(title) else body
    id = next((item[name].strip() for name in _IDS if item.get(name, "").strip()), "")
    return row_document(text, id, title, number, where, task)


def plain_text(content: str) -> str:
    """Take the markup off a piece of a feed, which may be HTML or plain text.

    Raises:
        CorpusFormatError: The markup takes too much time or memory.
        MissingExtraError: There is markup and the extra `web` is not installed.
    """
    if not _MARKUP.search(content):
        return content.strip()
    return extract_html(f"<html><body><main>{content}</main></body></html>").text


class _OddFeedError(Exception):
    """The parser would have to keep too much."""


class _Items(ContentHandler):
    """Collects the fields of items as they come."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.n_long = 0
        self._max = max_bytes
        self._done: list[dict[str, str]] = []
        self._item: dict[str, str] | None = None
        self._field = ""
        self._parts: list[str] = []
        self._depth = 0
        """Of an element inside of a field."""
        self._level = 0
        self._names: set[Any] = set()
        self._hears = False
        self._size = 0

    def hears(self) -> bool:
        """Tell whether anything came since the last call."""
        heard, self._hears = self._hears, False
        return heard

    def take(self) -> list[dict[str, str]]:
        done, self._done = self._done, []
        return done

    def startElementNS(self, name: Any, qname: Any, attrs: Any) -> None:  # noqa: N802
        tag = name[1]
        self._hears = True
        self._level += 1
        if self._level > MAX_FEED_DEPTH:
            raise _OddFeedError(f"XML of more than {MAX_FEED_DEPTH} levels")
        self._names.update((name, *attrs.keys()))
        if len(self._names) > MAX_FEED_NAMES:
            raise _OddFeedError(f"XML of more than {MAX_FEED_NAMES} names")
        if self._item is None:
            if tag in _ITEMS:
                self._item, self._size = {}, 0
        elif not self._field:
            self._field, self._parts, self._depth = tag, [], 0
            if tag == "link" and (address := attrs.get((None, "href"))):
                self._parts.append(address)
        else:
            self._depth += 1
            if tag in _BLOCKS:
                self._parts.append("\n")

    def endElementNS(self, name: Any, qname: Any) -> None:  # noqa: N802
        self._level -= 1
        if self._item is None:
            return
        if self._field and self._depth:
            self._depth -= 1
        elif self._field:
            if self._field in _FIELDS:
                self._item.setdefault(self._field, "".join(self._parts))
            self._field = ""
        else:
            if self._size > self._max:
                self.n_long += 1
            else:
                self._done.append(self._item)
            self._item = None

    def characters(self, content: str) -> None:
        self._hears = True
        if self._item is None or not self._field:
            return
        self._size += len(content)
        if self._size > self._max:
            self._parts = []
        else:
            self._parts.append(content)
