"""Write the report of a run: tables and figures as Markdown, JSON and PNG."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stamo.errors import SuiteError
from stamo.evaluation.tables import Table
from stamo_lab import figures
from stamo_lab import tables as made
from stamo_lab.suites.cells import RUN, read_results, read_run
from stamo_lab.tables import Results

FIGURES = {
    "convergence.png": figures.draw_convergence,
    "ablation.png": figures.draw_ablation,
    "labelled-size.png": figures.draw_labelled_size,
}


def find_runs(out: Path) -> list[Path]:
    """Return the directories with results: `out` itself, or those directly below it.

    Raises:
        SuiteError: There is none.
    """
    runs = [path for path in (out, *sorted(out.glob("*/"))) if (path / RUN).is_file()]
    if not runs:
        raise SuiteError(f"{out} holds no results; make some with `stamo suite run`.")
    return runs


def report_tables(results: Results) -> list[Table]:
    """Return every table that the results can fill."""
    tables: list[Table] = []
    for model in results.models:
        tables += [made.main_table(results, model), made.printed_table(3, model)]
        tables += [made.gap_table(results, model), made.comparison_table(results, model)]
        tables.append(made.pile_table(results, model))
    for number, methods in ((4, made.INTER_ROWS), (5, made.FEATURE_ROWS)):
        ablation = made.ablation_table(results, number, methods)
        if ablation.rows:
            tables += [ablation, made.printed_table(number, "deeped")]
    tables.append(made.size_table(results, figures.SIZE_ROWS))
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
        raise SuiteError(f"The run in {out} has no results yet; run `stamo suite run` to its end.")
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
