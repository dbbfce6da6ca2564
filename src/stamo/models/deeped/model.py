"""DeepED: four scores, with attention over the context words (Sec. 2.3.2)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from stamo.errors import SettingsError
from stamo.features.base import Feature
from stamo.features.embedding import Embedding
from stamo.features.encoding import EncodedMentions
from stamo.features.pile import Pile
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.models.base import Batch, Combine, LinkingModel, masked_mean, mean_vectors
from stamo.models.deeped.known import N_ATTENDED, KnownDeepED
from stamo.models.deeped.scorer import DeepEDScorer
from stamo.models.tables import MASKED, Tables, gather
from stamo.system.arrays import Bools, Float32


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
        super().__init__(dimensions)
        if n_attended < 1:
            raise SettingsError(f"Attention must keep at least one word, not {n_attended}.")
        self.features = features
        self.n_attended = n_attended
        self.extra = tuple(
            f.name for f in features if f.name not in {"prior", "relatedness", "embedding"}
        )
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
        support = np.where(mask, support, np.float32(MASKED))
        n_left = support.shape[1] - self.n_attended
        if n_left > 0:
            order = np.argpartition(support, n_left, axis=1)
            np.put_along_axis(support, order[:, :n_left], MASKED, axis=1)
        return support, support > MASKED / 2

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

    def forward(self, batch: Batch) -> Tensor:
        """Return g(e; m) (Eq. 11), (B, C)."""
        scores: Tensor = self.combine(self.scores(batch)).squeeze(-1)
        return scores.masked_fill(~batch.mask, MASKED)

    def score_known(self, mentions: EncodedMentions, tables: Tables) -> Float32:
        """Return what `forward` gives for mentions of known entities, faster, (M, C)."""
        state = {name: value.numpy() for name, value in self.state_dict().items()}
        return KnownDeepED(state, self.extra, self.n_attended).score_known(mentions, tables)

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
