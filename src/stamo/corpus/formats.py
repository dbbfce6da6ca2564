"""Formats that hold texts or records: plain text, JSON lines, Parquet, news feeds.

Each is a function from the decompressed bytes of a file to its records; see `corpus.reading`.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import numpy as np

from stamo.corpus.reading import (
    MAX_CHARACTERS,
    MAX_ITEMS,
    MAX_LINKED_LINE,
    MAX_RECORD_BYTES,
    NO_MENTION,
    RECODE,
    BadRecordError,
    Chunk,
    ReadItem,
    ReadTask,
    Record,
    Skip,
    Unreadable,
    decode,
    find_cut,
    finish_record,
    read_whole,
)
from stamo.corpus.tables import choose_columns, row_record
from stamo.corpus.types import Document, Mention
from stamo.errors import CorpusFormatError, need
from stamo.system.streams import MAX_UNPACKED, MAX_UNPACKED_RATIO, read_line_blocks


def read_text(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read the file as one document; one that is linked comes in chunks."""
    if task.window is not None:
        yield from _text_chunks(blocks, task.file, task.window)
        return
    # Four bytes hold any character of UTF-8; one more tells that there is more.
    raw = read_whole(blocks, 4 * MAX_CHARACTERS + 1)
    if task.matcher and not task.matcher.may_be_in_text(raw):
        yield Skip(NO_MENTION, task.file)
    else:
        text = decode(raw, is_whole=len(raw) <= 4 * MAX_CHARACTERS)
        yield Record(text, task.file, is_checked=True)


def _text_chunks(blocks: Iterator[bytes], name: str, window: int) -> Iterator[ReadItem]:
    """Yield a text in chunks as long as the window allows, holding little more than one."""
    # Blocks are cut, so that what waits to be handed out stays short.
    pieces = (block[i : i + (1 << 16)] for block in blocks for i in range(0, len(block), 1 << 16))
    decoder = codecs.getincrementaldecoder("utf-8")()
    piece = next(pieces, b"")
    rest, offset, number, more = "", 0, 0, True
    while more or rest:
        while more and len(rest) <= window:
            more = bool(piece)
            try:
                rest += decoder.decode(piece, not more)
            except UnicodeDecodeError as error:
                message = (
                    f"{name} is not valid UTF-8: byte 0x{error.object[error.start]:02x} "
                    f"follows about character {offset + len(rest)}; {RECODE}."
                )
                yield Unreadable(name, message, number or None)
                return
            piece = next(pieces, b"")
        end = len(rest) if not more and len(rest) <= window else find_cut(rest, window)
        is_whole = number == 0 and end == len(rest) and not more
        yield Chunk(Document(name, rest[:end]), None if is_whole else number, offset)
        rest, offset, number = rest[end:], offset + end, number + 1
    if not number:
        yield Chunk(Document(name, ""))


MAX_DATE = 40
MAX_PARTS = 500_000
"""Objects and lists of a line of JSON; each takes a hundred bytes and more."""
MAX_MENTIONS = 100_000
_EXAMPLE = 'give one object like {"id": "a", "text": "b"} a line'


def read_json_lines(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read one document per line; bad lines are counted and left out."""
    limit = MAX_RECORD_BYTES if task.window is None else MAX_LINKED_LINE
    n, n_long = task.before, 0

    def count_long() -> None:
        nonlocal n_long
        n_long += 1

    for block in read_line_blocks(blocks, limit, count_long):
        if n_long:
            n_long, where = 0, task.where("line", n + 1)
            advice = "give long texts as plain text files"
            yield Skip("line longer than the limit", where, advice=advice)
        codes = np.frombuffer(block, dtype=np.uint8)
        ends = np.flatnonzero(codes == ord("\n"))
        starts = np.append(0, ends[:-1] + 1)
        # Lines are ruled out all at once where each is an object by its first and last sign.
        are_objects = (codes[starts] == ord("{")).all() and (codes[ends - 1] == ord("}")).all()
        rows = task.matcher.lines_in_json(block, ends) if task.matcher and are_objects else None
        chosen = np.flatnonzero(ends > starts).tolist() if rows is None else rows
        done = 0
        for row in [*chosen, len(ends)]:
            # Counted just before the next line, so that who stops there has counted no other.
            if rows is not None and row > done:
                yield Skip(NO_MENTION, task.name, row - done)
            done = row + 1
            if row == len(ends):
                break
            line = block[int(starts[row]) : int(ends[row])]
            if line.strip():
                yield _read_line(line, n + row + 1, rows is not None, task)
        n += len(ends)


def _read_line(line: bytes, number: int, is_checked: bool, task: ReadTask) -> Record | Skip:
    where, inside = task.where("line", number), line.strip()
    is_object = inside[:1] == b"{" and inside[-1:] == b"}"
    if task.matcher and not is_checked and is_object and not task.matcher.may_be_in_json(line):
        return Skip(NO_MENTION, where)
    try:
        return _json_record(parse_json(decode(line)), where, f"{task.name}#{number}")
    except BadRecordError as error:
        return Skip(str(error), where, advice=error.advice)


def parse_json(text: str) -> Any:
    """Parse JSON from an untrusted source.

    Raises:
        BadRecordError: It is not JSON, has too many parts, or is nested too deeply.
    """
    if text.count("{") + text.count("[") > MAX_PARTS:
        raise BadRecordError(f"JSON of more than {MAX_PARTS:,} parts")
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
    return finish_record(_json_record(record, place, place), ReadTask(place, place))


def _json_record(record: Any, where: str, place: str) -> Record:
    if not isinstance(record, dict):
        raise BadRecordError("not a JSON object", _EXAMPLE)
    text, title, values = record.get("text"), record.get("title"), record.get("mentions") or []
    if not isinstance(text, str):
        raise BadRecordError('no "text" string', _EXAMPLE)
    if not isinstance(values, list):
        raise BadRecordError('"mentions" is not a list', "give a list of spans")
    if len(values) > MAX_MENTIONS:
        raise BadRecordError(f"more than {MAX_MENTIONS:,} mentions", "give it in several documents")
    mentions = sorted((_mention(value, text) for value in values), key=lambda m: (m.start, m.end))
    title = title if isinstance(title, str) else None
    return Record(text, where, record.get("id"), place, title, mentions, _date_of(record), True)


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


def _mention(value: Any, text: str) -> Mention:
    """Read a mention: an object with `start` and `end`, or a pair [start, end]."""
    fields = value if isinstance(value, dict) else {}
    span = [fields.get("start"), fields.get("end")] if isinstance(value, dict) else value
    if not isinstance(span, list) or [type(offset) for offset in span] != [int, int]:
        raise BadRecordError("a mention without start and end", f"{json.dumps(value)[:80]} is one")
    start, end = span
    if not 0 <= start < end <= len(text):
        advice = f"{start}-{end} is not inside its {len(text)} characters"
        raise BadRecordError("a mention lies outside the text", advice)
    surface = fields.get("surface")
    if not isinstance(surface, str):
        surface = text[start:end]
    return Mention(surface, start, end, fields.get("entity"))


_BATCH_ROWS = 256
_BATCH_BYTES = 1 << 25


def read_parquet(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read one document per row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not task.table:
        reason = "Parquet from a pipe or inside an archive"
        yield Skip(reason, task.file, advice="give the file itself")
        return
    try:
        with pq.ParquetFile(task.table) as file:
            names = _text_columns(file.schema_arrow, task)
            kinds = {name: file.schema_arrow.field(name).type for name in names if name}
        texts = [name for name, kind in kinds.items() if _is_text(kind)]
        with pq.ParquetFile(task.table, read_dictionary=texts) as file:
            yield from _read_groups(file, names, task)
    except BadRecordError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        yield Skip("damaged Parquet file", task.file, advice=f"the reader says: {reason}")
    for _ in blocks:  # so that progress counts its bytes
        pass


def _is_text(kind: Any) -> bool:
    values = kind.value_type if hasattr(kind, "index_type") else kind  # that of a dictionary
    return str(values) in ("string", "large_string", "string_view")


def _text_columns(schema: Any, task: ReadTask) -> list[str]:
    """Return the names of the columns of text, id and title; "" where there is none."""
    import pyarrow.types as is_type

    places = choose_columns(schema.names, task.text_column)
    kind = schema.types[places[0]]
    if not _is_text(kind):
        raise BadRecordError(
            f"column {schema.names[places[0]]!r} is not text but {str(kind)[:40]}",
            "name another one with --text-column",
        )
    names = []
    for place in places:
        # What has parts, or is a time, is no id or title.
        kind = None if place is None else schema.types[place]
        is_plain = kind and (
            _is_text(kind) or is_type.is_integer(kind) or is_type.is_floating(kind)
        )
        names.append(schema.names[place] if is_plain else "")
    twice = next((name for name in names if name and schema.names.count(name) > 1), None)
    if twice is not None:
        raise BadRecordError(f"two columns that are called {twice[:40]!r}", "name them apart")
    return names


def _read_groups(file: Any, names: list[str], task: ReadTask) -> Iterator[ReadItem]:
    number = task.before
    wanted = [name for name in names if name]
    for group in range(*task.groups) if task.groups else range(file.num_row_groups):
        about = file.metadata.row_group(group)
        columns = [about.column(i) for i in range(about.num_columns)]
        columns = [column for column in columns if column.path_in_schema in wanted]
        stored = sum(column.total_compressed_size for column in columns)
        unpacked = sum(column.total_uncompressed_size for column in columns)
        if about.num_rows > MAX_ITEMS + stored // 2:
            raise BadRecordError(
                "more records than its bytes hold",
                f"{about.num_rows:,} rows lie in {stored:,} bytes",
            )
        if unpacked > max(MAX_UNPACKED, MAX_UNPACKED_RATIO * stored):
            advice = f"{stored:,} bytes of its texts unpack to {unpacked:,}"
            raise BadRecordError("texts larger than the limit", advice)
        # Fewer rows at once where they are long.
        n_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES * about.num_rows // max(unpacked, 1)))
        for batch in file.iter_batches(n_rows, row_groups=[group], columns=wanted):
            columns = [batch.column(name) if name else repeat(None) for name in names]
            for row in zip(*columns, strict=False):
                number += 1
                try:
                    values = [None if value is None else value.as_py() for value in row]
                except UnicodeDecodeError:
                    yield Skip("not valid UTF-8", task.where("row", number))
                    continue
                cells = ["" if value is None else str(value) for value in values]
                yield row_record(cells, "row", number, task)


MAX_FEED_BYTES = 64 << 20
MAX_FEED_DEPTH = 512
MAX_FEED_ITEMS = 100_000
MAX_ITEM_ELEMENTS = 200_000
_ENCODING = re.compile(rb"\s*<\?xml\b[^<>]{0,200}?\bencoding\s*=\s*[\"']([\w.-]{1,40})[\"']")
_SEVERAL_BYTES = {
    **{"gb2312": "gb18030", "gbk": "gb18030", "gb18030": "gb18030", "big5": "big5hkscs"},
    **{"shift_jis": "cp932", "euc-jp": "euc_jp", "iso-2022-jp": "iso2022_jp", "euc-kr": "cp949"},
    "utf-16": "utf-8",
}
"""Encodings that the parser does not know, each read as the largest that goes by its name; what is
in UTF-16 comes here in UTF-8."""
_TEXTS = ("encoded", "content", "description", "summary")
_IDS = ("guid", "id", "link")
_BLOCKS = {"p", "div", "br", "li", "h1", "h2", "h3", "h4", "blockquote", "tr"}
_MARKUP = re.compile(r"<[a-zA-Z/!]|&[#\w]{1,30};")


def read_feed(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read one document per item of RSS or Atom, its markup taken off.

    Entities are switched off, so that the XML can neither reach other files nor grow; a feed that
    is cut off gives the items before the cut.
    """
    xml = need("defusedxml.ElementTree", "web", "A feed", package="defusedxml")
    from defusedxml.common import DefusedXmlException

    first = next(blocks, b"")
    declared = _ENCODING.match(first)
    codec = _SEVERAL_BYTES.get(declared[1].decode("ascii").lower()) if declared else None
    raw = _bounded(chain([first], blocks))
    pieces: Iterator[bytes | str] = codecs.iterdecode(raw, codec, "replace") if codec else raw
    source = SimpleNamespace(read=lambda size: next(pieces, b""))
    number = n_elements = 0
    fault = ""
    path: list[Any] = []
    try:
        for event, element in xml.iterparse(source, ("start", "end")):
            if event == "start":
                path.append(element)
                n_elements += 1
                if len(path) > MAX_FEED_DEPTH:
                    raise BadRecordError(f"XML of more than {MAX_FEED_DEPTH} levels")
                if n_elements > MAX_ITEM_ELEMENTS:
                    raise BadRecordError(f"more than {MAX_ITEM_ELEMENTS:,} elements in an item")
                continue
            path.pop()
            tag = element.tag.rpartition("}")[2]
            if tag in _BLOCKS:
                element.text = f"\n{element.text or ''}"
            if tag in ("item", "entry"):
                number += 1
                if number > MAX_FEED_ITEMS:
                    raise BadRecordError(f"more than {MAX_FEED_ITEMS:,} items in a feed")
                try:
                    yield _feed_record(element, number, task)
                except CorpusFormatError as error:
                    yield Skip(str(error), task.where("item", number))
                n_elements = 0
                for parent in path:  # what was read is not needed any more
                    parent.clear()
    except DefusedXmlException:
        fault = "XML that declares entities"
    except LookupError:
        fault = "XML in an encoding that is not known"
    except BadRecordError as error:
        fault = str(error)
    except (xml.ParseError, ValueError):
        fault = "not well-formed XML"
    if fault:
        yield Skip(fault, task.file, advice=f"{number} items before it were read")


def _bounded(blocks: Iterator[bytes]) -> Iterator[bytes]:
    n_bytes = 0
    for block in filter(None, blocks):
        n_bytes += len(block)
        if n_bytes > MAX_FEED_BYTES:
            raise BadRecordError("feed larger than the limit")
        yield block


def _feed_record(item: Any, number: int, task: ReadTask) -> Record:
    fields: dict[str, str] = {}
    for child in item:
        fields.setdefault(
            child.tag.rpartition("}")[2], child.get("href", "") + "".join(child.itertext())
        )
    if sum(map(len, fields.values())) > MAX_RECORD_BYTES:
        raise BadRecordError("item larger than the limit")
    texts = [fields[name] for name in _TEXTS if fields.get(name, "").strip()]
    body = plain_text(max(texts, key=len)) if texts else ""
    title = " ".join(plain_text(fields.get("title", "")).split())
    # A headline is part of what an item says, and often all of it.
    text = f"{title}\n\n{body}".strip() if not body.startswith(title) else body
    id = next((fields[name].strip() for name in _IDS if fields.get(name, "").strip()), "")
    return row_record((text, id, title), "item", number, task)


def plain_text(content: str) -> str:
    """Take the markup off a piece of a feed, which may be HTML or plain text.

    Raises:
        CorpusFormatError: The markup takes too much time or memory.
        MissingExtraError: There is markup and the extra `web` is not installed.
    """
    if not _MARKUP.search(content):
        return content.strip()
    from stamo.corpus.web import extract_html

    return extract_html(f"<html><body><main>{content}</main></body></html>").text
