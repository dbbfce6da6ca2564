"""Relatedness of entities by the documents they share: WLM (Eq. 3), for many pairs at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stamo.system.arrays import Float32

Counts = NDArray[np.integer[Any]] | NDArray[np.floating[Any]]

COLUMNS_PER_ENTRY = 16
"""Beyond so many columns for each entry it is faster to number those that are used anew."""


def wlm(
    n_a: Counts, n_b: Counts, n_joint: Counts, n_documents: float, *, clip: bool = True
) -> Float32:
    """Return the relatedness of pairs of entities from their document counts.

    Eq. 3 prints log(max(..) - log(..)); we follow Milne & Witten 2008: log(max) - log(joint).

    Args:
        n_a: |D(a)| of each pair, any shape.
        n_b: |D(b)|, of a shape that fits.
        n_joint: |D(a) ∩ D(b)|, of the shape of all pairs.
        n_documents: |D|.
        clip: Keep the values within [0, 1].

    Returns:
        Values, 0 where nothing is shared, of the shape of all pairs.
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


def shared_articles(left: sparse.csr_matrix, right: sparse.csr_matrix) -> sparse.csr_matrix:
    """Count the articles that rows of two matrices of ones have in common.

    Turning a matrix round takes memory and time for every column it could have. There is one for
    each article of the encyclopaedia, and in a batch of documents as many for each of them. Most
    articles of the left rows are in no right one, so they are left out first.
    """
    n_columns = right.shape[1]
    if n_columns > COLUMNS_PER_ENTRY * (left.nnz + right.nnz):
        used, places = np.unique(right.indices, return_inverse=True)
        right = sparse.csr_matrix((right.data, places, right.indptr), (right.shape[0], len(used)))
        places = np.minimum(np.searchsorted(used, left.indices), max(len(used) - 1, 0))
        kept = used[places] == left.indices if len(used) else np.zeros(len(places), np.bool_)
    else:
        used = np.zeros(n_columns, dtype=np.bool_)
        used[right.indices] = True
        kept, places = used[left.indices], left.indices
    indptr = np.concatenate(([0], np.cumsum(kept)))[left.indptr]
    shape = (left.shape[0], right.shape[1])
    left = sparse.csr_matrix((left.data[kept], places[kept], indptr), shape)
    return left @ right.T
