"""Parts that the written-out slopes of the models share, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from stamo.features.base import Lookup, lookup_slope
from stamo.features.pile import Pile
from stamo.models.base import Combine
from stamo.models.tables import MASKED
from stamo.system.arrays import Bools, Float32


@dataclass(frozen=True)
class CombineSlope:
    """Γ with its gradient written out."""

    first: Float32  # (hidden, n)
    first_bias: Float32  # (hidden,)
    last: Float32  # (hidden,)
    last_bias: Float32  # (1,)
    dropout: float

    @classmethod
    def of(cls, layers: Combine) -> CombineSlope:
        """Read the layers' parameters, which are frozen."""
        first, dropout, _, last = cast("Iterable[Any]", layers)
        parameters = (first.weight, first.bias, last.weight[0], last.bias)
        weight, bias, last_weight, last_bias = (p.detach().numpy() for p in parameters)
        return cls(weight, bias, last_weight, last_bias, dropout.p)

    def __call__(
        self, psi: Float32, absent: Bools, rng: np.random.Generator | None
    ) -> tuple[Float32, Callable[[Float32], Float32]]:
        """Combine the scores Ψ (M, C + E, n); return g and the way back to Ψ."""
        flat = psi.reshape(-1, psi.shape[-1])
        hidden: Float32 = flat @ self.first.T
        hidden += self.first_bias
        active = hidden > 0
        last = self.last
        if rng is not None:
            active &= rng.random(active.shape, dtype=np.float32) >= self.dropout
            last = last / np.float32(1 - self.dropout)
        hidden *= active
        combined: Float32 = np.matmul(hidden, last)
        scores = (combined + self.last_bias).reshape(absent.shape)
        scores[absent] = MASKED

        def back(by_score: Float32) -> Float32:
            rows = np.flatnonzero(by_score.ravel() * ~absent.ravel())
            by_hidden = active[rows] * (by_score.ravel()[rows, None] * last)
            by_psi = np.zeros_like(flat)
            by_psi[rows] = by_hidden @ self.first
            return by_psi.reshape(psi.shape)

        return scores, back


@dataclass(frozen=True)
class Unit:
    """Vectors of any norm, at unit norm."""

    norm: Float32  # (E, 1)
    unit: Float32  # (E, Q)

    @classmethod
    def of(cls, vectors: Float32) -> Unit:
        """Divide by the norm."""
        norm = np.maximum(np.sqrt((vectors * vectors).sum(axis=1, keepdims=True)), 1e-12)
        return cls(norm, vectors / norm)

    def back(self, by_unit: Float32) -> Float32:
        """Return the gradient of the vectors from that of the unit vectors."""
        along = (by_unit * self.unit).sum(axis=1, keepdims=True)
        gradient: Float32 = (by_unit - along * self.unit) / self.norm
        return gradient


class ScoredFeatures:
    """What prepared scorers share: the features that are scores themselves, and Γ."""

    model: Any
    pile: Pile

    @cached_property
    def lookups(self) -> dict[str, Lookup]:
        """Return how these features are looked up with their slope."""
        return {f.name: lookup_slope(f) for f in self.model.scored_features}

    @cached_property
    def combine(self) -> CombineSlope:
        """Return Γ with its gradient."""
        return CombineSlope.of(self.model.combine)
