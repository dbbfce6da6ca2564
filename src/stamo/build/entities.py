"""From a table of entities to the staged tables of a build.

It is CSV, TSV or JSON lines, told by the first sign of the file.

    id,name,aliases,description,count,type
    p1,Falcon,Falcon Trail|FT1,"A light running shoe for wet trails.",120,shoe
    p2,Falcon,,"A drone with a camera that follows its owner.",80,drone

Only `name` is needed. Nothing of a table is skipped: a row that is not of this form is an error
that names its line.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import orjson

from stamo.build.ids import MAX_ID
from stamo.build.settings import BuildState, Report, plain_site
from stamo.build.site import Site
from stamo.build.staging import (
    MAX_SURFACE,
    Listed,
    as_written,
    choose_titles,
    settle_articles,
    tidy_title,
)
from stamo.build.wikitext import sanitise
from stamo.errors import DumpError
from stamo.system.files import explain_os_error
from stamo.system.streams import in_utf8, read_blocks, read_line_blocks

MAX_ENTITY_BYTES = 1 << 20
_LONG_LINE = f"a line has more than {MAX_ENTITY_BYTES >> 20} MiB"
MAX_COUNT = 2**31 - 1
ENTITY_COLUMNS = ("id", "name", "aliases", "description", "count", "type")
_MAX_UNUSED = 50
_REPORTED = 1 << 12


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


class EntityTable:
    """The rows of a file, read once; afterwards `unused` counts the columns that say nothing here.

    Args:
        path: The file, plain or compressed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unused: Counter[str] = Counter()

    def rows(self) -> Iterator[EntityRow]:
        """Yield the rows.

        Raises:
            DumpError: The file or a row of it is not of the documented form.
        """
        lines = self._lines()
        first = next(lines, "")
        if not first.strip():
            raise DumpError(f"{self.path.name} has no first line; give a table of entities.")
        read = self._json_rows if first.lstrip().startswith("{") else self._table_rows
        row = None
        for row in read(chain([first], lines)):
            yield row
        if row is None:
            raise DumpError(f"{self.path.name} has headings and no entity; give one a line.")

    def _lines(self) -> Iterator[str]:
        faults: list[str] = []
        number = 0
        try:
            with self.path.open("rb") as file:
                blocks = in_utf8(read_blocks(file, faults.append))
                tell_long = partial(faults.append, _LONG_LINE)
                for block in read_line_blocks(blocks, MAX_ENTITY_BYTES, tell_long):
                    self._check(faults)
                    for line in block.splitlines(keepends=True):
                        number += 1
                        yield self._decode(line, number)
            self._check(faults)
        except OSError as error:
            raise DumpError(explain_os_error(error)) from error

    def _check(self, faults: list[str]) -> None:
        if faults:
            raise DumpError(f"{self.path.name} cannot be read whole: {faults[0]}.")

    def _decode(self, line: bytes, number: int) -> str:
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            self.fail(number, "is not UTF-8, nor is the table marked as UTF-16; convert it")
        if "\0" in text:
            self.fail(number, "holds a zero byte; give a table as text")
        return text

    def fail(self, line: int, what: str) -> NoReturn:
        """Raise what is wrong with a line."""
        raise DumpError(f"{self.path.name}, line {line} {what}.")

    def _json_rows(self, lines: Iterable[str]) -> Iterator[EntityRow]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                self.fail(number, f"is no JSON ({error})")
            if not isinstance(record, dict):
                self.fail(number, 'is no JSON object such as {"name": "Falcon"}')
            aliases = record.get("aliases")
            if isinstance(aliases, list):
                record["aliases"] = "|".join(map(str, aliases))
            yield self._row(number, record)

    def _table_rows(self, lines: Iterable[str]) -> Iterator[EntityRow]:
        lines = iter(lines)
        first = next(lines)
        delimiter = max(",\t;", key=first.count)
        rows = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
        try:
            headings = [heading.strip().lower() for heading in next(rows)]
            if "name" not in headings or len({*headings}) < len(headings):
                said, expected = ", ".join(headings)[:200], ", ".join(ENTITY_COLUMNS)
                needed = f"{expected}, each at most once, and `name` is needed"
                self.fail(1, f"has the headings {said}; expected are {needed}")
            for cells in rows:
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) != len(headings):
                    said = f"has {len(cells)} fields under {len(headings)} headings"
                    todo = "put quotes around fields with separators in them"
                    self.fail(rows.line_num, f"{said}; {todo}")
                yield self._row(rows.line_num, dict(zip(headings, cells, strict=True)))
        except csv.Error as error:
            self.fail(rows.line_num, f"is no CSV ({error})")

    def _row(self, line: int, record: dict[str, Any]) -> EntityRow:
        cells = {name: self._cell(line, name, record.get(name)) for name in ENTITY_COLUMNS}
        for column in record:
            if column not in ENTITY_COLUMNS and len(self.unused) < _MAX_UNUSED:
                self.unused[f"column not used: {str(column)[:40]!r}"] += 1
        if not cells["name"]:
            self.fail(line, "has no name; every entity needs one")
        aliases = tuple(alias.strip() for alias in cells["aliases"].split("|") if alias.strip())
        for name in (cells["name"], *aliases):
            if len(name) > MAX_SURFACE:
                self.fail(line, f"has a name of more than {MAX_SURFACE} characters")
        if len(cells["id"]) > MAX_ID or not cells["id"].isprintable():
            self.fail(line, f"has an id that is no printable text of at most {MAX_ID} characters")
        count = cells["count"] or "0"
        is_number = count.isascii() and count.isdigit() and len(count.lstrip("0")) <= 10
        if not is_number or int(count) > MAX_COUNT:
            self.fail(line, f"has the count {count[:40]!r}; expected is a whole number")
        cells |= {"line": line, "aliases": aliases, "count": int(count)}
        return EntityRow(**cells)

    def _cell(self, line: int, name: str, value: object) -> Any:
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int):
            self.fail(line, f"has a {type(value).__name__} as {name}; expected is text")
        return str(value).strip()


@dataclass
class _Entities:
    """The entities of a table, without their descriptions."""

    table: EntityTable
    site: Site
    listed: dict[int, Listed] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    line_of: dict[tuple[str, ...], int] = field(default_factory=dict)
    n_uses: int = 0

    def add(self, row: EntityRow) -> None:
        """Take one row.

        Raises:
            DumpError: It is an entity that was there before, or cannot be counted.
        """
        title = tidy_title(row.name, self.site)
        if not title:
            self.table.fail(row.line, "has a name without a visible sign")
        key = (row.id,) if row.id else (title, row.type)
        before = self.line_of.setdefault(key, row.line)
        if before != row.line:
            same = f"the id {row.id!r}" if row.id else f"the name {title!r} and no id"
            what = f"has {same}, as line {before} has; give every entity an id of its own"
            self.table.fail(row.line, what)
        names = (row.name, *row.aliases)
        self.n_uses += row.count * len(names)
        if self.n_uses > MAX_COUNT:
            most = f"more than {MAX_COUNT:,} together by line {row.line}"
            raise DumpError(
                f"{self.table.path.name}: the counts of all names are {most}; divide them all by "
                "the same number."
            )
        names = tuple(sanitise(name) for name in names)
        qualifiers = (tidy_title(row.type, self.site), tidy_title(row.id, self.site))
        self.listed[len(self.listed)] = Listed(title, qualifiers, names, row.count)
        self.ids.append(row.id)


def stage_entities(build: BuildState, report: Report) -> Site:
    """Read a table of entities: names with their counts, and descriptions as articles."""
    table = EntityTable(build.source.path)
    sample = EntityTable(build.source.path).rows()
    site = plain_site(build.language(f"{row.name}\n{row.description}" for row in sample))
    entities = _Entities(table, site)
    with as_written(build) as written:
        written.append_rows("text", _descriptions(table, entities, report))
    build.skipped.update(table.unused)
    chosen = choose_titles([*entities.listed.values()])
    build.ids = [(title, id) for title, id in zip(chosen, entities.ids, strict=True) if id]
    titles = dict(enumerate(chosen))
    settle_articles(build, entities.listed, titles, written, lambda target, at: None)
    return site


def _descriptions(
    table: EntityTable, entities: _Entities, report: Report
) -> Iterator[tuple[int, int, str, str, bool]]:
    """Take the entities of a table; yield what it says of each as the text of an article."""
    for at, row in enumerate(table.rows()):
        entities.add(row)
        yield at, at + 1, "", sanitise(row.description), False
        if at % _REPORTED == 0:
            report(None)
