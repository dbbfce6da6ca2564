"""`stamo link` and `stamo evaluate`: link text, and measure how well."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from stamo.cli import (
    AsJson,
    EncodingOption,
    EngineOption,
    KbPath,
    MasterOption,
    ModelPath,
    TextColumnOption,
    open_both,
)
from stamo.corpus.reading import CONVERT, ReadChunk, read_chunks
from stamo.errors import SettingsError
from stamo.kb.manifest import KB_FORMAT, MANIFEST_FILE
from stamo.linking.detect import LinkerSettings, MentionChoice
from stamo.linking.linker import Linker, map_batches, open_linker, pack_files
from stamo.linking.output import write_links
from stamo.models.store import is_model

if TYPE_CHECKING:
    from stamo.integrations.spark.jobs import LinkJob

LeastLinkProbability = Annotated[
    float, Option("--link-probability", help="How often a name must be a link to be found.")
]
NPasses = Annotated[int, Option("--passes", help="1 links by prior alone, 2 by the model.")]


def link(
    kb: KbPath,
    model: ModelPath,
    files: list[Path] = Argument(
        [],
        metavar="[FILES]...",
        help="Texts, JSON lines, tables, web pages, feeds, or folders; - or none for stdin.",
    ),
    packs: list[Path] = Option([], "--with", help="A pack or a folder of packs; repeat it."),
    jsonl: bool = Option(False, "--jsonl", help="Read stdin and all files as JSON lines."),
    text_column: TextColumnOption = "",
    encoding: EncodingOption = "",
    threshold: float = Option(0.0, help="Leave mentions below this confidence unlinked (NIL)."),
    explain: bool = Option(False, "--explain", help="Say which words and scores decided."),
    all_candidates: bool = Option(False, "--all-candidates", help="Write all candidates."),
    mentions: MentionChoice = Option("auto", help="auto detects where none are given."),
    output: Literal["auto", "text", "jsonl", "csv", "nif", "html"] = Option(
        "auto",
        "--format",
        "--output",
        help="How to write; auto is coloured text in a terminal and JSON lines elsewhere.",
    ),
    as_json: bool = Option(False, "--json", help="Write JSON lines, in a terminal too."),
    link_probability: LeastLinkProbability = 0.1,
    passes: NPasses = 2,
    workers: int = Option(1, min=1, help="Processes."),
    batch_size: int = Option(64, help="Documents linked together."),
    window: int = Option(100_000, help="Characters of a long text that are linked together."),
    engine: EngineOption = "embedded",
    master: MasterOption = None,
    out: str | None = Option(None, help="Folder or address of Parquet that Spark writes."),
    overwrite: bool = Option(False, "--overwrite", help="Replace what is in --out."),
    shared: bool | None = Option(
        None,
        "--shared/--ship",
        help="Whether Spark's machines see the same paths, or are sent KB and model.",
        show_default="shared inside this machine only",
    ),
) -> None:
    """Link the mentions of texts to entities; bad documents become error records."""
    settings = LinkerSettings(
        threshold=threshold,
        mentions=mentions,
        n_passes=passes,
        explain=explain,
        batch_size=batch_size,
        window=window,
        link_probability=link_probability,
    )
    everything = all_candidates or explain
    for file in files:  # a knowledge base or model among them is read as no text
        manifest = file / MANIFEST_FILE
        is_kb = manifest.is_file() and KB_FORMAT in manifest.read_text(errors="replace")
        if is_kb or is_model(file):
            what = "kb" if is_kb else "model"
            raise SettingsError(f"{str(file)!r} is no text to link; name it with --{what}.")
    if engine == "spark":
        from stamo.integrations.spark.jobs import LinkJob

        if model is None:
            raise SettingsError("Spark links with a model; give its file with --model.")
        if encoding:
            raise SettingsError(f"Spark reads texts in UTF-8 only; {CONVERT}.")
        if out is None or not files:
            raise SettingsError(
                "Spark reads FILES and writes a folder; name both, with --out FOLDER."
            )
        used = tuple(pack_files(packs))
        job = LinkJob(kb, model, used, settings, everything, jsonl, text_column)
        n_linked, n_failed = _link_on_spark(job, files, out, master, overwrite, shared)
    else:
        only_spark = {"master": master, "out": out, "overwrite": overwrite or None}
        for name, value in (only_spark | {"shared": shared}).items():
            if value is not None:
                raise SettingsError(
                    f"--{name} goes with --engine spark; add that, or leave it out."
                )
        sources = read_chunks(
            files or ["-"], window, json_lines=jsonl, text_column=text_column, encoding=encoding
        )
        linker = open_linker(kb, model, packs, settings)
        if output == "auto" or as_json:
            output = "text" if sys.stdout.isatty() and not as_json else "jsonl"
        if output == "text":
            n_linked, n_failed = _write_text(linker, sources, workers)
        else:
            n_linked, n_failed = write_links(
                linker, sources, sys.stdout.buffer, output, workers, all_candidates=everything
            )
    if n_failed:
        from stamo.cli.output import warn  # with rich, which a command that writes lines spares

        warn(f"{n_failed} of {n_linked + n_failed} documents or parts could not be linked.")
        if not n_linked:
            raise typer.Exit(1)


def _link_on_spark(
    job: LinkJob,
    files: list[Path],
    out: str,
    master: str | None,
    overwrite: bool,
    shared: bool | None,
) -> tuple[int, int]:
    """Link files on Spark; return how many documents were linked and how many failed."""
    from stamo.cli.output import Console, progress_view
    from stamo.integrations.spark.jobs import link_on_spark, spark_session

    # A path has lost one of the two slashes of an address.
    sources = [re.sub(r"^([a-z][a-z0-9+.-]+):/(?!/)", r"\1://", str(file)) for file in files]
    console = Console(stderr=True, highlight=False)
    with spark_session(master) as spark, progress_view(console, "Linking on Spark") as on_task:
        run = link_on_spark(
            spark, sources, out, job, overwrite=overwrite, shared=shared, on_task=on_task
        )
    done = f", {run.n_before} of them by an earlier run" if run.n_before else ""
    console.print(
        f"{run.n_linked:,} documents or parts are linked in {out}: {run.n_tasks} tasks{done}."
    )
    return run.n_linked, run.n_failed


def _write_text(linker: Linker, sources: Iterator[ReadChunk], n_workers: int) -> tuple[int, int]:
    from stamo.cli.output import Console
    from stamo.linking.render import legend, render_document

    console = Console(highlight=False, soft_wrap=True)
    counts = [0, 0]
    linker.warm_up()
    for documents in map_batches(linker.link_batch, sources, linker.settings, n_workers):
        for linked in documents:
            console.print(render_document(linked, explain=linker.settings.explain))
            counts[linked.error is not None] += 1
    console.print(legend(linker.settings.threshold))
    return counts[0], counts[1]


def evaluate(
    kb: KbPath,
    model: ModelPath,
    held_out: bool = Option(False, "--held-out", help="Measure on the KB's held-out articles."),
    folds: int = Option(0, help="Train anew in folds, to measure on all held-out articles."),
    zelda: list[Path] = Option([], help="Measure on a file in ZELDA's format; repeat it."),
    nif: list[Path] = Option([], help="Measure on a file in GERBIL's format; repeat it."),
    threshold: float = Option(0.0, help="Leave mentions below this confidence unlinked."),
    link_probability: LeastLinkProbability = 0.1,
    passes: NPasses = 2,
    encoding: EncodingOption = "",
    samples: int = Option(1000, help="Bootstrap samples for the intervals."),
    as_json: AsJson = False,
    markdown: bool = Option(False, "--markdown", help="Print Markdown tables."),
    figure: Path | None = Option(None, help="Write the reliability curve to this PNG or SVG."),
) -> None:
    """Measure a model on held-out articles and on documents with gold entities."""
    from stamo.cli.output import Console, progress_view, show
    from stamo.evaluation.gold import evaluate_gold, read_nif, read_zelda
    from stamo.evaluation.held_out import evaluate_held_out
    from stamo.evaluation.tables import gold_tables, held_out_tables, save_reliability

    if not held_out and not folds and not zelda and not nif:
        raise SettingsError(
            "There is nothing to measure on; give --held-out, --folds N, --zelda or --nif FILE."
        )
    base, trained = open_both(kb, model)
    settings = LinkerSettings(threshold, n_passes=passes, link_probability=link_probability)
    report = None
    if folds:
        title = "Training and linking, fold by fold"
        with progress_view(Console(stderr=True), title, stays=True, total=folds) as on_fold:
            report = evaluate_held_out(
                base, trained, n_folds=folds, n_samples=samples, on_fold=on_fold
            )
    elif held_out:
        report = evaluate_held_out(base, trained, n_samples=samples)
    measure = partial(evaluate_gold, base, trained, settings=settings, n_samples=samples)
    gold = {
        "zelda": measure(zelda, read=partial(read_zelda, encoding=encoding)) if zelda else [],
        "nif": measure(nif, read=partial(read_nif, encoding=encoding)) if nif else [],
    }
    if figure is not None and report is not None:
        save_reliability(report.confidence, figure)
    tables = [] if report is None else held_out_tables(report)
    tables += [table for reports in gold.values() if reports for table in gold_tables(reports)]
    view = (table.markdown() + "\n" if markdown else table.rich() for table in tables)
    show({"held_out": report, **gold}, view, as_json=as_json)
