"""Yamada: six similarity scores (Sec. 2.3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from stamo.features.base import Feature, FeatureParams
from stamo.features.embedding import Embedding
from stamo.features.pile import Pile
from stamo.features.prior import Prior
from stamo.features.surface import Surface
from stamo.models.base import (
    Batch,
    Combine,
    LinkingModel,
    Theta,
    ThetaBack,
    masked_mean,
    mean_vectors,
)
from stamo.models.slopes import ScoredFeatures, Unit
from stamo.models.tables import MASKED, Tables, gather
from stamo.system.arrays import Float32, Int64


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
        prior, surface, *extra = (
            f.lookup(theta[f.name], self.pile) for f in self.model.scored_features
        )
        psi = torch.stack([prior, psi2, psi3, *surface.unbind(-1), *extra], dim=-1)
        scores: Tensor = self.model.combine(psi).squeeze(-1)
        return scores.masked_fill(torch.from_numpy(self.pile.is_absent), MASKED)

    def slope(self, theta: Theta, rng: np.random.Generator | None) -> tuple[Float32, ThetaBack]:
        """Return g(e; m) of all candidates and the way back from their gradient."""
        vectors = Unit.of(theta["embedding"])
        looked_up = [look(theta[name], self.pile) for name, look in self.lookups.items()]
        (prior, _), (surface, _), *extra = looked_up
        n_known = self.psi2.shape[1]
        psi = np.empty((*self.pile.is_absent.shape, 4 + len(self.lookups)), dtype=np.float32)
        psi[..., 0] = prior
        for i, (known, means) in enumerate(
            ((self.psi2, self.words), (self.psi3, self.context)), start=1
        ):
            psi[:, :n_known, i] = known
            psi[:, n_known:, i] = means @ vectors.unit.T
        psi[..., 3:6] = surface
        for i, (values, _) in enumerate(extra, start=6):
            psi[..., i] = values
        scores, combined = self.combine(psi, self.pile.is_absent, rng)

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


@torch.no_grad()
def prepare_yamada(model: Yamada, pile: Pile, tables: Tables) -> YamadaScorer:
    """Compute the frozen part of Yamada's scores for a pile, block by block."""
    mentions = pile.mentions
    words = normalize(mean_vectors(tables.words, mentions.words), dim=-1)
    context = normalize(mean_vectors(tables.entities, mentions.context), dim=-1)
    psi2, psi3 = (torch.zeros(mentions.candidates.shape) for _ in range(2))
    for start in range(0, len(mentions), 512):
        rows = slice(start, start + 512)
        vectors = normalize(gather(tables.entities, mentions.candidates[rows]), dim=-1)
        psi2[rows] = torch.einsum("mcq,mq->mc", vectors, words[rows])
        psi3[rows] = torch.einsum("mcq,mq->mc", vectors, context[rows])
    return YamadaScorer(model, pile, *(tensor.numpy() for tensor in (words, context, psi2, psi3)))


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
    scored: ClassVar[tuple[str, ...]] = ("prior", "surface")

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
