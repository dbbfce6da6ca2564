"""How commands and what they print look in a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import rich.console
import typer
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from typer import Argument, Context, Option

from stamo.workspace.wording import printable

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import TrainedModel


KbPath = Annotated[Path, Argument(metavar="KB", help="Directory of a knowledge base.")]
ModelPath = Annotated[Path, Argument(metavar="MODEL", help="File of a trained model.")]
TextColumnOption = Annotated[
    str, Option(help="The column of CSV, TSV and Parquet that holds the texts.")
]
AsJson = Annotated[bool, Option("--json", help="Print JSON for programs.")]


def open_both(kb: Path | str, model: Path | str | None) -> tuple[KnowledgeBase, TrainedModel]:
    """Open a knowledge base and a model that was trained with it, or what links without one."""
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import load_model, without_training

    base = KnowledgeBase.open(kb)
    trained = without_training(base) if model is None else load_model(model)
    trained.check(base)
    return base, trained


def refuse_foreign(
    context: Context, kinds_of: Mapping[str, Collection[str]], kind: str, what: str
) -> None:
    """Refuse options that were given and would be ignored.

    Args:
        context: The command as it was called.
        kinds_of: For each parameter that is not for all, the kinds of thing it is for.
        kind: Which kind it is.
        what: What has kinds, such as "suite".

    Raises:
        SettingsError: An option is for other kinds.
    """
    from stamo.errors import SettingsError

    for name, kinds in kinds_of.items():
        source = context.get_parameter_source(name)
        if kind not in kinds and source is not None and source.name == "COMMANDLINE":
            raise SettingsError(
                f"--{name.replace('_', '-')} would be ignored: it is for a {what} of kind "
                f"{' or '.join(kinds)}, and this one is {kind}; leave it out."
            )


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read whole numbers from a list with commas; of an empty one, none.

    Raises:
        SettingsError: An entry is not a whole number.
    """
    from stamo.errors import SettingsError

    try:
        return tuple(map(int, text.split(","))) if text.strip() else ()
    except ValueError as error:
        raise SettingsError(
            f"The sizes are {text!r}; give whole numbers with commas between, such as 25,50,100."
        ) from error


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


def rich_table(*headings: str, **style: Any) -> Table:
    """Make a table; a heading that begins with ">" stands over numbers, on the right."""
    table = Table(title_justify="left", **style)
    for heading in headings:
        table.add_column(heading.lstrip(">"), justify="right" if heading[:1] == ">" else "left")
    return table


def bare_table(*headings: str, **style: Any) -> Table:
    """Make a table without lines."""
    return rich_table(*headings, **{"box": None, "padding": (0, 2), "header_style": "dim"} | style)


def print_table(table: Table) -> None:
    """Print a table; what a pipe or a file gets is never cut to a terminal's width."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(table)


def print_json(value: object) -> None:
    """Print a result for programs; plain ASCII where the output cannot take more."""
    is_wide = (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf")
    typer.echo(json.dumps(value, indent=1, ensure_ascii=not is_wide))


def say(line: str) -> None:
    """Print a line for people as it is, however long."""
    Console(highlight=False).print(line, soft_wrap=True, markup=False)


def warn(line: str) -> None:
    """Print what to worry about, in one line on stderr."""
    Console(stderr=True, highlight=False).print(line, style="yellow", soft_wrap=True, markup=False)


def tell(line: str, record: object, *, as_json: bool) -> None:
    """Print a line for people, or a record for programs."""
    if as_json:
        print_json(record)
    else:
        say(line)


def named_values(rows: Iterable[tuple[str, str]]) -> Table:
    """Show values beside their names."""
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name, style="dim"), Text(value))
    return table
