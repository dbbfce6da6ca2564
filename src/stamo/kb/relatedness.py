"""Relatedness of entities by the documents they share: WLM (Eq. 3), for many pairs at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stamo.system.files import Float32, Int32, Int64

Numbers = NDArray[np.integer[Any]]
Counts = Numbers | NDArray[np.floating[Any]]

COLUMNS_PER_ENTRY = 16
"""Beyond so many columns for each entry it is faster to number those that are used anew."""
FEW_ENTRIES, FEW_CELLS = 1 << 16, 1 << 20
"""Up to these sizes, those of the text of a page, whole matrices are multiplied."""


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
    values = np.clip(1.0 - distance, 0.0, 1.0) if clip else 1.0 - distance
    return np.where(shares, values, 0.0).astype(np.float32)


@dataclass(frozen=True)
class Incidence:
    """The articles of each of n rows, one row after the other."""

    articles: Numbers  # (entries,)
    lengths: Int64  # (n,) how many articles each row has
    n_articles: int
    """Articles are numbered below it."""


def shared_articles(left: Incidence, right: Incidence) -> tuple[Int64, Int64, Int32]:
    """Count the articles that rows of two incidences have in common.

    Turning a sparse matrix round takes memory and time for every column it could have. There is one
    for each article of the encyclopaedia, and in a batch of documents as many for each of them.
    Most articles of the left rows are in no right one, so they are left out first.

    Returns:
        The left row, the right row and the count of each pair of rows that share an article.
    """
    n_entries = len(left.articles) + len(right.articles)
    if right.n_articles > COLUMNS_PER_ENTRY * n_entries or n_entries <= FEW_ENTRIES:
        used, numbers = np.unique(right.articles, return_inverse=True)
        right = Incidence(numbers, right.lengths, len(used))
        places: Numbers = np.minimum(np.searchsorted(used, left.articles), max(len(used) - 1, 0))
        kept = used[places] == left.articles if len(used) else np.zeros(len(places), np.bool_)
    else:
        used = np.zeros(right.n_articles, dtype=np.bool_)
        used[right.articles] = True
        kept, places = used[left.articles], left.articles
    n_before, ends = np.concatenate(([0], np.cumsum(kept))), np.cumsum(left.lengths)
    lengths = n_before[ends] - n_before[ends - left.lengths]
    left = Incidence(places[kept], lengths, right.n_articles)
    if (len(left.lengths) + len(right.lengths)) * right.n_articles <= FEW_CELLS:
        return _dense_product(left, right)
    return _sparse_product(left, right)


def _dense_product(left: Incidence, right: Incidence) -> tuple[Int64, Int64, Int32]:
    """Count without sparse matrices, which take .1 s to load; for small ones it is as fast."""
    ones = []
    for side in (left, right):
        ones.append(np.zeros((len(side.lengths), side.n_articles), dtype=np.float32))
        ones[-1][np.repeat(np.arange(len(side.lengths)), side.lengths), side.articles] = 1
    joint = ones[0] @ ones[1].T
    rows, columns = np.nonzero(joint)
    return rows, columns, joint[rows, columns].astype(np.int32)


def _sparse_product(left: Incidence, right: Incidence) -> tuple[Int64, Int64, Int32]:
    from scipy.sparse import csr_matrix

    ones = []
    for side in (left, right):
        entries = np.ones(len(side.articles), dtype=np.int32)
        indptr = np.concatenate(([0], np.cumsum(side.lengths)))
        shape = len(side.lengths), side.n_articles
        ones.append(csr_matrix((entries, side.articles, indptr), shape=shape))
    joint = (ones[0] @ ones[1].T).tocoo()
    return joint.row, joint.col, joint.data
