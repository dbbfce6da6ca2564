"""`stamo bench link | learn | discover`: how fast the three are."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument, Option

from stamo.cli.options import AsJson, KbPath, ModelPath, open_both
from stamo.cli.tables import Console, print_json, print_table, rich_table

if TYPE_CHECKING:
    from rich.table import Table

    from stamo.replication.bench_learn import LearnBench
    from stamo.replication.bench_link import SpeedReport

PUBLISHED_SECONDS = 714
"""CPU seconds that the published code needs for one slot of this work on a machine like ours."""


def bench_link(
    kb: KbPath,
    model: ModelPath,
    documents: int = Option(512, min=1, help="News-size documents to link."),
    length: int = Option(3000, min=100, help="Characters of a document."),
    workers: int = Option(os.cpu_count() or 1, min=1, help="Processes."),
    seconds: float = Option(20.0, min=0, help="How long each setting runs at least."),
    before: Path | None = Option(
        None, exists=True, file_okay=False, help="Folder src of another version to compare with."
    ),
    as_json: AsJson = False,
) -> None:
    """Measure `stamo link`, text in and JSON lines out, beside simpler ways in the same run."""
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.bench_link import measure_speed, news_size_documents

    texts = news_size_documents(KnowledgeBase.open(kb), documents, length)
    with Console(stderr=True).status("starting") as status:
        report = measure_speed(
            kb, model, texts, workers=workers, seconds=seconds, before=before, say=status.update
        )
    console = Console(highlight=False)
    if as_json:
        print_json(asdict(report))
    else:
        print_speeds(report, console)


def print_speeds(report: SpeedReport, console: Console) -> None:
    """Print what was measured as a table."""
    size = report.n_characters / max(report.n_documents, 1)
    title = f"{report.n_documents} documents of {size:.0f} characters, again and again"
    columns = (">seconds", ">MB/s", ">documents/s", ">mentions/s", ">MB/CPU-s", ">memory", ">ratio")
    table = rich_table("linking with " + report.model, *columns, title=title)
    for way in report.ways:
        memory = "" if way.peak_memory is None else f"{way.peak_memory / 2**20:.0f} MB"
        table.add_row(
            way.name,
            f"{way.seconds:.1f}",
            f"{way.megabytes_per_second:.3g}",
            f"{way.documents_per_second:.0f}",
            f"{way.mentions_per_second:.0f}",
            f"{way.megabytes_per_cpu_second:.3g}",
            memory,
            f"{way.ratio:.2f}",
        )
    console.print(table)
    console.print(
        f"Scored {report.n_scored} encoded mentions at {report.scored_per_second:.0f} a CPU "
        f"second; one sentence takes {report.start_seconds:.2f} CPU seconds."
    )


def bench_learn(
    entities: int = Option(50, help="Emerging entities."),
    documents: int = Option(1000, help="Unlabelled documents of each."),
    slots: int = Option(5, help="Slots to average over."),
    workers: int = Option(2, help="Processes."),
    grow: bool = Option(False, "--grow", help="Also show how the cost grows."),
    as_json: AsJson = False,
) -> None:
    """Measure a slot of the paper's work, by phase, and the default reading for one entity."""
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


def bench_discover(
    kb: KbPath,
    model: ModelPath,
    sources: list[str] = Argument(
        ..., metavar="SOURCE...", help="Documents as `discover` reads them."
    ),
    documents: int = Option(1500, min=1, help="Documents at most."),
    as_json: AsJson = False,
) -> None:
    """Measure the pass of `stamo discover` beside linking the same documents, in turns."""
    from stamo.replication.bench_discover import measure_pass

    base, trained = open_both(kb, model)
    with Console(stderr=True).status("starting") as status:
        speed = measure_pass(
            sources,
            base,
            trained,
            n_documents=documents,
            on_batch=lambda n: status.update(f"{n:,} documents"),
        )
    if as_json:
        print_json(asdict(speed) | {"ratio": speed.ratio})
        return
    megabytes = speed.n_characters / 1e6
    title = f"{speed.n_documents:,} documents, {megabytes:,.1f} million characters, one process"
    table = rich_table("", ">CPU s", ">documents/CPU s", ">ratio", title=title)
    for name, seconds in (("linking", speed.link_seconds), ("discovery", speed.pass_seconds)):
        ratio = speed.link_seconds / seconds
        table.add_row(name, f"{seconds:.1f}", f"{speed.n_documents / seconds:.0f}", f"{ratio:.2f}")
    print_table(table)
