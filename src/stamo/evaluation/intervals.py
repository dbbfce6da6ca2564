"""Intervals: by bootstrap over documents, whose mentions are not independent, and of a share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from stamo.errors import SettingsError
from stamo.system.files import Bools, Float32, Float64, Int32, Int64

LEVEL = 0.95
"""Share of the samples inside an interval."""
Statistic = Callable[[Float64], Float64]
"""Turns sums of columns, shape (n, k), into values, shape (n,)."""


@dataclass(frozen=True)
class Interval:
    """A value with its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return format(self, ".3f")

    def __format__(self, spec: str) -> str:
        """Write the value and its interval, each number as the format says; "-" for no value."""
        if math.isnan(self.value):
            return "-"
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"

    def __rmul__(self, factor: float) -> Interval:
        return Interval(factor * self.value, factor * self.low, factor * self.high)


def bootstrap(
    columns: Float64, statistic: Statistic, rng: np.random.Generator, *, n_samples: int = 1000
) -> Interval:
    """Estimate a statistic of summed columns and its percentile interval (95 %).

    Args:
        columns: What each document adds to each of the k sums, shape (documents, k).
        statistic: Turns sums into the value.
        rng: Draws the samples of documents.
        n_samples: How many samples to draw.
    """
    if n_samples < 1:
        raise SettingsError(f"An interval needs at least one sample, not {n_samples}.")
    n = len(columns)
    if not n:
        return Interval(float("nan"), float("nan"), float("nan"))
    value = float(statistic(columns.sum(axis=0, keepdims=True))[0])
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=n_samples).astype(np.float64)
    samples = statistic(drawn @ columns)
    low, high = np.nanquantile(samples, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high))


def wilson(n_hits: int, n: int) -> Interval:
    """Return a share with Wilson's interval, which says something also where all or none hit.

    The same as `scipy.stats.binomtest` gives, without the second that its import takes.
    """
    share, z = n_hits / n, NormalDist().inv_cdf((1 + LEVEL) / 2)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


@dataclass(frozen=True)
class Rates:
    """How well a yes or no was predicted."""

    precision: float
    recall: float
    f1: float
    accuracy: float


def rates(predicted: Bools, labels: Bools) -> Rates:
    """Return precision, recall, F1 and accuracy of predictions."""
    hits = float((predicted & labels).sum())
    precision = hits / max(float(predicted.sum()), 1.0)
    recall = hits / max(float(labels.sum()), 1.0)
    f1 = 2 * hits / max(float(predicted.sum() + labels.sum()), 1.0)
    return Rates(precision, recall, f1, float((predicted == labels).mean()) if len(labels) else 0.0)


def precision_and_recall(
    predicted: Bools, labels: Bools
) -> tuple[Interval | None, Interval | None]:
    """Return both with Wilson's interval; None where nothing was predicted, or nothing is true."""
    hits, n_predicted, n_true = (int(x.sum()) for x in (predicted & labels, predicted, labels))
    precision = wilson(hits, n_predicted) if n_predicted else None
    return precision, wilson(hits, n_true) if n_true else None


def ratio(sums: Float64) -> Float64:
    """Return the first sum over the second: accuracy from right and all."""
    return sums[:, 0] / np.maximum(sums[:, 1], 1e-12)


def difference(sums: Float64) -> Float64:
    """Return (first - second) / third: how far two accuracies on the same mentions are apart."""
    return (sums[:, 0] - sums[:, 1]) / np.maximum(sums[:, 2], 1e-12)


def f1(sums: Float64) -> Float64:
    """Return F1 from hits, predictions and gold mentions."""
    return 2 * sums[:, 0] / np.maximum(sums[:, 1] + sums[:, 2], 1e-12)


def by_document(documents: Int32, *values: Bools | Float64) -> Float64:
    """Sum values of mentions by document, shape (documents that have a mention, k)."""
    _, place = np.unique(documents, return_inverse=True)
    sums = [np.bincount(place, weights=np.asarray(v, dtype=np.float64)) for v in values]
    return np.stack(sums, axis=1) if len(documents) else np.zeros((0, len(values)))


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
    methods = [np.stack([sums_of(o) for o in m]) for m in (first, second) if m]
    n = len(methods[0])
    chosen = np.random.default_rng(0).integers(0, n, (n_samples, n))
    chosen = np.concatenate([np.arange(n)[None], chosen])  # the first sample is the data
    value, *subtracted = (value_of(sums[chosen].sum(axis=1)) for sums in methods)
    values = value - sum(subtracted)
    low, high = np.percentile(values[1:], [2.5, 97.5])
    return Interval(float(values[0]), float(low), float(high))


def _count_sums(outcomes: Sequence[Outcome]) -> Float64:
    return np.asarray(_counts(outcomes).sum(axis=0))


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
    "F1": (_count_sums, micro_f1),
    "AUC": (_auc_sums, _mean),
}
"""What each metric sums up of an entity, and how it is made of sums, (n, k)."""


def reliability(
    confidence: Float64, right: Bools, n_bins: int = 10
) -> list[tuple[float, float, int]]:
    """Return mean confidence, share of right links and size of each bin that holds a mention."""
    place = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    bins = [place == i for i in range(n_bins)]
    return [
        (float(confidence[inside].mean()), float(right[inside].mean()), int(inside.sum()))
        for inside in bins
        if inside.any()
    ]


def expected_calibration_error(confidence: Float64, right: Bools) -> float:
    """Return the mean distance between confidence and accuracy over ten bins (ECE)."""
    rows = reliability(confidence, right)
    total = sum(n for _, _, n in rows)
    return sum(n * abs(c - a) for c, a, n in rows) / max(total, 1)
