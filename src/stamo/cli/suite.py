"""`stamo suite run | report`: every method on the problems of a suite, next to the paper."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Argument, Context, Option

from stamo.cli.options import AsJson, parse_sizes, refuse_foreign
from stamo.cli.suite_make import SuiteKb, SuiteKind, WorkersOption, make, problems_bar
from stamo.cli.tables import Console, command_group, print_json, print_table

if TYPE_CHECKING:
    from stamo.evaluation.tables import Table as ResultTable
    from stamo.replication.suites.run import RunSettings
    from stamo.replication.wild.run import WildSettings


LabelsBy = StrEnum("LabelsBy", ["random", "advisor"])
"""Who chooses the labels of a wild suite."""
_LINKED = (SuiteKind.conflated, SuiteKind.natural, SuiteKind.facc1)
_ONLY_LINKED = ("models", "slow_seeds", "labels", "split", "experiment", "bert", "bert_weights")
RUN_KINDS = {
    **dict.fromkeys(_ONLY_LINKED, _LINKED),
    **dict.fromkeys(("labels_by", "about"), (SuiteKind.wild,)),
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
    about: bool = Option(True, help="Learn with the line about each entity of a wild suite."),
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
    from stamo.replication.baselines.bert import BertArgs
    from stamo.replication.published import load_experiment
    from stamo.replication.suites.run import LABEL_SIZES, RunSettings, expand_methods
    from stamo.replication.suites.store import kind_of

    given: dict[str, Any] = {"n_slots": slots, "n_problems": entities, "seed": seed}
    given["encoder"] = None if encoder == "none" else encoder
    kind = kind_of(_suites(suite)[0])
    refuse_foreign(context, RUN_KINDS, kind, "suite")
    if kind == SuiteKind.wild:
        given["about"] = about
        settings = _wild_settings(methods, sizes, seeds, labels_by, given)
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


def _wild_settings(
    methods: str, sizes: str | None, seeds: int | None, labels_by: LabelsBy, given: dict[str, Any]
) -> WildSettings:
    from stamo.replication.wild.load import IN_HALF, RANDOM
    from stamo.replication.wild.run import WILD_SIZES, WildSettings, expand_wild_methods

    return WildSettings(
        methods=expand_wild_methods(_words(methods)),
        sizes=WILD_SIZES if sizes is None else parse_sizes(sizes),
        n_draws=5 if seeds is None else seeds,
        labels_by=IN_HALF if labels_by == LabelsBy.advisor else (RANDOM,),
        **given,
    )


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
    from stamo.replication.suites.run import RunSettings, run_suite
    from stamo.replication.suites.store import open_suite
    from stamo.replication.wild.run import run_wild
    from stamo.replication.wild.suite import open_wild

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
        Console().print(f"Results in [bold]{target}[/]; see them with: stamo suite report {out}")


def report(
    out: Path = Argument(..., metavar="RESULTS", help="Directory of results."),
    as_json: AsJson = False,
) -> None:
    """Write tables and figures next to the printed numbers, and show the tables."""
    from stamo.replication.suites.cells import read_run
    from stamo.replication.suites.report import find_runs, write_suite_report
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
