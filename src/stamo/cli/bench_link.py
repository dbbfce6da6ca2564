"""`stamo bench link`: how fast text is linked."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from stamo.cli.options import AsJson, KbPath, ModelPath
from stamo.cli.tables import Console, print_json, rich_table

if TYPE_CHECKING:
    from stamo.replication.bench_link import SpeedReport


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
