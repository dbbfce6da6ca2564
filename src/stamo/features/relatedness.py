"""Relatedness: the Wikipedia Link-based Measure (Eq. 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from stamo.errors import Ranged
from stamo.features.base import Back
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, Sample
from stamo.kb.base import KnowledgeBase
from stamo.kb.relatedness import relate, wlm
from stamo.system.files import Float32, Float64, Int64

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Relatedness(Ranged):
    """f₂(e, e'), averaged over the entity context; θ(e*) holds its row, (E, R)."""

    name = "relatedness"

    match_pile: bool = True
    """Scale the counts of a part of W up to the whole of W, so that rows estimated on L and on
    L and U live on one scale; False is the paper as printed."""
    shrinkage: float = 1.0
    """Documents that e* is given at independence, so that an entity met once or by chance stays
    near 0; 0 is the paper as printed."""
    missing: Literal["ignore", "zero"] = "ignore"
    """What an entity of a context is that no document of W links: `ignore` takes it as unknown, so
    that the mean runs over the others; `zero` as unrelated, as the paper is printed. Texts of
    another kind than W link many such entities, and each zero speaks against e*."""

    _measure = staticmethod(wlm)

    ranges: ClassVar = {"shrinkage": 0}

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return each candidate's mean relatedness to the entity context, (M, C)."""
        return relate(kb, mentions.documents, mentions.candidates, mentions.context)

    def estimate(self, sample: Sample, kb: KnowledgeBase) -> Tensor:
        """Estimate the relatedness of e* to every neighbour on W, (E, R)."""
        import torch  # here, so that linking loads without it

        pile = sample.pile
        by_document = (values.astype(np.float64) for values in sample.by_document())
        mentioned, counted = by_document  # (documents, E), (documents,)
        scale = self._documents_per_count(pile, counted)
        joint = np.asarray((pile.occurrence.T @ mentioned).T)  # (E, R)
        # |D(e)| of every neighbour, (R,), and |D|, on one scale. A sample of the crawl that the
        # pile was found in is the best background; else the knowledge base's articles and the pile.
        if pile.background is not None:
            others, total = pile.background[:-1], float(pile.background[-1])
        else:
            others = kb.document_frequency[pile.neighbours].astype(np.float64)
            others = others + np.asarray(pile.occurrence.T @ (counted * scale))
            total = float(kb.n_documents + (counted * scale).sum())
        others = np.maximum(others, 1.0)
        frequency = mentioned.sum(axis=0)[:, None]  # (E, 1)
        chance = others / total  # (R,) how often any document links each neighbour
        share = (joint + self.shrinkage * chance) / np.maximum(frequency + self.shrinkage, 1e-9)
        # The measure is log(share / chance) / log(|D| / min(...)): 0 at independence, and the
        # scale of the counts enters below the line only.
        meet = np.where(joint > 0, share * np.maximum(frequency * scale, 1.0), 0.0)
        row = self._measure(np.maximum(frequency * scale, 1.0), others[None, :], meet, total)
        return torch.as_tensor(row, dtype=torch.float32)

    def _documents_per_count(self, pile: Pile, counted: Float64) -> float:
        """Return how many documents each counted document of W stands for."""
        if self.match_pile and counted.sum() > 0:
            return float(pile.n_documents / counted.sum())
        return 1.0

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return the mean relatedness to the entity context of all candidates, (M, C + E)."""
        import torch

        index, weights, known = pile.keep(
            f"{self.name} tensors, missing {self.missing}", lambda: self._lookup_tensors(pile)
        )
        if not theta.shape[1]:
            theta = theta.new_zeros(len(theta), 1)  # no document of W links anything
        rows = theta.index_select(1, index).view(len(theta), *weights.shape)  # (E, M, K)
        return torch.cat([known, (rows * weights).sum(dim=2).T], dim=1)

    def slope(self, theta: Float32, pile: Pile) -> tuple[Float32, Back]:
        """Return what `lookup` returns, and the way back from its gradient."""
        used, shares = pile.keep(
            f"{self.name} shares, missing {self.missing}", lambda: self._shares(pile)
        )
        known = pile.mentions.known[self.name]

        def back(by_value: Float32) -> Float32:
            gradient = np.zeros_like(theta)
            gradient[:, used] = by_value[:, known.shape[1] :].T @ shares
            return gradient

        return np.hstack([known, shares @ theta[:, used].T]), back

    def _shares(self, pile: Pile) -> tuple[Int64, Float32]:
        """Return the places of the row that the mentions read, (u,), and their shares, (M, u)."""
        index, weights, _ = (tensor.numpy() for tensor in self._lookup_tensors(pile))
        if not len(pile.neighbours):
            index, weights = index[:0], weights[:, :0]  # no document of W links anything
        used, place = np.unique(index, return_inverse=True)
        shares = np.zeros((len(pile), len(used)), dtype=np.float32)
        rows = np.repeat(np.arange(len(pile)), weights.shape[1])
        np.add.at(shares, (rows, place.ravel()), weights.ravel())
        return used, shares

    def _lookup_tensors(self, pile: Pile) -> tuple[Tensor, Tensor, Tensor]:
        """Return the places to read in the row, the share of each in its mean, what is known."""
        import torch

        counted = pile.context if self.missing == "ignore" else pile.mentions.context
        size = np.maximum((counted >= 0).sum(axis=1, keepdims=True), 1)
        has_row = pile.context >= 0
        return (
            torch.from_numpy(np.where(has_row, pile.context, 0).ravel()),  # (M K,)
            torch.from_numpy((has_row / size).astype(np.float32)),  # (M, K)
            torch.from_numpy(pile.mentions.known[self.name]),  # (M, C)
        )
