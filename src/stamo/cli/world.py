"""`stamo world`: write the embedded world, to try things on without any download."""

from __future__ import annotations

from pathlib import Path

from typer import Argument

from stamo.cli import AsJson
from stamo.cli.output import rich_table, show


def world(
    out: Path = Argument(..., metavar="OUT", help="Directory for the files."),
    as_json: AsJson = False,
) -> None:
    """Write an invented encyclopaedia, later documents, and the answers.

    In Python: `stamo.unpack_world(out)`.
    """
    from stamo.world import unpack_world

    made = unpack_world(out)
    paths, emerging = made.paths, made.describe()
    files = (paths.dump_path, paths.pile_path, paths.gold_path)
    headings = ("Entity", "Aliases", "What it is", ">Mentions", ">of")
    table = rich_table(*headings, title="Emerging entities")
    for entry in emerging:
        counts = (str(entry["n_mentions"]), str(entry["n_candidate_mentions"]))
        table.add_row(entry["id"], ", ".join(entry["aliases"]), entry["description"], *counts)
    sizes = [f"{path}  {path.stat().st_size / 1e6:.1f} MB" for path in files]
    show({"emerging": emerging, "files": files}, [table, *sizes], as_json=as_json)
