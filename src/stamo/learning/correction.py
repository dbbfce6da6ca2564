"""Fit the evidence of an emerging entity on its labels (see `stamo.models.evidence`).

With twenty labels and thousands of words and neighbours this is a Gaussian process: the correction
of two mentions is alike where their views are alike, and the prior variances say how far the
labels may move bias, scale and evidence away from the model's own margin. Newton's method in the
space of the labels finds the most probable correction; it is linear, so it can be written as
weights again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from stamo.errors import SettingsError
from stamo.features.params import FeatureParams
from stamo.models.evidence import BIAS, CONTEXT, ENTITIES, SCALE, WORDS, Views

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class EvidenceArgs:
    """How far labels may correct the model's margin (prior variances in log odds)."""

    words: float = 2.0
    """Variance of the evidence of context words; 0 leaves it out."""
    context: float = 2.0
    """Variance of the evidence of the mean entity context."""
    entities: float = 2.0
    """Variance of the evidence of single neighbours."""
    bias: float = 1.5
    """Standard deviation of the bias."""
    scale: float = 0.3
    """Standard deviation of the margin's scale."""

    def __post_init__(self) -> None:
        if min(self.words, self.context, self.entities, self.bias, self.scale) < 0:
            raise SettingsError("The variances of the evidence cannot be negative.")


@dataclass(frozen=True)
class Correction:
    """The evidence of one entity, and how well it predicts each label from the other labels."""

    groups: dict[str, FloatArray]
    left_out: FloatArray  # (n,) log odds of each label, fitted without it


def fit_correction(
    views: Views,
    rows: NDArray[np.int64],
    margin: FloatArray,
    label: NDArray[np.bool_],
    weight: FloatArray,
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
    mean_words, mean_context = views.words.mean(axis=0), views.context.mean(axis=0)
    words, context = views.words[rows] - mean_words, views.context[rows] - mean_context
    entities = views.entities[rows]
    kernel = args.words * words @ words.T + args.context * context @ context.T
    kernel += args.entities * np.asarray((entities @ entities.T).todense())
    kernel += args.bias**2 + args.scale**2 * np.outer(margin, margin)
    alpha, left_out = _newton(kernel, margin, label.astype(np.float64), weight)
    by_word, by_context = args.words * alpha @ words, args.context * alpha @ context
    bias = args.bias**2 * alpha.sum() - by_word @ mean_words - by_context @ mean_context
    groups = {
        WORDS: by_word,
        CONTEXT: by_context,
        ENTITIES: args.entities * np.asarray(entities.T @ alpha).ravel(),
        SCALE: np.array([args.scale**2 * float(margin @ alpha)]),
        BIAS: np.array([bias]),
    }
    return Correction(groups, left_out)


def _newton(
    kernel: FloatArray, margin: FloatArray, label: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
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


def with_evidence(theta: FeatureParams, corrections: list[Correction]) -> FeatureParams:
    """Return θ(e*) with the evidence of each entity beside the estimated features."""
    groups = {
        name: torch.as_tensor(np.stack([c.groups[name] for c in corrections]), dtype=torch.float32)
        for name in corrections[0].groups
    }
    return theta.replace(**groups)
