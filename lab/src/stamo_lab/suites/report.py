"""Write the report of a run: tables and figures as Markdown, JSON and PNG.

The figures of the paper: convergence, ablation, labelled size.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stamo.errors import SuiteError
from stamo.evaluation.tables import Table
from stamo_lab import tables as made
from stamo_lab.metrics import Summary
from stamo_lab.suites.cells import RUN, read_results, read_run
from stamo_lab.suites.store import SetName
from stamo_lab.tables import INTER_ROWS, Results, outcome_of, shared_sizes, size_summary

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


@dataclass(frozen=True)
class Panel:
    """Curves to be drawn together: the values over slots or over numbers of labels."""

    title: str
    x: str
    y: str
    curves: Mapping[str, Mapping[int, float]]


def convergence_panels(results: Results) -> list[list[Panel]]:
    """Return every metric on every test set as slots progress; the default is a level line."""
    slots = watched_slots(results, CONVERGENCE_ROWS)
    problems = shared_problems(results, CONVERGENCE_ROWS)
    rows = []
    for name in results.test_sets if slots else ():
        found = {m: curve(results, m, name, slots, problems) for m in CONVERGENCE_ROWS}
        if default := results.summary("default", "deeped", name, results.n_labels()):
            found["default"] = dict.fromkeys(slots, default)
        rows.append(
            [
                Panel(f"{name}: {label}", "slot t", "%", _values(found, metric))
                for metric, label in LABEL_BY_METRIC.items()
            ]
        )
    return rows


def ablation_panels(results: Results) -> list[list[Panel]]:
    """Return average F1 and AUC as slots progress without each part of inter-slot optimisation."""
    slots = watched_slots(results, INTER_ROWS[1:])
    problems = shared_problems(results, INTER_ROWS)
    title, panels = f"inter-slot ({len(problems)} entities)", []
    for metric in DRAWN if slots else ():
        means = {}
        for method in INTER_ROWS:
            sets = [curve(results, method, name, slots, problems) for name in results.test_sets]
            if all(sets):
                means[method] = {
                    slot: 100 * float(np.mean([getattr(s[slot], metric) for s in sets]))
                    for slot in slots
                }
        panels.append(Panel(title, "slot t", f"average {LABEL_BY_METRIC[metric]}, %", means))
    return [panels] if panels else []


def size_panels(results: Results) -> list[list[Panel]]:
    """Return F1 and AUC by the number of labelled documents."""
    sizes, problems = shared_sizes(results, SIZE_ROWS, "deeped")
    rows: list[list[Panel]] = []
    for metric in DRAWN if len(sizes) > 1 else ():
        rows.append([])
        for name in results.test_sets:
            found = {
                method: {
                    n: summary
                    for n in sizes
                    if (summary := size_summary(results, method, "deeped", name, n, problems))
                }
                for method in SIZE_ROWS
            }
            title, y = f"{name} ({len(problems)} entities)", f"{LABEL_BY_METRIC[metric]}, %"
            rows[-1].append(Panel(title, "|L|", y, _values(found, metric)))
    return rows


def _values(
    curves: Mapping[str, Mapping[int, Summary]], metric: str
) -> dict[str, dict[int, float]]:
    return {
        name: {x: 100 * getattr(summary, metric) for x, summary in points.items()}
        for name, points in curves.items()
        if points
    }


def draw(rows: Sequence[Sequence[Panel]], path: Path) -> bool:
    """Draw rows of panels with one legend; return whether there was anything to draw."""
    if not rows:
        return False
    from matplotlib.figure import Figure  # slow to import, and only needed here

    size = max(4 * len(rows[0]), 6), 3 * len(rows)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(rows), len(rows[0]), squeeze=False)
    for drawn, panel in zip(axes.flat, (p for row in rows for p in row), strict=True):
        for label, points in panel.curves.items():
            drawn.plot(list(points), list(points.values()), marker=".", label=label)
        if panel.x == "|L|":
            sizes = sorted({n for points in panel.curves.values() for n in points})
            drawn.set_xscale("log")
            drawn.set_xticks(sizes, [str(n) for n in sizes])
            drawn.minorticks_off()
        drawn.set_title(panel.title, fontsize=9)
        drawn.set_xlabel(panel.x, fontsize=8)
        drawn.set_ylabel(panel.y, fontsize=8)
        drawn.tick_params(labelsize=8)
        drawn.grid(alpha=0.3)
    handles, labels = axes[0][0].get_legend_handles_labels()
    n_columns = min(3, 2 * len(rows[0]))
    figure.legend(handles, labels, loc="outside lower center", ncols=n_columns, fontsize=8)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return True


FIGURES = {
    "convergence.png": convergence_panels,
    "ablation.png": ablation_panels,
    "labelled-size.png": size_panels,
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
        tables += [made.comparison_table(results, model), made.pile_table(results, model)]
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
    drawn = [name for name, panels in FIGURES.items() if draw(panels(results), out / name)]
    n_problems = len({row["problem"] for row in rows})
    heading = f"{about['suite']}: {n_problems} emerging entities ({about['settings']['split']})"
    failed = (f"{row['method']} ({row['model']})" for row in rows if row.get("error"))
    values = {
        "suite": about["suite"],
        "n_problems": n_problems,
        "summaries": made.as_values(results),
        "tables": [vars(table) for table in tables],
    }
    write_run_report(out, heading, tables, failed, values, drawn)
    return tables
