"""Relatedness of entities by the documents they share: WLM (Eq. 3), for many pairs at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stamo.kb.storage import Csr, expand

PROBES_PER_BLOCK = 1 << 22
"""Documents looked up at a time; bounds memory to about 100 MB whatever the number of pairs."""

Counts = NDArray[np.integer[Any]] | NDArray[np.floating[Any]]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]


def wlm(
    n_a: Counts, n_b: Counts, n_joint: Counts, n_documents: float, *, clip: bool = True
) -> Float32:
    """Return the relatedness of pairs of entities from their document counts.

    Eq. 3 prints log(max(..) - log(..)); we follow Milne & Witten 2008: log(max) - log(joint).

    Args:
        n_a: |D(a)| of each pair, shape (n,).
        n_b: |D(b)|, shape (n,).
        n_joint: |D(a) ∩ D(b)|, shape (n,).
        n_documents: |D|.
        clip: Keep the values within [0, 1].

    Returns:
        Values, 0 where nothing is shared, shape (n,).
    """
    shares = n_joint > 0
    larger = np.where(shares, np.maximum(n_a, n_b), 1).astype(np.float64)
    smaller = np.where(shares, np.minimum(n_a, n_b), 1).astype(np.float64)
    joint = np.where(shares, n_joint, 1).astype(np.float64)
    room = np.log(max(n_documents, 1)) - np.log(smaller)
    # An entity of every document leaves no room: nothing can tell it apart from its partner.
    distance = (np.log(larger) - np.log(joint)) / np.where(room > 0, room, 1.0)
    return np.asarray(
        np.where(shares, np.clip(1.0 - distance, 0.0, 1.0) if clip else 1.0 - distance, 0.0),
        np.float32,
    )


def joint_documents(documents: Csr, keys: Int64, n_numbers: int, a: Int64, b: Int64) -> Int64:
    """Count the documents that both entities of each pair occur in.

    Each document of the rarer entity is looked up among those of the other by one binary search in
    `keys`, which orders all (entity, document) pairs.

    Args:
        documents: D(e) of every entity.
        keys: entity * n_numbers + document of every occurrence, ascending.
        n_numbers: A number above every document's.
        a: First entities, shape (n,).
        b: Second entities, shape (n,).

    Returns:
        |D(a) ∩ D(b)|, shape (n,).
    """
    n_entities = len(documents)
    first, second = np.minimum(a, b).astype(np.int64), np.maximum(a, b).astype(np.int64)
    pairs, inverse = np.unique(first * n_entities + second, return_inverse=True)
    first, second = pairs // n_entities, pairs % n_entities
    swap = documents.lengths(first) > documents.lengths(second)
    rare, frequent = np.where(swap, second, first), np.where(swap, first, second)
    # Neighbouring probes then search the same stretch of keys, which stays in the cache.
    order = np.lexsort((rare, frequent))
    joint = np.zeros(len(pairs), dtype=np.int64)
    joint[order] = _probe(documents, keys, n_numbers, rare[order], frequent[order])
    return joint[inverse]


def _probe(documents: Csr, keys: Int64, n_numbers: int, rare: Int64, frequent: Int64) -> Int64:
    lengths = documents.lengths(rare)
    block = np.cumsum(lengths) // PROBES_PER_BLOCK
    edges = np.concatenate(([0], np.flatnonzero(np.diff(block)) + 1, [len(rare)]))
    joint = np.zeros(len(rare), dtype=np.int64)
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        n = lengths[begin:end]
        probes = np.repeat(frequent[begin:end] * n_numbers, n)
        starts = documents.indptr[rare[begin:end]]
        probes += documents.values[expand(np.asarray(starts), n)]
        place = np.searchsorted(keys, probes)
        hits = keys[np.minimum(place, len(keys) - 1)] == probes if len(keys) else place > 0
        sums = np.concatenate(([0], np.cumsum(hits)))
        ends = np.cumsum(n)
        joint[begin:end] = sums[ends] - sums[ends - n]
    return joint
