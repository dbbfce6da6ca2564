"""Fit the evidence of an emerging entity on its labels (see `stamo.models.evidence`).

With twenty labels and thousands of words and neighbours this is a Gaussian process: the correction
of two mentions is alike where their views are alike, and the prior variances say how far the
labels may move bias, scale and evidence away from the model's own margin. Newton's method in the
space of the labels finds the most probable correction; it is linear, so it can be written as
weights again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import expit

from stamo.errors import SettingsError
from stamo.features.base import FeatureParams
from stamo.features.views import VIEWS
from stamo.features.views.about import About
from stamo.features.views.base import Rows, View, ViewRows, combined, group_of, products
from stamo.models.evidence import BIAS, SCALE
from stamo.system.arrays import Bools, Float64, Int64


@dataclass(frozen=True)
class EvidenceArgs:
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

    def __post_init__(self) -> None:
        if (
            min(
                self.bias,
                self.rare,
                self.scale,
                self.half_trust,
                *(view.variance for view in self.views),
            )
            < 0
        ):
            raise SettingsError("The settings of the evidence cannot be negative.")


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
    seen = [
        _LabelledView.of(view, views[view.name], rows)
        for view in args.views
        if view.name in views and views[view.name].shape[1]  # nothing to look at: no columns
    ]
    kernel = np.zeros((len(rows), len(rows)))
    for view in seen:
        kernel += view.kernel()
    kernel += args.bias**2 + args.scale**2 * np.outer(margin, margin)
    has_line = any(view.view.name == About.name for view in seen)
    trust = _trust(float(weight[label].sum()), args.half_trust * has_line)
    before = 0.0 if has_line else -args.rare
    expected = sum((view.expected() for view in seen if view.view.mean), trust * margin + before)
    alpha, left_out = _newton(kernel, expected, label.astype(np.float64), weight)
    bias = before + args.bias**2 * alpha.sum()
    groups = {}
    for view in seen:
        groups[view.group] = view.weights(alpha)
        bias -= view.at_centre(groups[view.group])
    groups[SCALE] = np.array([trust - 1 + args.scale**2 * float(margin @ alpha)])
    groups[BIAS] = np.array([bias])
    return Correction(groups, left_out)


def _trust(n_positive: float, half_trust: float) -> float:
    """Return what share of the model's margin counts before the labels judge it.

    Without any positive label nothing was estimated that a margin could speak of.
    """
    return n_positive / max(n_positive + half_trust, 1e-9)


def fit_none(
    views: ViewRows, rows: Int64, is_none: Bools, weight: Float64, args: EvidenceArgs
) -> dict[str, Float64]:
    """Fit what tells "none of these" from known namesakes, on labels that are not the entity.

    Nothing is learned where no label says "none of these".
    """
    if not is_none.any():
        return {}
    even = np.zeros(len(rows))
    known = replace(args, rare=0.0, views=tuple(view for view in args.views if not view.mean))
    groups = fit_correction(views, rows, even, is_none, weight, known).groups
    return {
        name.replace("evidence", "none", 1): values
        for name, values in groups.items()
        if name != SCALE
    }


@dataclass(frozen=True)
class _LabelledView:
    """The rows of one view at the labels, less the pile's mean where the view is centred."""

    view: View
    rows: Rows  # (n, columns)
    centre: Float64 | None  # (columns,)

    @classmethod
    def of(cls, view: View, everyone: Rows, rows: Int64) -> _LabelledView:
        if not view.is_centred:
            return cls(view, everyone[rows], None)
        centre = everyone.mean(axis=0)
        return cls(view, everyone[rows] - centre, centre)

    @property
    def group(self) -> str:
        return group_of(self.view)

    def kernel(self) -> Float64:
        """Return how alike the corrections of the labels are, (n, n)."""
        return products(self.rows, self.rows, self.view.variance)

    def expected(self) -> Float64:
        """Return what the view adds to the log odds before any label speaks, (n,)."""
        return self.view.mean * np.asarray(self.rows.sum(axis=1)).ravel()

    def weights(self, alpha: Float64) -> Float64:
        """Write the correction as weights of the columns."""
        learned = combined(self.rows, alpha, self.view.variance)
        return learned + self.view.mean if self.view.mean else learned

    def at_centre(self, weights: Float64) -> float:
        """Return what the weights give to the pile's mean."""
        return 0.0 if self.centre is None else float(weights @ self.centre)


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
