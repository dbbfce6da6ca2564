"""DeepED: four scores, with attention over the context words (Sec. 2.3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

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
from stamo.models.deeped_scores import score_deeped


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
        names = ("prior", "relatedness", *self.model.extra)
        by_name = {feature.name: feature for feature in self.model.features}
        looked_up = [by_name[n].lookup(theta[n], self.pile) for n in names]
        scores: Tensor = _Scores.apply(  # type: ignore[no-untyped-call]
            theta["embedding"], torch.stack(looked_up), self
        )
        return scores

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


class _Scores(torch.autograd.Function):
    """g(e; m) of a prepared pile, with the gradient in θ(e*) written out.

    Fifty steps in a slot spend their time in the number of operations, not in their size; written
    out they are a third of what autograd records. The tests hold it against autograd.
    """

    @staticmethod
    def forward(ctx: Any, theta: Tensor, looked_up: Tensor, scorer: DeepEDScorer) -> Tensor:
        """Score all candidates.

        Args:
            ctx: Keeps what the gradient needs.
            theta: The embedding group of θ(e*), (E, Q), of any norm.
            looked_up: Ψ₁, Ψ₄ and the scores of added features, (n - 2, M, C + E).
            scorer: What does not depend on θ(e*).

        Returns:
            g(e; m), (M, C + E).
        """
        model = scorer.model
        norm = theta.norm(dim=1, keepdim=True).clamp_min(1e-12)
        vectors = theta / norm
        by_word = (scorer.phi * vectors) @ scorer.distinct.T  # (2, E, V')
        by_entity, similarity = by_word[..., scorer.word].unbind()  # (E, M, H) each
        if scorer.not_candidate is not None:
            by_entity = by_entity.masked_fill(scorer.not_candidate, MASKED)
        alpha = scorer.attend(by_entity)  # (M, H)
        known = (scorer.similarity * alpha[:, None]).sum(dim=2)  # (M, C)
        psi2 = torch.cat([known, (similarity * alpha).sum(dim=2).T], dim=1)
        psi3 = torch.cat([scorer.coherence, scorer.context @ (vectors * model.phi3).T], dim=1)
        psi = torch.stack([looked_up[0], psi2, psi3, *looked_up[1:]], dim=-1)
        first, dropout, _, last = model.combine
        active = dropout(first(psi)).relu()  # (M, C + E, 100)
        scores: Tensor = last(active).squeeze(-1)
        ctx.scorer, ctx.active = scorer, active
        ctx.context = (norm, vectors, by_entity, similarity, alpha)
        return scores.masked_fill(scorer.absent, MASKED)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the gradients of the embedding group and of the looked-up scores."""
        scorer, model = ctx.scorer, ctx.scorer.model
        first, dropout, _, last = model.combine
        by_score = gradients[0].masked_fill(scorer.absent, 0.0)[..., None]
        # The sign of a rectified unit is its derivative; what dropout kept, it also scaled.
        scale = 1 / (1 - dropout.p) if dropout.training else 1.0
        by_hidden = by_score * (scale * last.weight[0]) * ctx.active.sign()
        by_psi = (by_hidden @ first.weight).movedim(-1, 0)
        prior, psi2, psi3, *others = by_psi.unbind()
        by_theta = _embedding_gradient(psi2, psi3, scorer, *ctx.context)
        return by_theta, torch.stack([prior, *others]), None


def _embedding_gradient(
    psi2: Tensor,
    psi3: Tensor,
    scorer: DeepEDScorer,
    norm: Tensor,
    vectors: Tensor,
    by_entity: Tensor,
    similarity: Tensor,
    alpha: Tensor,
) -> Tensor:
    """Return the gradient of θ₃(e*) from those of Ψ₂ and Ψ₃, (E, Q)."""
    n_known = scorer.coherence.shape[1]
    emerging = psi2[:, n_known:].T[..., None]  # (E, M, 1)
    by_alpha = (psi2[:, :n_known, None] * scorer.similarity).sum(dim=1)
    by_alpha = by_alpha + (emerging * similarity).sum(dim=0)  # (M, H)
    by_support = alpha * (by_alpha - (alpha * by_alpha).sum(dim=1, keepdim=True))
    # The attention depends on e* only where e* supports a word more than every other candidate.
    leads = by_entity > scorer.support
    if len(by_entity) > 1:
        leads &= by_entity == by_entity.amax(dim=0)
    by_mention = torch.stack([by_support * leads, emerging * alpha])  # (2, E, M, H)
    by_word = by_mention.new_zeros(*by_mention.shape[:2], len(scorer.distinct))
    by_word.index_add_(2, scorer.word.flatten(), by_mention.flatten(2))
    by_vector = (scorer.phi * (by_word @ scorer.distinct)).sum(dim=0)  # (E, Q)
    by_vector = by_vector + (psi3[:, n_known:].T @ scorer.context) * scorer.model.phi3
    along = (by_vector * vectors).sum(dim=1, keepdim=True)
    return (by_vector - along * vectors) / norm


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
