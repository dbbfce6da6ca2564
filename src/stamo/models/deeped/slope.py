"""DeepED's scores of a prepared pile with their slope in θ(e*), written out in NumPy.

The numbers are those of `DeepEDScorer`; the tests hold both against autograd. The gradient is
computed only for mentions that have one: most of L already keeps its margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stamo.features.encoding import FloatArray
from stamo.features.pile import Pile
from stamo.features.slopes import Lookup, lookup_slope
from stamo.models.base import MASKED
from stamo.models.slopes import Back, CombineSlope, Theta, Unit

if TYPE_CHECKING:
    from stamo.models.deeped.model import DeepEDScorer


@dataclass(frozen=True)
class DeepEDSlope:
    """What of DeepED's scores does not depend on θ(e*), as arrays."""

    pile: Pile
    lookups: Mapping[str, Lookup]  # of prior, relatedness, and added ones
    combine: CombineSlope
    phi: FloatArray  # (2, 1, Q) φ₂ and φ₁, so that one product serves both
    phi3: FloatArray  # (Q,)
    n_attended: int
    padding_counts: bool
    distinct: FloatArray  # (V', Q)
    word: NDArray[np.int64]  # (M, H)
    word_mask: NDArray[np.bool_]  # (M, H)
    support: FloatArray  # (M, H)
    similarity: FloatArray  # (M, C, H)
    coherence: FloatArray  # (M, C)
    context: FloatArray  # (M, Q)
    absent: NDArray[np.bool_]  # (M, C + E)
    not_candidate: NDArray[np.bool_] | None  # (E, M, 1), None if e* is one everywhere

    @classmethod
    def of(cls, scorer: DeepEDScorer) -> DeepEDSlope:
        """Read a scorer's tensors, which are frozen."""
        model = scorer.model
        by_name = {feature.name: feature for feature in model.features}
        not_candidate = scorer.not_candidate
        return cls(
            scorer.pile,
            {name: lookup_slope(by_name[name]) for name in ("prior", "relatedness", *model.extra)},
            CombineSlope.of(model.combine),
            scorer.phi.detach().numpy(),
            model.phi3.detach().numpy(),
            model.n_attended,
            model.padding_counts,
            scorer.distinct.numpy(),
            scorer.word.numpy(),
            scorer.word_mask.numpy(),
            scorer.support.numpy(),
            scorer.similarity.numpy(),
            scorer.coherence.numpy(),
            scorer.context.numpy(),
            scorer.absent.numpy(),
            None if not_candidate is None else not_candidate.numpy(),
        )

    def __call__(self, theta: Theta, rng: np.random.Generator | None) -> tuple[FloatArray, Back]:
        """Return g(e; m) of all candidates and the way back from their gradient."""
        looked_up = [look(theta[name], self.pile) for name, look in self.lookups.items()]
        (prior, _), *others = looked_up
        vectors = Unit.of(theta["embedding"])
        by_word = (self.phi * vectors.unit) @ self.distinct.T  # (2, E, V')
        by_entity, similarity = by_word.take(self.word, axis=2)  # (E, M, H) each
        if self.not_candidate is not None:
            by_entity = np.where(self.not_candidate, np.float32(MASKED), by_entity)
        alpha = self._attend(by_entity)  # (M, H)
        n_known = self.coherence.shape[1]
        psi = np.empty((*self.absent.shape, 2 + len(looked_up)), dtype=np.float32)
        psi[..., 0] = prior
        psi[:, :n_known, 1] = (self.similarity @ alpha[..., None])[..., 0]
        psi[:, n_known:, 1] = (similarity * alpha).sum(axis=2).T
        psi[:, :n_known, 2] = self.coherence
        psi[:, n_known:, 2] = self.context @ (vectors.unit * self.phi3).T
        for i, (values, _) in enumerate(others, start=3):
            psi[..., i] = values
        scores, combined = self.combine(psi, self.absent, rng)

        def back(by_score: FloatArray) -> dict[str, FloatArray]:
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

    def _attend(self, by_entity: FloatArray) -> FloatArray:
        """Return α(w) when e* supports the words by `by_entity` (E, M, H), shape (M, H)."""
        support = np.maximum(self.support, by_entity.max(axis=0))
        n_words = support.shape[1]
        kept = self.word_mask
        if self.padding_counts and self.n_attended < n_words:
            support = np.where(self.word_mask, support, np.float32(0))
            edge = np.partition(support, n_words - self.n_attended, axis=1)
            low = support <= edge[:, n_words - self.n_attended, None]
            support = np.where(low, np.float32(MASKED), support)
        else:
            support = np.where(self.word_mask, support, np.float32(MASKED))
            if self.n_attended < n_words:
                order = np.argpartition(support, n_words - self.n_attended, axis=1)
                np.put_along_axis(support, order[:, : n_words - self.n_attended], MASKED, axis=1)
            kept = support > MASKED / 2
        alpha: FloatArray = np.exp(support - support.max(axis=1, keepdims=True))
        alpha /= alpha.sum(axis=1, keepdims=True)
        alpha *= kept
        return alpha

    def _embedding_gradient(
        self,
        psi2: FloatArray,
        psi3: FloatArray,
        rows: NDArray[np.int64],
        by_entity: FloatArray,
        similarity: FloatArray,
        alpha: FloatArray,
    ) -> FloatArray:
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
        gradient: FloatArray = by_vector + (psi3[:, n_known:].T @ self.context[rows]) * self.phi3
        return gradient
