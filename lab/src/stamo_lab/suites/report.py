"""Write the report of a run: tables and figures as Markdown, JSON and PNG.

The figures of the paper: convergence, ablation, labelled size.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stamo.errors import SuiteError
from stamo.evaluation.tables import Table
from stamo_lab import tables as made
from stamo_lab.metrics import Summary
from stamo_lab.suites.cells import RUN, read_results, read_run
from stamo_lab.suites.store import SetName
from stamo_lab.tables import INTER_ROWS, Results, outcome_of, shared_sizes, size_summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONVERGENCE_ROWS = ("self-training", "self-training+intra", "self-training+inter", "stamo")
LABEL_BY_METRIC = {
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "auc": "AUC",
}
DRAWN = ("f1", "auc")
SIZE_ROWS = ("estimation", "estimation+bias", "stamo", "default")


def watched_slots(results: Results, methods: Sequence[str]) -> list[int]:
    """Return the slots after which any of the methods was watched."""
    rows = [row for method in methods for row in results.of(method, "deeped")]
    return sorted({int(slot) for row in rows for slot in row["curve"]})


def shared_problems(results: Results, methods: Sequence[str]) -> frozenset[str]:
    """Return the problems on which all of the methods that were run at all were watched."""
    by_method = [
        {row["problem"] for row in results.of(method, "deeped") if row["curve"]}
        for method in methods
    ]
    return frozenset(set.intersection(*filter(None, by_method))) if any(by_method) else frozenset()


def curve(
    results: Results, method: str, set_name: SetName, slots: Sequence[int], problems: frozenset[str]
) -> dict[int, Summary]:
    """Return the metrics after some slots; runs that stopped earlier keep their last result."""
    rows = [r for r in results.of(method, "deeped") if r["curve"] and r["problem"] in problems]
    found = {}
    for slot in slots if rows else ():
        outcomes = [_at(row, slot, set_name) for row in rows]
        found[slot] = Summary.of([outcome_of(o) for o in outcomes if o is not None])
    return found


def _at(row: Mapping[str, Any], slot: int, set_name: SetName) -> Mapping[str, Any] | None:
    if slot >= row["n_slots"]:
        outcome: Mapping[str, Any] | None = row["outcomes"].get(set_name)
        return outcome
    before = max((int(s) for s in row["curve"] if int(s) <= slot), default=None)
    return None if before is None else row["curve"][str(before)].get(set_name)


def draw_convergence(results: Results, path: Path) -> bool:
    """Draw every metric on every test set as slots progress; False without such results."""
    sets = results.test_sets
    slots = watched_slots(results, CONVERGENCE_ROWS)
    if not slots:
        return False
    problems = shared_problems(results, CONVERGENCE_ROWS)
    curves = {(m, s): curve(results, m, s, slots, problems) for m in CONVERGENCE_ROWS for s in sets}
    axes = _grid(len(sets), len(LABEL_BY_METRIC))
    for i, name in enumerate(sets):
        for j, metric in enumerate(LABEL_BY_METRIC):
            panel = axes[i][j]
            for method in CONVERGENCE_ROWS:
                points = curves[method, name]
                values = [100 * getattr(s, metric) for s in points.values()]
                if points:
                    panel.plot(list(points), values, label=method)
            default = results.summary("default", "deeped", name, results.n_labels())
            if default is not None:
                panel.axhline(100 * getattr(default, metric), ls="--", c="black", label="default")
            _label(panel, f"{name}: {LABEL_BY_METRIC[metric]}", "slot t", "%")
    _save(axes, path)
    return True


def draw_ablation(results: Results, path: Path) -> bool:
    """Draw average F1 and AUC as slots progress without each part of inter-slot optimisation."""
    slots = watched_slots(results, INTER_ROWS[1:])
    if not slots:
        return False
    problems = shared_problems(results, INTER_ROWS)
    axes = _grid(1, len(DRAWN))
    for method in INTER_ROWS:
        curves = [curve(results, method, name, slots, problems) for name in results.test_sets]
        if all(curves):
            for panel, metric in zip(axes[0], DRAWN, strict=True):
                values = [np.mean([getattr(c[slot], metric) for c in curves]) for slot in slots]
                panel.plot(slots, 100 * np.array(values), label=method)
    for panel, metric in zip(axes[0], DRAWN, strict=True):
        title = f"inter-slot ({len(problems)} entities)"
        _label(panel, title, "slot t", f"average {LABEL_BY_METRIC[metric]}, %")
    _save(axes, path)
    return True


def draw_labelled_size(results: Results, path: Path) -> bool:
    """Draw F1 and AUC by the number of labelled documents."""
    sets = results.test_sets
    sizes, problems = shared_sizes(results, SIZE_ROWS, "deeped")
    if len(sizes) < 2:
        return False
    axes = _grid(len(DRAWN), len(sets))
    for j, name in enumerate(sets):
        for method in SIZE_ROWS:
            found = {n: size_summary(results, method, "deeped", name, n, problems) for n in sizes}
            points = {n: summary for n, summary in found.items() if summary is not None}
            for i, metric in enumerate(DRAWN):
                values = [100 * getattr(summary, metric) for summary in points.values()]
                if points:
                    axes[i][j].plot(list(points), values, marker="o", label=method)
        for i, metric in enumerate(DRAWN):
            axes[i][j].set_xscale("log")
            axes[i][j].set_xticks(sizes, [str(n) for n in sizes])
            axes[i][j].minorticks_off()
            title = f"{name} ({len(problems)} entities)"
            _label(axes[i][j], title, "|L|", f"{LABEL_BY_METRIC[metric]}, %")
    _save(axes, path)
    return True


def _grid(n_rows: int, n_columns: int) -> list[list[Axes]]:
    from matplotlib.figure import Figure  # slow to import, and only needed here

    figure = Figure(figsize=(max(4 * n_columns, 6), 3 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False)
    return [list(row) for row in axes]


def _label(panel: Axes, title: str, x: str, y: str) -> None:
    panel.set_title(title, fontsize=9)
    panel.set_xlabel(x, fontsize=8)
    panel.set_ylabel(y, fontsize=8)
    panel.tick_params(labelsize=8)
    panel.grid(alpha=0.3)


def _save(axes: Sequence[Sequence[Axes]], path: Path) -> None:
    figure = axes[0][0].get_figure(root=True)
    assert figure is not None
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(3, 2 * len(axes[0])), fontsize=8
    )
    figure.savefig(path, dpi=120, metadata={"Software": None})


FIGURES = {
    "convergence.png": draw_convergence,
    "ablation.png": draw_ablation,
    "labelled-size.png": draw_labelled_size,
}


def find_runs(out: Path) -> list[Path]:
    """Return the directories with results: `out` itself, or those directly below it.

    Raises:
        SuiteError: There is none.
    """
    runs = [path for path in (out, *sorted(out.glob("*/"))) if (path / RUN).is_file()]
    if not runs:
        raise SuiteError(f"{out} holds no results; make some with `stamo-lab suite run`.")
    return runs


def report_tables(results: Results) -> list[Table]:
    """Return every table that the results can fill."""
    tables: list[Table] = []
    for model in results.models:
        tables += [made.main_table(results, model), made.printed_table(3, model)]
        tables += [made.gap_table(results, model), made.comparison_table(results, model)]
        tables.append(made.pile_table(results, model))
    for number, methods in ((4, INTER_ROWS), (5, made.FEATURE_ROWS)):
        ablation = made.ablation_table(results, number, methods)
        if ablation.rows:
            tables += [ablation, made.printed_table(number, "deeped")]
    tables.append(made.size_table(results, SIZE_ROWS))
    tables += [made.quirk_table(results, model) for model in results.models]
    return [table for table in tables if table.rows]


def write_run_report(
    out: Path,
    heading: str,
    tables: Sequence[Table],
    failed: Iterable[str],
    values: Mapping[str, Any],
    drawn: Sequence[str] = (),
) -> None:
    """Write `report.md` and `report.json` of one run.

    Args:
        out: Its directory.
        heading: What was run.
        tables: Its tables.
        failed: What could not learn, once for each time.
        values: The same for programs.
        drawn: Files of figures.
    """
    text = [f"# {heading}", "", *(table.markdown() for table in tables)]
    text += [f"![{Path(name).stem}]({name})\n" for name in drawn]
    n_failed = sorted(Counter(failed).items())
    text += [f"- {name} could not learn in {n} runs\n" for name, n in n_failed]
    (out / "report.md").write_text("\n".join(text), encoding="utf-8")
    (out / "report.json").write_text(json.dumps(values, indent=1), encoding="utf-8")


def write_suite_report(out: Path) -> list[Table]:
    """Write `report.md`, `report.json` and the figures of one run; return its tables."""
    rows = read_results(out)
    if not rows:
        raise SuiteError(
            f"The run in {out} has no results yet; run `stamo-lab suite run` to its end."
        )
    results = Results(tuple(rows))
    about = read_run(out)
    tables = report_tables(results)
    drawn = [name for name, draw in FIGURES.items() if draw(results, out / name)]
    n_problems = len({row["problem"] for row in rows})
    heading = f"{about['suite']}: {n_problems} emerging entities ({about['settings']['split']})"
    failed = (f"{row['method']} ({row['model']})" for row in rows if row.get("error"))
    values = {
        "suite": about["suite"],
        "n_problems": n_problems,
        "summaries": made.as_values(results),
        "default_gains": _gains(results),
        "tables": [vars(table) for table in tables],
    }
    write_run_report(out, heading, tables, failed, values, drawn)
    return tables


def _gains(results: Results) -> dict[str, Any]:
    """Return the paired gains of the default as plain values."""
    gains: dict[str, Any] = {}
    for model in results.models:
        for other in made.COMPARED:
            for name in results.test_sets:
                found = made.compare(results, model, name, "default", other)
                if found:
                    gaps = {metric: vars(found[metric]) for metric in made.BESIDE}
                    gains.setdefault(model, {}).setdefault(other, {})[name] = gaps
    return gains
