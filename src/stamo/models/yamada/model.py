"""Yamada: six similarity scores (Sec. 2.3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from stamo.features.base import Feature
from stamo.features.embedding import Embedding
from stamo.features.encoding import FloatArray
from stamo.features.params import FeatureParams
from stamo.features.pile import Pile
from stamo.features.prior import Prior
from stamo.features.slopes import Lookup, lookup_slope
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
from stamo.models.slopes import Back, CombineSlope, Theta, Unit


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

    def slope(self) -> YamadaSlope:
        """Return the same scores with their gradient written out."""
        return YamadaSlope.of(self)

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


@dataclass(frozen=True)
class YamadaSlope:
    """What of Yamada's scores does not depend on θ(e*), as arrays."""

    pile: Pile
    lookups: Mapping[str, Lookup]  # of prior, surface, and added ones
    combine: CombineSlope
    words: FloatArray  # (M, Q)
    context: FloatArray  # (M, Q)
    psi2: FloatArray  # (M, C)
    psi3: FloatArray  # (M, C)
    absent: NDArray[np.bool_]  # (M, C + E)

    @classmethod
    def of(cls, scorer: YamadaScorer) -> YamadaSlope:
        """Read a scorer's tensors, which are frozen."""
        by_name = {feature.name: feature for feature in scorer.model.features}
        names = ("prior", "surface", *scorer.model.extra)
        return cls(
            scorer.pile,
            {name: lookup_slope(by_name[name]) for name in names},
            CombineSlope.of(scorer.model.combine),
            scorer.words.numpy(),
            scorer.context.numpy(),
            scorer.psi2.numpy(),
            scorer.psi3.numpy(),
            ~np.hstack([scorer.mask.numpy(), scorer.pile.is_candidate]),
        )

    def __call__(self, theta: Theta, rng: np.random.Generator | None) -> tuple[FloatArray, Back]:
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

        def back(by_score: FloatArray) -> dict[str, FloatArray]:
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
