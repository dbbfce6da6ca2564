"""Yamada: six similarity scores (Sec. 2.3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from stamo.features.base import Feature
from stamo.features.embedding import Embedding
from stamo.features.params import FeatureParams
from stamo.features.pile import Pile
from stamo.features.prior import Prior
from stamo.features.surface import Surface
from stamo.models.base import (
    MASKED,
    Batch,
    Combine,
    LinkingModel,
    Tables,
    masked_mean,
    mean_vectors,
)


def context_similarity(entity: Tensor, words: Tensor) -> Tensor:
    """Score how well context words fit each candidate (Ψ₂, Eq. 4, and Ψ₃, Eq. 5).

    Args:
        entity: Entity vectors f₃(e), shape (B, C, Q).
        words: Mean vector of each context, shape (B, Q).

    Returns:
        Cosine similarities, shape (B, C); 0 where a vector is zero.
    """
    return cosine_similarity(entity, words[:, None], dim=-1)


class Yamada(LinkingModel):
    """g(e; m) = Γ(Ψ₁ prior, Ψ₂ context, Ψ₃ coherence, Ψ₄-₆ surface similarity)."""

    name: ClassVar[str] = "yamada"

    def __init__(
        self, dimensions: int, features: tuple[Feature, ...] = (Prior(), Surface(), Embedding())
    ) -> None:
        """Create a model.

        Args:
            dimensions: Q; the scores do not depend on it, saved models carry it all the same.
            features: Prior, surface and embedding, and any others; each other one adds a score.
        """
        super().__init__(dimensions)
        self.dimensions = dimensions
        self.features = features
        self.extra = tuple(
            f.name for f in features if f.name not in {"prior", "surface", "embedding"}
        )
        self.combine = Combine(6 + len(self.extra))

    def scores(self, batch: Batch) -> Tensor:
        """Return Ψ₁ to Ψ₆ and the scores of added features, (B, C, n)."""
        psi2 = context_similarity(batch.vectors, masked_mean(batch.words, batch.word_mask))
        psi3 = context_similarity(batch.vectors, masked_mean(batch.context, batch.context_mask))
        prior, surface = batch.features["prior"], batch.features["surface"]
        extra = [batch.features[name] for name in self.extra]
        return torch.stack([prior, psi2, psi3, *surface.unbind(-1), *extra], dim=-1)

    def forward(self, batch: Batch) -> Tensor:
        """Return g(e; m) (Eq. 6), (B, C)."""
        scores: Tensor = self.combine(self.scores(batch)).squeeze(-1)
        return scores.masked_fill(~batch.mask, MASKED)

    def prepare(self, pile: Pile, tables: Tables) -> YamadaScorer:
        """Compute everything that does not depend on θ(e*) once."""
        return prepare_yamada(self, pile, tables)


@dataclass(frozen=True)
class YamadaScorer:
    """Scores a pile under θ(e*): two products of e* with the mean contexts are all that changes."""

    model: Yamada
    pile: Pile
    words: Tensor  # (M, Q) unit mean vector of the context words
    context: Tensor  # (M, Q) unit mean vector of the entity context
    psi2: Tensor  # (M, C) of the known candidates
    psi3: Tensor  # (M, C)
    mask: Tensor  # (M, C)

    def __call__(self, theta: FeatureParams) -> Tensor:
        """Return g(e; m) of all candidates, (M, C + E)."""
        vectors = normalize(theta["embedding"], dim=-1)  # (E, Q)
        psi2 = torch.cat([self.psi2, self.words @ vectors.T], dim=1)
        psi3 = torch.cat([self.psi3, self.context @ vectors.T], dim=1)
        by_name = {feature.name: feature for feature in self.model.features}
        names = ("prior", "surface", *self.model.extra)
        prior, surface, *extra = (by_name[n].lookup(theta[n], self.pile) for n in names)
        psi = torch.stack([prior, psi2, psi3, *surface.unbind(-1), *extra], dim=-1)
        mask = torch.cat([self.mask, torch.from_numpy(self.pile.is_candidate)], dim=1)
        scores: Tensor = self.model.combine(psi).squeeze(-1)
        return scores.masked_fill(~mask, MASKED)

    def take(self, rows: NDArray[np.int64]) -> YamadaScorer:
        """Return a scorer of some of the mentions."""
        pile = self.pile.take(rows)
        index = torch.from_numpy(rows)
        return YamadaScorer(
            self.model,
            pile,
            self.words[index],
            self.context[index],
            self.psi2[index],
            self.psi3[index],
            self.mask[index],
        )


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
    return YamadaScorer(model, pile, words, context, psi2, psi3, torch.from_numpy(mentions.mask))
