"""DeepED: four scores, with attention over the context words (Sec. 2.3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from stamo.errors import SettingsError
from stamo.features.base import Feature
from stamo.features.embedding import Embedding
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.models.base import (
    Batch,
    Combine,
    LinkingModel,
    OwnBack,
    PreparedScorer,
    masked_mean,
    mean_vectors,
)
from stamo.models.deeped_known import N_ATTENDED, KnownDeepED, attend, select_words
from stamo.models.tables import MASKED, Tables, gather
from stamo.system.files import Bools, Float32, Int64


@dataclass(frozen=True)
class DeepEDScorer(PreparedScorer):
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

    def own_scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Attend to the context words (Ψ₂), and compare with the entity context (Ψ₃)."""
        model, distinct, word = self.model, *map(torch.from_numpy, (self.distinct, self.word))
        phi = torch.stack([model.phi2, model.phi1])[:, None]
        by_word = (phi * vectors) @ distinct.T  # (2, E, V')
        by_entity, similarity = by_word[..., word].unbind()  # (E, M, H) each
        if self.not_candidate is not None:
            by_entity = by_entity.masked_fill(torch.from_numpy(self.not_candidate), MASKED)
        support = torch.maximum(torch.from_numpy(self.support), by_entity.amax(dim=0))
        alpha = model.attend(support, torch.from_numpy(self.word_mask))  # (M, H)
        known = (torch.from_numpy(self.similarity) * alpha[:, None]).sum(dim=2)  # (M, C)
        psi2 = torch.cat([known, (similarity * alpha).sum(dim=2).T], dim=1)
        emerging = torch.from_numpy(self.context) @ (vectors * model.phi3).T
        return psi2, torch.cat([torch.from_numpy(self.coherence), emerging], dim=1)

    def own_slope(self, vectors: Float32, psi: Float32) -> OwnBack:
        """Write both scores; their gradient is computed only for mentions that have one.

        Most of L already keeps its margin.
        """
        by_word = (self.phi * vectors) @ self.distinct.T  # (2, E, V')
        by_entity, similarity = by_word.take(self.word, axis=2)  # (E, M, H) each
        if self.not_candidate is not None:
            by_entity = np.where(self.not_candidate, np.float32(MASKED), by_entity)
        support = np.maximum(self.support, by_entity.max(axis=0))
        alpha = attend(*self.model.select_array(support, self.word_mask))  # (M, H)
        n_known = self.coherence.shape[1]
        psi[:, :n_known, 1] = (self.similarity @ alpha[..., None])[..., 0]
        psi[:, n_known:, 1] = (similarity * alpha).sum(axis=2).T
        psi[:, :n_known, 2] = self.coherence
        psi[:, n_known:, 2] = self.context @ (vectors * self.phi3).T

        def back(by_score: Float32, by_psi: Float32) -> Float32:
            rows = np.flatnonzero(by_score.any(axis=1))
            psi2, psi3 = by_psi[rows, :, 1], by_psi[rows, :, 2]
            at_rows = by_entity[:, rows], similarity[:, rows], alpha[rows]
            return self._embedding_gradient(psi2, psi3, rows, *at_rows)

        return back

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


class DeepED(LinkingModel):
    """g(e; m) = Γ(Ψ₁ prior, Ψ₂ context, Ψ₃ coherence of embeddings, Ψ₄ relatedness)."""

    name: ClassVar[str] = "deeped"
    scored: ClassVar[tuple[str, ...]] = ("prior", "relatedness")

    def __init__(
        self,
        dimensions: int,
        features: tuple[Feature, ...] = (Prior(), Relatedness(), Embedding()),
        n_attended: int = N_ATTENDED,
    ) -> None:
        """Create a model.

        Args:
            dimensions: Q, the size of word and entity vectors.
            features: Prior, relatedness and embedding, and any others; each other one adds a score.
            n_attended: H', the context words that attention keeps.
        """
        super().__init__(dimensions, features)
        if n_attended < 1:
            raise SettingsError(f"Attention must keep at least one word, not {n_attended}.")
        self.n_attended = n_attended
        self.phi1 = nn.Parameter(torch.ones(dimensions))
        self.phi2 = nn.Parameter(torch.ones(dimensions))
        self.phi3 = nn.Parameter(torch.ones(dimensions))
        self.combine = Combine(4 + len(self.extra))

    def select(self, support: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Select the H' words with the highest support; padding is never selected.

        Args:
            support: u(w), shape (B, H).
            mask: Where a word stands, shape (B, H).

        Returns:
            Support of the selected words, `MASKED` elsewhere, and which words count, (B, H) each.
        """
        support = support.masked_fill(~mask, MASKED)
        if self.n_attended < support.shape[1]:
            kept = support.topk(self.n_attended, dim=1, sorted=False)
            support = torch.full_like(support, MASKED).scatter(1, kept.indices, kept.values)
        return support, support > MASKED / 2

    def select_array(self, support: Float32, mask: Bools) -> tuple[Float32, Bools]:
        """Select as `select` does, in NumPy."""
        return select_words(support, mask, self.n_attended)

    def attend(self, support: Tensor, mask: Tensor) -> Tensor:
        """Weight the selected words by their support (Eq. 9).

        Returns:
            α(w), shape (B, H): zero outside the H' words, and everywhere when there is no word.
        """
        support, counted = self.select(support, mask)
        return torch.softmax(support, dim=1) * counted

    def scores(self, batch: Batch) -> Tensor:
        """Return Ψ₁ to Ψ₄ and the scores of added features, (B, C, n)."""
        # Products of matrices, not einsum over three operands: linking spends its time here.
        support = (batch.vectors * self.phi2) @ batch.words.transpose(1, 2)  # (B, C, H)
        support = support.masked_fill(~batch.mask[..., None], MASKED)
        alpha = self.attend(support.amax(dim=1), batch.word_mask)  # (B, H)
        attended = (alpha[:, None] @ batch.words)[:, 0]  # (B, Q)
        psi2 = (batch.vectors @ (self.phi1 * attended)[..., None])[..., 0]  # (B, C)
        coherence = masked_mean(batch.context, batch.context_mask)  # (B, Q)
        psi3 = (batch.vectors @ (self.phi3 * coherence)[..., None])[..., 0]
        names = (*self.scored, *self.extra)
        prior, relatedness, *extra = (batch.features[name] for name in names)
        return torch.stack([prior, psi2, psi3, relatedness, *extra], dim=-1)

    def score_known(self, mentions: EncodedMentions, tables: Tables) -> Float32:
        """Return what `forward` gives for mentions of known entities, faster, (M, C)."""
        known = KnownDeepED(self.state, self.extra, self.n_attended)
        return known.score_known(mentions, tables)

    @torch.no_grad()
    def prepare(self, pile: Pile, tables: Tables) -> DeepEDScorer:
        """Compute everything that does not depend on θ(e*) once.

        Mentions of one surface share their candidates, so the work is two products of candidates
        and distinct words for each surface, whatever the number of mentions.
        """
        mentions = pile.mentions
        ids, word = np.unique(mentions.words, return_inverse=True)
        distinct = gather(tables.words, ids)  # (V', Q), padding is a zero row
        word_index = torch.from_numpy(word.reshape(mentions.words.shape))
        n, n_columns = mentions.candidates.shape
        support = torch.full(mentions.words.shape, MASKED)
        similarity = torch.zeros(n, n_columns, mentions.words.shape[1])
        coherence = torch.zeros(n, n_columns)
        context = mean_vectors(tables.entities, mentions.context)
        for surface in np.unique(mentions.surfaces):
            rows = np.flatnonzero(mentions.surfaces == surface)
            candidates = mentions.candidates[rows[0]]
            width = int((candidates >= 0).sum())
            if not width:
                continue
            vectors = gather(tables.entities, candidates[:width])  # (c, Q)
            index = torch.from_numpy(rows)
            used, place = torch.unique(word_index[index], return_inverse=True)
            words = (distinct if len(used) == len(distinct) else distinct[used]).T  # (Q, v)
            support[index] = ((vectors * self.phi2) @ words).amax(dim=0)[place]
            similarity[index, :width] = ((vectors * self.phi1) @ words)[:, place].transpose(0, 1)
            coherence[index, :width] = context[index] @ (vectors * self.phi3).T
        tensors = (distinct, word_index, support, similarity, coherence, context)
        return DeepEDScorer(self, pile, *(tensor.numpy() for tensor in tensors))
