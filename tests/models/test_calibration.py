"""Calibration on samples whose odds are known."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from stamo.models.calibration import (
    Calibration,
    expected_calibration_error,
    fit_calibration,
    fit_logistic,
    reliability,
)


def draw(temperature, n=6000, n_candidates=4, outside=0.0, seed=0):
    """Scores, and gold entities drawn with the probabilities that the scores stand for."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n, n_candidates)).astype(np.float32)
    p = softmax(scores.astype(np.float64) / temperature, axis=1)
    gold = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=n_candidates - 1)
    return scores, np.where(rng.random(n) < outside, -1, gold)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_the_temperature_that_made_the_labels_is_found(temperature):
    """Labels drawn at a temperature give it back, and the curve then has little to do."""
    found = fit_calibration(*draw(temperature))
    assert found.temperature == pytest.approx(temperature, rel=0.1)
    assert found.slope == pytest.approx(1.0, abs=0.2)
    assert found.intercept == pytest.approx(0.0, abs=0.2)


def test_the_scale_of_the_scores_does_not_matter():
    """Scores a thousand times as small give the same probabilities."""
    scores, gold = draw(0.5)
    small = (scores / 1000).astype(np.float32)
    a, b = fit_calibration(scores, gold), fit_calibration(small, gold)
    np.testing.assert_allclose(a.confidence(scores), b.confidence(small), atol=1e-2)


@pytest.mark.parametrize("outside", [0.0, 0.3])
def test_confidence_is_how_often_the_best_candidate_is_right(outside):
    """Also where many mentions mean none of the candidates: on other draws the error is small."""
    found = fit_calibration(*draw(0.5, outside=outside))
    scores, gold = draw(0.5, outside=outside, seed=1)
    right = scores.argmax(axis=1) == gold
    assert expected_calibration_error(found.confidence(scores), right) < 0.04


def test_few_labels_leave_the_scores_as_they_are():
    """Nine mentions with a gold candidate fit nothing."""
    scores, gold = draw(0.5, n=9)
    assert fit_calibration(scores, gold) == Calibration()


def test_padding_does_not_count():
    """A column of padding changes neither the temperature nor the confidence."""
    scores, gold = draw(0.5)
    padded = np.hstack([scores, np.full((len(scores), 1), -1e9, dtype=np.float32)])
    a, b = fit_calibration(scores, gold), fit_calibration(padded, gold)
    assert b.temperature == pytest.approx(a.temperature, rel=1e-3)
    np.testing.assert_allclose(b.confidence(padded), a.confidence(scores), atol=1e-3)


def test_a_logistic_curve_is_found():
    """P(y | x) = σ(2 x - 1) gives 2 and -1 back; without labels the prior stays."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(8000)
    y = rng.random(8000) < expit(2 * x - 1)
    assert fit_logistic(x, y) == pytest.approx((2.0, -1.0), abs=0.1)
    nothing = np.zeros(0)
    assert fit_logistic(nothing, nothing.astype(bool)) == pytest.approx((1.0, 0.0), abs=1e-4)


def test_reliability_by_hand():
    """Two bins, one right of two in the first and both in the second: the error is their mean."""
    confidence = np.array([0.11, 0.19, 0.9, 1.0])
    right = np.array([True, False, True, True])
    assert reliability(confidence, right) == [
        (pytest.approx(0.15), 0.5, 2),
        (pytest.approx(0.95), 1.0, 2),
    ]
    assert expected_calibration_error(confidence, right) == pytest.approx((0.35 + 0.05) / 2)
