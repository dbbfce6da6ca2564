"""`stamo suite make | run | report`: benchmarks that anyone can rebuild, every method on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from stamo.corpus.types import Document
    from stamo.evaluation.tables import Table as ResultTable
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.suites.conflated import ConflatedSettings, Level
    from stamo.replication.suites.run import RunSettings
    from stamo.replication.suites.store import Suite


class SuiteKind(StrEnum):
    """Where the gold labels of a suite come from."""

    conflated = "conflated"
    natural = "natural"
    facc1 = "facc1"


class LevelChoice(StrEnum):
    """How hard the rivals of a conflated suite are."""

    easy = "easy"
    mid = "mid"
    hard = "hard"
    all = "all"


SuiteKb = Annotated[Path, typer.Option("--kb", help="Directory of the knowledge base.")]
WorkersOption = Annotated[int | None, typer.Option(help="Processes; one for each core by default.")]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    group = typer.Typer(no_args_is_help=True, help="Make, run and report benchmark suites.")
    group.command("make")(make)
    group.command("run")(run)
    group.command("report")(report)
    app.add_typer(group, name="suite")


def make(
    kind: Annotated[SuiteKind, typer.Argument(help="conflated, natural or facc1.")],
    kb: SuiteKb,
    out: Annotated[Path, typer.Option(help="Directory to make.")],
    corpus: Annotated[
        list[Path] | None, typer.Option(help="Later text (conflated), or ClueWeb12 WARC (facc1).")
    ] = None,
    level: Annotated[
        LevelChoice, typer.Option(help="Of a conflated suite; `all` makes three below OUT.")
    ] = LevelChoice.all,
    n_entities: Annotated[
        int | None, typer.Option("--entities", help="Emerging entities at most.")
    ] = None,
    least_documents: Annotated[
        int | None, typer.Option(help="Documents that must mention an emerging entity.")
    ] = None,
    frequency: Annotated[
        tuple[int, int] | None, typer.Option(help="Bounds of the document frequency (natural).")
    ] = None,
    ambiguity: Annotated[
        tuple[float, float] | None, typer.Option(help="Bounds of the ambiguity rate (natural).")
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(help="Links to missing pages: keep, drop namesakes or drop (natural)."),
    ] = None,
    annotations: Annotated[
        list[Path] | None, typer.Option(help="FACC1 files that annotate the pages.")
    ] = None,
    freebase_keys: Annotated[
        Path | None, typer.Option(help="Freebase ids with Wikipedia page ids (facc1).")
    ] = None,
    workers: WorkersOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an older suite.")] = False,
) -> None:
    """Make a suite from a knowledge base and a pile of text."""
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.suites.conflated import ConflatedSettings
    from stamo.replication.suites.make import make_facc1, make_natural
    from stamo.replication.suites.natural import NaturalSettings

    base = KnowledgeBase.open(kb)
    given = _given({"n_entities": n_entities, "least_documents": least_documents})
    bounds = _given({"frequency": frequency, "ambiguity": ambiguity, "missing": missing})
    options: dict[str, Any] = {"overwrite": overwrite, "n_workers": workers}
    with _documents_bar() as on_document:
        if kind == SuiteKind.natural:
            suites = [make_natural(base, out, NaturalSettings(**given | bounds), **options)]
        elif kind == SuiteKind.facc1:
            pages = _facc1_documents(base, corpus, annotations, freebase_keys)
            settings = NaturalSettings(**{"frequency": (1000, 2000)} | given | bounds)
            options["on_document"] = on_document
            suites = [make_facc1(base, pages, out, settings, **options)]
        else:
            options["on_document"] = on_document
            suites = _conflated(base, corpus, out, level, ConflatedSettings(**given), options)
    for suite in suites:
        _show_suite(suite)


def _conflated(
    kb: KnowledgeBase,
    corpus: list[Path] | None,
    out: Path,
    level: LevelChoice,
    settings: ConflatedSettings,
    options: dict[str, Any],
) -> list[Suite]:
    from stamo.corpus.readers import read_documents
    from stamo.errors import SettingsError
    from stamo.replication.suites.make import make_conflated, make_levels

    if not corpus:
        raise SettingsError("A conflated suite needs text; give it with --corpus.")
    documents = read_documents(corpus)
    options["corpus_name"] = ", ".join(path.name for path in corpus)
    if level == LevelChoice.all:
        return make_levels(kb, documents, out, settings, **options)
    chosen: Level = level.value  # type: ignore[assignment]
    return [make_conflated(kb, documents, out, replace(settings, level=chosen), **options)]


def _facc1_documents(
    kb: KnowledgeBase,
    warcs: list[Path] | None,
    annotations: list[Path] | None,
    freebase_keys: Path | None,
) -> Iterator[Document]:
    from stamo.corpus.formats.facc1 import read_facc1
    from stamo.corpus.formats.freebase import read_freebase_keys
    from stamo.errors import SettingsError

    if not warcs or not annotations or freebase_keys is None:
        raise SettingsError(
            "A facc1 suite needs --corpus (WARC files), --annotations (FACC1 files) and "
            "--freebase-keys."
        )
    titles = {
        page_id: title
        for batch in kb.articles(columns=["page_id", "title"])
        for page_id, title in zip(
            batch["page_id"].to_pylist(), batch["title"].to_pylist(), strict=True
        )
    }
    return read_facc1(warcs, annotations, read_freebase_keys(freebase_keys, titles))


def _given(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}


def run(
    suite: Annotated[Path, typer.Argument(metavar="SUITE", help="A suite, or a folder of them.")],
    kb: SuiteKb,
    out: Annotated[Path, typer.Option(help="Directory of the results; a run in it goes on.")],
    methods: Annotated[
        str, typer.Option(help="Names with commas; `all` but BERT and `quirks`.")
    ] = "all",
    models: Annotated[str, typer.Option(help="deeped, yamada or both.")] = "deeped,yamada",
    seeds: Annotated[int, typer.Option(help="Draws of labels.")] = 3,
    slow_seeds: Annotated[int, typer.Option(help="Draws for methods with many slots.")] = 1,
    labels: Annotated[int, typer.Option(help="Labelled documents |L|.")] = 20,
    sizes: Annotated[
        str, typer.Option(help="|L| of the figure on the labelled size; empty for none.")
    ] = "5,10,20,50,100,250",
    split: Annotated[str, typer.Option(help="development, held-out or all.")] = "held-out",
    slots: Annotated[int, typer.Option(help="Slots T at most.")] = 100,
    entities: Annotated[
        int | None, typer.Option(help="Emerging entities at most; all by default.")
    ] = None,
    experiment: Annotated[
        Path | None,
        typer.Option(help="Run one row of a table: a name or a file like `table3-stamo-deeped`."),
    ] = None,
    bert: Annotated[bool, typer.Option("--bert", help="Also run BERT (slow).")] = False,
    bert_weights: Annotated[
        str, typer.Option(help="Folder or name of a BERT; by default a packaged MiniLM.")
    ] = "",
    workers: WorkersOption = None,
) -> None:
    """Run methods on the problems of a suite; an interrupted run goes on where it stopped."""
    from stamo.replication.baselines.bert import BertArgs
    from stamo.replication.published import load_experiment
    from stamo.replication.suites.run import RunSettings, expand_methods

    chosen, wanted = _words(methods), _words(models)
    if experiment is not None:
        row = load_experiment(experiment)
        chosen, wanted = [row.printed.method], [row.printed.model or wanted[0]]
        labels, slots, sizes = row.n_labels, row.n_slots, ""
    settings = RunSettings(
        methods=expand_methods(chosen, bert=bert),
        models=tuple(wanted),
        n_seeds=seeds,
        n_slow_seeds=slow_seeds,
        n_labels=labels,
        label_sizes=tuple(int(size) for size in _words(sizes)),
        split=split,
        n_slots=slots,
        n_problems=entities,
        bert=BertArgs(weights=bert_weights),
    )
    _run_suites(suite, kb, out, settings, workers)


def _run_suites(
    suite: Path, kb: Path, out: Path, settings: RunSettings, workers: int | None
) -> None:
    """Run one suite into a directory, or several into directories below it."""
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.suites.run import run_suite
    from stamo.replication.suites.store import open_suite

    base = KnowledgeBase.open(kb)
    paths = _suites(suite)
    for path in paths:
        target = out / path.name if len(paths) > 1 else out
        opened = open_suite(path, base)
        with _problems_bar(opened.name) as (on_model, on_problem):
            run_suite(
                opened,
                base,
                target,
                settings,
                n_workers=workers,
                on_model=on_model,
                on_problem=on_problem,
            )
        Console().print(f"Results in [bold]{target}[/]; see them with: stamo suite report {out}")


def report(
    out: Annotated[Path, typer.Argument(metavar="RESULTS", help="Directory of results.")],
) -> None:
    """Write tables and figures next to the printed numbers, and show the tables."""
    from stamo.replication.suites.report import find_runs, write_suite_report

    console = Console()
    for path in find_runs(out):
        for table in write_suite_report(path):
            console.print(_rich(table))
        console.print(f"Written to {path / 'report.md'} and report.json", highlight=False)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _suites(path: Path) -> list[Path]:
    """Return the suite, or the suites directly below a folder, from easy to hard."""
    below = sorted(found.parent for found in path.glob("*/manifest.json"))
    order = {"easy": 0, "mid": 1, "hard": 2}
    below.sort(key=lambda suite: order.get(suite.name, 3))
    return below if below and not (path / "manifest.json").is_file() else [path]


@contextmanager
def _documents_bar() -> Iterator[Callable[[int], None]]:
    """Show how many documents were annotated."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("Reading documents")
        yield lambda n: progress.update(task, description=f"{n} documents annotated")


@contextmanager
def _problems_bar(
    name: str,
) -> Iterator[tuple[Callable[[str], None], Callable[[int, int], None]]]:
    """Show which model is trained and how many problems are done."""
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=None)

        def on_model(model: str) -> None:
            progress.update(task, description=f"{name}: training {model}")

        def on_problem(done: int, total: int) -> None:
            text = f"{name}: {done} of {total} entities"
            progress.update(task, description=text, completed=done, total=total)

        yield on_model, on_problem


def _show_suite(suite: Suite) -> None:
    counts = ", ".join(f"{n} {split}" for split, n in suite.manifest["counts"].items())
    Console().print(
        f"Made [bold]{suite.path}[/] ({suite.name}): {counts} problems; checksum "
        f"{suite.checksum[:12]}."
    )


WIDE = 10
"""Columns above which a table is shown without those that a terminal has no room for."""


def _rich(table: ResultTable) -> Table:
    """Show a table; of a wide one the F1, AUC and average columns, the rest is in report.md."""
    if len(table.columns) <= WIDE:
        return table.rich()
    sets = iter(("web ", "wiki "))
    current = ""
    labels: list[str | None] = [table.columns[0]]
    for name in table.columns[1:]:
        if name.startswith("test-"):
            current = next(sets, "")
        shown = {"F1": current + name, "AUC": current + name, "avg F1": name}
        labels.append(shown.get(name))
    return table.rich(labels)
