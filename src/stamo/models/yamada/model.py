"""Yamada: six similarity scores (Sec. 2.3.1)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from stamo.features.base import Feature
from stamo.features.embedding import Embedding
from stamo.features.pile import Pile
from stamo.features.prior import Prior
from stamo.features.surface import Surface
from stamo.models.base import Batch, Combine, LinkingModel, masked_mean
from stamo.models.tables import MASKED, Tables
from stamo.models.yamada.scorer import YamadaScorer, prepare_yamada


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
