"""`stamo bench`: measure speed and memory on the user's own machine."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from stamo.cli.bench_collect import bench_collect, parse_sizes
from stamo.cli.bench_encode import bench_encode
from stamo.cli.bench_learn import bench_learn
from stamo.cli.bench_link import bench_link
from stamo.cli.kb import AsJson
from stamo.cli.tables import Console, print_json, rich_table

if TYPE_CHECKING:
    from stamo.replication.bench_build import BuildBench, Measured


def register(app: typer.Typer) -> None:
    """Add the group of benchmarks to an application."""
    sub = typer.Typer(no_args_is_help=True, help="Measure speed and memory on this machine.")
    for command in (bench_build, bench_collect, bench_link, bench_learn, bench_encode):
        sub.command(command.__name__.removeprefix("bench_"))(command)
    app.add_typer(sub, name="bench")


def bench_build(
    dump: Annotated[Path, typer.Argument(metavar="DUMP", help="MediaWiki XML dump.")],
    workers: Annotated[int, typer.Option(help="Processes of each program.")] = 2,
    sizes: Annotated[
        str, typer.Option(help="Prefixes of the dump to build from, in MB of XML.")
    ] = "25,50,100",
    wikipedia2vec_python: Annotated[
        str, typer.Option(help="The interpreter that has wikipedia2vec 2.0.")
    ] = sys.executable,
    ours_only: Annotated[
        bool, typer.Option("--ours-only", help="Do not run wikipedia2vec.")
    ] = False,
    thresholds: Annotated[
        bool,
        typer.Option(
            "--thresholds", help="Let wikipedia2vec drop rare entities and names, its default."
        ),
    ] = False,
    scratch: Annotated[
        Path | None, typer.Option(help="Where to put temporary files; they are removed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare a build without vectors with wikipedia2vec 2.0, and follow memory by size."""
    from stamo.replication import bench_build as bench

    args = bench.BuildBenchArgs(
        workers=workers,
        sizes=parse_sizes(sizes),
        their_python=wikipedia2vec_python,
        ours_only=ours_only,
        their_thresholds=thresholds,
        scratch=scratch,
    )
    with Console(stderr=True).status("measuring") as status:
        found = bench.bench_build(dump, args, lambda what: status.update(what))
    if as_json:
        print_json(asdict(found) | {"speedup": found.speedup})
        return
    console = Console()
    if found.theirs is not None:
        console.print(_comparison_table(found.ours[-1], found.theirs, workers))
    console.print(_sizes_table(found))


def _comparison_table(ours: Measured, theirs: Measured, workers: int) -> Table:
    """Set both programs side by side, with how many times as much the other one takes."""
    title = f"The same {ours.megabytes:.0f} MB of XML, {workers} processes, without vectors"
    table = rich_table("", ">stamo", ">wikipedia2vec", ">ratio", title=title)
    one, other = ours.usage, theirs.usage
    table.add_row("seconds", *_pair(one.seconds, other.seconds, 1.0, "{:.1f}"))
    table.add_row("processor seconds", *_pair(one.cpu_seconds, other.cpu_seconds, 1.0, "{:.1f}"))
    for name, mine, its in (
        ("peak memory, all processes (MB)", one.peak_resident, other.peak_resident),
        ("the same, shared pages once (MB)", one.peak_proportional, other.peak_proportional),
        ("on disk (MB)", ours.disk, theirs.disk),
    ):
        table.add_row(name, *_pair(mine, its, 1e6, "{:,.0f}"))
    table.add_section()
    for name in ours.counts:
        table.add_row(name, *_pair(ours.counts[name], theirs.counts[name], 1, "{:,.0f}"))
    for measured in (ours, theirs):
        table.add_section()
        for name, seconds in measured.seconds_by_step.items():
            cells = [f"{seconds:.1f}", ""] if measured is ours else ["", f"{seconds:.1f}"]
            table.add_row(f"{name} (seconds)", *cells, "")
    return table


def _pair(ours: float | None, theirs: float | None, unit: float, form: str) -> tuple[str, str, str]:
    if ours is None or theirs is None:
        return "–", "–", ""
    ratio = f"{theirs / ours:.2f}" if ours else ""
    return form.format(ours / unit), form.format(theirs / unit), ratio


def _sizes_table(bench: BuildBench) -> Table:
    """Show how time and memory of our build grow with the dump."""
    headings = ">MB of XML,>seconds,>processor,>MB per second,>peak MB,>shared once,>disk"
    table = rich_table(*headings.split(","), title="stamo by size of the dump")
    for measured in bench.ours:
        usage = measured.usage
        peaks = [
            "–" if peak is None else f"{peak / 1e6:,.0f}"
            for peak in (usage.peak_resident, usage.peak_proportional)
        ]
        table.add_row(
            f"{measured.megabytes:.0f}",
            f"{usage.seconds:.1f}",
            f"{usage.cpu_seconds:.1f}",
            f"{measured.megabytes / usage.seconds:.2f}",
            *peaks,
            f"{measured.disk / 1e6:,.0f}",
        )
    return table
