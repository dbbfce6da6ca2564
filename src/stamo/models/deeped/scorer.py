"""DeepED's scores under θ(e*), with everything prepared that does not change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from stamo.features.base import FeatureParams
from stamo.features.pile import Pile
from stamo.models.base import Theta, ThetaBack
from stamo.models.slopes import ScoredFeatures, Unit
from stamo.models.tables import MASKED
from stamo.system.arrays import Bools, Float32, Int64

if TYPE_CHECKING:
    from stamo.models.deeped.model import DeepED


@dataclass(frozen=True)
class DeepEDScorer(ScoredFeatures):
    """Scores a pile under θ(e*) by recomputing only what e* changes.

    With φ and the known entities frozen, the support of the known candidates, their similarity to
    every context word and their coherence are numbers; e* enters by two products with the distinct
    context words and two with the contexts.
    """

    model: DeepED
    pile: Pile
    distinct: Float32  # (V', Q) the distinct context words of the pile
    word: Int64  # (M, H) index into distinct
    support: Float32  # (M, H) max over the known candidates of f₃(n)ᵀ φ₂ f₄(w)
    similarity: Float32  # (M, C, H) f₃(n)ᵀ φ₁ f₄(w)
    coherence: Float32  # (M, C) Ψ₃ of the known candidates
    context: Float32  # (M, Q) mean vector of the entity context

    @torch.no_grad()
    def __call__(self, theta: FeatureParams) -> Tensor:
        """Return g(e; m) of all candidates, (M, C + E).

        The numbers of `slope` but for the last bit: NumPy's products round otherwise (up to 6e-8 of
        a score), and packs are compared by their bytes.
        """
        model, pile = self.model, self.pile
        prior, *others = (f.lookup(theta[f.name], pile) for f in model.scored_features)
        distinct, word, phi = map(torch.from_numpy, (self.distinct, self.word, self.phi))
        vectors = normalize(theta["embedding"], dim=1)
        by_word = (phi * vectors) @ distinct.T  # (2, E, V')
        by_entity, similarity = by_word[..., word].unbind()  # (E, M, H) each
        if self.not_candidate is not None:
            by_entity = by_entity.masked_fill(torch.from_numpy(self.not_candidate), MASKED)
        support = torch.maximum(torch.from_numpy(self.support), by_entity.amax(dim=0))
        alpha = model.attend(support, torch.from_numpy(self.word_mask))  # (M, H)
        known = (torch.from_numpy(self.similarity) * alpha[:, None]).sum(dim=2)  # (M, C)
        psi2 = torch.cat([known, (similarity * alpha).sum(dim=2).T], dim=1)
        emerging = torch.from_numpy(self.context) @ (vectors * model.phi3).T
        psi3 = torch.cat([torch.from_numpy(self.coherence), emerging], dim=1)
        scores: Tensor = model.combine(torch.stack([prior, psi2, psi3, *others], dim=-1))
        return scores.squeeze(-1).masked_fill(torch.from_numpy(self.pile.is_absent), MASKED)

    def slope(self, theta: Theta, rng: np.random.Generator | None) -> tuple[Float32, ThetaBack]:
        """Return g(e; m) of all candidates and the way back from their gradient.

        The gradient is computed only for mentions that have one: most of L already keeps its
        margin.
        """
        looked_up = [look(theta[name], self.pile) for name, look in self.lookups.items()]
        (prior, _), *others = looked_up
        vectors = Unit.of(theta["embedding"])
        by_word = (self.phi * vectors.unit) @ self.distinct.T  # (2, E, V')
        by_entity, similarity = by_word.take(self.word, axis=2)  # (E, M, H) each
        if self.not_candidate is not None:
            by_entity = np.where(self.not_candidate, np.float32(MASKED), by_entity)
        alpha = self._attend(by_entity)  # (M, H)
        n_known = self.coherence.shape[1]
        psi = np.empty((*self.pile.is_absent.shape, 2 + len(looked_up)), dtype=np.float32)
        psi[..., 0] = prior
        psi[:, :n_known, 1] = (self.similarity @ alpha[..., None])[..., 0]
        psi[:, n_known:, 1] = (similarity * alpha).sum(axis=2).T
        psi[:, :n_known, 2] = self.coherence
        psi[:, n_known:, 2] = self.context @ (vectors.unit * self.phi3).T
        for i, (values, _) in enumerate(others, start=3):
            psi[..., i] = values
        scores, combined = self.combine(psi, self.pile.is_absent, rng)

        def back(by_score: Float32) -> dict[str, Float32]:
            by_psi = combined(by_score)
            rows = np.flatnonzero(by_score.any(axis=1))
            by_vector = self._embedding_gradient(
                by_psi[rows, :, 1],
                by_psi[rows, :, 2],
                rows,
                by_entity[:, rows],
                similarity[:, rows],
                alpha[rows],
            )
            gradients = {"embedding": vectors.back(by_vector)}
            columns = (0, *range(3, psi.shape[-1]))
            for name, (_, looked), column in zip(self.lookups, looked_up, columns, strict=True):
                gradients[name] = looked(by_psi[..., column])
            return gradients

        return scores, back

    def take(self, rows: Int64) -> DeepEDScorer:
        """Return a scorer of some of the mentions."""
        # Few mentions use few words; the products with e* then cost accordingly.
        used, word = np.unique(self.word[rows], return_inverse=True)
        return DeepEDScorer(
            self.model,
            self.pile.take(rows),
            self.distinct[used],
            word.reshape(len(rows), -1),
            self.support[rows],
            self.similarity[rows],
            self.coherence[rows],
            self.context[rows],
        )

    @cached_property
    def phi(self) -> Float32:
        """Return φ₂ and φ₁, (2, 1, Q), so that one product serves both."""
        return torch.stack([self.model.phi2, self.model.phi1])[:, None].detach().numpy()

    @cached_property
    def phi3(self) -> Float32:
        """Return φ₃, (Q,)."""
        return self.model.phi3.detach().numpy()

    @cached_property
    def word_mask(self) -> Bools:
        """Return where a context word stands, (M, H)."""
        return self.pile.mentions.words >= 0

    @cached_property
    def not_candidate(self) -> Bools | None:
        """Return where e* is no candidate, (E, M, 1), or None if it always is one."""
        if self.pile.is_candidate.all():
            return None
        return ~self.pile.is_candidate.T[..., None]

    def _attend(self, by_entity: Float32) -> Float32:
        """Return α(w) when e* supports the words by `by_entity` (E, M, H), shape (M, H)."""
        support = np.maximum(self.support, by_entity.max(axis=0))
        support, counted = self.model.select_array(support, self.word_mask)
        alpha: Float32 = np.exp(support - support.max(axis=1, keepdims=True))
        alpha /= alpha.sum(axis=1, keepdims=True)
        alpha *= counted
        return alpha

    def _embedding_gradient(
        self,
        psi2: Float32,
        psi3: Float32,
        rows: Int64,
        by_entity: Float32,
        similarity: Float32,
        alpha: Float32,
    ) -> Float32:
        """Return the gradient of the unit vectors from those of Ψ₂ and Ψ₃ of some mentions."""
        n_known = self.coherence.shape[1]
        emerging = psi2[:, n_known:].T[..., None]  # (E, m, 1)
        by_alpha = (psi2[:, None, :n_known] @ self.similarity[rows])[:, 0]  # (m, H)
        by_alpha = by_alpha + (emerging * similarity).sum(axis=0)
        by_support = alpha * (by_alpha - (alpha * by_alpha).sum(axis=1, keepdims=True))
        # The attention depends on e* only where e* supports a word more than every other candidate.
        leads = by_entity > self.support[rows]
        if len(by_entity) > 1:
            leads &= by_entity == by_entity.max(axis=0)
        parts = np.stack([by_support * leads, emerging * alpha])  # (2, E, m, H)
        parts = parts.reshape(2 * len(by_entity), alpha.size)
        word = self.word[rows].ravel()
        counts = [np.bincount(word, part, len(self.distinct)) for part in parts]
        by_word = np.array(counts, dtype=np.float32).reshape(2, -1, len(self.distinct))
        by_vector = (self.phi * (by_word @ self.distinct)).sum(axis=0)  # (E, Q)
        gradient: Float32 = by_vector + (psi3[:, n_known:].T @ self.context[rows]) * self.phi3
        return gradient
