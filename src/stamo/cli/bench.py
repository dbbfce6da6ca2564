"""`stamo bench`: measure speed and memory on the user's own machine."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from typer import Argument, Option

from stamo.cli.bench_speed import bench_discover, bench_learn, bench_link
from stamo.cli.options import AsJson, KbPath, open_both, parse_sizes
from stamo.cli.tables import Console, command_group, print_json, print_table, rich_table
from stamo.errors import SettingsError

if TYPE_CHECKING:
    from stamo.replication.bench_build import BuildBench, Measured
    from stamo.replication.bench_collect import CollectSpeed, WholeCollect


def bench_collect(
    sources: list[str] = Argument(
        ..., metavar="SOURCE...", help="Documents as `collect` reads them."
    ),
    entities: str = Option("1,10,100", help="Numbers of entities; the first is compared with."),
    aliases: int = Option(2, min=1, help="Names of each entity."),
    rounds: int = Option(1, min=1, help="Passes of each size; the best counts."),
    kb: Path | None = Option(None, help="With a model: measure the whole of collecting too."),
    model: Path | None = Option(None, help="Links the documents that are kept."),
    as_json: AsJson = False,
) -> None:
    """Measure one pass over documents for one, ten and a hundred entities, by names found there."""
    from stamo.replication.bench_collect import measure_passes, measure_whole

    if (kb is None) != (model is None):
        raise SettingsError("--kb and --model belong together; give both or none of them.")
    sizes = parse_sizes(entities)
    with Console(stderr=True).status("drawing names") as status:
        speed = measure_passes(
            sources,
            sizes,
            n_aliases=aliases,
            n_rounds=rounds,
            on_pass=lambda size: status.update(f"searching for {size}"),
        )
        status.update(f"collecting for {max(sizes)}")
        whole: tuple[WholeCollect, ...] = ()
        if kb and model:
            whole = measure_whole(sources, *open_both(kb, model), max(sizes), n_aliases=aliases)
    if as_json:
        print_json(asdict(speed) | {"whole": [asdict(one) for one in whole]})
    else:
        _print(speed)
        if whole:
            _print_whole(whole)


def _print_whole(whole: tuple[WholeCollect, ...]) -> None:
    title = "The whole of collecting, with linking; one entity under a name as common as all others"
    table = rich_table(">entities", ">kept", ">CPU s", ">ms/kept", ">speed", title=title)
    for one in whole:
        table.add_row(
            str(one.n_entities),
            f"{one.n_kept:,}",
            f"{one.seconds:.2f}",
            f"{1000 * one.seconds_per_kept:.1f}",
            f"{whole[0].seconds_per_kept / one.seconds_per_kept:.0%}",
        )
    print_table(table)


def _print(speed: CollectSpeed) -> None:
    title = (
        f"{speed.n_bytes / 1e6:,.1f} MB as stored, peak memory {speed.peak_memory / 1e6:,.0f} MB"
    )
    counts = (">entities", ">documents", ">mentions", ">CPU s", ">MB/CPU s")
    ratios = (">speed of one", ">nothing found", ">one by one takes")
    table = rich_table(*counts, *ratios, title=title)
    for one in speed.passes:
        table.add_row(
            str(one.n_entities),
            f"{one.n_documents:,}",
            f"{one.n_mentions:,}",
            f"{one.seconds:.2f}",
            f"{one.megabytes_per_second:.1f}",
            f"{one.ratio:.0%}",
            f"{one.scan_ratio:.0%}",
            f"{one.saved:.1f} times",
        )
    print_table(table)


def bench_encode(
    kb: KbPath,
    encoder: str | None = Option(
        None, help="Folder of an encoder; without it the packaged MiniLM."
    ),
    windows: int = Option(500, min=1, help="Windows of text to encode."),
    length: int = Option(450, min=20, help="Characters of a window."),
    as_json: AsJson = False,
) -> None:
    """Measure how fast windows of text become vectors, beside the encoder's layers alone."""
    from stamo.features.encoder import load_encoder
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.bench_encode import measure_encoding
    from stamo.replication.bench_link import news_size_documents

    documents = news_size_documents(KnowledgeBase.open(kb), windows, length)
    speed = measure_encoding(load_encoder(encoder), [document.text for document in documents])
    if as_json:
        print_json(asdict(speed) | {"ratio": speed.ratio})
        return
    Console(highlight=False).print(
        f"{speed.n_windows} windows, {speed.n_tokens} tokens, one thread, {speed.encoder}: "
        f"{speed.windows_per_second:.1f} windows and {speed.tokens_per_second:.0f} tokens a CPU "
        f"second; the layers alone {speed.bare_tokens_per_second:.0f} tokens; "
        f"ratio {speed.ratio:.2f}."
    )


def bench_build(
    dump: Path = Argument(..., metavar="DUMP", help="MediaWiki XML dump."),
    workers: int = Option(2, help="Processes of each program."),
    sizes: str = Option("25,50,100", help="Prefixes of the dump to build from, in MB of XML."),
    wikipedia2vec_python: str = Option(
        sys.executable, help="The interpreter that has wikipedia2vec 2.0."
    ),
    ours_only: bool = Option(False, "--ours-only", help="Do not run wikipedia2vec."),
    thresholds: bool = Option(
        False, "--thresholds", help="Let wikipedia2vec drop rare entities and names, its default."
    ),
    scratch: Path | None = Option(None, help="Where to put temporary files; they are removed."),
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
    if found.theirs is not None:
        print_table(_comparison_table(found.ours[-1], found.theirs, workers))
    print_table(_sizes_table(found))


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


bench = command_group(
    "Measure speed and memory on this machine.",
    *(bench_build, bench_collect, bench_link, bench_learn, bench_encode, bench_discover),
    prefix="bench_",
)
