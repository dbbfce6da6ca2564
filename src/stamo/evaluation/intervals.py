"""Intervals: by bootstrap over documents, whose mentions are not independent, and of a share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from stamo.errors import SettingsError
from stamo.system.files import Bools, Float64, Int32

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
