"""Accuracy, precision, recall, F1 and AUC of linking an emerging entity (Sec. 4.1.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


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
    def of(cls, scores: NDArray[np.float32], gold: NDArray[np.int64]) -> Outcome:
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


def area_under_curve(values: NDArray[np.floating], positive: BoolArray) -> float:
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
        f1, precision, recall, accuracy = micro(counts.sum(axis=0))
        aucs = np.array([o.auc for o in outcomes], dtype=np.float64)
        aucs = aucs[np.isfinite(aucs)]
        return cls(
            accuracy=accuracy,
            precision=precision,
            recall=recall,
            f1=f1,
            auc=float(aucs.mean()) if len(aucs) else float("nan"),
            macro_f1=float(micro_f1(counts).mean()) if len(counts) else 0.0,
            n=int(counts[:, 0].sum()) if len(counts) else 0,
        )


def _counts(outcomes: Sequence[Outcome]) -> FloatArray:
    rows = [(o.n, o.right, o.predicted, o.gold, o.hits) for o in outcomes]
    return np.array(rows, dtype=np.float64).reshape(-1, 5)


def micro(counts: FloatArray) -> tuple[float, float, float, float]:
    """Return F1, precision, recall and accuracy of summed counts."""
    n, right, predicted, gold, hits = (float(c) for c in counts)
    precision = hits / predicted if predicted else 0.0
    recall = hits / gold if gold else 0.0
    return float(micro_f1(counts)), precision, recall, right / n if n else 0.0


def micro_f1(counts: FloatArray) -> FloatArray:
    """Return F1 of rows of summed counts, 0 where nothing was hit, (n,)."""
    _, _, predicted, gold, hits = counts.T
    return np.asarray(2 * hits / np.maximum(predicted + gold, 1))


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def bootstrap_f1(
    first: Sequence[Sequence[Outcome]],
    second: Sequence[Sequence[Outcome]] | None = None,
    *,
    n_samples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Return micro F1, or its difference to a second method, resampling emerging entities.

    Args:
        first: For each entity, the outcomes of one method over the seeds.
        second: The same entities and seeds under the method to subtract; the pairing is kept.
        n_samples: Bootstrap samples.
        seed: Of the resampling.
    """
    rng = np.random.default_rng(seed)
    methods = [np.stack([_counts(o).sum(axis=0) for o in m]) for m in (first, second) if m]
    chosen = rng.integers(0, len(first), (n_samples, len(first)))
    chosen = np.concatenate([np.arange(len(first))[None], chosen])
    f1, *subtracted = (micro_f1(counts[chosen].sum(axis=1)) for counts in methods)
    values = f1 - sum(subtracted)
    low, high = np.percentile(values[1:], [2.5, 97.5])
    return Interval(float(values[0]), float(low), float(high))
