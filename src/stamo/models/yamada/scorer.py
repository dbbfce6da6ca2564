"""Yamada's scores under θ(e*), with everything prepared that does not change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from stamo.features.params import FeatureParams
from stamo.features.pile import Pile
from stamo.models.base import Theta, ThetaBack, mean_vectors
from stamo.models.slopes import ScoredFeatures, Unit
from stamo.models.tables import MASKED, Tables
from stamo.system.arrays import Float32, Int64

if TYPE_CHECKING:
    from stamo.models.yamada.model import Yamada


@dataclass(frozen=True)
class YamadaScorer(ScoredFeatures):
    """Scores a pile under θ(e*): two products of e* with the mean contexts are all that changes."""

    model: Yamada
    pile: Pile
    words: Float32  # (M, Q) unit mean vector of the context words
    context: Float32  # (M, Q) unit mean vector of the entity context
    psi2: Float32  # (M, C) of the known candidates
    psi3: Float32  # (M, C)

    @torch.no_grad()
    def __call__(self, theta: FeatureParams) -> Tensor:
        """Return g(e; m) of all candidates, (M, C + E).

        The numbers of `slope` but for the last bit: NumPy's products round otherwise, and packs are
        compared by their bytes.
        """
        vectors = normalize(theta["embedding"], dim=-1)  # (E, Q)
        words, context, known2, known3 = map(
            torch.from_numpy, (self.words, self.context, self.psi2, self.psi3)
        )
        psi2 = torch.cat([known2, words @ vectors.T], dim=1)
        psi3 = torch.cat([known3, context @ vectors.T], dim=1)
        features = self.model.named(*self.names)
        prior, surface, *extra = (f.lookup(theta[f.name], self.pile) for f in features)
        psi = torch.stack([prior, psi2, psi3, *surface.unbind(-1), *extra], dim=-1)
        scores: Tensor = self.model.combine(psi).squeeze(-1)
        return scores.masked_fill(torch.from_numpy(self.absent), MASKED)

    def slope(self, theta: Theta, rng: np.random.Generator | None) -> tuple[Float32, ThetaBack]:
        """Return g(e; m) of all candidates and the way back from their gradient."""
        vectors = Unit.of(theta["embedding"])
        looked_up = [look(theta[name], self.pile) for name, look in self.lookups.items()]
        (prior, _), (surface, _), *extra = looked_up
        n_known = self.psi2.shape[1]
        psi = np.empty((*self.absent.shape, 4 + len(self.lookups)), dtype=np.float32)
        psi[..., 0] = prior
        for i, (known, means) in enumerate(
            ((self.psi2, self.words), (self.psi3, self.context)), start=1
        ):
            psi[:, :n_known, i] = known
            psi[:, n_known:, i] = means @ vectors.unit.T
        psi[..., 3:6] = surface
        for i, (values, _) in enumerate(extra, start=6):
            psi[..., i] = values
        scores, combined = self.combine(psi, self.absent, rng)

        def back(by_score: Float32) -> dict[str, Float32]:
            by_psi = combined(by_score)
            by_vector = (
                by_psi[:, n_known:, 1].T @ self.words + by_psi[:, n_known:, 2].T @ self.context
            )
            gradients = {"embedding": vectors.back(by_vector)}
            columns = (0, slice(3, 6), *range(6, psi.shape[-1]))
            for name, (_, looked), column in zip(self.lookups, looked_up, columns, strict=True):
                gradients[name] = looked(by_psi[..., column])
            return gradients

        return scores, back

    def take(self, rows: Int64) -> YamadaScorer:
        """Return a scorer of some of the mentions."""
        arrays = (self.words, self.context, self.psi2, self.psi3)
        return YamadaScorer(self.model, self.pile.take(rows), *(array[rows] for array in arrays))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the features that are scores themselves."""
        return ("prior", "surface", *self.model.extra)


@torch.no_grad()
def prepare_yamada(model: Yamada, pile: Pile, tables: Tables) -> YamadaScorer:
    """Compute the frozen part of Yamada's scores for a pile, block by block."""
    mentions = pile.mentions
    words = normalize(mean_vectors(tables.words, mentions.words), dim=-1)
    context = normalize(mean_vectors(tables.entities, mentions.context), dim=-1)
    psi2, psi3 = (torch.zeros(mentions.candidates.shape) for _ in range(2))
    for start in range(0, len(mentions), 512):
        rows = slice(start, start + 512)
        vectors = normalize(tables.entity_vectors(mentions.candidates[rows]), dim=-1)
        psi2[rows] = torch.einsum("mcq,mq->mc", vectors, words[rows])
        psi3[rows] = torch.einsum("mcq,mq->mc", vectors, context[rows])
    return YamadaScorer(model, pile, *(tensor.numpy() for tensor in (words, context, psi2, psi3)))
