"""The metrics of the paper's tables, and AUC, with intervals by bootstrap over entities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from stamo.evaluation.intervals import Interval, bootstrap
from stamo.system.files import Bools, Float32, Float64, Int64


@dataclass(frozen=True)
class Outcome:
    """What one method did on the test mentions of one emerging entity."""

    n: int
    right: int  # mentions linked to their gold entity, whichever it is
    predicted: int  # mentions linked to e*
    gold: int  # mentions whose gold entity is e*
    hits: int  # both
    auc: float  # how well the margin of e* ranks; NaN when one class is missing

    @classmethod
    def of(cls, scores: Float32, gold: Int64) -> Outcome:
        """Judge scores (M, C + 1), the emerging entity last; gold columns, -1 for no candidate."""
        emerging = scores.shape[1] - 1
        best = scores.argmax(axis=1)
        rivals = scores[:, :-1].max(axis=1) if emerging else np.zeros(len(scores))
        is_gold, is_predicted = gold == emerging, best == emerging
        return cls(
            n=len(gold),
            right=int((best == gold).sum()),
            predicted=int(is_predicted.sum()),
            gold=int(is_gold.sum()),
            hits=int((is_gold & is_predicted).sum()),
            auc=area_under_curve(scores[:, -1] - rivals, is_gold),
        )


def area_under_curve(values: NDArray[np.floating], positive: Bools) -> float:
    """Return the probability that a positive has a higher value than a negative; ties are half."""
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if not n_positive or not n_negative:
        return float("nan")
    ranks = rankdata(values)
    return float(
        (ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)
    )


@dataclass(frozen=True)
class Summary:
    """The metrics of the paper, and AUC, over several emerging entities."""

    accuracy: float
    precision: float
    recall: float
    f1: float
    auc: float
    macro_f1: float
    n: int

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Summary:
        """Sum over entities (micro, as the paper prints), and average F1 over them (macro)."""
        counts = _counts(outcomes)
        total = counts.sum(axis=0)
        n, right, predicted, gold, hits = total.tolist()
        aucs = np.array([o.auc for o in outcomes], dtype=np.float64)
        aucs = aucs[np.isfinite(aucs)]
        return cls(
            accuracy=right / n if n else 0.0,
            precision=hits / predicted if predicted else 0.0,
            recall=hits / gold if gold else 0.0,
            f1=float(micro_f1(total)),
            auc=float(aucs.mean()) if len(aucs) else float("nan"),
            macro_f1=float(micro_f1(counts).mean()) if len(counts) else 0.0,
            n=int(n),
        )


def _counts(outcomes: Sequence[Outcome]) -> Float64:
    rows = [(o.n, o.right, o.predicted, o.gold, o.hits) for o in outcomes]
    return np.array(rows, dtype=np.float64).reshape(-1, 5)


def micro_f1(counts: Float64) -> Float64:
    """Return F1 of rows of summed counts, 0 where nothing was hit, (n,)."""
    _, _, predicted, gold, hits = counts.T
    return np.asarray(2 * hits / np.maximum(predicted + gold, 1))


Outcomes: TypeAlias = Sequence[Sequence[Outcome]]
"""For each emerging entity, the outcomes of one method over the seeds."""


def bootstrap_metric(
    metric: str, first: Outcomes, second: Outcomes | None = None, *, n_samples: int = 2000
) -> Interval:
    """Return a metric, or its difference to a second method, resampling emerging entities.

    Args:
        metric: One of `METRICS`.
        first: The outcomes of a method.
        second: The same entities and seeds under the method to subtract; the pairing is kept.
        n_samples: Bootstrap samples.
    """
    sums_of, value_of = METRICS[metric]
    tables = [np.stack([sums_of(o) for o in m]) for m in (first, second) if m]
    return estimate_difference(value_of, tables, n_samples)


def estimate_difference(
    metric: Callable[[Float64], Float64], tables: Sequence[Float64], n_samples: int
) -> Interval:
    """Return a metric of summed columns, or its difference between two tables with the same rows.

    Args:
        metric: Turns sums, (n, k), into values, (n,).
        tables: What each entity adds to the sums of one method or of two, (entities, k) each.
        n_samples: Bootstrap samples of the entities.
    """

    def value(sums: Float64) -> Float64:
        first, *others = (metric(part) for part in np.split(sums, len(tables), axis=-1))
        return np.asarray(first - sum(others))

    columns = np.concatenate(tables, axis=1)
    # A metric that no entity has: there is nothing to resample.
    is_there = np.isfinite(value(columns.sum(axis=0, keepdims=True)))[0]
    rng = np.random.default_rng(0)
    return bootstrap(columns[: len(columns) * is_there], value, rng, n_samples=n_samples)


def _f1_sums(outcomes: Sequence[Outcome]) -> Float64:
    """Return the sum and the number of the F1s of one entity, (2,)."""
    f1 = micro_f1(_counts(outcomes))
    return np.array([f1.sum(), len(f1)])


def _auc_sums(outcomes: Sequence[Outcome]) -> Float64:
    """Return the sum and the number of the AUCs that exist, (2,)."""
    aucs = np.array([o.auc for o in outcomes], dtype=np.float64)
    known = np.isfinite(aucs)
    return np.array([aucs[known].sum(), known.sum()])


def _mean(sums: Float64) -> Float64:
    total, number = sums.T
    return np.asarray(total / np.maximum(number, 1))


Sums: TypeAlias = Callable[[Sequence[Outcome]], Float64]
METRICS: Mapping[str, tuple[Sums, Callable[[Float64], Float64]]] = {
    "macro F1": (_f1_sums, _mean),
    "F1": (lambda outcomes: np.asarray(_counts(outcomes).sum(axis=0)), micro_f1),
    "AUC": (_auc_sums, _mean),
}
"""What each metric sums up of an entity, and how it is made of sums, (n, k)."""
