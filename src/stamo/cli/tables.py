"""How things look in a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rich.console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from stamo.workspace.snippets import printable


class Console(rich.console.Console):
    """A terminal that obeys us alone: control characters in names and texts are only shown."""

    def render(
        self,
        renderable: rich.console.RenderableType,
        options: rich.console.ConsoleOptions | None = None,
    ) -> Iterable[Segment]:
        """Turn anything into pieces of text; our own control codes are pieces of their own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def rich_table(*headings: str, **style: Any) -> Table:
    """Make a table; a heading that begins with ">" stands over numbers, on the right."""
    table = Table(title_justify="left", **style)
    for heading in headings:
        table.add_column(heading.lstrip(">"), justify="right" if heading[:1] == ">" else "left")
    return table


def bare_table(*headings: str, **style: Any) -> Table:
    """Make a table without lines."""
    return rich_table(*headings, **{"box": None, "padding": (0, 2), "header_style": "dim"} | style)


def named_values(rows: Iterable[tuple[str, str]]) -> Table:
    """Show values beside their names."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, style="dim"), Text(value))
    return table
