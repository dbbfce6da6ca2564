"""`stamo-lab judged`: how many judged entities a discovery proposes, and where."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.text import Text
from typer import Option

from stamo.cli import AsJson
from stamo.cli.discover import FoundPath
from stamo.cli.output import Console, bare_table, print_json, print_table
from stamo.discovery.proposals import FoundFolder, Occurrence, Proposal
from stamo_lab.wild.suite import WildEntity, WildLabel

LEAST_JUDGED = 3
"""Judged mentions that mean an entity, for it to be looked for."""
LEAST_MET = 2
"""Judged mentions that mean the entity, in the places of a proposal that is it."""


@dataclass(frozen=True)
class JudgedEntity:
    """An entity whose mentions were judged, and the first proposal that is it."""

    name: str
    n_judged: int
    """Mentions that were judged to mean it."""
    place: int | None
    """Place of that proposal, from 1; None where no proposal is it."""
    proposal: str = ""
    kind: str = ""


def find_judged(
    proposals: Iterable[Proposal], entities: Sequence[WildEntity], labels: Sequence[WildLabel]
) -> list[JudgedEntity]:
    """Find each entity among proposals, the best proposal first.

    A proposal is an entity when its places hold at least two mentions judged to be it, and at least
    as many as judged to be something else.

    Args:
        proposals: In their order.
        entities: With their keys or aliases in the labels.
        labels: What was judged; entities with fewer than three mentions are left out.
    """
    key_by_name = {name: e.key for e in entities for name in (e.key, *e.aliases)}
    judged: dict[str, list[tuple[int, str, bool]]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for label in labels:
        if label.alias in key_by_name:
            key = key_by_name[label.alias]
            judged[label.document].append((label.offset, key, label.is_entity))
            counts[key] += label.is_entity
    for in_document in judged.values():
        in_document.sort()
    met: dict[str, tuple[int, str, str]] = {}
    for place, proposal in enumerate(proposals, start=1):
        held = Counter(
            (key, is_entity)
            for occurrence in proposal.occurrences
            for _, key, is_entity in _inside(judged.get(occurrence.document, []), occurrence)
        )
        for key in {key for key, _ in held} - met.keys():
            if held[key, True] >= max(LEAST_MET, held[key, False]):
                met[key] = place, proposal.name, proposal.kind
    return [
        JudgedEntity(e.name, counts[e.key], *met.get(e.key, (None,)))
        for e in entities
        if counts[e.key] >= LEAST_JUDGED
    ]


def _inside(
    judged: Sequence[tuple[int, str, bool]], occurrence: Occurrence
) -> Sequence[tuple[int, str, bool]]:
    first = bisect_left(judged, (occurrence.start,))
    return judged[first : bisect_left(judged, (occurrence.end,), first)]


JUDGED_AMONG = (200, 500, 1000)


def judged(
    found: FoundPath,
    entities: Path = Option(..., help="File of entities, as `suite make wild` reads."),
    labels: Path = Option(..., help="Table of judged mentions, likewise."),
    as_json: AsJson = False,
) -> None:
    """Tell which entities whose mentions were judged are among the proposals, and where."""
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
