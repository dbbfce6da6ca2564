"""Scores of a prepared pile with their slope in θ(e*): what a step inside a slot needs (Eq. 13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from stamo.features.encoding import FloatArray
from stamo.features.params import FeatureParams
from stamo.models.base import MASKED, Combine, Scorer

Theta: TypeAlias = Mapping[str, FloatArray]
"""θ(e*) by group, in NumPy."""
Back: TypeAlias = Callable[[FloatArray], dict[str, FloatArray]]
"""From the gradient of the scores to the gradients of the groups of θ(e*)."""


class Slope(Protocol):
    """Scores, with the way back from their gradient to that of θ(e*)."""

    def __call__(self, theta: Theta, rng: np.random.Generator | None) -> tuple[FloatArray, Back]:
        """Return g(e; m) of all candidates, (M, C + E), and the way back.

        With `rng` the model's dropout is on and draws from it.
        """
        ...


@runtime_checkable
class HasSlope(Protocol):
    """A scorer that has a faster way to its scores and their gradient than autograd."""

    def slope(self) -> Slope:
        """Prepare what does not depend on θ(e*)."""
        ...


def slope_of(scorer: Scorer) -> Slope:
    """Return the fastest way to a scorer's scores and their gradient."""
    return scorer.slope() if isinstance(scorer, HasSlope) else AutogradSlope(scorer)


@dataclass(frozen=True)
class AutogradSlope:
    """The slope that any differentiable scorer has; dropout draws from torch's generator."""

    scorer: Scorer

    def __call__(self, theta: Theta, rng: np.random.Generator | None) -> tuple[FloatArray, Back]:
        """Return the scores and the way back."""
        leaves = {name: torch.from_numpy(v).clone().requires_grad_() for name, v in theta.items()}
        self.scorer.model.train(rng is not None)
        scores = self.scorer(FeatureParams(leaves))
        self.scorer.model.eval()

        def back(by_score: FloatArray) -> dict[str, FloatArray]:
            found = torch.autograd.grad(
                scores, list(leaves.values()), torch.from_numpy(by_score), allow_unused=True
            )
            pairs = zip(leaves, found, strict=True)
            return {name: g.numpy() for name, g in pairs if g is not None}

        return scores.detach().numpy(), back


@dataclass(frozen=True)
class CombineSlope:
    """Γ with its gradient written out."""

    first: FloatArray  # (hidden, n)
    first_bias: FloatArray  # (hidden,)
    last: FloatArray  # (hidden,)
    last_bias: FloatArray  # (1,)
    dropout: float

    @classmethod
    def of(cls, layers: Combine) -> CombineSlope:
        """Read the layers' parameters, which are frozen."""
        first, dropout, _, last = cast("Iterable[Any]", layers)
        parameters = (first.weight, first.bias, last.weight[0], last.bias)
        weight, bias, last_weight, last_bias = (p.detach().numpy() for p in parameters)
        return cls(weight, bias, last_weight, last_bias, dropout.p)

    def __call__(
        self, psi: FloatArray, absent: NDArray[np.bool_], rng: np.random.Generator | None
    ) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """Combine the scores Ψ (M, C + E, n); return g and the way back to Ψ."""
        flat = psi.reshape(-1, psi.shape[-1])
        hidden: FloatArray = flat @ self.first.T
        hidden += self.first_bias
        active = hidden > 0
        last = self.last
        if rng is not None:
            active &= rng.random(active.shape, dtype=np.float32) >= self.dropout
            last = last / np.float32(1 - self.dropout)
        hidden *= active
        combined: FloatArray = np.matmul(hidden, last)
        scores = (combined + self.last_bias).reshape(absent.shape)
        scores[absent] = MASKED

        def back(by_score: FloatArray) -> FloatArray:
            rows = np.flatnonzero(by_score.ravel() * ~absent.ravel())
            by_hidden = active[rows] * (by_score.ravel()[rows, None] * last)
            by_psi = np.zeros_like(flat)
            by_psi[rows] = by_hidden @ self.first
            return by_psi.reshape(psi.shape)

        return scores, back


@dataclass(frozen=True)
class Unit:
    """Vectors of any norm, at unit norm."""

    norm: FloatArray  # (E, 1)
    unit: FloatArray  # (E, Q)

    @classmethod
    def of(cls, vectors: FloatArray) -> Unit:
        """Divide by the norm."""
        norm = np.maximum(np.sqrt((vectors * vectors).sum(axis=1, keepdims=True)), 1e-12)
        return cls(norm, vectors / norm)

    def back(self, by_unit: FloatArray) -> FloatArray:
        """Return the gradient of the vectors from that of the unit vectors."""
        along = (by_unit * self.unit).sum(axis=1, keepdims=True)
        gradient: FloatArray = (by_unit - along * self.unit) / self.norm
        return gradient
