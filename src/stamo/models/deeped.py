"""DeepED: four scores, with attention over the context words (Sec. 2.3.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from stamo.features.base import Array, Theta, append, library, unit
from stamo.features.embedding import Embedding, local_vectors, mean_rows
from stamo.features.pile import Pile
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.models.base import MASKED, Batch, Frozen, Model, highest, softmax
from stamo.system.files import Float32, Int64


class DeepED(Model):
    """g(e; m) = Γ(Ψ₁ prior, Ψ₂ context, Ψ₃ coherence of embeddings, Ψ₄ relatedness)."""

    name = "deeped"
    own_features = (Prior(), Relatedness(), Embedding())
    score_names = ("prior", "context words", "coherence", "relatedness")
    n_scores = 4
    reads_each_word = True
    n_attended = 50
    """H', the context words that attention keeps."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of φ₁ to φ₃, which are diagonal, and of Γ."""
        return {f"phi{i}": (self.dimensions,) for i in (1, 2, 3)} | super().shapes()

    def psi(self, batch: Batch) -> Array:
        """Return Ψ₁ to Ψ₄ and the scores of added features, (B, C, n)."""
        phi1, phi2, phi3 = (self.phi[f"phi{i}"] for i in (1, 2, 3))
        support = (batch.vectors * phi2) @ np.swapaxes(batch.words, 1, 2)  # (B, C, H)
        xp = library(support)
        if not batch.mask.all():
            support += np.where(batch.mask, np.float32(0), np.float32(MASKED))[..., None]
        alpha = self.attend(xp.max(support, 1), batch.word_mask)  # (B, H), u(w) of Eq. 8
        attended = (alpha[:, None] @ batch.words)[:, 0]  # (B, Q)
        sides = xp.stack([attended * phi1, batch.context * phi3], 2)  # (B, Q, 2)
        own = batch.vectors @ sides  # (B, C, 2): Ψ₂ (Eq. 7) and Ψ₃
        return self.gather_scores(batch.features, own[..., 0], own[..., 1])

    def attend(self, support: Array, mask: Array) -> Array:
        """Weight the H' words with the highest support (Eq. 9); padding is never among them.

        Args:
            support: u(w), shape (B, H).
            mask: Where a word stands, shape (B, H).

        Returns:
            α(w), shape (B, H): zero outside the H' words, and everywhere when there is no word.
        """
        where = library(support).where
        support, kept = where(mask, support, MASKED), mask
        if self.n_attended < support.shape[1]:
            kept = mask & highest(support, self.n_attended)
        return softmax(where(kept, support, MASKED)) * kept

    def frozen(self, pile: Pile) -> FrozenDeepED:
        """Compute everything that does not depend on θ(e*) once.

        Mentions of one surface share their candidates, so the work is two products of candidates
        and distinct words for each surface, whatever the number of mentions.
        """
        mentions, tables = pile.mentions, pile.tables
        ids = mentions.candidates, mentions.context
        vectors, (candidate, around) = local_vectors(tables.entities, *ids)
        words, (word_place,) = local_vectors(tables.words, mentions.words)
        word = word_place.astype(np.int64)
        (n, n_columns), n_words = candidate.shape, word.shape[1]
        support = np.full((n, n_words), MASKED, dtype=np.float32)
        similarity = np.zeros((n, n_columns, n_words), dtype=np.float32)
        coherence = np.zeros((n, n_columns), dtype=np.float32)
        context = mean_rows(vectors, around)
        phi1, phi2, phi3 = (self.phi[f"phi{i}"] for i in (1, 2, 3))
        for surface in np.unique(mentions.surfaces):
            rows = np.flatnonzero(mentions.surfaces == surface)
            width = int(mentions.mask[rows[0]].sum())
            if not width:
                continue
            known = vectors[candidate[rows[0], :width]]  # (c, Q)
            used, place = np.unique(word[rows], return_inverse=True)
            place = place.reshape(len(rows), n_words)
            said = words[used].T  # (Q, v)
            support[rows] = ((known * phi2) @ said).max(axis=0)[place]
            similarity[rows, :width] = ((known * phi1) @ said)[:, place].transpose(1, 0, 2)
            coherence[rows, :width] = context[rows] @ (known * phi3).T
        return FrozenDeepED(self, pile, words, word, support, similarity, coherence, context)


@dataclass(frozen=True)
class FrozenDeepED(Frozen):
    """Scores a pile under θ(e*) by recomputing only what e* changes.

    With φ and the known entities frozen, the support of the known candidates, their similarity to
    every context word and their coherence are numbers; e* enters by two products with the distinct
    context words and one with the contexts.
    """

    model: DeepED
    distinct: Float32  # (V', Q) the distinct context words of the pile, padding among them
    word: Int64  # (M, H) index into distinct
    support: Float32  # (M, H) max over the known candidates of f₃(n)ᵀ φ₂ f₄(w)
    similarity: Float32  # (M, C, H) f₃(n)ᵀ φ₁ f₄(w)
    coherence: Float32  # (M, C) Ψ₃ of the known candidates
    context: Float32  # (M, Q) mean vector of the entity context

    def psi(self, theta: Theta) -> Array:
        """Attend to the context words (Ψ₂), and compare with the entity context (Ψ₃)."""
        pile, vectors = self.pile, unit(theta["embedding"])  # (E, Q)
        xp = library(vectors)
        phi1, phi2, phi3 = (self.model.phi[f"phi{i}"] for i in (1, 2, 3))
        words, place = self.distinct.T, self.word
        by_entity = ((vectors * phi2) @ words)[:, place]  # (E, M, H)
        similarity = ((vectors * phi1) @ words)[:, place]
        if not pile.is_candidate.all():
            by_entity = xp.where(pile.is_candidate.T[..., None], by_entity, MASKED)
        support = xp.maximum(self.support, xp.max(by_entity, 0))
        alpha = self.model.attend(support, pile.mentions.words >= 0)  # (M, H)
        known = (self.similarity @ alpha[..., None])[..., 0]  # (M, C)
        psi2 = xp.concatenate([known, xp.sum(similarity * alpha, 2).T], 1)
        psi3 = append(self.coherence, self.context @ (vectors * phi3).T)
        return self.model.gather_scores(self.values(theta), psi2, psi3)

    def take(self, rows: Int64) -> Self:
        """Return a frozen form of some of the mentions."""
        # Few mentions use few words; the products with e* then cost accordingly.
        used, word = np.unique(self.word[rows], return_inverse=True)
        return replace(
            self,
            pile=self.pile.take(rows),
            distinct=self.distinct[used],
            word=word.reshape(len(rows), self.word.shape[1]),
            support=self.support[rows],
            similarity=self.similarity[rows],
            coherence=self.coherence[rows],
            context=self.context[rows],
        )
