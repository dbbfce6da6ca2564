"""Relatedness of entities by the documents they share: WLM (Eq. 3), for many pairs at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stamo.system.files import Float32, Int32, Int64

if TYPE_CHECKING:
    from stamo.kb.base import KnowledgeBase

Numbers = NDArray[np.integer[Any]]
Counts = Numbers | NDArray[np.floating[Any]]

COLUMNS_PER_ENTRY = 16
"""Beyond so many columns for each entry it is faster to number those that are used anew."""
FEW_ENTRIES, FEW_CELLS = 1 << 16, 1 << 20
"""Up to these sizes, those of the text of a page, whole matrices are multiplied."""
_CELLS_PER_BLOCK = 65_536


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


def relate(kb: KnowledgeBase, documents: Int32, candidates: Int32, context: Int32) -> Float32:
    """Return the mean relatedness of each candidate to the entities around its mention, (M, C).

    One product counts the shared articles of all candidates and entity contexts of all documents.

    Args:
        kb: The knowledge base.
        documents: The document of each mention, shape (M,).
        candidates: Entities, shape (M, C), padded with -1.
        context: The entities around each mention, shape (M, K), padded with -1.
    """
    values = np.zeros(candidates.shape, dtype=np.float32)
    row, column = np.nonzero(candidates >= 0)
    at = np.nonzero(context >= 0)
    if not len(row) or not len(at[0]):
        return values
    documents = np.unique(documents, return_inverse=True)[1].astype(np.int64)
    n_documents = int(documents.max()) + 1
    # Distinct pairs of document and entity, ordered by document, and the pair of each cell.
    keys, pair = np.unique(
        documents[row] * kb.n_entities + candidates[row, column], return_inverse=True
    )
    other_keys, other = np.unique(
        documents[at[0]] * kb.n_entities + context[at], return_inverse=True
    )
    document, entity = np.divmod(keys, kb.n_entities)
    other_document, other_entity = np.divmod(other_keys, kb.n_entities)
    left, right, n_joint = shared_articles(
        kb.incidence(entity, document, n_documents),
        kb.incidence(other_entity, other_document, n_documents),
    )
    frequency = kb.document_frequency
    related = wlm(frequency[entity[left]], frequency[other_entity[right]], n_joint, kb.n_documents)
    # A row for each pair, as wide as its document's context; a zero behind the last for padding.
    width = np.bincount(other_document, minlength=n_documents)
    first = np.cumsum(width) - width
    starts = np.concatenate([[0], np.cumsum(width[document])])
    table = np.zeros(starts[-1] + 1, dtype=np.float32)
    table[starts[left] + right - first[other_document[right]]] = related
    place = np.full(context.shape, -1, dtype=np.int64)
    place[at] = other - first[documents[at[0]]]
    begin = starts[pair]
    for i in range(0, len(row), _CELLS_PER_BLOCK):
        some = slice(i, i + _CELLS_PER_BLOCK)
        index = place[row[some]]  # (cells, K)
        index = np.where(index >= 0, begin[some, None] + index, len(table) - 1)
        values[row[some], column[some]] = table[index].sum(axis=1)
    n_context = (context >= 0).sum(axis=1)
    values /= np.maximum(n_context, 1).astype(np.float32)[:, None]
    return values


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
        # Without sparse matrices, which take .1 s to load; for small ones it is as fast.
        ones = [np.zeros((len(s.lengths), right.n_articles), np.float32) for s in (left, right)]
        for cells, side in zip(ones, (left, right), strict=True):
            cells[np.repeat(np.arange(len(cells)), side.lengths), side.articles] = 1
        dense = ones[0] @ ones[1].T
        rows, columns = np.nonzero(dense)
        return rows, columns, dense[rows, columns].astype(np.int32)
    from scipy.sparse import csr_matrix

    matrices = []
    for side in (left, right):
        indptr = np.concatenate(([0], np.cumsum(side.lengths)))
        entries = np.ones(len(side.articles), dtype=np.int32), side.articles, indptr
        matrices.append(csr_matrix(entries, shape=(len(side.lengths), side.n_articles)))
    joint = (matrices[0] @ matrices[1].T).tocoo()
    return joint.row, joint.col, joint.data
