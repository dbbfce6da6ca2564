"""`stamo-lab suite make | run | report`: every method on problems with gold, beside the paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Argument, Context, Option

from stamo.cli import AsJson
from stamo.cli.output import Console, command_group, print_json, print_table
from stamo.errors import SettingsError
from stamo_lab.cli.bench import parse_sizes

if TYPE_CHECKING:
    from stamo.evaluation.tables import Table as ResultTable
    from stamo_lab.suites.run import RunSettings
    from stamo_lab.suites.store import Suite
    from stamo_lab.wild.run import WildSettings
    from stamo_lab.wild.suite import WildSuite


SuiteKb = Annotated[Path, Option("--kb", help="Directory of the knowledge base.")]
SuiteOut = Annotated[Path, Option("--out", help="Directory to make.")]
Corpus = Annotated[list[Path], Option(help="Later text, as `collect` reads it.")]
Level = StrEnum("Level", ["easy", "mid", "hard", "all"])
"""How hard the rivals of a conflated suite are."""
AtMost = Annotated[int | None, Option(help="Emerging entities at most.")]
LeastDocuments = Annotated[
    int | None, Option(help="Documents that must mention an emerging entity.")
]
Ambiguity = Annotated[tuple[float, float], Option(help="Bounds of the ambiguity rate.")]
AnyTitle = Annotated[
    bool,
    Option("--any-title", help="Let dates, numbers, lists and common nouns play entities too."),
]
WorkersOption = Annotated[int | None, Option(help="Processes; one for each core by default.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace an older suite.")]


def make_conflated(
    kb: SuiteKb,
    corpus: Corpus,
    out: SuiteOut,
    level: Annotated[Level, Option(help="`all` makes each of them below OUT.")] = Level.all,
    entities: AtMost = None,
    least_documents: LeastDocuments = None,
    any_title: AnyTitle = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Rename entities with unambiguous names to shared ones."""
    from stamo.corpus.reading import read_documents
    from stamo.kb.base import KnowledgeBase
    from stamo_lab.suites import conflated

    given = _given(n_entities=entities, least_documents=least_documents, any_title=any_title)
    levels = [name for name in conflated.LEVELS if level in {name, Level.all}]
    with _documents_bar() as on_document:
        suites = conflated.make_conflated(
            KnowledgeBase.open(kb),
            read_documents(corpus),
            out,
            [conflated.ConflatedSettings(level=name, **given) for name in levels],
            corpus_name=", ".join(path.name for path in corpus),
            overwrite=overwrite,
            on_document=on_document,
        )
    _show_suites(suites, as_json)


def make_natural(
    kb: SuiteKb,
    out: SuiteOut,
    entities: AtMost = None,
    least_documents: LeastDocuments = None,
    frequency: Annotated[
        tuple[int, int], Option(help="Bounds of the articles that mention the entity.")
    ] = (40, 2000),
    ambiguity: Ambiguity = (0.2, 0.8),
    any_title: AnyTitle = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Take ambiguous names as they are, from the links of the dump."""
    from stamo.kb.base import KnowledgeBase
    from stamo_lab.suites import natural

    given = _given(n_entities=entities, least_documents=least_documents, any_title=any_title)
    settings = natural.NaturalSettings(frequency=frequency, ambiguity=ambiguity, **given)
    with _documents_bar() as on_document:
        base = KnowledgeBase.open(kb)
        suite = natural.make_natural(
            base, out, settings, overwrite=overwrite, on_document=on_document
        )
    _show_suites([suite], as_json)


def make_facc1(
    kb: SuiteKb,
    corpus: Annotated[list[Path], Option(help="ClueWeb12 WARC files.")],
    annotations: Annotated[list[Path], Option(help="FACC1 files that annotate the pages.")],
    freebase_keys: Annotated[Path, Option(help="Freebase ids with Wikipedia page ids.")],
    out: SuiteOut,
    entities: AtMost = None,
    least_documents: LeastDocuments = None,
    frequency: Annotated[
        tuple[int, int], Option(help="Bounds of the pages that mention the entity.")
    ] = (1000, 2000),
    ambiguity: Ambiguity = (0.2, 0.8),
    any_title: AnyTitle = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Take ambiguous names from annotated pages of a crawl: the paper's own suite."""
    from stamo.kb.base import KnowledgeBase
    from stamo_lab.facc1 import read_facc1, read_freebase_keys
    from stamo_lab.suites import natural

    base = KnowledgeBase.open(kb)
    titles = {
        article["page_id"]: article["title"]
        for batch in base.articles(columns=["page_id", "title"])
        for article in batch.to_pylist()
    }
    pages = read_facc1(corpus, annotations, read_freebase_keys(freebase_keys, titles))
    given = _given(n_entities=entities, least_documents=least_documents, any_title=any_title)
    settings = natural.NaturalSettings(frequency=frequency, ambiguity=ambiguity, **given)
    with _documents_bar() as on_document:
        suite = natural.make_natural(
            base, out, settings, pages, overwrite=overwrite, on_document=on_document
        )
    _show_suites([suite], as_json)


def make_wild(
    kb: SuiteKb,
    model: Annotated[Path, Option(help="The linking model that links the context.")],
    entities: Annotated[Path, Option(help="The file of entities.")],
    labels: Annotated[Path, Option(help="The file of judged mentions.")],
    corpus: Corpus,
    out: SuiteOut,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Collect the piles of real new entities whose mentions were judged."""
    from stamo.cli import open_both
    from stamo_lab.wild import suite as wild

    with Console(stderr=True).status("Collecting"):
        suite = wild.make_wild(
            *open_both(kb, model),
            wild.read_wild_entities(entities),
            wild.read_wild_labels(labels),
            corpus,
            out,
            overwrite=overwrite,
        )
    _show_suites([suite], as_json)


def _given(**changes: object) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}


@contextmanager
def _documents_bar() -> Iterator[Callable[[int], None]]:
    """Show how many documents were annotated."""
    with Console(stderr=True).status("Reading documents") as status:
        yield lambda n: status.update(f"{n} documents annotated")


@contextmanager
def problems_bar(name: str) -> Iterator[tuple[Callable[[str], None], Callable[[int, int], None]]]:
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


LabelsBy = StrEnum("LabelsBy", ["random", "advisor"])
"""Who chooses the labels of a wild suite."""
ONLY_LINKED = ("models", "labels", "split", "experiment")
"""Options of `run` that a wild suite has no use for."""
ONLY_WILD = ("labels_by", "description")


def run(
    context: Context,
    suite: Annotated[Path, Argument(metavar="SUITE", help="A suite, or a folder of them.")],
    kb: SuiteKb,
    out: Path = Option(..., help="Directory of the results; a run in it goes on."),
    methods: str = Option(
        "all", help="Names with commas; `all` but `bert`, those with `+encoder`, and `quirks`."
    ),
    models: str = Option("deeped,yamada", help="deeped, yamada or both."),
    seeds: int | None = Option(None, help="Draws of labels; 3, of a wild suite 5 by default."),
    labels: int = Option(20, help="Labelled documents |L|."),
    sizes: str | None = Option(
        None,
        help="|L| of the figure on the labelled size, empty for none; of a wild suite all |L|, "
        "0,5,20 by default.",
    ),
    labels_by: LabelsBy = Option(LabelsBy.random, help="Who chooses the labels of a wild suite."),
    encoder: str = Option(
        "installed", help="A folder with a sentence encoder, installed, or none."
    ),
    description: bool = Option(
        True, help="Learn with the description of each entity of a wild suite."
    ),
    split: str = Option("held-out", help="development, held-out or all."),
    slots: int = Option(100, help="Slots T at most."),
    entities: int | None = Option(None, help="Emerging entities at most; all by default."),
    experiment: Path | None = Option(
        None, help="Run one row of a table: a name or a file like `table3-stamo-deeped`."
    ),
    workers: WorkersOption = None,
    as_json: AsJson = False,
) -> None:
    """Run methods on the problems of a suite; an interrupted run goes on where it stopped.

    Labels by the advisor are chosen in one half of the judged mentions and tested on the other,
    beside random ones and all labels of that half under the same rule.
    """
    from stamo_lab.suites.run import LABEL_SIZES, RunSettings, expand_methods
    from stamo_lab.suites.store import kind_of
    from stamo_lab.tables import load_experiment

    given: dict[str, Any] = {"n_slots": slots, "n_problems": entities}
    given["encoder"] = None if encoder == "none" else encoder
    kind = kind_of(_suites(suite)[0])
    for name in ONLY_LINKED if kind == "wild" else ONLY_WILD:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = name.replace("_", "-")
            raise SettingsError(f"--{option} would be ignored: the suite is {kind}; leave it out.")
    if kind == "wild":
        from stamo_lab.wild.load import IN_HALF, RANDOM
        from stamo_lab.wild.run import WILD_SIZES, WildSettings, expand_wild_methods

        settings = WildSettings(
            methods=expand_wild_methods(_words(methods)),
            sizes=WILD_SIZES if sizes is None else parse_sizes(sizes),
            n_draws=5 if seeds is None else seeds,
            labels_by=IN_HALF if labels_by == LabelsBy.advisor else (RANDOM,),
            description=description,
            **given,
        )
        _run_suites(suite, kb, out, settings, workers, as_json)
        return
    chosen, wanted = _words(methods), _words(models)
    if experiment is not None:
        row = load_experiment(experiment)
        chosen, wanted = [row.method], [row.model or wanted[0]]
        labels, given["n_slots"], sizes = row.n_labels, row.n_slots, ""
    run_settings = RunSettings(
        methods=expand_methods(chosen),
        models=tuple(wanted),
        n_seeds=3 if seeds is None else seeds,
        n_labels=labels,
        label_sizes=LABEL_SIZES if sizes is None else parse_sizes(sizes),
        split=split,
        **given,
    )
    _run_suites(suite, kb, out, run_settings, workers, as_json)


def _run_suites(
    suite: Path,
    kb: Path,
    out: Path,
    settings: RunSettings | WildSettings,
    workers: int | None,
    as_json: bool,
) -> None:
    """Run one suite into a directory, or several into directories below it; tell those."""
    from stamo.kb.base import KnowledgeBase
    from stamo_lab.suites.run import RunSettings, run_suite
    from stamo_lab.suites.store import open_suite
    from stamo_lab.wild.run import run_wild
    from stamo_lab.wild.suite import open_wild

    base, paths, targets = KnowledgeBase.open(kb), _suites(suite), []
    for path in paths:
        targets.append(out / path.name if len(paths) > 1 else out)
        with problems_bar(path.name) as (on_model, on_problem):
            told: dict[str, Any] = {"n_workers": workers, "on_problem": on_problem}
            if isinstance(settings, RunSettings):
                opened = open_suite(path, base)
                run_suite(opened, base, targets[-1], settings, on_model=on_model, **told)
            else:
                run_wild(open_wild(path, base), base, targets[-1], settings, **told)
    if as_json:
        print_json([{"results": str(target)} for target in targets])
        return
    for target in targets:
        Console().print(
            f"Results in [bold]{target}[/]; see them with: stamo-lab suite report {out}"
        )


def report(
    out: Path = Argument(..., metavar="RESULTS", help="Directory of results."),
    as_json: AsJson = False,
) -> None:
    """Write tables and figures next to the printed numbers, and show the tables."""
    from stamo_lab.suites.cells import read_run
    from stamo_lab.suites.report import find_runs, write_suite_report
    from stamo_lab.wild.report import write_wild_report

    console, records = Console(), []
    for path in find_runs(out):
        is_wild = read_run(path)["suite"] == "wild"
        tables = write_wild_report(path) if is_wild else write_suite_report(path)
        if as_json:
            values = json.loads((path / "report.json").read_text(encoding="utf-8"))
            records.append({"results": str(path)} | values)
            continue
        for table in tables:
            print_table(_rich(table))
        console.print(f"Written to {path / 'report.md'} and report.json", highlight=False)
    if as_json:
        print_json(records)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _suites(path: Path) -> list[Path]:
    """Return the suite, or the suites directly below a folder, from easy to hard."""
    below = sorted(found.parent for found in path.glob("*/manifest.json"))
    order = {"easy": 0, "mid": 1, "hard": 2}
    below.sort(key=lambda suite: order.get(suite.name, 3))
    return below if below and not (path / "manifest.json").is_file() else [path]


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
    sets, current, labels = iter(("web ", "wiki ")), "", {0: table.columns[0]}
    for i, name in enumerate(table.columns):
        current = next(sets, "") if name.startswith("test-") else current
        if name in wanted:
            labels[i] = name if name == "avg F1" else current + name
    rows = [tuple(row[i] for i in labels) for row in table.rows]
    return replace(table, columns=tuple(labels.values()), rows=tuple(rows)).rich()


make = command_group(
    "Make a suite from a knowledge base and text.",
    *(make_conflated, make_natural, make_facc1, make_wild),
    prefix="make_",
)
suite = command_group("Make, run and report benchmark suites.", run, report)
suite.add_typer(make, name="make")
