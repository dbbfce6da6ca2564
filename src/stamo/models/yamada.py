"""Yamada: six similarity scores (Sec. 2.3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from stamo.features.base import Feature
from stamo.features.embedding import Embedding
from stamo.features.pile import Pile
from stamo.features.prior import Prior
from stamo.features.surface import Surface
from stamo.models.base import (
    Batch,
    Combine,
    LinkingModel,
    OwnBack,
    PreparedScorer,
    masked_mean,
    mean_vectors,
)
from stamo.models.tables import Tables, gather
from stamo.system.files import Float32, Int64


@dataclass(frozen=True)
class YamadaScorer(PreparedScorer):
    """Scores a pile under θ(e*): two products of e* with the mean contexts are all that changes."""

    model: Yamada
    pile: Pile
    words: Float32  # (M, Q) unit mean vector of the context words
    context: Float32  # (M, Q) unit mean vector of the entity context
    psi2: Float32  # (M, C) of the known candidates
    psi3: Float32  # (M, C)

    def own_scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Compare with the context words (Ψ₂) and with the entity context (Ψ₃)."""
        words, context, known2, known3 = map(
            torch.from_numpy, (self.words, self.context, self.psi2, self.psi3)
        )
        psi2 = torch.cat([known2, words @ vectors.T], dim=1)
        return psi2, torch.cat([known3, context @ vectors.T], dim=1)

    def own_slope(self, vectors: Float32, psi: Float32) -> OwnBack:
        """Write both scores."""
        n_known = self.psi2.shape[1]
        psi[:, :n_known, 1], psi[:, n_known:, 1] = self.psi2, self.words @ vectors.T
        psi[:, :n_known, 2], psi[:, n_known:, 2] = self.psi3, self.context @ vectors.T

        def back(by_score: Float32, by_psi: Float32) -> Float32:
            psi2, psi3 = by_psi[:, n_known:, 1], by_psi[:, n_known:, 2]
            gradient: Float32 = psi2.T @ self.words + psi3.T @ self.context
            return gradient

        return back

    def take(self, rows: Int64) -> YamadaScorer:
        """Return a scorer of some of the mentions."""
        arrays = (self.words, self.context, self.psi2, self.psi3)
        return YamadaScorer(self.model, self.pile.take(rows), *(array[rows] for array in arrays))


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
        super().__init__(dimensions, features)
        self.dimensions = dimensions
        self.combine = Combine(6 + len(self.extra))

    def scores(self, batch: Batch) -> Tensor:
        """Return Ψ₁ to Ψ₆ and the scores of added features, (B, C, n)."""
        words = masked_mean(batch.words, batch.word_mask)[:, None]
        context = masked_mean(batch.context, batch.context_mask)[:, None]
        psi2, psi3 = (cosine_similarity(batch.vectors, m, dim=-1) for m in (words, context))
        prior, surface = batch.features["prior"], batch.features["surface"]
        extra = [batch.features[name] for name in self.extra]
        return torch.stack([prior, psi2, psi3, *surface.unbind(-1), *extra], dim=-1)

    @torch.no_grad()
    def prepare(self, pile: Pile, tables: Tables) -> YamadaScorer:
        """Compute everything that does not depend on θ(e*) once, block by block."""
        mentions = pile.mentions
        words = normalize(mean_vectors(tables.words, mentions.words), dim=-1)
        context = normalize(mean_vectors(tables.entities, mentions.context), dim=-1)
        psi2, psi3 = (torch.zeros(mentions.candidates.shape) for _ in range(2))
        for start in range(0, len(mentions), 512):
            rows = slice(start, start + 512)
            vectors = normalize(gather(tables.entities, mentions.candidates[rows]), dim=-1)
            psi2[rows] = torch.einsum("mcq,mq->mc", vectors, words[rows])
            psi3[rows] = torch.einsum("mcq,mq->mc", vectors, context[rows])
        tensors = (words, context, psi2, psi3)
        return YamadaScorer(self, pile, *(tensor.numpy() for tensor in tensors))
