"""Prior probability (Eq. 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from stamo.errors import Ranged
from stamo.features.base import Back
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, Sample
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float32, Float64

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Prior(Ranged):
    """f₁(e, m) = P(e | m); the group of θ(e*) holds one probability for each alias, (E, A)."""

    name = "prior"

    smoothing: float = 1.0
    """Votes that every alias receives at the entity's overall share, so that an alias never seen
    in L, or seen with one label only, keeps a prior inside (0, 1). 0 is the paper as printed."""
    renormalise: bool = True
    """Give the known candidates (1 - P(e*|m)) P(n|m), so that all sum to one;
    False leaves them as counted on Wikipedia, as Eq. 2 is printed."""

    ranges: ClassVar = {"smoothing": 0}

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return P(n | m) of the known candidates, (M, C)."""
        return mentions.known[self.name]

    def estimate(self, sample: Sample, kb: KnowledgeBase) -> Tensor:
        """Count how often each alias means each entity (Eq. 2), (E, A)."""
        import torch  # here, so that linking loads without it

        return torch.as_tensor(self._count(sample), dtype=torch.float32)

    def _count(self, sample: Sample) -> Float64:
        pile = sample.pile
        weights, counted, first = sample.vote()
        by_alias = partial(np.bincount, pile.alias[first], minlength=len(pile.aliases))
        total = by_alias(counted)  # (A,)
        count = np.stack([by_alias(w) for w in weights.T])  # (E, A)
        votes = (total * pile.is_alias).sum(axis=1)  # (E,)
        # Laplace's rule for the overall share: one label of each kind that nobody gave.
        share = (count.sum(axis=1) + 1) / (votes + 2)
        divisor = total + self.smoothing
        p = (count + self.smoothing * share[:, None]) / np.where(divisor > 0, divisor, 1)
        return np.where(pile.is_alias, p, 0.0)

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return P(e | m) of all candidates, (M, C + E)."""
        import torch

        is_alias, mentioned, known = map(torch.from_numpy, self._arrays(pile))
        return self._together(known, mentioned @ (theta * is_alias).T)

    def _together(self, known: Tensor, read: Tensor) -> Tensor:
        """Put the known candidates (M, C) and θ as each mention reads it (M, E) side by side."""
        import torch

        p = read.clamp(0.0, 1.0)
        if p.shape[1] > 1:
            # Entities that share an alias cannot claim more than the whole mention between them.
            p = p / p.sum(dim=1, keepdim=True).clamp_min(1.0)
        if self.renormalise:
            known = known * (1 - p.sum(dim=1, keepdim=True))
        return torch.cat([known, p], dim=1)

    def slope(self, theta: Float32, pile: Pile) -> tuple[Float32, Back]:
        """Return what `lookup` returns, and the way back from its gradient."""
        is_alias, mentioned, known = self._arrays(pile)
        n_known = known.shape[1]
        raw = mentioned @ (theta * is_alias).T  # (M, E)
        values, by_raw = self._together_slope(known, raw)

        def back(by_value: Float32) -> Float32:
            by_known, by_p = by_value[:, :n_known], by_value[:, n_known:]
            gradient: Float32 = (by_raw(by_known, by_p).T @ mentioned) * is_alias
            return gradient

        return values, back

    def _together_slope(self, known: Float32, raw: Float32) -> tuple[Float32, SplitSlope]:
        p = raw.clip(0.0, 1.0)
        total = np.maximum(p.sum(axis=1, keepdims=True), 1.0)
        if p.shape[1] > 1:
            p = p / total
        left = 1 - p.sum(axis=1, keepdims=True)
        values = np.hstack([known * left if self.renormalise else known, p])

        def back(by_known: Float32, by_p: Float32) -> Float32:
            if self.renormalise:
                by_p = by_p - (by_known * known).sum(axis=1, keepdims=True)
            if p.shape[1] > 1:
                crowded = total > 1.0
                by_p = (by_p - crowded * (by_p * p).sum(axis=1, keepdims=True)) / total
            return by_p * ((raw >= 0) & (raw <= 1))

        return values, back

    def _arrays(self, pile: Pile) -> tuple[Float32, Float32, Float32]:
        """Return which entity has which alias, which mention reads which, and what is known."""
        return pile.keep(
            f"{self.name} arrays",
            lambda: (
                pile.is_alias.astype(np.float32),  # (E, A)
                np.eye(len(pile.aliases), dtype=np.float32)[pile.alias],  # (M, A)
                pile.mentions.known[self.name],  # (M, C)
            ),
        )


SplitSlope: TypeAlias = Callable[[Float32, Float32], Float32]
"""From the gradients of the known and the emerging candidates to that of θ read by mention."""
