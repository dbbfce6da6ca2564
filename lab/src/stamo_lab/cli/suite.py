"""`stamo-lab suite run | report`: every method on the problems of a suite, next to the paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
    from stamo.corpus.types import Document
    from stamo.evaluation.tables import Table as ResultTable
    from stamo.kb.base import KnowledgeBase
    from stamo_lab.suites.run import RunSettings
    from stamo_lab.suites.store import Suite
    from stamo_lab.wild.run import WildSettings
    from stamo_lab.wild.suite import WildSuite


SuiteKind = StrEnum("SuiteKind", ["conflated", "natural", "facc1", "wild"])
"""Where the gold labels of a suite come from."""
LevelChoice = StrEnum("LevelChoice", ["easy", "mid", "hard", "rare", "all"])
"""How hard the rivals of a conflated suite are."""
_OWN_GOLD = (SuiteKind.natural, SuiteKind.facc1)
MAKE_KINDS = {
    "corpus": (SuiteKind.conflated, SuiteKind.facc1, SuiteKind.wild),
    "level": (SuiteKind.conflated,),
    **dict.fromkeys(("labels", "model"), (SuiteKind.wild,)),
    **dict.fromkeys(("frequency", "ambiguity"), _OWN_GOLD),
    **dict.fromkeys(("annotations", "freebase_keys"), (SuiteKind.facc1,)),
    **dict.fromkeys(("least_documents", "any_title", "seed"), (SuiteKind.conflated, *_OWN_GOLD)),
}
"""The suites that an option of `make` is for, where it is not for all."""

SuiteKb = Annotated[Path, Option("--kb", help="Directory of the knowledge base.")]
WorkersOption = Annotated[int | None, Option(help="Processes; one for each core by default.")]


def refuse_foreign(
    context: Context, kinds_of: Mapping[str, Collection[str]], kind: str, what: str
) -> None:
    """Refuse options that were given and would be ignored.

    Args:
        context: The command as it was called.
        kinds_of: For each parameter that is not for all, the kinds of thing it is for.
        kind: Which kind it is.
        what: What has kinds, such as "suite".

    Raises:
        SettingsError: An option is for other kinds.
    """
    for name, kinds in kinds_of.items():
        source = context.get_parameter_source(name)
        if kind not in kinds and source is not None and source.name == "COMMANDLINE":
            raise SettingsError(
                f"--{name.replace('_', '-')} would be ignored: it is for a {what} of kind "
                f"{' or '.join(kinds)}, and this one is {kind}; leave it out."
            )


def make(
    context: Context,
    kind: Annotated[SuiteKind, Argument(help="conflated, natural, facc1 or wild.")],
    kb: SuiteKb,
    out: Path = Option(..., help="Directory to make."),
    corpus: list[Path] | None = Option(
        None, help="Later text (conflated, wild), or ClueWeb12 WARC (facc1)."
    ),
    level: LevelChoice = Option(
        LevelChoice.all, help="Of a conflated suite; `all` makes each of them below OUT."
    ),
    entities: str | None = Option(
        None, help="Emerging entities at most; of a wild suite, the file of entities."
    ),
    labels: Path | None = Option(None, help="The file of judged mentions (wild)."),
    model: Path | None = Option(None, help="The linking model that links the context (wild)."),
    least_documents: int | None = Option(
        None, help="Documents that must mention an emerging entity."
    ),
    frequency: tuple[int, int] | None = Option(
        None, help="Bounds of the document frequency (natural)."
    ),
    ambiguity: tuple[float, float] | None = Option(
        None, help="Bounds of the ambiguity rate (natural)."
    ),
    annotations: list[Path] | None = Option(None, help="FACC1 files that annotate the pages."),
    freebase_keys: Path | None = Option(None, help="Freebase ids with Wikipedia page ids (facc1)."),
    any_title: bool = Option(
        False, "--any-title", help="Let dates, numbers, lists and common nouns play entities too."
    ),
    seed: int = Option(
        0, "--seed", help="Another one takes other entities and other groups of them."
    ),
    workers: WorkersOption = None,
    overwrite: bool = Option(False, "--overwrite", help="Replace an older suite."),
    as_json: AsJson = False,
) -> None:
    """Make a suite from a knowledge base and a pile of text."""
    from stamo.corpus.reading import read_documents
    from stamo.kb.base import KnowledgeBase
    from stamo_lab.suites.conflated import LEVELS, ConflatedSettings, make_conflated
    from stamo_lab.suites.natural import NaturalSettings, make_natural

    refuse_foreign(context, MAKE_KINDS, kind, "suite")
    base = KnowledgeBase.open(kb)
    options: dict[str, Any] = {"overwrite": overwrite, "n_workers": workers}
    if kind == SuiteKind.wild:
        _show_suites([_wild(base, model, entities, labels, corpus, out, options)], as_json)
        return
    if entities is not None and not entities.isdecimal():
        raise SettingsError(f"The number of entities is {entities!r}; give a whole number.")
    n_entities = None if entities is None else int(entities)
    given = _given({"n_entities": n_entities, "least_documents": least_documents})
    given |= {"any_title": any_title, "seed": seed}
    bounds = _given({"frequency": frequency, "ambiguity": ambiguity})
    with _documents_bar() as options["on_document"]:
        if kind == SuiteKind.natural:
            suites = [make_natural(base, out, NaturalSettings(**given | bounds), **options)]
        elif kind == SuiteKind.facc1:
            pages = _facc1_documents(base, corpus, annotations, freebase_keys)
            settings = NaturalSettings(**{"frequency": (1000, 2000)} | given | bounds)
            suites = [make_natural(base, out, settings, pages, **options)]
        else:
            if not corpus:
                raise SettingsError("A conflated suite needs text; give it with --corpus.")
            options["corpus_name"] = ", ".join(path.name for path in corpus)
            levels = [name for name in LEVELS if level in {name, LevelChoice.all}]
            wanted = [ConflatedSettings.of_level(name, **given) for name in levels]
            suites = make_conflated(base, read_documents(corpus), out, wanted, **options)
    _show_suites(suites, as_json)


def _facc1_documents(
    kb: KnowledgeBase,
    warcs: list[Path] | None,
    annotations: list[Path] | None,
    freebase_keys: Path | None,
) -> Iterator[Document]:
    from stamo_lab.facc1 import read_facc1, read_freebase_keys

    if not warcs or not annotations or freebase_keys is None:
        raise SettingsError(
            "A facc1 suite needs --corpus (WARC files), --annotations (FACC1 files) and "
            "--freebase-keys."
        )
    titles = {
        article["page_id"]: article["title"]
        for batch in kb.articles(columns=["page_id", "title"])
        for article in batch.to_pylist()
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
    from stamo.models.store import load_model
    from stamo_lab.wild.suite import make_wild, read_wild_entities, read_wild_labels

    if model is None or not entities or labels is None or not corpus:
        raise SettingsError(
            "A wild suite needs --model, --entities (a file), --labels (a file) and --corpus."
        )
    with problems_bar("wild") as (_, on_entity):
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


def _given(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}


@contextmanager
def _documents_bar() -> Iterator[Callable[[int], None]]:
    """Show how many documents were annotated."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("Reading documents")
        yield lambda n: progress.update(task, description=f"{n} documents annotated")


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
_LINKED = (SuiteKind.conflated, SuiteKind.natural, SuiteKind.facc1)
_ONLY_LINKED = ("models", "slow_seeds", "labels", "split", "experiment", "bert", "bert_weights")
RUN_KINDS = {
    **dict.fromkeys(_ONLY_LINKED, _LINKED),
    **dict.fromkeys(("labels_by", "description"), (SuiteKind.wild,)),
}
"""The suites that an option of `run` is for, where it is not for all."""


def run(
    context: Context,
    suite: Annotated[Path, Argument(metavar="SUITE", help="A suite, or a folder of them.")],
    kb: SuiteKb,
    out: Path = Option(..., help="Directory of the results; a run in it goes on."),
    methods: str = Option(
        "all", help="Names with commas; `all` but the slowest ones and `quirks`."
    ),
    models: str = Option("deeped,yamada", help="deeped, yamada or both."),
    seeds: int | None = Option(None, help="Draws of labels; 3, of a wild suite 5 by default."),
    seed: int = Option(0, "--seed", help="The first draw; the others follow it."),
    slow_seeds: int = Option(1, help="Draws for methods with many slots."),
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
    bert: bool = Option(False, "--bert", help="Also run BERT (slow)."),
    bert_weights: str = Option("", help="Folder or name of a BERT; by default a packaged MiniLM."),
    workers: WorkersOption = None,
    as_json: AsJson = False,
) -> None:
    """Run methods on the problems of a suite; an interrupted run goes on where it stopped.

    Labels by the advisor are chosen in one half of the judged mentions and tested on the other,
    beside random ones and all labels of that half under the same rule.
    """
    from stamo_lab.bert import BertArgs
    from stamo_lab.suites.run import LABEL_SIZES, RunSettings, expand_methods
    from stamo_lab.suites.store import kind_of
    from stamo_lab.tables import load_experiment

    given: dict[str, Any] = {"n_slots": slots, "n_problems": entities, "seed": seed}
    given["encoder"] = None if encoder == "none" else encoder
    kind = kind_of(_suites(suite)[0])
    refuse_foreign(context, RUN_KINDS, kind, "suite")
    if kind == SuiteKind.wild:
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
        methods=expand_methods(chosen, bert=bert),
        models=tuple(wanted),
        n_seeds=3 if seeds is None else seeds,
        n_slow_seeds=slow_seeds,
        n_labels=labels,
        label_sizes=LABEL_SIZES if sizes is None else parse_sizes(sizes),
        split=split,
        bert=BertArgs(weights=bert_weights),
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
        is_wild = read_run(path)["suite"] == SuiteKind.wild
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
    order = {"easy": 0, "mid": 1, "hard": 2, "rare": 3}
    below.sort(key=lambda suite: order.get(suite.name, 4))
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


suite = command_group("Make, run and report benchmark suites.", make, run, report)
