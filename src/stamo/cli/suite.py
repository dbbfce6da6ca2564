"""`stamo suite make | run | report`: benchmarks that anyone can rebuild, every method on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from stamo.cli.kb import AsJson
from stamo.cli.suite_options import (
    AboutOption,
    Ambiguity,
    Annotations,
    AnyTitle,
    BertOption,
    BertWeights,
    CorpusOption,
    EncoderOption,
    EntitiesOption,
    ExperimentOption,
    FreebaseKeys,
    Frequency,
    Kind,
    LabelsBy,
    LabelsByOption,
    LabelsFile,
    LabelsOption,
    LeastDocuments,
    LevelChoice,
    LevelOption,
    MakeSeed,
    MethodsOption,
    Missing,
    ModelFile,
    ModelsOption,
    MostEntities,
    OutDirectory,
    Overwrite,
    ResultsDirectory,
    RunSeed,
    SeedsOption,
    SizesOption,
    SlotsOption,
    SlowSeeds,
    SplitOption,
    SuiteKb,
    SuiteKind,
    SuitePath,
    WorkersOption,
)
from stamo.cli.tables import Console, print_json

if TYPE_CHECKING:
    from stamo.corpus.types import Document
    from stamo.evaluation.tables import Table as ResultTable
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.suites.run import RunSettings
    from stamo.replication.suites.store import Suite
    from stamo.replication.wild.run import WildSettings
    from stamo.replication.wild.suite import WildSuite


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    group = typer.Typer(no_args_is_help=True, help="Make, run and report benchmark suites.")
    group.command("make")(make)
    group.command("run")(run)
    group.command("report")(report)
    app.add_typer(group, name="suite")


def make(
    kind: Kind,
    kb: SuiteKb,
    out: OutDirectory,
    corpus: CorpusOption = None,
    level: LevelOption = LevelChoice.all,
    entities: EntitiesOption = None,
    labels: LabelsFile = None,
    model: ModelFile = None,
    least_documents: LeastDocuments = None,
    frequency: Frequency = None,
    ambiguity: Ambiguity = None,
    missing: Missing = None,
    annotations: Annotations = None,
    freebase_keys: FreebaseKeys = None,
    any_title: AnyTitle = False,
    seed: MakeSeed = 0,
    workers: WorkersOption = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Make a suite from a knowledge base and a pile of text."""
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.suites.make import make_facc1, make_natural
    from stamo.replication.suites.natural import NaturalSettings

    base = KnowledgeBase.open(kb)
    options: dict[str, Any] = {"overwrite": overwrite, "n_workers": workers}
    if kind == SuiteKind.wild:
        _show_suites([_wild(base, model, entities, labels, corpus, out, options)], as_json)
        return
    given = _given({"n_entities": _whole_number(entities), "least_documents": least_documents})
    given |= {"any_title": any_title, "seed": seed}
    bounds = _given({"frequency": frequency, "ambiguity": ambiguity, "missing": missing})
    with _documents_bar() as on_document:
        if kind == SuiteKind.natural:
            suites = [make_natural(base, out, NaturalSettings(**given | bounds), **options)]
        elif kind == SuiteKind.facc1:
            pages = _facc1_documents(base, corpus, annotations, freebase_keys)
            settings = NaturalSettings(**{"frequency": (1000, 2000)} | given | bounds)
            suites = [make_facc1(base, pages, out, settings, on_document=on_document, **options)]
        else:
            options["on_document"] = on_document
            suites = _conflated(base, corpus, out, level, given, options)
    _show_suites(suites, as_json)


def _conflated(
    kb: KnowledgeBase,
    corpus: list[Path] | None,
    out: Path,
    level: LevelChoice,
    given: dict[str, Any],
    options: dict[str, Any],
) -> list[Suite]:
    from stamo.corpus.readers import read_documents
    from stamo.errors import SettingsError
    from stamo.replication.suites.conflated import LEVELS, ConflatedSettings
    from stamo.replication.suites.make import make_conflated, make_levels

    if not corpus:
        raise SettingsError("A conflated suite needs text; give it with --corpus.")
    documents = read_documents(corpus)
    options["corpus_name"] = ", ".join(path.name for path in corpus)
    wanted = [ConflatedSettings.of_level(name, **given) for name in LEVELS]
    if level == LevelChoice.all:
        return make_levels(kb, documents, out, wanted, **options)
    chosen = next(settings for settings in wanted if settings.level == level)
    return [make_conflated(kb, documents, out, chosen, **options)]


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


def _wild(
    kb: KnowledgeBase,
    model: Path | None,
    entities: str | None,
    labels: Path | None,
    corpus: list[Path] | None,
    out: Path,
    options: dict[str, Any],
) -> WildSuite:
    from stamo.errors import SettingsError
    from stamo.models.store import load_model
    from stamo.replication.wild.suite import make_wild, read_wild_entities, read_wild_labels

    if model is None or not entities or labels is None or not corpus:
        raise SettingsError(
            "A wild suite needs --model, --entities (a file), --labels (a file) and --corpus."
        )
    with _problems_bar("wild") as (_, on_entity):
        return make_wild(
            kb,
            load_model(model),
            read_wild_entities(Path(entities)),
            read_wild_labels(labels),
            corpus,
            out,
            on_entity=on_entity,
            **options,
        )


def _whole_number(text: str | None) -> int | None:
    from stamo.errors import SettingsError

    if text is None or text.isdecimal():
        return None if text is None else int(text)
    raise SettingsError(f"The number of entities is {text!r}; give a whole number.")


def _given(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}


def run(
    suite: SuitePath,
    kb: SuiteKb,
    out: ResultsDirectory,
    methods: MethodsOption = "all",
    models: ModelsOption = "deeped,yamada",
    seeds: SeedsOption = None,
    seed: RunSeed = 0,
    slow_seeds: SlowSeeds = 1,
    labels: LabelsOption = 20,
    sizes: SizesOption = None,
    labels_by: LabelsByOption = LabelsBy.random,
    encoder: EncoderOption = "installed",
    about: AboutOption = True,
    split: SplitOption = "held-out",
    slots: SlotsOption = 100,
    entities: MostEntities = None,
    experiment: ExperimentOption = None,
    bert: BertOption = False,
    bert_weights: BertWeights = "",
    workers: WorkersOption = None,
    as_json: AsJson = False,
) -> None:
    """Run methods on the problems of a suite; an interrupted run goes on where it stopped.

    Labels by the advisor are chosen in one half of the judged mentions and tested on the other,
    beside random ones under the same rule.
    """
    from stamo.replication.baselines.bert import BertArgs
    from stamo.replication.published import load_experiment
    from stamo.replication.suites.run import LABEL_SIZES, RunSettings, expand_methods
    from stamo.replication.suites.store import kind_of

    given: dict[str, Any] = {"n_slots": slots, "n_problems": entities, "seed": seed}
    given["encoder"] = None if encoder == "none" else encoder
    if kind_of(_suites(suite)[0]) == SuiteKind.wild:
        given["about"] = about
        settings = _wild_settings(methods, sizes, seeds, labels_by, given)
        _show_results(out, _run_wild(suite, kb, out, settings, workers), as_json)
        return
    chosen, wanted = _words(methods), _words(models)
    if experiment is not None:
        row = load_experiment(experiment)
        chosen, wanted = [row.printed.method], [row.printed.model or wanted[0]]
        labels, given["n_slots"], sizes = row.n_labels, row.n_slots, ""
    run_settings = RunSettings(
        methods=expand_methods(chosen, bert=bert),
        models=tuple(wanted),
        n_seeds=3 if seeds is None else seeds,
        n_slow_seeds=slow_seeds,
        n_labels=labels,
        label_sizes=LABEL_SIZES if sizes is None else tuple(map(int, _words(sizes))),
        split=split,
        bert=BertArgs(weights=bert_weights),
        **given,
    )
    _show_results(out, _run_suites(suite, kb, out, run_settings, workers), as_json)


def _wild_settings(
    methods: str, sizes: str | None, seeds: int | None, labels_by: LabelsBy, given: dict[str, Any]
) -> WildSettings:
    from stamo.replication.wild.draws import ADVISOR, RANDOM, RANDOM_IN_HALF
    from stamo.replication.wild.run import WILD_SIZES, WildSettings, expand_wild_methods

    return WildSettings(
        methods=expand_wild_methods(_words(methods)),
        sizes=WILD_SIZES if sizes is None else tuple(map(int, _words(sizes))),
        n_draws=5 if seeds is None else seeds,
        labels_by=(ADVISOR, RANDOM_IN_HALF) if labels_by == LabelsBy.advisor else (RANDOM,),
        **given,
    )


def _run_suites(
    suite: Path, kb: Path, out: Path, settings: RunSettings, workers: int | None
) -> list[Path]:
    """Run one suite into a directory, or several into directories below it; return those."""
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.suites.run import run_suite
    from stamo.replication.suites.store import open_suite

    base = KnowledgeBase.open(kb)
    paths, targets = _suites(suite), []
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
        targets.append(target)
    return targets


def _run_wild(
    suite: Path, kb: Path, out: Path, settings: WildSettings, workers: int | None
) -> list[Path]:
    """Run a suite of real new entities; return the directory of its results."""
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.wild.run import run_wild
    from stamo.replication.wild.suite import open_wild

    base = KnowledgeBase.open(kb)
    opened = open_wild(suite, base)
    with _problems_bar("wild") as (_, on_problem):
        run_wild(opened, base, out, settings, n_workers=workers, on_problem=on_problem)
    return [out]


def _show_results(out: Path, targets: Sequence[Path], as_json: bool) -> None:
    if as_json:
        print_json([{"results": str(target)} for target in targets])
        return
    for target in targets:
        Console().print(f"Results in [bold]{target}[/]; see them with: stamo suite report {out}")


def report(
    out: Annotated[Path, typer.Argument(metavar="RESULTS", help="Directory of results.")],
    as_json: AsJson = False,
) -> None:
    """Write tables and figures next to the printed numbers, and show the tables."""
    from stamo.replication.suites.report import find_runs, write_suite_report
    from stamo.replication.suites.results import read_run
    from stamo.replication.wild.report import write_wild_report

    console, records = Console(), []
    for path in find_runs(out):
        is_wild = read_run(path)["suite"] == SuiteKind.wild
        tables = write_wild_report(path) if is_wild else write_suite_report(path)
        if as_json:
            values = json.loads((path / "report.json").read_text(encoding="utf-8"))
            records.append({"results": str(path)} | values)
            continue
        for table in tables:
            console.print(_rich(table))
        console.print(f"Written to {path / 'report.md'} and report.json", highlight=False)
    if as_json:
        print_json(records)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _suites(path: Path) -> list[Path]:
    """Return the suite, or the suites directly below a folder, from easy to hard."""
    below = sorted(found.parent for found in path.glob("*/manifest.json"))
    order = {"easy": 0, "mid": 1, "hard": 2, "rare": 3}
    below.sort(key=lambda suite: order.get(suite.name, 4))
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


def _show_suites(suites: Sequence[Suite | WildSuite], as_json: bool) -> None:
    records = [
        {
            "suite": str(suite.path),
            "kind": suite.manifest["kind"],
            "level": suite.manifest.get("settings", {}).get("level"),
            "counts": dict(suite.manifest["counts"]),
            "checksum": suite.checksum,
        }
        for suite in suites
    ]
    if as_json:
        print_json(records)
        return
    for record in records:
        counts = ", ".join(f"{n} {what}" for what, n in record["counts"].items())
        kind = " ".join(filter(None, (record["kind"], record["level"])))
        Console().print(
            f"Made [bold]{record['suite']}[/] ({kind}): {counts}; checksum "
            f"{record['checksum'][:12]}."
        )


WIDE = 10
"""Columns above which a table is shown without those that a terminal has no room for."""


def _rich(table: ResultTable) -> Table:
    """Show a table; of a wide one the F1, AUC and average columns, the rest is in report.md."""
    wanted = ("F1", "AUC", "avg F1")
    if len(table.columns) >= WIDE:  # no room for intervals either
        rows = [tuple(cell.partition(" [")[0] for cell in row) for row in table.rows]
        table = replace(table, rows=tuple(rows))
    if len(table.columns) <= WIDE or not any(name in wanted for name in table.columns):
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
