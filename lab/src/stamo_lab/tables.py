"""The tables of the paper from the results of a run, each next to the printed numbers."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stamo.errors import SettingsError
from stamo.evaluation.intervals import Interval
from stamo.evaluation.tables import Table
from stamo_lab.metrics import METRICS, Outcome, Summary, bootstrap_metric
from stamo_lab.suites.store import TEST_SETS, SetName

EXPERIMENTS = Path(__file__).parent / "experiments"


@dataclass(frozen=True)
class Experiment:
    """One row of a table of the paper: what it prints, in percent, and how it is run."""

    table: int
    row: str
    method: str
    """The method of ours that the row corresponds to."""
    model: str
    """deeped, yamada, or empty where the row has no linking model."""
    numbers: Mapping[str, float]
    """For instance "test-web f1"; "minutes" is the learning time of one slot."""
    n_labels: int
    n_slots: int


def load_experiment(path: Path) -> Experiment:
    """Read an experiment file, one of our own where there is none at the path.

    Raises:
        SettingsError: It is missing or does not have the documented form.
    """
    path = path if path.exists() else EXPERIMENTS / f"{path.stem}.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return Experiment(
            table=int(content["table"]),
            row=str(content["row"]),
            method=str(content["method"]),
            model=str(content["model"]),
            numbers={str(name): float(value) for name, value in content["published"].items()},
            n_labels=int(content["n_labels"]),
            n_slots=int(content["n_slots"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"{path} is no experiment file ({error}); see the files in experiments/."
        ) from error


PRINTED = tuple(load_experiment(path) for path in sorted(EXPERIMENTS.glob("*.toml")))
"""Tables 3, 4 and 5."""


def printed_numbers(table: int, method: str, model: str) -> Mapping[str, float]:
    """Return what the paper prints for a method of ours; nothing where it has no such row."""
    # The paper's STAMO is one row; we run it in several readings.
    wanted = "stamo" if method in {"paper", "published", "default"} else method
    for row in PRINTED:
        if (row.table, row.method) == (table, wanted) and row.model in {model, ""}:
            return row.numbers
    return {}


MAIN_ROWS = (
    "keyphrase",
    "bert",
    "label everything",
    "estimation",
    "estimation+bias",
    "estimation+correction",
    "estimation+correction+f1",
    "estimation+correction+encoder",
    "estimation(all)",
    "self-training",
    "self-training+intra",
    "self-training+inter",
    "stamo",
    "paper",
    "published",
    "default",
    "default+f1",
    "default+encoder",
    "default+encoder+f1",
)
INTER_ROWS = (
    "stamo",
    "stamo without adaptive delta",
    "stamo without small eta",
    "stamo without warm-up",
)
FEATURE_ROWS = tuple(
    f"{name}{part}"
    for name in ("stamo", "default")
    for part in ("", " without prior", " without relatedness", " without embedding")
)
BESIDE = ("F1", "AUC")
"""The metrics that stand beside each other."""
COMPARED = (
    "estimation",
    "estimation+bias",
    "estimation+correction",
    "estimation(all)",
    "stamo",
    "paper",
    "published",
)
"""Methods that the default is compared with, entity by entity."""


def outcome_of(values: Mapping[str, Any]) -> Outcome:
    """Read an outcome back from a stored result."""
    auc = values["auc"]
    return Outcome(**{**values, "auc": float("nan") if auc is None else auc})


@dataclass(frozen=True)
class Results:
    """The results of a run, found by method, model and number of labels."""

    rows: tuple[Mapping[str, Any], ...]

    def of(self, method: str, model: str, n_labels: int | None = None) -> list[Mapping[str, Any]]:
        """Return the results of a method; those that use no model or no labels serve all."""
        return [
            row
            for row in self.rows
            if row["method"] == method
            and row["model"] in {model, ""}
            and (n_labels is None or row["n_labels"] in {n_labels, 0})
        ]

    @property
    def models(self) -> list[str]:
        """Return the models of the run."""
        return sorted({row["model"] for row in self.rows if row["model"]})

    def outcomes(
        self,
        method: str,
        model: str,
        set_name: SetName,
        n_labels: int = 20,
        seeds: Iterable[int] | None = None,
    ) -> dict[str, list[Outcome]]:
        """Return the outcomes of every problem, seed by seed."""
        found: dict[str, list[Outcome]] = {}
        wanted = None if seeds is None else set(seeds)
        for row in self.of(method, model, n_labels):
            fits = wanted is None or row["seed"] in wanted or row["n_labels"] == 0
            if set_name in row["outcomes"] and fits:
                outcome = outcome_of(row["outcomes"][set_name])
                found.setdefault(row["problem"], []).append(outcome)
        return found

    def summary(
        self, method: str, model: str, set_name: SetName, n_labels: int = 20
    ) -> Summary | None:
        """Return the metrics of a method over all problems and seeds, None without results."""
        found = self.outcomes(method, model, set_name, n_labels)
        return Summary.of([o for of_one in found.values() for o in of_one]) if found else None

    @property
    def test_sets(self) -> list[SetName]:
        """Return the test sets of the run."""
        return [name for name in TEST_SETS if any(name in row["outcomes"] for row in self.rows)]

    def n_labels(self) -> int:
        """Return |L| of the main table: that of most methods."""
        pairs = dict.fromkeys((r["n_labels"], r["method"]) for r in self.rows if r["n_labels"])
        by_size = Counter(n for n, _ in pairs)
        return max(by_size, key=lambda n: (by_size[n], n == 20)) if by_size else 20


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:.2f}"


def _printed(numbers: Mapping[str, float], name: str) -> str:
    return f"{numbers[name]:.2f}" if name in numbers else "-"


def _summaries(results: Results, method: str, model: str) -> list[Summary]:
    """Return the metrics of a method on each test set; none where one of them lacks."""
    n_labels, names = results.n_labels(), results.test_sets
    found = [results.summary(method, model, name, n_labels) for name in names]
    return [summary for summary in found if summary] if all(found) else []


def main_table(results: Results, model: str) -> Table:
    """Return Table 3 for one model: all metrics on both test sets, average, time of a slot."""
    sets, n_labels = results.test_sets, results.n_labels()
    columns = ["method"]
    for name in sets:
        columns += [f"{name} Acc", "P", "R", "F1", "macro F1", "AUC", "printed F1"]
    columns += ["avg Acc", "avg F1", "printed avg F1", "s/slot", "s"]
    rows = []
    for method in MAIN_ROWS:
        summaries = _summaries(results, method, model)
        if len(summaries) < len(sets):
            continue
        numbers, cells = printed_numbers(3, method, model), [method]
        for name, s in zip(sets, summaries, strict=True):
            values = (s.accuracy, s.precision, s.recall, s.f1, s.macro_f1, s.auc)
            cells += [*map(_percent, values), _printed(numbers, f"{name} f1")]
        found = results.of(method, model, n_labels)
        slots = [row["slot_seconds"] for row in found if row["n_slots"]]
        cells += [
            _percent(float(np.mean([s.accuracy for s in summaries]))),
            _percent(float(np.mean([s.f1 for s in summaries]))),
            _printed(numbers, "average f1"),
            f"{np.mean(slots):.3f}" if slots else "-",
            f"{np.mean([row['seconds'] for row in found]):.2f}",
        ]
        rows.append(tuple(cells))
    title = f"Table 3, {model}, |L| = {n_labels} (in percent, micro unless it says macro)"
    return Table(title, tuple(columns), tuple(rows))


def ablation_table(results: Results, table: int, methods: Sequence[str]) -> Table:
    """Return Table 4 or 5: accuracy, F1 and AUC of variants, next to the printed ones."""
    model, columns, rows = "deeped", ["method"], []
    for name in results.test_sets:
        columns += [f"{name} Acc", "F1", "AUC"]
    columns += ["avg Acc", "avg F1", "avg AUC", "printed avg Acc", "printed avg F1"]
    for method in methods:
        summaries = _summaries(results, method, model)
        if not summaries:
            continue
        numbers = printed_numbers(table, method, model) if method != "default" else {}
        values = np.array([(s.accuracy, s.f1, s.auc) for s in summaries])
        cells = [_percent(float(v)) for v in (*values.ravel(), *values.mean(axis=0))]
        cells += [_printed(numbers, f"average {metric}") for metric in ("accuracy", "f1")]
        rows.append((method, *cells))
    what = "inter-slot optimisation" if table == 4 else "features"
    return Table(f"Table {table}, ablation of {what}, {model}", tuple(columns), tuple(rows))


def printed_table(table: int, model: str) -> Table:
    """Return a table of the paper with every number that it prints."""
    order = {3: MAIN_ROWS, 4: INTER_ROWS, 5: FEATURE_ROWS}[table]
    found = [p for p in PRINTED if p.table == table and p.model in {model, ""}]
    found.sort(key=lambda p: order.index(p.method))
    names = list(dict.fromkeys(name for p in found for name in p.numbers))
    rows = [(p.row, *(_printed(p.numbers, name) for name in names)) for p in found]
    title = f"The paper's Table {table}, {model}, as printed on its own data"
    return Table(title, ("method", *names), tuple(rows))


def compare(
    results: Results,
    model: str,
    set_name: SetName,
    first: str,
    second: str,
    n_labels: int | None = None,
) -> dict[str, Interval]:
    """Return the difference of two methods in each metric with its interval; empty without any."""
    n_labels = results.n_labels() if n_labels is None else n_labels
    seeds = [
        {row["seed"] for row in results.of(method, model, n_labels) if row["n_labels"]}
        for method in (first, second)
    ]
    shared = set.intersection(*(s for s in seeds if s)) if any(seeds) else None
    one, two = (
        results.outcomes(method, model, set_name, n_labels, shared) for method in (first, second)
    )
    problems = sorted(one.keys() & two.keys())
    if not problems:
        return {}
    pairs = [one[p] for p in problems], [two[p] for p in problems]
    return {metric: bootstrap_metric(metric, *pairs) for metric in METRICS}


def comparison_table(results: Results, model: str) -> Table:
    """Return the gain of the default over the others, with paired intervals over entities."""
    pairs = {f"default - {other}": ("default", other, None) for other in COMPARED}
    title = f"Points of F1 and AUC gained, paired bootstrap over entities (95 %), {model}"
    return _differences(results, model, title, pairs)


def pile_table(results: Results, model: str) -> Table:
    """Return what the pile adds to the labels alone, for each number of labels."""
    sizes = sorted({row["n_labels"] for row in results.rows if row["n_labels"]})
    pairs: dict[str, tuple[str, str, int | None]] = {}
    for way in ("", "+f1", "+encoder", "+encoder+f1"):
        for n_labels in sizes:
            first, second = f"default{way}", f"estimation+correction{way}"
            pairs[f"{n_labels} labels, {first} - {second}"] = first, second, n_labels
    title = f"Points gained by the pile, paired bootstrap over entities (95 %), {model}"
    return _differences(results, model, title, pairs, "labels and methods", METRICS)


def quirk_table(results: Results, model: str) -> Table:
    """Return what each quirk of the published experiments changes when it is switched on alone."""
    methods = dict.fromkeys(row["method"] for row in results.rows if " with " in row["method"])
    pairs = {method: (method, method.split(" with ")[0], None) for method in methods}
    title = f"Points of F1 and AUC that a quirk alone changes, paired bootstrap (95 %), {model}"
    return _differences(results, model, title, pairs)


def _differences(
    results: Results,
    model: str,
    title: str,
    pairs: Mapping[str, tuple[str, str, int | None]],
    head: str = "methods",
    metrics: Iterable[str] = BESIDE,
) -> Table:
    """Return the paired differences of pairs of methods, a row for each pair that was run."""
    columns, rows = [(name, metric) for name in results.test_sets for metric in metrics], []
    for label, pair in pairs.items():
        found = {name: compare(results, model, name, *pair) for name in results.test_sets}
        if any(found.values()):
            gaps = [found[name].get(metric) for name, metric in columns]
            cells = ("-" if gap is None else f"{100 * gap:+.2f}" for gap in gaps)
            rows.append((label, *cells))
    return Table(title, (head, *(" ".join(column) for column in columns)), tuple(rows))


def size_table(results: Results, methods: Sequence[str]) -> Table:
    """Return F1 and AUC by the number of labels, on the entities that have every size."""
    model, rows = "deeped", []
    sizes, problems = shared_sizes(results, methods, model)
    for method in methods:
        for name in results.test_sets:
            found = [size_summary(results, method, model, name, n, problems) for n in sizes]
            if any(found):
                for metric in BESIDE:
                    cells = (
                        "-" if s is None else _percent(getattr(s, metric.lower())) for s in found
                    )
                    rows.append((f"{method}, {name} {metric}", *cells))
    title = f"F1 and AUC by |L| on {len(problems)} entities, {model}"
    return Table(title, ("method", *map(str, sizes)), tuple(rows))


def shared_sizes(
    results: Results, methods: Sequence[str], model: str
) -> tuple[list[int], frozenset[str]]:
    """Return the sizes that at least half of the entities have, and the entities with all."""
    by_size: dict[int, set[str]] = {}
    for row in results.rows:
        if row["method"] in methods and row["model"] == model and row["n_labels"]:
            by_size.setdefault(row["n_labels"], set()).add(row["problem"])
    most = max((len(p) for p in by_size.values()), default=0)
    sizes = sorted(n for n, problems in by_size.items() if 2 * len(problems) >= most)
    shared = set.intersection(*(by_size[n] for n in sizes)) if sizes else set()
    return sizes, frozenset(shared)


def size_summary(
    results: Results,
    method: str,
    model: str,
    set_name: SetName,
    n_labels: int,
    problems: frozenset[str],
) -> Summary | None:
    """Return the metrics of a method at one size, None unless it was run on all the problems."""
    found = results.outcomes(method, model, set_name, n_labels)
    if not problems or not problems <= found.keys():
        return None
    return Summary.of([o for p in problems for o in found[p]])


def as_values(results: Results) -> dict[str, Any]:
    """Return every summary as plain values, for programs."""
    values: dict[str, Any] = {}
    for model in results.models:
        for method in dict.fromkeys(row["method"] for row in results.rows):
            for n_labels in sorted({r["n_labels"] for r in results.of(method, model)}):
                found = {n: results.summary(method, model, n, n_labels) for n in results.test_sets}
                by_set = {name: summary and asdict(summary) for name, summary in found.items()}
                values.setdefault(model, {}).setdefault(method, {})[str(n_labels)] = by_set
    return values
