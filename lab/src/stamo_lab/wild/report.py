"""Write the report of a run on real new entities: tables as Markdown, values as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stamo.errors import SuiteError
from stamo.evaluation.tables import Table
from stamo_lab.suites.cells import Row, finite, read_results
from stamo_lab.suites.report import write_run_report
from stamo_lab.wild import measures
from stamo_lab.wild.load import ADVISOR, IN_HALF
from stamo_lab.wild.measures import METRIC_OF_SUMS, difference_of

Setting = tuple[str, int]
"""Who chose the labels, and how many."""


BySetting = Mapping[Setting, Mapping[str, list[Row]]]
"""The results of each setting, by method."""


def by_setting(rows: Iterable[Row]) -> BySetting:
    """Arrange the results of a run; what uses no label stands beside every setting."""
    found: dict[Setting, dict[str, list[Row]]] = {}
    for row in rows:
        if not row.get("error"):
            here = found.setdefault((row["labels_by"], row["n_labels"]), {})
            here.setdefault(row["method"], []).append(row)
    free: dict[str, list[Row]] = {}
    for (_, n_labels), methods in found.items():
        free |= {} if n_labels else methods
    for (_, n_labels), methods in found.items():
        draws = next(iter(methods.values()))
        for method, own in free.items() if n_labels else ():
            name = method if method not in methods else f"{method}, no label"
            methods[name] = measures.at_draws(own, draws)
    return dict(sorted(found.items()))


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _title(setting: Setting) -> str:
    labels_by, n_labels = setting
    return f"{n_labels} labels, {labels_by}" if n_labels else "no label"


def method_table(setting: Setting, methods: Mapping[str, list[Row]]) -> Table:
    """Return the metrics of all methods."""
    columns = ("method", *METRIC_OF_SUMS, "ECE", "right at p >= .9", "right at .5 to .9", "s")
    rows = []
    for method, own in methods.items():
        metrics, sure = measures.measure_rows(own), measures.trust(own)
        rows.append(
            (
                method,
                *(str(metric) for metric in metrics.values()),
                _number(sure.ece),
                f"{_number(sure.sure)} of {sure.n_sure}",
                f"{_number(sure.likely)} of {sure.n_likely}",
                f"{sum(row['seconds'] for row in own) / len(own):.2f}",
            )
        )
    return Table(f"Real new entities, {_title(setting)}", columns, tuple(rows))


def gain_table(setting: Setting, methods: Mapping[str, list[Row]]) -> Table:
    """Return by how much the first method is above each other one, paired by entity and draw."""
    first, *others = sorted(methods, key=lambda name: name != "default")
    rows = [
        (f"{first} - {other}", *(f"{gap:+.3f}" for gap in gaps.values()))
        for other in others
        if (gaps := difference_of(methods[first], methods[other]))
    ]
    title = f"Gained, {_title(setting)}, paired bootstrap over entities (95 %)"
    return Table(title, ("methods", *METRIC_OF_SUMS), tuple(rows))


def agreement_table(setting: Setting, methods: Mapping[str, list[Row]]) -> Table:
    """Return how what cross-validation tells agrees with the judged test."""
    rows = [
        (f"{method}, {rate}", *map(_number, (a.told, a.tested, a.agree)), str(a.n_runs))
        for method, own in methods.items()
        for rate, a in measures.agreement(own).items()
    ]
    columns = ("rate", "told", "tested", "agree within both samples", "runs")
    return Table(f"What left-out labels tell, {_title(setting)}", columns, tuple(rows))


def none_table(setting: Setting, methods: Mapping[str, list[Row]]) -> Table:
    """Return how well "none of these" is told from known namesakes."""
    rows = [
        (method, str(told.n), *map(_number, (told.share, told.right)))
        for method, own in methods.items()
        if (told := measures.none_of_these(own)) is not None
    ]
    columns = ("method", "other mentions", "mean nothing known", "told rightly")
    return Table(f"None of these, {_title(setting)}", columns, tuple(rows))


def advisor_table(results: BySetting) -> Table:
    """Return what labels by the advisor gain over others from the same half."""
    rows = []
    for (labels_by, n_labels), methods in results.items():
        for other in IN_HALF if labels_by == ADVISOR else ():
            beside = results.get((other, n_labels), {})
            for method in methods if other != ADVISOR else ():
                gaps = difference_of(methods[method], beside.get(method, []))
                if gaps and any(row["n_labels"] for row in methods[method]):
                    name = f"{method}, {n_labels} labels, over {other}"
                    rows.append((name, *(f"{gap:+.3f}" for gap in gaps.values())))
    title = "Gained by the advisor's labels over others, tested on the other half"
    return Table(title, ("method", *METRIC_OF_SUMS), tuple(rows))


def entity_table(setting: Setting, methods: Mapping[str, list[Row]]) -> Table:
    """Return the F1 of every entity, the worst of the first method first."""
    scores = {method: measures.f1_of_entities(rows) for method, rows in methods.items()}
    first = next(iter(scores.values()), {})
    about = {e: own[0] for rows in methods.values() for e, own in measures.by_entity(rows).items()}
    rows = [
        (
            entity,
            str(about[entity]["n_positive"]),
            str(len(about[entity]["test"])),
            *(_number(own.get(entity, math.nan)) for own in scores.values()),
        )
        for entity in sorted(first, key=lambda e: first[e])
    ]
    return Table(
        f"F1 of each entity, {_title(setting)}",
        ("entity", "positive", "tested", *scores),
        tuple(rows),
    )


def wild_tables(results: BySetting) -> list[Table]:
    """Return every table that the results can fill."""
    tables = []
    for setting, methods in results.items():
        tables += [method_table(setting, methods), gain_table(setting, methods)]
        tables += [agreement_table(setting, methods), none_table(setting, methods)]
    tables.append(advisor_table(results))
    tables += [entity_table(setting, methods) for setting, methods in results.items()]
    return [table for table in tables if table.rows]


def write_wild_report(out: Path) -> list[Table]:
    """Write `report.md` and `report.json` of one run; return its tables."""
    rows = read_results(out)
    results = by_setting(rows)
    if not results:
        raise SuiteError(f"The run in {out} has no results yet; run `stamo suite run` to its end.")
    tables = wild_tables(results)
    n_entities = len({row["problem"] for row in rows})
    failed = (
        f"{row['method']} ({_title((row['labels_by'], row['n_labels']))})"
        for row in rows
        if row.get("error")
    )
    values = {"suite": "wild", "n_problems": n_entities, "summaries": _values(results)}
    heading = f"wild: {n_entities} real new entities"
    write_run_report(out, heading, tables, failed, finite(values))
    return tables


def _values(results: BySetting) -> dict[str, Any]:
    """Return every metric with its interval as plain values, for programs."""
    return {
        _title(setting): {
            method: {name: asdict(metric) for name, metric in measures.measure_rows(rows).items()}
            | {"trust": asdict(measures.trust(rows))}
            for method, rows in methods.items()
        }
        for setting, methods in results.items()
    }
