"""Entity embedding in the space of the word vectors (Sec. 2.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from stamo.errors import SettingsError
from stamo.features.about import about_vector
from stamo.features.encoding import EncodedMentions
from stamo.features.max_margin import MaxMargin
from stamo.features.pile import Pile, Sample
from stamo.kb.base import KnowledgeBase
from stamo.kb.word_weights import entity_directions
from stamo.system.arrays import Float32, Int64


@dataclass(frozen=True)
class Embedding:
    """f₃(e), a unit vector; the group of θ(e*) holds one row for each entity, (E, Q)."""

    name = "embedding"

    n_words: int = 50
    """Context words nearest to the mention that count: the window of the known entities."""
    max_margin: MaxMargin | None = None
    """Refine the closed form by the paper's sampled max-margin training; None keeps the closed
    form, as known entities have it; it measures as well."""

    def __post_init__(self) -> None:
        if self.n_words < 2:
            raise SettingsError(
                f"The embedding needs at least 2 context words, not {self.n_words}."
            )

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return the vectors of the known candidates, (M, C, Q).

        Models gather them from the tables instead, so they are not part of the encoding.
        """
        vectors = kb.entity_vectors()
        rows = np.asarray(vectors[np.maximum(mentions.candidates, 0)], dtype=np.float32)
        rows[mentions.candidates < 0] = 0.0
        return rows

    def estimate(self, sample: Sample, kb: KnowledgeBase) -> Tensor:
        """Average the context words of the mentions that count as e*, (E, Q)."""
        contexts = pile_contexts(sample.pile, kb, self.n_words)
        weights, _, _ = sample.vote()  # one vote a document
        mass = np.asarray(contexts.votes.T @ weights.astype(np.float64)).T  # (E, V')
        sums = (mass.astype(np.float32) @ contexts.vectors).astype(np.float64)  # (E, Q)
        vectors = entity_directions(sums, mass.sum(axis=1), contexts.background)
        for e in np.flatnonzero(mass.sum(axis=1) <= 0).tolist():
            if sample.pile.entities[e].line:  # it speaks where no document does
                vectors[e] = about_vector(sample.pile.entities[e], kb)
        if self.max_margin is not None:
            vectors = self.max_margin.refine(
                vectors, contexts.votes, weights, contexts.vectors, contexts.counts
            )
        return torch.as_tensor(vectors, dtype=torch.float32)

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return the vector of e* for each mention, (M, E, Q); known ones stay in the tables."""
        return theta[None].expand(len(pile), -1, -1)


@dataclass(frozen=True)
class Contexts:
    """The context words of a pile, gathered once."""

    words: Int64  # (V',) the distinct words
    matrix: sparse.csr_matrix  # (M, V') weight of each distinct word in each context
    votes: sparse.csr_matrix  # (G, V') the contexts that have a vote: one a document and surface
    vectors: Float32  # (V', Q)
    counts: Int64  # (V',) how often each word occurs in the knowledge base's text
    background: Float32  # (Q,)


def pile_contexts(pile: Pile, kb: KnowledgeBase, n_words: int) -> Contexts:
    """Gather the context words of a pile; kept with the pile, since no slot changes them."""
    return pile.keep(f"contexts of {n_words}", lambda: _gather_contexts(pile, kb, n_words))


def _gather_contexts(pile: Pile, kb: KnowledgeBase, n_words: int) -> Contexts:
    mentions = pile.mentions
    middle, half = mentions.words.shape[1] // 2, n_words // 2
    words = mentions.words[:, max(0, middle - half) : middle + half]
    known = words >= 0
    ids, place = np.unique(words[known], return_inverse=True)
    row = np.broadcast_to(np.arange(len(words))[:, None], words.shape)[known]
    weight = kb.word_weights[ids[place]].astype(np.float64)
    matrix = sparse.csr_matrix((weight, (row, place)), shape=(len(words), len(ids)))
    return Contexts(
        words=ids.astype(np.int64),
        matrix=matrix,
        votes=matrix[pile.votes[0]],
        vectors=np.asarray(kb.word_vectors[ids], dtype=np.float32),
        counts=np.asarray(kb.word_counts[ids]),
        background=kb.background,
    )
