"""Write the report of a run on real new entities: tables as Markdown, values as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from stamo.errors import SuiteError
from stamo.evaluation.intervals import Interval, expected_calibration_error
from stamo.evaluation.tables import Table
from stamo.system.files import Float64
from stamo_lab.metrics import area_under_curve, estimate_difference
from stamo_lab.suites.cells import Row, finite, read_results
from stamo_lab.suites.report import write_run_report
from stamo_lab.wild.load import ADVISOR, IN_HALF

LEAST_POSITIVES = 3
"""Judged mentions that must mean an entity for its F1 and AUC to be counted."""
SURE = 0.9
"""Links shown with this probability should be right nearly always."""

MethodRows = Sequence[Row]
"""The results of one method over entities and draws."""

# What each entity adds to the sums that every metric is made of.
_F1, _N_F1, _HITS, _LINKED, _GOLD, _AUC, _N_AUC, _STOLEN, _OTHER = range(9)


def _sums(rows: MethodRows) -> Float64:
    """Return the sums of one entity, (9,); F1 is its mean over the draws."""
    sums, f1s = np.zeros(9), []
    for row in rows:
        if row["n_positive"] < LEAST_POSITIVES:
            continue
        gold, linked = np.array(row["gold"], dtype=bool), np.array(row["linked"], dtype=bool)
        hits = float((gold & linked).sum())
        sums[[_HITS, _LINKED, _GOLD]] += hits, float(linked.sum()), float(gold.sum())
        sums[[_STOLEN, _OTHER]] += float((linked & ~gold).sum()), float((~gold).sum())
        if gold.any():  # otherwise all positives are labels, and there is nothing to find
            f1s.append(2 * hits / float(linked.sum() + gold.sum()))
        auc = area_under_curve(np.array(row["probability"]), gold)
        if np.isfinite(auc):
            sums[[_AUC, _N_AUC]] += auc, 1
    if f1s:
        sums[[_F1, _N_F1]] = np.mean(f1s), 1
    return sums


def _ratio(part: Float64, whole: Float64) -> Float64:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(part / whole)


Metric = Callable[[Float64], Float64]
"""Turns sums, (n, 9), into values, (n,)."""
METRIC_OF_SUMS: Mapping[str, Metric] = {
    "macro F1": lambda sums: _ratio(sums[..., _F1], sums[..., _N_F1]),
    "micro F1": lambda sums: _ratio(2 * sums[..., _HITS], sums[..., _LINKED] + sums[..., _GOLD]),
    "AUC": lambda sums: _ratio(sums[..., _AUC], sums[..., _N_AUC]),
    "stolen": lambda sums: _ratio(sums[..., _STOLEN], sums[..., _OTHER]),
}
"""Of the entities with enough positives; `stolen` is the share of other meanings' mentions that are
linked to the entity."""


def trust(rows: MethodRows) -> dict[str, float]:
    """Measure how far the shown probabilities can be trusted, over all entities and draws.

    That is the ECE in ten bins, and how many links with a probability of .9 and more ("sure") and
    from .5 to .9 ("likely") there are, and the share of each that is right.
    """
    p = np.array([x for row in rows for x in row["probability"]], dtype=np.float64)
    gold = np.array([x for row in rows for x in row["gold"]], dtype=bool)
    linked = np.array([x for row in rows for x in row["linked"]], dtype=bool)
    sure, likely = linked & (p >= SURE), linked & (p >= 0.5) & (p < SURE)
    found = {"ece": expected_calibration_error(p, gold)}
    for name, links in (("sure", sure), ("likely", likely)):
        found[f"n_{name}"] = int(links.sum())
        found[name] = float(gold[links].mean()) if links.any() else math.nan
    return found


def none_of_these(rows: MethodRows) -> tuple[int, float, float] | None:
    """Return how well "none of these" is told from known namesakes, None where no run learned it.

    Counted are the test mentions that are not the entity and are not linked to it, over entities
    and draws: their number, the share that means nothing the knowledge base knows by this name, and
    the share that is told rightly.
    """
    found: list[tuple[bool, bool]] = []
    for row in rows:
        if row.get("none") is not None:
            parts = (row["gold"], row["linked"], row["is_none"], row["none"])
            found += [
                (bool(a), bool(b)) for g, k, a, b in zip(*parts, strict=True) if not g and not k
            ]
    if not found:
        return None
    truth, told = np.array(found).T
    return len(found), float(truth.mean()), float((truth == told).mean())


def agreement(rows: MethodRows) -> dict[str, tuple[float, float]]:
    """Return precision and recall as cross-validation told them, and as the test has them.

    Told are those of all labels together, each predicted without itself; tested those of all test
    mentions together.
    """
    counts = np.zeros((2, 3))  # told and tested: right links, links, and mentions of e*
    for row in rows:
        if row.get("left_out") is not None:
            gold, linked = np.array(row["gold"], dtype=bool), np.array(row["linked"], dtype=bool)
            counts += row["left_out"], [(gold & linked).sum(), linked.sum(), gold.sum()]
    if not counts[0].any():
        return {}
    told, tested = counts[:, :1] / np.maximum(counts[:, 1:], 1)
    return {
        name: (float(told[i]), float(tested[i])) for i, name in enumerate(("precision", "recall"))
    }


def by_entity(rows: MethodRows) -> dict[str, list[Row]]:
    """Return the results of each entity."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["problem"], []).append(row)
    return found


def measure_rows(rows: MethodRows, *, n_samples: int = 2000) -> dict[str, Interval]:
    """Return every metric of a method with its interval over entities."""
    return _estimates([np.stack([_sums(r) for r in by_entity(rows).values()])], n_samples)


def at_draws(rows: MethodRows, draws: MethodRows) -> list[Row]:
    """Return results without labels as if they were of some draws: on their test mentions only."""
    tests = {(row["problem"], row["seed"]): row["test"] for row in draws}
    own, found = {row["problem"]: row for row in rows}, []
    for (problem, seed), test in tests.items():
        if row := own.get(problem):
            places = [row["test"].index(number) for number in test]
            lists = {n: [row[n][i] for i in places] for n in ("gold", "probability", "linked")}
            found.append(row | lists | {"test": list(test), "seed": seed})
    return found


def difference_of(
    first: MethodRows, second: MethodRows, *, n_samples: int = 2000
) -> dict[str, Interval]:
    """Return by how much a method's metrics are above another's, paired by entity and draw."""
    draws = [{(row["problem"], row["seed"]): row for row in rows} for rows in (first, second)]
    shared = sorted(draws[0].keys() & draws[1].keys())
    if not shared:
        return {}
    pairs = [by_entity([rows[key] for key in shared]).values() for rows in draws]
    return _estimates([np.stack([_sums(r) for r in rows]) for rows in pairs], n_samples)


def f1_of_entities(rows: MethodRows) -> dict[str, float]:
    """Return the mean F1 of each entity over its draws, for those with enough positives."""
    sums = {entity: _sums(own) for entity, own in by_entity(rows).items()}
    return {entity: float(own[_F1]) for entity, own in sums.items() if own[_N_F1]}


def _estimates(tables: Sequence[Float64], n_samples: int) -> dict[str, Interval]:
    """Return every metric, or its difference between two tables, (entities, sums) each."""
    return {
        name: estimate_difference(metric, tables, n_samples)
        for name, metric in METRIC_OF_SUMS.items()
    }


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
            methods[name] = at_draws(own, draws)
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
        metrics, told = measure_rows(own), trust(own)
        rows.append(
            (
                method,
                *(str(metric) for metric in metrics.values()),
                _number(told["ece"]),
                f"{_number(told['sure'])} of {told['n_sure']}",
                f"{_number(told['likely'])} of {told['n_likely']}",
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
        (f"{method}, {rate}", *map(_number, both))
        for method, own in methods.items()
        for rate, both in agreement(own).items()
    ]
    title = f"What left-out labels tell, {_title(setting)}"
    return Table(title, ("rate", "told", "tested"), tuple(rows))


def none_table(setting: Setting, methods: Mapping[str, list[Row]]) -> Table:
    """Return how well "none of these" is told from known namesakes."""
    rows = [
        (method, str(told[0]), *map(_number, told[1:]))
        for method, own in methods.items()
        if (told := none_of_these(own)) is not None
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
    scores = {method: f1_of_entities(rows) for method, rows in methods.items()}
    first = next(iter(scores.values()), {})
    about = {e: own[0] for rows in methods.values() for e, own in by_entity(rows).items()}
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
        raise SuiteError(
            f"The run in {out} has no results yet; run `stamo-lab suite run` to its end."
        )
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
            method: {name: asdict(metric) for name, metric in measure_rows(rows).items()}
            | {"trust": trust(rows)}
            for method, rows in methods.items()
        }
        for setting, methods in results.items()
    }
