"""How results look in a terminal, and as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import rich.console
import typer
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from stamo.workspace.wording import printable

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

PIPE_WIDTH = 100_000


def command_group(about: str, *commands: Callable[..., None], prefix: str = "") -> typer.Typer:
    """Make a group of commands; each is called as its function is, up to an underscore."""
    group = typer.Typer(no_args_is_help=True, help=about)
    for command in commands:
        group.command(command.__name__.removeprefix(prefix).partition("_")[0])(command)
    return group


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


def show(result: object, view: Iterable[rich.console.RenderableType], *, as_json: bool) -> None:
    """Print the result of a command: as JSON for programs, or its view for people.

    A view is made only when it is printed. Its texts are printed as they are, however long.
    """
    if as_json:
        print_json(result)
        return
    for part in view:
        if isinstance(part, Table):
            print_table(part)
        else:
            Console(highlight=False).print(
                part, soft_wrap=isinstance(part, str | Text), markup=False
            )


def print_json(value: object) -> None:
    """Print a result for programs; plain ASCII where the output cannot take more."""
    is_wide = (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf")
    typer.echo(json.dumps(value, indent=1, ensure_ascii=not is_wide, default=_plain))


def _plain(value: Any) -> object:
    """Return what JSON can hold of a value that it does not know."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


def print_table(table: Table) -> None:
    """Print a table; what a pipe or a file gets is never cut to a terminal's width."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(table)


def warn(line: str) -> None:
    """Print what to worry about, in one line on stderr."""
    Console(stderr=True, highlight=False).print(line, style="yellow", soft_wrap=True, markup=False)


@contextmanager
def progress_view(
    console: Console, title: str, *columns: ProgressColumn, stays: bool = False, **values: Any
) -> Iterator[Callable[..., None]]:
    """Show how far work has come; what is yielded takes how much is done, and of how much."""
    from rich.progress import Progress

    with Progress(*columns, console=console, transient=not stays) as progress:
        task = progress.add_task(title, **{"total": None, **values})
        yield lambda done, total=None, **more: progress.update(
            task, completed=done, total=total, **more
        )


def rich_table(*headings: str, rows: Iterable[Iterable[object]] = (), **style: Any) -> Table:
    """Make a table; a heading that begins with ">" stands over numbers, on the right.

    What stands in its rows is no markup.
    """
    table = Table(title_justify="left", **style)
    for heading in headings:
        table.add_column(heading.lstrip(">"), justify="right" if heading[:1] == ">" else "left")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return table


bare_table = partial(rich_table, box=None, padding=(0, 2, 0, 0), header_style="dim")
"""A table without lines."""


def named_values(rows: Iterable[tuple[str, str]]) -> Table:
    """Show values beside their names; a value that is empty is left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in rows:
        if value:
            table.add_row(Text(name, style="dim"), Text(value))
    return table
