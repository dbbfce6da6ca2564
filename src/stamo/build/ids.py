"""Read the ids of entities from what Wikimedia publishes beside a dump, or from a table.

- `page_props.sql`: the ids by page number, `(12,'wikibase_item','Q6199',NULL)`;
- `wb_items_per_site.sql`: the ids by site and title, `(55,6199,'enwiki','Anarchism')`;
- any file with two columns, title and id, separated by a tab or a comma.

All of them plain or compressed. SQL is read by its pattern and never run: inside of a string every
quote is escaped, so that no text can look like a row.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from stamo.build.columns import numbers_of
from stamo.build.site import Site
from stamo.errors import DumpError
from stamo.kb.base import save_external_ids
from stamo.kb.manifest import ARTICLES_FILE
from stamo.kb.storage import StringTable
from stamo.system.files import Int32, Int64
from stamo.system.streams import read_blocks, read_line_blocks

MAX_ID = 100
MAX_ROW_BYTES = 8192
_ROWS = _ENOUGH_TO_TELL = 1 << 16
_PAGE_PROPS = re.compile(rb"\((\d{1,18}),'wikibase_item','(Q\d{1,18})'")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_KNOWN = "give page_props.sql, wb_items_per_site.sql or a file of titles and ids"


@dataclass
class WrittenIds:
    """What became of a file of ids."""

    n_entities: int
    """Entities that have an id now."""
    n_unknown: int
    """Rows whose title or page is no entity."""
    n_rows: int


def write_external_ids(path: Path, result: Path, site: Site, n_entities: int) -> WrittenIds:
    """Write the ids of a file into a knowledge base that has its names and articles already.

    Raises:
        DumpError: The file cannot be read, or holds no id of this wiki.
    """
    written = write_ids(_read_rows(path, site), result, n_entities)
    if not written.n_rows:
        raise DumpError(f"{path.name} holds no id of {site.database}; {_KNOWN} of this wiki.")
    return written


IdRow = tuple[int | str, str]
"""The page number or the title, and the id."""


def write_ids(rows: Iterable[IdRow], result: Path, n_entities: int) -> WrittenIds:
    """Write ids into a knowledge base that has its names and articles already."""
    entities: list[Int32] = [np.zeros(0, np.int32)]
    ids: list[str] = []
    n_rows = 0
    finder = _Finder(result)
    rows = iter(rows)
    while group := list(islice(rows, _ROWS)):
        n_rows += len(group)
        found = finder.find([key for key, _ in group])
        kept = np.flatnonzero(found >= 0)
        entities.append(found[kept])
        ids += [group[place][1] for place in kept.tolist()]
    joined = np.concatenate(entities)
    n_written = save_external_ids(result, n_entities, joined, ids)
    return WrittenIds(n_written, n_rows - len(joined), n_rows)


class _Finder:
    """Finds the entities of pages and titles."""

    def __init__(self, result: Path) -> None:
        self._result, self._titles = result, StringTable.open(result, "entities")

    def find(self, keys: list[Any]) -> Int32:
        """Return the entities of page numbers, or of titles; -1 for none."""
        if isinstance(keys[0], str):
            return self._titles.find_many(keys)
        pages, entities = self._pages
        place = np.searchsorted(pages, np.array(keys, dtype=np.int64))
        return np.where(pages[place] == keys, entities[place], -1).astype(np.int32)

    @cached_property
    def _pages(self) -> tuple[Int64, Int32]:
        """The page numbers of all articles, ascending, with their entities; last none."""
        pages, entities = [np.array([np.iinfo(np.int64).max])], [np.array([-1], np.int32)]
        with pq.ParquetFile(self._result / ARTICLES_FILE) as file:
            for batch in file.iter_batches(_ROWS, columns=["page_id", "title"]):
                pages.append(numbers_of(batch["page_id"]))
                entities.append(self._titles.find_many(batch["title"].to_pylist()))
        joined, found = np.concatenate(pages), np.concatenate(entities)
        order = np.argsort(joined, kind="stable")
        return joined[order], found[order]


def _read_rows(path: Path, site: Site) -> Iterator[IdRow]:
    faults: list[str] = []
    try:
        with path.open("rb") as file:
            blocks = read_blocks(file, faults.append)
            head = b""
            while len(head) < _ENOUGH_TO_TELL and (block := next(blocks, b"")):
                head += block
            whole = chain([head], blocks)
            if b"`page_props`" in head:
                for match in _matches(whole, _PAGE_PROPS):
                    yield int(match[1]), match[2].decode()
            elif b"`wb_items_per_site`" in head:
                yield from _items(whole, site)
            else:
                yield from _columns(whole, path.name, site)
    except OSError as error:
        raise DumpError(
            f"{str(path)!r} cannot be read ({error.strerror}); check its path."
        ) from error
    if faults:
        raise DumpError(f"{path.name} is damaged: {faults[0]}; download it again.")


def _matches(blocks: Iterable[bytes], pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """Find a pattern in a stream; a match is shorter than `MAX_ROW_BYTES`."""
    rest = b""
    for block in blocks:
        rest += block
        end = 0
        for match in pattern.finditer(rest):
            end = match.end()
            yield match
        rest = rest[max(end, len(rest) - MAX_ROW_BYTES) :]


def _items(blocks: Iterable[bytes], site: Site) -> Iterator[IdRow]:
    name = re.escape(site.database.encode())
    pattern = re.compile(
        rb"\(\d{1,18},(\d{1,18}),'" + name + rb"','((?:[^'\\]|\\.){1,1024})'\)", re.DOTALL
    )
    for match in _matches(blocks, pattern):
        title = _ESCAPE.sub(r"\1", match[2].decode("utf-8", "replace"))
        yield site.normalise_title(title), f"Q{int(match[1])}"


def _columns(blocks: Iterable[bytes], name: str, site: Site) -> Iterator[IdRow]:
    number = 0
    delimiter = ""
    for block in read_line_blocks(iter(blocks), MAX_ROW_BYTES, lambda: None):
        try:
            lines = block.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise DumpError(f"{name} is not UTF-8 ({error}); {_KNOWN}.") from error
        if lines and not delimiter:
            delimiter = "\t" if "\t" in lines[0] else ","
        for row in _cells(lines, delimiter, name, number):
            number += 1
            if not row:
                continue
            if len(row) != 2 or not all(cell.strip() for cell in row) or len(row[1]) > MAX_ID:
                raise DumpError(
                    f"{name}, line {number} is not a title and an id of at most {MAX_ID} "
                    f"characters; {_KNOWN}."
                )
            if not row[1].strip().isprintable():
                raise DumpError(f"{name}, line {number} has an id that cannot be printed.")
            yield site.normalise_title(row[0]), row[1].strip()


def _cells(lines: list[str], delimiter: str, name: str, number: int) -> Iterator[list[str]]:
    rows = csv.reader(lines, delimiter=delimiter)
    try:
        yield from rows
    except csv.Error as error:
        line = number + rows.line_num
        raise DumpError(f"{name}, line {line} is no CSV ({error}); {_KNOWN}.") from error
