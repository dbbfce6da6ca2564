"""Entity vectors in the space of the word vectors, by the closed form (Section 2.2 (3)).

The closed form is the mean of the words around an entity's links minus what any text says on
average, at unit norm. It needs one pass over the text. Sums are kept as fixed-point integers:
integer addition has no order, so the result is the same bytes for any number of workers and any
order of the documents.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from stamo.corpus.tokenizer import UNKNOWN_WORD
from stamo.kb.word_weights import entity_directions
from stamo.system.arrays import Float32, Int32, Int64

CONTEXT_WINDOW = 50
"""Words on either side of a link that belong to its context (Section 2.2 (3))."""

_SCALE = float(1 << 24)
_BLOCK_WORDS = 1 << 16
_BLOCK_ROWS = 1 << 15


@dataclass(frozen=True)
class PartialSums:
    """What one chunk of documents adds to the entity vectors; cheap to send between processes."""

    entities: Int32
    """Entities met in the chunk, ascending, shape (n,)."""
    sums: Int64
    """Fixed-point sums of their context words, the word weight as last column, shape (n, Q + 1)."""

    def plus(self, other: PartialSums) -> PartialSums:
        """Return what both chunks add together."""
        entities = np.union1d(self.entities, other.entities)
        sums = np.zeros((len(entities), self.sums.shape[1]), dtype=np.int64)
        for one in (self, other):
            sums[np.searchsorted(entities, one.entities)] += one.sums
        return PartialSums(entities, sums)


def _sum_block(
    word_ids: Int32,
    starts: Int64,
    ends: Int64,
    rows: Int64,
    word_vectors: Float32,
    weights: Float32,
) -> Int64:
    edges, place = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    words, columns = np.unique(word_ids[edges[0] : edges[-1]], return_inverse=True)
    ones = np.ones(len(columns), dtype=np.int64)
    # Row i counts the words between edge i and edge i + 1; the running total over rows then gives
    # every stretch as a difference. Only as many rows as there are edges are ever made.
    counts = csr_array((ones, columns, edges - edges[0]), shape=(len(edges) - 1, len(words)))
    prefix = np.zeros((len(edges), word_vectors.shape[1] + 1), dtype=np.int64)
    np.cumsum(counts @ _fixed_point(words, word_vectors, weights), axis=0, out=prefix[1:])
    signs = np.repeat(np.array([-1, 1]), len(starts))
    difference = csr_array((signs, (np.concatenate([rows, rows]), place)))
    difference.resize(int(rows.max()) + 1, len(edges))
    return np.asarray(difference @ prefix)


def _fixed_point(words: Int32, word_vectors: Float32, weights: Float32) -> Int64:
    table = np.zeros((len(words), word_vectors.shape[1] + 1), dtype=np.int64)
    known = words != UNKNOWN_WORD
    mass = weights[words[known]].astype(np.float64) * _SCALE
    table[known, :-1] = np.rint(word_vectors[words[known]] * mass[:, None])
    table[known, -1] = np.rint(mass)
    return table


def link_segments(
    offsets: Int64, starts: Int64, ends: Int64, window: int = CONTEXT_WINDOW
) -> tuple[Int64, Int64]:
    """Find the words before and after each link, inside its document and without the link itself.

    Args:
        offsets: First word of each document and, last, the number of words, shape (n + 1,).
        starts: First word of each link, shape (m,).
        ends: One past its last word, shape (m,).
        window: Words to take on either side.

    Returns:
        Starts and ends of 2 m stretches: first the left sides of all links, then the right sides.
    """
    document = np.clip(np.searchsorted(offsets, starts, side="right") - 1, 0, len(offsets) - 2)
    left = np.maximum(starts - window, offsets[document])
    right = np.maximum(np.minimum(ends + window, offsets[document + 1]), ends)
    # A link without a word, such as "!!!", that ends its document would see the next one.
    astray = (starts == ends) & (starts == offsets[document])
    return (
        np.concatenate([np.where(astray, starts, left), ends]),
        np.concatenate([starts, np.where(astray, ends, right)]),
    )


def sum_links(
    word_ids: Int32,
    offsets: Int64,
    starts: Int64,
    ends: Int64,
    entities: Int32,
    word_vectors: Float32,
    weights: Float32,
    *,
    owners: Sequence[int] | Int32 = (),
    window: int = CONTEXT_WINDOW,
) -> PartialSums:
    """Sum the weighted vectors of the words around links, entity by entity.

    Prefix sums give every stretch by two look-ups. They are made for a block of words at a time, so
    memory stays at about 50 MB for 100 dimensions plus one row per entity met.

    Args:
        word_ids: Words of the documents, one after the other, -1 for unknown, shape (N,).
        offsets: First word of each document and, last, N; shape (n + 1,).
        starts: First word of each link, counted over all documents, shape (m,).
        ends: One past its last word, shape (m,).
        entities: The linked entities, shape (m,).
        word_vectors: Word vectors, shape (V, Q).
        weights: Word weights, shape (V,).
        owners: The entity that each document is about, whose beginning then counts for it as
            much as the surroundings of a link; shape (n,), or empty for none.
        window: Words to take on either side.

    Returns:
        The sums of the entities that occur.
    """
    starts, ends = link_segments(offsets, starts, ends, window)
    met = np.concatenate([entities, entities])
    if len(owners):
        starts = np.concatenate([starts, offsets[:-1]])
        ends = np.concatenate([ends, np.minimum(offsets[:-1] + 2 * window, offsets[1:])])
        met = np.concatenate([met, owners])
    distinct, rows = np.unique(met, return_inverse=True)
    totals = np.zeros((len(distinct), word_vectors.shape[1] + 1), dtype=np.int64)
    order = np.argsort(starts, kind="stable")
    starts, ends, rows = starts[order], ends[order], rows[order]
    borders = np.searchsorted(starts, np.arange(0, len(word_ids) + _BLOCK_WORDS, _BLOCK_WORDS))
    for here in (slice(*edges) for edges in itertools.pairwise(borders.tolist())):
        if here.start < here.stop:
            met, local = np.unique(rows[here], return_inverse=True)
            bounds = starts[here], ends[here]
            totals[met] += _sum_block(word_ids, *bounds, local, word_vectors, weights)
    return PartialSums(distinct.astype(np.int32), totals)


def closed_form(sums: Int64, background: Float32) -> Float32:
    """Turn sums of contexts, shape (n, Q + 1), into entity vectors, shape (n, Q).

    Zeros for entities without context.
    """
    vectors = np.empty((len(sums), len(background)), dtype=np.float32)
    for i in range(0, len(vectors), _BLOCK_ROWS):
        rows = sums[i : i + _BLOCK_ROWS] / _SCALE
        vectors[i : i + _BLOCK_ROWS] = entity_directions(rows[:, :-1], rows[:, -1], background)
    return vectors
