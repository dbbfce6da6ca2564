"""Read a table of entities: CSV, TSV or JSON lines, told by the first sign of the file.

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
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import orjson

from stamo.build.external_ids import MAX_ID
from stamo.build.extract import MAX_SURFACE
from stamo.errors import DumpError
from stamo.system.files import explain_os_error
from stamo.system.streams import in_utf8, read_blocks, read_line_blocks

MAX_ENTITY_BYTES = 1 << 20
MAX_COUNT = 2**31 - 1
ENTITY_COLUMNS = ("id", "name", "aliases", "description", "count", "type")
_MAX_UNUSED = 50


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
        is_empty = True
        for row in read(chain([first], lines)):
            is_empty = False
            yield row
        if is_empty:
            raise DumpError(f"{self.path.name} has headings and no entity; give one a line.")

    def _lines(self) -> Iterator[str]:
        faults: list[str] = []
        number = 0
        try:
            with self.path.open("rb") as file:
                blocks = in_utf8(read_blocks(file, faults.append))
                long = f"a line has more than {MAX_ENTITY_BYTES >> 20} MiB"
                for block in read_line_blocks(
                    blocks, MAX_ENTITY_BYTES, lambda: faults.append(long)
                ):
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
            self._fail(number, "is not UTF-8, nor is the table marked as UTF-16; convert it")
        if "\0" in text:
            self._fail(number, "holds a zero byte; give a table as text")
        return text

    def _fail(self, line: int, what: str) -> NoReturn:
        raise DumpError(f"{self.path.name}, line {line} {what}.")

    def _json_rows(self, lines: Iterable[str]) -> Iterator[EntityRow]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                self._fail(number, f"is no JSON ({error})")
            if not isinstance(record, dict):
                self._fail(number, 'is no JSON object such as {"name": "Falcon"}')
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
                said = ", ".join(headings)[:200]
                self._fail(
                    1,
                    f"has the headings {said}; expected are {', '.join(ENTITY_COLUMNS)}, each "
                    "at most once, and `name` is needed",
                )
            for cells in rows:
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) != len(headings):
                    self._fail(
                        rows.line_num,
                        f"has {len(cells)} fields under {len(headings)} headings; put quotes "
                        "around fields with separators in them",
                    )
                yield self._row(rows.line_num, dict(zip(headings, cells, strict=True)))
        except csv.Error as error:
            self._fail(rows.line_num, f"is no CSV ({error})")

    def _row(self, line: int, record: dict[str, Any]) -> EntityRow:
        cells = {name: self._cell(line, name, record.get(name)) for name in ENTITY_COLUMNS}
        for column in record:
            if column not in ENTITY_COLUMNS and len(self.unused) < _MAX_UNUSED:
                self.unused[f"column not used: {str(column)[:40]!r}"] += 1
        if not cells["name"]:
            self._fail(line, "has no name; every entity needs one")
        aliases = tuple(alias.strip() for alias in cells["aliases"].split("|") if alias.strip())
        for name in (cells["name"], *aliases):
            if len(name) > MAX_SURFACE:
                self._fail(line, f"has a name of more than {MAX_SURFACE} characters")
        if len(cells["id"]) > MAX_ID or not cells["id"].isprintable():
            self._fail(line, f"has an id that is no printable text of at most {MAX_ID} characters")
        count = cells["count"] or "0"
        is_number = count.isascii() and count.isdigit() and len(count.lstrip("0")) <= 10
        if not is_number or int(count) > MAX_COUNT:
            self._fail(line, f"has the count {count[:40]!r}; expected is a whole number")
        cells |= {"line": line, "aliases": aliases, "count": int(count)}
        return EntityRow(**cells)

    def _cell(self, line: int, name: str, value: object) -> Any:
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int):
            self._fail(line, f"has a {type(value).__name__} as {name}; expected is text")
        return str(value).strip()
