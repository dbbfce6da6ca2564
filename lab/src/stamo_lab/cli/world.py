"""`stamo-lab world`: invent a world of any size and seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from typer import Argument, Option

from stamo.cli import AsJson
from stamo.cli.output import Console, print_json, rich_table

if TYPE_CHECKING:
    from stamo.world import World


def world(
    out: Path = Argument(..., metavar="OUT", help="Directory for the files."),
    seed: int = Option(7, help="Another seed gives another world."),
    articles: int = Option(700, help="Articles of the dump."),
    emerging: int = Option(6, help="Entities that only the pile mentions."),
    documents: int = Option(300, help="Documents per emerging entity."),
    plain: bool = Option(False, "--plain", help="Do not compress the dump."),
    packed: bool = Option(False, "--packed", help="Write one file, as `stamo world` keeps it."),
    as_json: AsJson = False,
) -> None:
    """Invent an encyclopaedia, later documents, and the answers."""
    from stamo_lab.world import WorldSettings, generate_world, pack_world

    settings = WorldSettings(
        seed=seed,
        n_articles=articles,
        n_emerging=emerging,
        documents_per_entity=documents,
        compress=not plain and not packed,
    )
    if packed:
        pack_world(settings, out)
        return
    console = Console()
    with Console(stderr=True).status("Inventing a world"):
        made = generate_world(settings, out)
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
