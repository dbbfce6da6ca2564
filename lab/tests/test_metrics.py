"""The metrics, by hand."""

import numpy as np
import pytest

from stamo_lab.metrics import (
    Outcome,
    Summary,
    bootstrap_metric,
)


def outcome(**changes):
    return Outcome(
        **{"n": 10, "right": 6, "predicted": 4, "gold": 5, "hits": 3, "auc": 0.8} | changes
    )


def test_outcome_counts_by_hand():
    """Right links count for every entity; predicted, gold and hits only for the emerging one."""
    scores = np.array([[0, 1, 2], [3, 1, 2], [0, 4, 2], [0, 1, 5]], dtype=np.float32)
    result = Outcome.of(scores, np.array([2, 2, 1, -1]))
    assert (result.n, result.right, result.predicted, result.gold, result.hits) == (4, 2, 2, 2, 1)
    assert result.auc == pytest.approx(0.5)  # margins 1, -1 | -2, 4


def test_summary_is_micro_over_entities():
    """Counts are summed before precision and recall are formed, as the paper does."""
    summary = Summary.of([outcome(), outcome(predicted=0, hits=0, gold=1, right=9)])
    assert summary.precision == pytest.approx(3 / 4)
    assert summary.recall == pytest.approx(3 / 6)
    assert summary.f1 == pytest.approx(0.6)
    assert summary.accuracy == pytest.approx(15 / 20)
    assert summary.macro_f1 == pytest.approx((2 * 0.75 * 0.6 / 1.35) / 2)


def test_paired_bootstrap_sees_a_constant_gain():
    """When one method is better on every entity the interval of the difference excludes zero."""
    rng = np.random.default_rng(0)
    worse = [[outcome(hits=int(h))] for h in rng.integers(1, 3, 30)]
    better = [[outcome(hits=o[0].hits + 1)] for o in worse]
    gain = bootstrap_metric("F1", better, worse, n_samples=200)
    assert 0 < gain.low <= gain.value <= gain.high
    same = bootstrap_metric("F1", worse, worse, n_samples=200)
    assert same.low == same.high == same.value == 0.0
