"""Relatedness: the Wikipedia Link-based Measure (Eq. 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from stamo.errors import Ranged
from stamo.features.base import Feature
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, Sample
from stamo.kb.base import KnowledgeBase
from stamo.kb.relatedness import relate, wlm
from stamo.system.files import Float32

if TYPE_CHECKING:
    from scipy import sparse  # takes .1 s to load, and linking needs none


@dataclass(frozen=True)
class Relatedness(Ranged, Feature):
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

    crawl_share: float = 1.0
    """Documents that each of W stands for, where the counts are not matched."""

    measure = staticmethod(wlm)

    ranges: ClassVar = {"shrinkage": 0}

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return each candidate's mean relatedness to the entity context, (M, C)."""
        return relate(kb, mentions.documents, mentions.candidates, mentions.context)

    def rows(self, pile: Pile) -> sparse.csr_matrix:
        """Return the share of each neighbour in the entity context of each mention, (M, R)."""
        from scipy import sparse

        counted = pile.context if self.missing == "ignore" else pile.mentions.context
        size = np.maximum((counted >= 0).sum(axis=1), 1)
        row, column = np.nonzero(pile.context >= 0)
        cells = (row, pile.context[row, column])
        shape = (len(pile), len(pile.neighbours))
        return sparse.csr_matrix(((1 / size[row]).astype(np.float32), cells), shape=shape)

    def estimate(self, sample: Sample) -> Float32:
        """Estimate the relatedness of e* to every neighbour on W, (E, R)."""
        pile, kb = sample.pile, sample.pile.kb
        # How far each document mentions each entity, (documents, E), and counts at all.
        mentioned = np.zeros((pile.n_documents, len(pile.entities)))
        counted, documents = np.zeros(pile.n_documents), pile.mentions.documents
        np.maximum.at(mentioned, documents, sample.weights * sample.counted[:, None])
        np.maximum.at(counted, documents, sample.counted)
        scale = self.crawl_share  # how many documents each counted document of W stands for
        if self.match_pile and counted.sum() > 0:
            scale = float(pile.n_documents / counted.sum())
        joint = np.asarray((pile.occurrence.T @ mentioned).T)  # (E, R)
        # |D(e)| of every neighbour, (R,), and |D|, on one scale: the knowledge base's articles
        # and the pile.
        others = kb.document_frequency[pile.neighbours].astype(np.float64)
        others = np.maximum(others + np.asarray(pile.occurrence.T @ (counted * scale)), 1.0)
        total = float(kb.n_documents + (counted * scale).sum())
        frequency = mentioned.sum(axis=0)[:, None]  # (E, 1)
        chance = others / total  # (R,) how often any document links each neighbour
        share = (joint + self.shrinkage * chance) / np.maximum(frequency + self.shrinkage, 1e-9)
        # The measure is log(share / chance) / log(|D| / min(...)): 0 at independence, and the
        # scale of the counts enters below the line only.
        meet = np.where(joint > 0, share * np.maximum(frequency * scale, 1.0), 0.0)
        row = self.measure(np.maximum(frequency * scale, 1.0), others[None, :], meet, total)
        return np.asarray(row, dtype=np.float32)
