"""`stamo world`: write the embedded default world, to try things on without any download."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from typer import Argument

from stamo.cli.output import AsJson, Console, print_json, rich_table

if TYPE_CHECKING:
    from stamo.world import World


def world(
    out: Path = Argument(..., metavar="OUT", help="Directory for the files."),
    as_json: AsJson = False,
) -> None:
    """Write an invented encyclopaedia, later documents, and the answers."""
    from stamo.world import unpack_world

    console = Console()
    made = unpack_world(out)
    paths = (made.paths.dump_path, made.paths.pile_path, made.paths.gold_path)
    if as_json:
        print_json({"emerging": made.describe(), "files": [str(path) for path in paths]})
        return
    console.print(_emerging_table(made))
    for path in paths:
        console.print(f"{path}  {path.stat().st_size / 1e6:.1f} MB", highlight=False)


def _emerging_table(made: World) -> Table:
    """Show the emerging entities and how often their names mean them."""
    headings = ("Entity", "Aliases", "What it is", ">Mentions", ">of")
    table = rich_table(*headings, title="Emerging entities")
    for entry in made.describe():
        table.add_row(
            entry["id"],
            ", ".join(entry["aliases"]),
            entry["description"],
            str(entry["n_mentions"]),
            str(entry["n_candidate_mentions"]),
        )
    return table
