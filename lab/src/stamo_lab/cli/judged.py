"""`stamo-lab judged`: how many judged entities a discovery proposes, and where."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.text import Text
from typer import Option

from stamo.cli.discover import FoundPath
from stamo.cli.output import AsJson, Console, bare_table, print_json, print_table
from stamo.discovery.proposals import FoundFolder

JUDGED_AMONG = (200, 500, 1000)


def judged(
    found: FoundPath,
    entities: Path = Option(..., help="File of entities, as `suite make wild` reads."),
    labels: Path = Option(..., help="Table of judged mentions, likewise."),
    as_json: AsJson = False,
) -> None:
    """Tell which entities whose mentions were judged are among the proposals, and where."""
    from stamo_lab.wild.discovered import find_judged
    from stamo_lab.wild.suite import read_wild_entities, read_wild_labels

    proposals = FoundFolder(found).proposals(decided=True)
    rows = find_judged(proposals, read_wild_entities(entities), read_wild_labels(labels))
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    table = bare_table("entity", ">judged", ">place", "proposed as", "kind")
    for row in sorted(rows, key=lambda row: row.place or len(proposals) + 1):
        place = "" if row.place is None else str(row.place)
        table.add_row(Text(row.name), str(row.n_judged), place, Text(row.proposal), row.kind)
    print_table(table)
    places = [row.place for row in rows if row.place is not None]
    counts = ", ".join(f"{sum(p <= n for p in places)} in {n:,}" for n in JUDGED_AMONG)
    Console(highlight=False).print(f"Of {len(rows)} entities: {counts}.")
