"""`stamo bench learn`: how long learning takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer import Option

from stamo.cli.options import AsJson
from stamo.cli.tables import Console, print_json, print_table, rich_table

if TYPE_CHECKING:
    from rich.table import Table

    from stamo.replication.bench_learn import LearnBench

PUBLISHED_SECONDS = 714
"""CPU seconds that the published code needs for one slot of this work on a machine like ours."""


def bench_learn(
    entities: int = Option(50, help="Emerging entities."),
    documents: int = Option(1000, help="Unlabelled documents of each."),
    slots: int = Option(5, help="Slots to average over."),
    workers: int = Option(2, help="Processes."),
    grow: bool = Option(False, "--grow", help="Also show how the cost grows."),
    as_json: AsJson = False,
) -> None:
    """Measure a slot of the paper's work, by phase, and the default reading for one entity."""
    from dataclasses import asdict, replace

    from stamo.replication import bench_learn as bench

    args = bench.LearnBenchArgs(
        n_entities=entities, n_unlabelled=documents, n_slots=slots, n_workers=workers
    )
    closed = bench.bench_learn(args)
    sampled = bench.bench_learn(replace(args, max_margin=True))
    default_seconds, default_slots = bench.bench_default(args)
    hundred_seconds, hundred_slots = bench.bench_default(args, n_slots=100)
    fast, slow = bench.bench_per_mention(args)
    grown = bench.growth(args) if grow else {}
    if as_json:
        record = {
            "closed_form": asdict(closed),
            "max_margin": asdict(sampled),
            "default_seconds": default_seconds,
            "default_slots": default_slots,
            "default_with_up_to_100_slots": {"seconds": hundred_seconds, "slots": hundred_slots},
            "link_seconds": {"prepared": fast, "one mention at a time": slow},
            "growth": grown,
        }
        print_json(record)
        return
    console = Console()
    print_table(_table(closed, sampled))
    console.print(
        f"The default reading, one entity: {default_seconds:.2f} s for its {default_slots} slots, "
        f"{hundred_seconds:.2f} s when it may take 100 (it stopped after {hundred_slots})."
    )
    console.print(
        f"Linking one pile: {fast * 1000:.1f} ms prepared, {slow * 1000:.0f} ms one mention at a "
        f"time ({slow / fast:.0f} x)."
    )
    for name, points in grown.items():
        console.print(f"{name}: " + ", ".join(f"{n:,}: {s:.3f} s" for n, s in points))


def _table(closed: LearnBench, sampled: LearnBench) -> Table:
    """Return a slot with the closed form and with the sampled vector, side by side."""
    args = closed.args
    title = f"One slot of {args.n_entities} entities x {args.n_unlabelled} documents"
    table = rich_table("", ">closed form", ">max-margin, 35 epochs", title=title)
    for phase in ("link", "estimate", "intra", "inter"):
        table.add_row(f"{phase} (s)", *(f"{b.phases[phase]:.2f}" for b in (closed, sampled)))
    wall = [b.seconds_per_slot for b in (closed, sampled)]
    table.add_row(f"a slot, wall with {args.n_workers} workers (s)", *(f"{w:.2f}" for w in wall))
    once = [b.seconds_once for b in (closed, sampled)]
    table.add_row("before the first slot, once (s)", *(f"{w:.2f}" for w in once))
    cpu = [sum(b.phases.values()) for b in (closed, sampled)]
    ratios = [f"{PUBLISHED_SECONDS * args.n_entities / 50 / c:.0f} x" for c in cpu]
    table.add_row(f"published code ({PUBLISHED_SECONDS} CPU s at 50 x 1000) / ours", *ratios)
    table.add_row("memory of one entity (MB)", *(f"{b.memory_mb:.0f}" for b in (closed, sampled)))
    return table
