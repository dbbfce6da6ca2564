"""`stamo bench`: measure speed and memory on the user's own machine."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from typer import Argument, Option

from stamo.cli.output import (
    AsJson,
    Console,
    KbPath,
    ModelPath,
    command_group,
    open_both,
    parse_sizes,
    print_json,
    print_table,
    rich_table,
)
from stamo.errors import SettingsError

if TYPE_CHECKING:
    from rich.table import Table

    from stamo_lab.bench.build import BuildBench, Measured
    from stamo_lab.bench.collect import CollectSpeed, WholeCollect
    from stamo_lab.bench.learn import LearnBench
    from stamo_lab.bench.link import SpeedReport


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
    from stamo_lab.bench.link import measure_speed, news_size_documents

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
    from stamo_lab.bench import learn as bench

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
    from stamo_lab.bench.link import measure_pass

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
    from stamo_lab.bench.collect import measure_passes, measure_whole

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
    from stamo_lab.bench.link import measure_encoding, news_size_documents

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
    from stamo_lab.bench import build as bench

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
