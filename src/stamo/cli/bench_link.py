"""`stamo bench link`: how fast text is linked."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer

from stamo.cli.kb import KbPath
from stamo.cli.link import ModelPath
from stamo.cli.tables import Console, rich_table

if TYPE_CHECKING:
    from stamo.replication.bench_link import SpeedReport


def register_bench(app: typer.Typer) -> None:
    """Add the command to the group of benchmarks."""
    app.command("link")(bench_link)


def bench_link(
    kb: KbPath,
    model: ModelPath,
    documents: Annotated[int, typer.Option(min=1, help="News-size documents to link.")] = 512,
    length: Annotated[int, typer.Option(min=100, help="Characters of a document.")] = 3000,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Measure documents and mentions a second, beside simpler ways to link in the same run."""
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import load_model
    from stamo.replication.bench_link import measure_speed, news_size_documents

    base = KnowledgeBase.open(kb)
    texts = news_size_documents(base, documents, length)
    report = measure_speed(base, load_model(model), texts, n_workers=workers)
    console = Console(highlight=False)
    if as_json:
        console.out(json.dumps(report.to_record(), indent=2), highlight=False)
    else:
        _print(report, console)


def _print(report: SpeedReport, console: Console) -> None:
    size = report.n_characters / max(report.n_documents, 1)
    title = f"{report.n_documents} documents of {size:.0f} characters, {report.n_mentions} mentions"
    columns = (">documents/s", ">mentions/s", ">documents/CPU-s", ">ratio")
    table = rich_table("linking with " + report.model, *columns, title=title)
    for way in report.ways:
        speeds = f"{way.documents_per_second:.1f}", f"{way.mentions_per_second:.0f}"
        cpu = f"{way.documents_per_cpu_second:.1f}"
        table.add_row(way.name, *speeds, cpu, f"{way.ratio:.2f}")
    console.print(table)
    console.print(
        f"Scored {report.n_scored} encoded mentions at {report.scored_per_second:.0f} a CPU "
        f"second; ready in {report.start_seconds:.3f} s; peak memory "
        f"{report.peak_memory / 2**20:.0f} MB with mapped files."
    )
