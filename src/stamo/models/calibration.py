"""Confidence: margin scores are not probabilities, so they are calibrated on held-out labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stamo.system.files import Bools, Float32, Float64, Int64


@dataclass(frozen=True)
class Calibration:
    """Turns scores into probabilities.

    The scores of a mention's candidates become a distribution by a softmax at `temperature`; a
    logistic curve on the log odds of the best candidate then says how often such a link is right,
    which also accounts for mentions whose entity is no candidate at all.
    """

    temperature: float = 1.0
    slope: float = 1.0
    intercept: float = 0.0

    def distribution(self, scores: Float32) -> Float64:
        """Return P(e | m, the entity is a candidate), (M, C)."""
        scaled = scores.astype(np.float64) / self.temperature
        odds = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def confidence(self, scores: Float32) -> Float64:
        """Return the probability that the best candidate is right, (M,)."""
        return self.confidence_of(self.distribution(scores).max(axis=1))

    def confidence_of(self, probability: Float64) -> Float64:
        """Return the calibrated probability for a candidate's share of the distribution."""
        return np.asarray(1 / (1 + np.exp(-(self.slope * _log_odds(probability) + self.intercept))))


def _log_odds(probability: Float64) -> Float64:
    p = np.clip(probability, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(p / (1 - p)))


def fit_calibration(scores: Float32, gold: Int64) -> Calibration:
    """Fit temperature and logistic curve on held-out mentions.

    Args:
        scores: g(e; m), padding at a very low value, shape (M, C).
        gold: Column of the gold entity, -1 where it is no candidate, shape (M,).
    """
    from scipy import optimize, special  # here: linking needs neither, and both load slowly

    inside = gold >= 0
    if inside.sum() < 10:
        return Calibration()
    spread = float(np.std(scores[scores > -1e8])) or 1.0

    def loss(log_temperature: float) -> float:
        scaled = scores[inside].astype(np.float64) / (spread * np.exp(log_temperature))
        logs = scaled - special.logsumexp(scaled, axis=1, keepdims=True)
        return -float(logs[np.arange(len(logs)), gold[inside]].mean())

    best = optimize.minimize_scalar(loss, bounds=(-8, 4), method="bounded")
    calibration = Calibration(temperature=spread * float(np.exp(best.x)))
    top = calibration.distribution(scores)
    right = top.argmax(axis=1) == gold
    slope, intercept = fit_logistic(_log_odds(top.max(axis=1)), right)
    return Calibration(calibration.temperature, slope, intercept)


def fit_logistic(x: Float64, y: Bools) -> tuple[float, float]:
    """Fit P(y | x) = σ(a x + b), with a pull of one label towards a = 1 and b = 0."""
    from scipy import optimize

    def loss(parameters: Float64) -> float:
        a, b = parameters
        z = a * x + b
        fit = np.logaddexp(0, -z)[y].sum() + np.logaddexp(0, z)[~y].sum()
        return float(fit + ((a - 1.0) ** 2 + 0.1 * b**2))

    found = optimize.minimize(loss, np.array([1.0, 0.0]), method="L-BFGS-B")
    return float(found.x[0]), float(found.x[1])


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
