"""Fit the evidence of an emerging entity on its labels (see `stamo.models.evidence`).

With twenty labels and thousands of words and neighbours this is a Gaussian process: the correction
of two mentions is alike where their views are alike, and the prior variances say how far the
labels may move bias, scale and evidence away from the model's own margin. Newton's method in the
space of the labels finds the most probable correction; it is linear, so it can be written as
weights again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.special import expit

from stamo.errors import Ranged
from stamo.features.base import FeatureParams, Rows, View, ViewRows
from stamo.features.views import VIEWS
from stamo.features.views_context import About
from stamo.models.evidence import BIAS, SCALE
from stamo.system.files import Bools, Float32, Float64, Int64


@dataclass(frozen=True)
class EvidenceArgs(Ranged):
    """How far labels may correct the model's margin (in log odds)."""

    views: tuple[View, ...] = VIEWS
    """What the correction may weigh, each view with its prior variance."""
    bias: float = 1.5
    """Standard deviation of the bias."""
    rare: float = 0.5
    """Log odds against the entity before any label speaks, where no line tells of it: a new entity
    is mostly rare under its name."""
    scale: float = 0.3
    """Standard deviation of the margin's scale."""
    half_trust: float = 0.7
    """Beside a line about the entity, so many positive labels make a margin half trusted: one made
    of one or two documents mostly repeats what the line says, and counts it twice."""

    ranges: ClassVar = {"bias": 0, "rare": 0, "scale": 0, "half_trust": 0}


@dataclass(frozen=True)
class Correction:
    """The evidence of one entity, and how well it predicts each label from the other labels."""

    groups: dict[str, Float64]
    left_out: Float64  # (n,) log odds of each label, fitted without it


def fit_correction(
    views: ViewRows,
    rows: Int64,
    margin: Float64,
    label: Bools,
    weight: Float64,
    args: EvidenceArgs,
) -> Correction:
    """Fit the evidence of one entity.

    Args:
        views: The views of all mentions of W; their means centre the evidence.
        rows: The labelled mentions.
        margin: margin / τ of each, made without its own label, (n,).
        label: Whether each means the entity, (n,).
        weight: How much each counts; mentions of one document share one vote, (n,).
        args: Prior variances.
    """
    seen = []  # each view, its rows at the labels, and the pile's mean where it is taken off
    for view in args.views:
        everyone = views.get(view.name)
        if everyone is None or not everyone.shape[1]:  # nothing to look at: no columns
            continue
        centre = everyone.mean(axis=0) if view.is_centred else None
        seen.append((view, everyone[rows] if centre is None else everyone[rows] - centre, centre))
    has_line = any(view.name == About.name for view, _, _ in seen)
    before = 0.0 if has_line else -args.rare
    # What share of the margin counts before the labels judge it: without any positive label nothing
    # was estimated that a margin could speak of.
    n_positive = float(weight[label].sum())
    trust = n_positive / max(n_positive + args.half_trust * has_line, 1e-9)
    kernel, expected = np.zeros((len(rows), len(rows))), trust * margin + before
    for view, own, _ in seen:
        kernel += products(own, own, view.variance)  # how alike the corrections of the labels are
        if view.mean:
            expected = expected + view.mean * np.asarray(own.sum(axis=1)).ravel()
    kernel += args.bias**2 + args.scale**2 * np.outer(margin, margin)
    alpha, left_out = _newton(kernel, expected, label.astype(np.float64), weight)
    bias = before + args.bias**2 * alpha.sum()
    groups = {}
    for view, own, centre in seen:
        learned = combined(own, alpha, view.variance)
        weights = learned + view.mean if view.mean else learned
        groups[f"evidence {view.name}"] = weights
        bias -= 0.0 if centre is None else float(weights @ centre)
    groups[SCALE] = np.array([trust - 1 + args.scale**2 * float(margin @ alpha)])
    groups[BIAS] = np.array([bias])
    return Correction(groups, left_out)


def products(a: Rows, b: Rows, variance: float = 1.0) -> Float64:
    """Return the products of all rows of `a` with all rows of `b`, times `variance`, (n, m)."""
    if isinstance(a, np.ndarray):
        return np.asarray(variance * a @ b.T)
    return np.asarray(variance * np.asarray((a @ b.T).todense()))


def combined(rows: Rows, weights: Float64, variance: float = 1.0) -> Float64:
    """Return the sum of rows (n, m), each times its weight (n,) and `variance`, (m,)."""
    if isinstance(rows, np.ndarray):
        return np.asarray(variance * weights @ rows)
    return np.asarray(variance * np.asarray(rows.T @ weights).ravel())


def _newton(
    kernel: Float64, margin: Float64, label: Float64, weight: Float64
) -> tuple[Float64, Float64]:
    """Return the dual weights of the most probable correction, and each label's left-out odds."""
    alpha, left_out = np.zeros(len(label)), margin
    for _ in range(30):
        odds = margin + kernel @ alpha
        p = expit(odds)
        curvature = np.maximum(weight * p * (1 - p), 1e-4 * weight + 1e-9)
        target = odds - margin + weight * (label - p) / curvature
        inverse = np.linalg.inv(kernel + np.diag(1.0 / curvature))
        proposed = inverse @ target
        left_out = margin + target - proposed / np.diag(inverse)
        step = float(np.abs(kernel @ (proposed - alpha)).max(initial=0.0))
        alpha = alpha + (proposed - alpha) * min(1.0, 3.0 / max(step, 1e-9))
        if step < 1e-3:
            break
    return alpha, left_out


def with_evidence(theta: FeatureParams, corrections: Sequence[Correction]) -> FeatureParams:
    """Return θ(e*) with the evidence of each entity beside the estimated features."""
    groups = {
        name: torch.as_tensor(np.stack([c.groups[name] for c in corrections]), dtype=torch.float32)
        for name in corrections[0].groups
    }
    return theta.replace(**groups)


def f1_shift(posterior: Float32) -> float:
    """Return the log odds to add so that the best threshold for expected F1 becomes 0.

    The threshold stays within [0.2, 0.5]: the optimum for F1 is never above one half.
    """
    ranked = np.sort(posterior.astype(np.float64))[::-1]
    if not len(ranked) or ranked.sum() <= 0:
        return 0.0
    n = np.arange(1, len(ranked) + 1)
    best = int((2 * np.cumsum(ranked) / (n + ranked.sum())).argmax())
    threshold = (ranked[best] + ranked[min(best + 1, len(ranked) - 1)]) / 2
    threshold = float(np.clip(threshold, 0.2, 0.5))
    return float(np.log((1 - threshold) / threshold))
