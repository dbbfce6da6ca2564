"""DeepED: four scores, with attention over the context words (Sec. 2.3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from stamo.errors import SettingsError
from stamo.features.base import Feature
from stamo.features.embedding import Embedding
from stamo.features.encoding import EncodedMentions
from stamo.features.params import FeatureParams
from stamo.features.pile import Pile
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.models.base import (
    MASKED,
    Batch,
    Combine,
    LinkingModel,
    Tables,
    make_batch,
    masked_mean,
    mean_vectors,
)
from stamo.models.deeped.scores import score_deeped
from stamo.models.deeped.slope import DeepEDSlope


def attention(
    support: Tensor, mask: Tensor, n_kept: int, *, padding_counts: bool = False
) -> Tensor:
    """Weight the H' words with the highest support score (Eq. 9); padding is never selected.

    Args:
        support: u(w), shape (B, H).
        mask: Where a word stands, shape (B, H).
        n_kept: H'.
        padding_counts: Do as the published experiments did: padding is a word with support 0, and
            only words strictly above the H'-th score are kept.

    Returns:
        α(w), shape (B, H): zero outside the H' words, and everywhere when there is no word.
    """
    if padding_counts and n_kept < support.shape[1]:
        support = support.masked_fill(~mask, 0.0)
        edge = support.topk(n_kept, dim=1).values[:, -1:]
        return torch.softmax(support.masked_fill(support <= edge, MASKED), dim=1) * mask
    support = support.masked_fill(~mask, MASKED)
    if n_kept < support.shape[1]:
        kept = support.topk(n_kept, dim=1, sorted=False)
        support = torch.full_like(support, MASKED).scatter(1, kept.indices, kept.values)
    return torch.softmax(support, dim=1) * (support > MASKED / 2)


class DeepED(LinkingModel):
    """g(e; m) = Γ(Ψ₁ prior, Ψ₂ context, Ψ₃ coherence of embeddings, Ψ₄ relatedness)."""

    name: ClassVar[str] = "deeped"

    def __init__(
        self,
        dimensions: int,
        features: tuple[Feature, ...] = (Prior(), Relatedness(), Embedding()),
        n_attended: int = 50,
    ) -> None:
        """Create a model.

        Args:
            dimensions: Q, the size of word and entity vectors.
            features: Prior, relatedness and embedding, and any others; each other one adds a score.
            n_attended: H', the context words that attention keeps.
        """
        super().__init__(dimensions)
        if n_attended < 1:
            raise SettingsError(f"Attention must keep at least one word, not {n_attended}.")
        self.features = features
        self.n_attended = n_attended
        self.padding_counts = False
        self.extra = tuple(
            f.name for f in features if f.name not in {"prior", "relatedness", "embedding"}
        )
        self.phi1 = nn.Parameter(torch.ones(dimensions))
        self.phi2 = nn.Parameter(torch.ones(dimensions))
        self.phi3 = nn.Parameter(torch.ones(dimensions))
        self.combine = Combine(4 + len(self.extra))

    def scores(self, batch: Batch) -> Tensor:
        """Return Ψ₁ to Ψ₄ and the scores of added features, (B, C, n)."""
        # Products of matrices, not einsum over three operands: linking spends its time here.
        support = (batch.vectors * self.phi2) @ batch.words.transpose(1, 2)  # (B, C, H)
        support = support.masked_fill(~batch.mask[..., None], MASKED)
        alpha = attention(
            support.amax(dim=1),
            batch.word_mask,
            self.n_attended,
            padding_counts=self.padding_counts,
        )  # (B, H)
        attended = (alpha[:, None] @ batch.words)[:, 0]  # (B, Q)
        psi2 = (batch.vectors @ (self.phi1 * attended)[..., None])[..., 0]  # (B, C)
        coherence = masked_mean(batch.context, batch.context_mask)  # (B, Q)
        psi3 = (batch.vectors @ (self.phi3 * coherence)[..., None])[..., 0]
        names = ("prior", "relatedness", *self.extra)
        prior, relatedness, *extra = (batch.features[name] for name in names)
        return torch.stack([prior, psi2, psi3, relatedness, *extra], dim=-1)

    def forward(self, batch: Batch) -> Tensor:
        """Return g(e; m) (Eq. 11), (B, C)."""
        scores: Tensor = self.combine(self.scores(batch)).squeeze(-1)
        return scores.masked_fill(~batch.mask, MASKED)

    def score_many(self, mentions: EncodedMentions, tables: Tables) -> NDArray[np.float32]:
        """Return what `forward` gives for mentions of known entities, faster, (M, C)."""
        if self.padding_counts:
            with torch.inference_mode():
                scores: Tensor = self(make_batch(mentions, tables))
            return scores.numpy()
        return score_deeped(self, mentions, tables)

    def prepare(self, pile: Pile, tables: Tables) -> DeepEDScorer:
        """Compute everything that does not depend on θ(e*) once."""
        return prepare_deeped(self, pile, tables)


@dataclass(frozen=True)
class DeepEDScorer:
    """Scores a pile under θ(e*) by recomputing only what e* changes.

    With φ and the known entities frozen, the support of the known candidates, their similarity to
    every context word and their coherence are numbers; e* enters by two products with the distinct
    context words and two with the contexts.
    """

    model: DeepED
    pile: Pile
    distinct: Tensor  # (V', Q) the distinct context words of the pile
    word: Tensor  # (M, H) index into distinct, 0 where padded
    word_mask: Tensor  # (M, H)
    support: Tensor  # (M, H) max over the known candidates of f₃(n)ᵀ φ₂ f₄(w)
    similarity: Tensor  # (M, C, H) f₃(n)ᵀ φ₁ f₄(w)
    coherence: Tensor  # (M, C) Ψ₃ of the known candidates
    context: Tensor  # (M, Q) mean vector of the entity context
    mask: Tensor  # (M, C)

    def __call__(self, theta: FeatureParams) -> Tensor:
        """Return g(e; m) of all candidates, (M, C + E)."""
        model = self.model
        by_name = {feature.name: feature for feature in model.features}
        names = ("prior", "relatedness", *model.extra)
        prior, *others = (by_name[n].lookup(theta[n], self.pile) for n in names)
        vectors = normalize(theta["embedding"], dim=1)
        by_word = (self.phi * vectors) @ self.distinct.T  # (2, E, V')
        by_entity, similarity = by_word[..., self.word].unbind()  # (E, M, H) each
        if self.not_candidate is not None:
            by_entity = by_entity.masked_fill(self.not_candidate, MASKED)
        alpha = self.attend(by_entity)  # (M, H)
        known = (self.similarity * alpha[:, None]).sum(dim=2)  # (M, C)
        psi2 = torch.cat([known, (similarity * alpha).sum(dim=2).T], dim=1)
        psi3 = torch.cat([self.coherence, self.context @ (vectors * model.phi3).T], dim=1)
        psi = torch.stack([prior, psi2, psi3, *others], dim=-1)
        scores: Tensor = model.combine(psi).squeeze(-1)
        return scores.masked_fill(self.absent, MASKED)

    def slope(self) -> DeepEDSlope:
        """Return the same scores with their gradient written out."""
        return DeepEDSlope.of(self)

    @cached_property
    def absent(self) -> Tensor:
        """Return where no candidate stands, (M, C + E)."""
        return torch.from_numpy(~np.hstack([self.mask, self.pile.is_candidate]))

    @cached_property
    def phi(self) -> Tensor:
        """Return φ₂ and φ₁, (2, 1, Q), so that one product serves both."""
        return torch.stack([self.model.phi2, self.model.phi1])[:, None]

    @cached_property
    def not_candidate(self) -> Tensor | None:
        """Return where e* is no candidate, (E, M, 1), or None if it always is one."""
        if self.pile.is_candidate.all():
            return None
        return torch.from_numpy(~self.pile.is_candidate).T[..., None]

    def attend(self, by_entity: Tensor) -> Tensor:
        """Return α(w) when e* supports the words by `by_entity` (E, M, H), shape (M, H)."""
        support = torch.maximum(self.support, by_entity.amax(dim=0))
        return attention(
            support,
            self.word_mask,
            self.model.n_attended,
            padding_counts=self.model.padding_counts,
        )

    def take(self, rows: NDArray[np.int64]) -> DeepEDScorer:
        """Return a scorer of some of the mentions."""
        pile = self.pile.take(rows)
        index = torch.from_numpy(rows)
        # Few mentions use few words; the products with e* then cost accordingly.
        used, word = torch.unique(self.word[index], return_inverse=True)
        return DeepEDScorer(
            self.model,
            pile,
            self.distinct[used],
            word,
            self.word_mask[index],
            self.support[index],
            self.similarity[index],
            self.coherence[index],
            self.context[index],
            self.mask[index],
        )


@torch.no_grad()
def prepare_deeped(model: DeepED, pile: Pile, tables: Tables) -> DeepEDScorer:
    """Compute the frozen part of DeepED's scores for a pile.

    Mentions of one surface share their candidates, so the work is two products of candidates and
    distinct words for each surface, whatever the number of mentions.
    """
    mentions = pile.mentions
    ids, word = np.unique(mentions.words, return_inverse=True)
    distinct = tables.word_vectors(ids)  # (V', Q), padding is a zero row
    word_index = torch.from_numpy(word.reshape(mentions.words.shape))
    n, n_columns = mentions.candidates.shape
    support = torch.full(mentions.words.shape, MASKED)
    similarity = torch.zeros(n, n_columns, mentions.words.shape[1])
    coherence = torch.zeros(n, n_columns)
    context = mean_vectors(tables.entities, mentions.context)
    for rows in _rows_by_surface(mentions.surfaces):
        candidates = mentions.candidates[rows[0]]
        width = int((candidates >= 0).sum())
        if not width:
            continue
        vectors = tables.entity_vectors(candidates[:width])  # (c, Q)
        index = torch.from_numpy(rows)
        used, place = torch.unique(word_index[index], return_inverse=True)
        words = (distinct if len(used) == len(distinct) else distinct[used]).T  # (Q, v)
        support[index] = ((vectors * model.phi2) @ words).amax(dim=0)[place]
        similarity[index, :width] = ((vectors * model.phi1) @ words)[:, place].transpose(0, 1)
        coherence[index, :width] = context[index] @ (vectors * model.phi3).T
    return DeepEDScorer(
        model,
        pile,
        distinct,
        word_index,
        torch.from_numpy(mentions.words >= 0),
        support,
        similarity,
        coherence,
        context,
        torch.from_numpy(mentions.mask),
    )


def _rows_by_surface(surfaces: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    order = np.argsort(surfaces, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(surfaces[order])) + 1) if len(order) else []
