"""Tables of entities to build from, and the ids of entities elsewhere.

A table of entities is CSV, TSV or JSON lines, told by the first sign of the file.

    id,name,aliases,description,count,type
    p1,Falcon,Falcon Trail|FT1,"A light running shoe for wet trails.",120,shoe
    p2,Falcon,,"A drone with a camera that follows its owner.",80,drone

Only `name` is needed. Nothing of a table is skipped: a row that is not of this form is an error
that names its line.

Ids come from what Wikimedia publishes beside a dump, or from a table:

- `page_props.sql`: the ids by page number, `(12,'wikibase_item','Q6199',NULL)`;
- `wb_items_per_site.sql`: the ids by site and title, `(55,6199,'enwiki','Anarchism')`;
- any file with two columns, title and id, separated by a tab or a comma.

All of them plain or compressed. SQL is read by its pattern and never run: inside of a string every
quote is escaped, so that no text can look like a row.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import orjson
import pyarrow.parquet as pq

from stamo.build.counting import MAX_SURFACE
from stamo.build.site import Site
from stamo.build.staging import (
    Build,
    Listed,
    as_written,
    choose_titles,
    settle_articles,
    tidy_title,
)
from stamo.build.wikitext import sanitise
from stamo.corpus.tables import RowError, read_rows
from stamo.errors import DumpError
from stamo.kb.base import save_external_ids
from stamo.kb.manifest import ARTICLES_FILE
from stamo.kb.storage import StringTable
from stamo.system.files import RESULT_DIR, Int32, Int64, explain_os_error
from stamo.system.streams import ByteStream, in_utf8, read_line_blocks

MAX_LINE_BYTES = 1 << 20
MAX_COUNT = 2**31 - 1
MAX_ID = 100
MAX_SQL_ROW = 8192
ENTITY_COLUMNS = ("id", "name", "aliases", "description", "count", "type")
_MAX_UNUSED = 50
_REPORTED = 1 << 12
_ROWS = _ENOUGH_TO_TELL = 1 << 16
_PAGE_PROPS = re.compile(rb"\((\d{1,18}),'wikibase_item','(Q\d{1,18})'")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_KNOWN = "give page_props.sql, wb_items_per_site.sql or a file of titles and ids"

IdRow = tuple[int | str, str]
"""The page number or the title, and the id."""


@dataclass(frozen=True, slots=True)
class EntityRow:
    """One entity of a table."""

    line: int
    name: str
    id: str = ""
    aliases: tuple[str, ...] = ()
    description: str = ""
    count: int = 0
    type: str = ""


def read_entities(build: Build) -> Site:
    """Read a table of entities: names with their counts, and descriptions as articles."""
    sample = read_entity_rows(build.path, Counter())
    site = build.plain_site(f"{row.name}\n{row.description}" for row in sample)
    listed: dict[int, Listed] = {}
    ids: list[str] = []
    with as_written(build) as written:
        rows = read_entity_rows(build.path, build.skipped)
        written.append_rows("text", _descriptions(rows, build, site, listed, ids))
    chosen = choose_titles([*listed.values()])
    build.ids = [(title, id) for title, id in zip(chosen, ids, strict=True) if id]
    settle_articles(build, listed, dict(enumerate(chosen)), written, lambda target, at: None)
    return site


def _descriptions(
    rows: Iterable[EntityRow], build: Build, site: Site, listed: dict[int, Listed], ids: list[str]
) -> Iterator[tuple[int, int, str, str, bool]]:
    """Take the entities of a table; yield what it says of each as the text of an article.

    Raises:
        DumpError: An entity was there before, or the entities cannot be counted.
    """
    line_of: dict[tuple[str, ...], int] = {}
    n_uses = 0
    for at, row in enumerate(rows):
        title = tidy_title(row.name, site)
        if not title:
            _fail(build.path, row.line, "has a name without a visible sign")
        key = (row.id,) if row.id else (title, row.type)
        before = line_of.setdefault(key, row.line)
        if before != row.line:
            same = f"the id {row.id!r}" if row.id else f"the name {title!r} and no id"
            what = f"has {same}, as line {before} has; give every entity an id of its own"
            _fail(build.path, row.line, what)
        names = (row.name, *row.aliases)
        n_uses += row.count * len(names)
        if n_uses > MAX_COUNT:
            raise DumpError(
                f"{build.path.name}: the counts of all names are more than {MAX_COUNT:,} together "
                f"by line {row.line}; divide them all by the same number."
            )
        qualifiers = (tidy_title(row.type, site), tidy_title(row.id, site))
        listed[at] = Listed(title, qualifiers, tuple(map(sanitise, names)), row.count)
        ids.append(row.id)
        yield at, at + 1, "", sanitise(row.description), False
        if at % _REPORTED == 0:
            build.report(None)


def read_entity_rows(path: Path, unused: Counter[str]) -> Iterator[EntityRow]:
    """Yield the rows of a table; `unused` counts its columns that say nothing here.

    Raises:
        DumpError: The file or a row of it is not of the documented form.
    """
    blocks = in_utf8(_read_blocks(path))
    first = next(blocks, b"")
    if not first.removeprefix(codecs.BOM_UTF8).partition(b"\n")[0].strip():
        raise DumpError(f"{path.name} has no first line; give a table of entities.")
    is_json = first.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{")
    records = (_json_records if is_json else _csv_records)(path, chain([first], blocks))
    row = None
    try:
        for line, record in records:
            for column in record:
                if column not in ENTITY_COLUMNS and len(unused) < _MAX_UNUSED:
                    unused[f"column not used: {str(column)[:40]!r}"] += 1
            row = _entity_row(path, line, record)
            yield row
    except RowError as error:
        _fail(path, error.line, str(error))
    if row is None:
        raise DumpError(f"{path.name} has headings and no entity; give one a line.")


def _json_records(path: Path, blocks: Iterator[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    is_long: list[bool] = []
    line_blocks = read_line_blocks(blocks, MAX_LINE_BYTES, lambda: is_long.append(True))
    lines = (line for block in line_blocks for line in block[:-1].split(b"\n"))
    for number, line in enumerate(lines, start=1):
        if is_long:
            limit = f"a line has more than {MAX_LINE_BYTES >> 20} MiB"
            raise DumpError(f"{path.name} cannot be read whole: {limit}.")
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if not text.strip():
            continue
        try:
            record = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            _fail(path, number, f"is no JSON ({error})")
        if not isinstance(record, dict):
            _fail(path, number, 'is no JSON object such as {"name": "Falcon"}')
        aliases = record.get("aliases")
        if isinstance(aliases, list):
            record["aliases"] = "|".join(map(str, aliases))
        yield number, record


def _csv_records(path: Path, blocks: Iterator[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = read_rows(blocks, max_row_bytes=MAX_LINE_BYTES, delimiters=",\t;")
    headings = [heading.strip().lower() for heading in next(rows)[1]]
    if "name" not in headings or len({*headings}) < len(headings):
        said, expected = ", ".join(headings)[:200], ", ".join(ENTITY_COLUMNS)
        needed = f"{expected}, each at most once, and `name` is needed"
        _fail(path, 1, f"has the headings {said}; expected are {needed}")
    for line, cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(headings):
            said = f"has {len(cells)} fields under {len(headings)} headings"
            _fail(path, line, f"{said}; put quotes around fields with separators in them")
        yield line, dict(zip(headings, cells, strict=True))


def _entity_row(path: Path, line: int, record: dict[str, Any]) -> EntityRow:
    cells: dict[str, str] = {}
    for column in ENTITY_COLUMNS:
        value = record.get(column)
        value = "" if value is None else value
        if isinstance(value, bool) or not isinstance(value, str | int):
            _fail(path, line, f"has a {type(value).__name__} as {column}; expected is text")
        cells[column] = str(value).strip()
    if not cells["name"]:
        _fail(path, line, "has no name; every entity needs one")
    aliases = tuple(alias.strip() for alias in cells["aliases"].split("|") if alias.strip())
    if max(map(len, (cells["name"], *aliases))) > MAX_SURFACE:
        _fail(path, line, f"has a name of more than {MAX_SURFACE} characters")
    if len(cells["id"]) > MAX_ID or not cells["id"].isprintable():
        _fail(path, line, f"has an id that is no printable text of at most {MAX_ID} characters")
    count = cells["count"] or "0"
    is_number = count.isascii() and count.isdigit() and len(count.lstrip("0")) <= 10
    if not is_number or int(count) > MAX_COUNT:
        _fail(path, line, f"has the count {count[:40]!r}; expected is a whole number")
    return EntityRow(
        line, cells["name"], cells["id"], aliases, cells["description"], int(count), cells["type"]
    )


def _fail(path: Path, line: int, what: str) -> NoReturn:
    raise DumpError(f"{path.name}, line {line} {what}.")


def _read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file that must be whole."""
    try:
        with path.open("rb") as file:
            stream = ByteStream(file)
            yield from stream
    except OSError as error:
        raise DumpError(explain_os_error(error)) from error
    if stream.fault:
        raise DumpError(f"{path.name} cannot be read whole: {stream.fault}.")


def read_ids(path: Path, site: Site) -> Iterator[IdRow]:
    """Yield the ids of a file.

    Raises:
        DumpError: The file cannot be read, or holds no id of this wiki.
    """
    blocks = _read_blocks(path)
    head = b""
    while len(head) < _ENOUGH_TO_TELL and (block := next(blocks, b"")):
        head += block
    rows: Iterable[IdRow]
    if b"`page_props`" in head:
        matches = _matches(chain([head], blocks), _PAGE_PROPS)
        rows = ((int(match[1]), match[2].decode()) for match in matches)
    elif b"`wb_items_per_site`" in head:
        rows = _items(chain([head], blocks), site)
    else:
        rows = _columns(path, site)
    row = None
    for row in rows:
        yield row
    if row is None:
        raise DumpError(f"{path.name} holds no id of {site.database}; {_KNOWN} of this wiki.")


def _matches(blocks: Iterable[bytes], pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """Find a pattern in a stream; a match is shorter than `MAX_SQL_ROW`."""
    rest = b""
    for block in blocks:
        rest += block
        end = 0
        for match in pattern.finditer(rest):
            end = match.end()
            yield match
        rest = rest[max(end, len(rest) - MAX_SQL_ROW) :]


def _items(blocks: Iterable[bytes], site: Site) -> Iterator[IdRow]:
    name = re.escape(site.database.encode())
    pattern = re.compile(
        rb"\(\d{1,18},(\d{1,18}),'" + name + rb"','((?:[^'\\]|\\.){1,1024})'\)", re.DOTALL
    )
    for match in _matches(blocks, pattern):
        title = _ESCAPE.sub(r"\1", match[2].decode("utf-8", "replace"))
        yield site.normalise_title(title), f"Q{int(match[1])}"


def _columns(path: Path, site: Site) -> Iterator[IdRow]:
    rows = read_rows(_read_blocks(path), max_row_bytes=MAX_SQL_ROW, delimiters="\t,")
    try:
        for line, row in rows:
            if not row:
                continue
            if len(row) != 2 or not all(cell.strip() for cell in row) or len(row[1]) > MAX_ID:
                what = f"is not a title and an id of at most {MAX_ID} characters; {_KNOWN}"
                _fail(path, line, what)
            if not row[1].strip().isprintable():
                _fail(path, line, "has an id that cannot be printed")
            yield site.normalise_title(row[0]), row[1].strip()
    except RowError as error:
        _fail(path, error.line, f"{error}; {_KNOWN}")


def write_ids(build: Build, site: Site) -> None:
    """Write the ids of a file, or of the source, into a knowledge base with names and articles."""
    result, path = build.work / RESULT_DIR, build.settings.ids
    titles = StringTable.open(result, "entities")
    pages: tuple[Int64, Int32] | None = None
    entities: list[Int32] = [np.zeros(0, np.int32)]
    ids: list[str] = []
    n_rows = 0
    with build.step("ids"):
        rows = iter(build.ids if path is None else read_ids(path, site))
        while group := list(islice(rows, _ROWS)):
            n_rows += len(group)
            keys: list[Any] = [key for key, _ in group]
            if isinstance(keys[0], str):
                found = titles.find_many(keys)
            else:
                pages = pages or _pages(result, titles)
                place = np.searchsorted(pages[0], np.array(keys, dtype=np.int64))
                found = np.where(pages[0][place] == keys, pages[1][place], -1).astype(np.int32)
            kept = np.flatnonzero(found >= 0)
            entities.append(found[kept])
            ids += [group[number][1] for number in kept.tolist()]
        joined = np.concatenate(entities)
        n_with_id = save_external_ids(result, len(titles), joined, ids)
    build.counts["entities with an id"] = n_with_id
    if n_rows > len(joined):
        build.skipped["id of a title or page that is no entity"] = n_rows - len(joined)


def _pages(result: Path, titles: StringTable) -> tuple[Int64, Int32]:
    """Return the page numbers of all articles, ascending, with their entities; last none."""
    pages, entities = [np.array([np.iinfo(np.int64).max])], [np.array([-1], np.int32)]
    with pq.ParquetFile(result / ARTICLES_FILE) as file:
        for batch in file.iter_batches(_ROWS, columns=["page_id", "title"]):
            pages.append(np.from_dlpack(batch["page_id"]))
            entities.append(titles.find_many(batch["title"].to_pylist()))
    joined, found = np.concatenate(pages), np.concatenate(entities)
    order = np.argsort(joined, kind="stable")
    return joined[order], found[order]
