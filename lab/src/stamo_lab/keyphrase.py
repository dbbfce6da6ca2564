"""Keyphrases: do the names of an entity's neighbours stand in the text? An added feature.

Entities are described by the names of those they are linked with, as in keyphrase-based linkers.
The words of these names often stand in a text where no linker found the neighbour itself: a
surname alone, a team's short name. This file is all it takes to add a feature; see
docs/architecture.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from scipy import sparse

from stamo.corpus.tokenizer import tokenize
from stamo.errors import Ranged
from stamo.features.base import Feature
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, Sample
from stamo.features.relatedness import Relatedness
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float32, Float64, Int32


@dataclass(frozen=True)
class Keyphrase(Ranged, Feature):
    """How much of the names of related entities the context holds, weighted by relatedness.

    The group of θ(e*) holds a weight for each neighbour, (E, R).
    """

    name = "keyphrase"

    n_phrases: int = 30
    """Related entities whose names count."""

    ranges: ClassVar = {"n_phrases": 1}

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return the overlap of the known candidates' keyphrases with the context, (M, C)."""
        ids = np.unique(mentions.candidates[mentions.mask])
        related = [kb.related(int(e), self.n_phrases) for e in ids]
        others = np.concatenate([np.zeros(0, np.int32), *(r for r, _ in related)])
        weights = np.concatenate([np.zeros(0, np.float32), *(w for _, w in related)])
        phrases, columns = np.unique(others, return_inverse=True)
        place = np.repeat(np.arange(len(ids)), [len(r) for r, _ in related])
        table = sparse.csr_matrix((weights, (place, columns)), shape=(len(ids), len(phrases)))
        overlap = phrase_overlap(mentions.words, phrases.astype(np.int32), kb)  # (M, phrases)
        values = np.zeros(mentions.candidates.shape, dtype=np.float32)
        for c in range(mentions.candidates.shape[1]):
            rows = np.flatnonzero(mentions.candidates[:, c] >= 0)
            chosen = table[np.searchsorted(ids, mentions.candidates[rows, c])]
            values[rows, c] = np.asarray(overlap[rows].multiply(chosen).sum(axis=1)).ravel()
        return values / np.float32(self.n_phrases)

    def rows(self, pile: Pile) -> sparse.csr_matrix:
        """Return which share of each neighbour's name each context holds, (M, R)."""
        overlap = phrase_overlap(pile.mentions.words, pile.neighbours, pile.kb)
        return (overlap / self.n_phrases).astype(np.float32)

    def estimate(self, sample: Sample) -> Float32:
        """Keep the relatedness of the most related neighbours as weights, (E, R)."""
        row = Relatedness().estimate(sample)
        n = min(self.n_phrases, row.shape[1])
        if not n:
            return row
        edge = np.partition(row, -n, axis=1)[:, -n, None]
        return np.where(row >= edge, row, np.float32(0))


def phrase_overlap(words: Int32, entities: Int32, kb: KnowledgeBase) -> sparse.csr_matrix:
    """Return which share of each entity's name each context holds, (M, entities)."""
    names = [tokenize(title)[0] for title in kb.titles(entities)]
    sizes = np.array([len(name) for name in names], dtype=np.int64)
    ids = kb.word_ids([word for name in names for word in name])
    column = np.repeat(np.arange(len(names)), sizes)
    keep = ids >= 0
    n_words = len(kb.words)
    share = 1.0 / np.maximum(sizes[column], 1)
    parts = sparse.csr_matrix((share[keep], (ids[keep], column[keep])), shape=(n_words, len(names)))
    row, place = np.nonzero(words >= 0)
    contexts = sparse.csr_matrix(
        (np.ones(len(row)), (row, words[row, place])), shape=(len(words), n_words)
    )
    contexts.data[:] = 1.0
    found: Float64 = (contexts @ parts).tocsr()
    return cast("sparse.csr_matrix", found)
