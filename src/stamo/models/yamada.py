"""Yamada: six similarity scores (Sec. 2.3.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from stamo.features.base import Array, Theta, append, like
from stamo.features.embedding import Embedding, LocalVectors, mean_rows
from stamo.features.pile import Pile
from stamo.features.prior import Prior
from stamo.features.surface import Surface
from stamo.models.base import Batch, Frozen, Model, unit
from stamo.system.files import Float32, Int64


class Yamada(Model):
    """g(e; m) = Γ(Ψ₁ prior, Ψ₂ context, Ψ₃ coherence, Ψ₄-₆ surface similarity)."""

    name = "yamada"
    own_features = (Prior(), Surface(), Embedding())
    scored = ("prior", "surface")
    score_names = ("prior", "context words", "coherence", "edit", "contained", "start or end")
    n_scores = 6

    def psi(self, batch: Batch) -> Array:
        """Return Ψ₁ to Ψ₆ and the scores of added features, (B, C, n)."""
        vectors = unit(batch.vectors)
        psi2, psi3 = (
            (vectors * unit(mean)[:, None]).sum(-1) for mean in (batch.words, batch.context)
        )
        return self.gather_scores(batch.features, psi2, psi3)

    def frozen(self, pile: Pile) -> FrozenYamada:
        """Compute everything that does not depend on θ(e*) once."""
        mentions, tables = pile.mentions, pile.tables
        entities = LocalVectors.of(tables.entities, mentions.candidates, mentions.context)
        words = LocalVectors.of(tables.words, mentions.words)
        means = (
            unit(mean_rows(words, mentions.words)),
            unit(mean_rows(entities, mentions.context)),
        )
        psi = np.zeros((2, *mentions.candidates.shape), dtype=np.float32)
        for start in range(0, len(mentions), 512):
            rows = slice(start, start + 512)
            vectors = unit(entities[mentions.candidates[rows]])
            for own, mean in zip(psi, means, strict=True):
                own[rows] = (vectors @ mean[rows, :, None])[..., 0]
        return FrozenYamada(self, pile, *means, *psi)


@dataclass(frozen=True)
class FrozenYamada(Frozen):
    """Scores a pile under θ(e*): two products of e* with the mean contexts are all that changes."""

    words: Float32  # (M, Q) unit mean vector of the context words
    context: Float32  # (M, Q) unit mean vector of the entity context
    psi2: Float32  # (M, C) of the known candidates
    psi3: Float32  # (M, C)

    def psi(self, theta: Theta) -> Array:
        """Compare e* with the context words (Ψ₂) and with the entity context (Ψ₃)."""
        vectors = unit(theta["embedding"])  # (E, Q)
        psi2 = append(self.psi2, like(self.words, vectors) @ vectors.T)
        psi3 = append(self.psi3, like(self.context, vectors) @ vectors.T)
        return self.model.gather_scores(self.values(theta), psi2, psi3)

    def take(self, rows: Int64) -> Self:
        """Return a frozen form of some of the mentions."""
        return replace(
            self,
            pile=self.pile.take(rows),
            words=self.words[rows],
            context=self.context[rows],
            psi2=self.psi2[rows],
            psi3=self.psi3[rows],
        )
