"""Prior probability (Eq. 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from stamo.errors import Ranged
from stamo.features.base import Array, Feature, Theta, library, weigh
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, Sample
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float32


@dataclass(frozen=True)
class Prior(Ranged, Feature):
    """f₁(e, m) = P(e | m); x(m) marks the alias, θ(e*) has one probability for each, (E, A)."""

    name = "prior"

    smoothing: float = 1.0
    """Votes that every alias receives at the entity's overall share, so that an alias never seen
    in L, or seen with one label only, keeps a prior inside (0, 1). 0 is the paper as printed."""
    renormalise: bool = True
    """Give the known candidates (1 - P(e*|m)) P(n|m), so that all sum to one;
    False leaves them as counted on Wikipedia, as Eq. 2 is printed."""

    ranges: ClassVar = {"smoothing": 0}

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return P(n | m) of the known candidates, (M, C); it comes with the candidates."""
        return mentions.known[self.name]

    def rows(self, pile: Pile) -> Float32:
        """Mark the alias that each mention is, (M, A)."""
        return np.eye(len(pile.aliases), dtype=np.float32)[pile.alias]

    def estimate(self, sample: Sample) -> Float32:
        """Count how often each alias means each entity (Eq. 2), (E, A)."""
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
        return np.where(pile.is_alias, p, 0.0).astype(np.float32)

    def values(self, theta: Theta, pile: Pile) -> Array:
        """Return P(e | m) of all candidates, (M, C + E)."""
        own = theta[self.name]
        p = weigh(pile.rows(self), own) * pile.is_candidate.astype(np.float32)
        xp, known = library(own), pile.mentions.known[self.name]
        p = xp.clip(p, 0.0, 1.0)
        if p.shape[1] > 1:
            # Entities that share an alias cannot claim more than the whole mention between them.
            p = p / xp.maximum(xp.sum(p, 1)[:, None], np.float32(1))
        if self.renormalise:
            known = known * (1 - xp.sum(p, 1)[:, None])
        return xp.concatenate([known, p], 1)
