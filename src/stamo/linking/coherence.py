"""The relatedness of candidates to their entity context, for a whole batch of documents at once.

It gives the numbers of `features.relatedness.Relatedness.known`, which goes document by document;
here one sparse product counts the shared articles of all documents of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stamo.features.encoding import EncodedMentions
from stamo.kb.base import KnowledgeBase
from stamo.kb.relatedness import shared_articles, wlm
from stamo.system.arrays import Float32, Int32, Int64

_CELLS_PER_BLOCK = 65_536


@dataclass(frozen=True)
class BatchRelatedness:
    """Averages the Wikipedia Link-based Measure over entity contexts."""

    kb: KnowledgeBase

    def known(self, mentions: EncodedMentions) -> Float32:
        """Return each candidate's mean relatedness to the entity context, (M, C)."""
        values = np.zeros(mentions.candidates.shape, dtype=np.float32)
        row, column = np.nonzero(mentions.mask)
        n_context = (mentions.context >= 0).sum(axis=1)
        if not len(row) or not n_context.any():
            return values
        documents = np.unique(mentions.documents, return_inverse=True)[1].astype(np.int64)
        size = int(documents.max()) + 1, self.kb.n_entities
        rows = _Pairs.of(documents[row], mentions.candidates[row, column], size)
        at = np.nonzero(mentions.context >= 0)
        columns = _Pairs.of(documents[at[0]], mentions.context[at], size)
        table, starts = self._tables(rows, columns)
        # Padding reads the zero behind the last cell of all tables.
        local = np.full(mentions.context.shape, -1, dtype=np.int64)
        local[at] = columns.place - columns.first[documents[at[0]]]
        begin = starts[rows.place]
        for i in range(0, len(row), _CELLS_PER_BLOCK):
            part = slice(i, i + _CELLS_PER_BLOCK)
            index = local[row[part]]  # (cells, K)
            index = np.where(index >= 0, begin[part, None] + index, len(table) - 1)
            values[row[part], column[part]] = table[index].sum(axis=1)
        values /= np.maximum(n_context, 1).astype(np.float32)[:, None]
        return values

    def _tables(self, rows: _Pairs, columns: _Pairs) -> tuple[Float32, Int64]:
        """Return the tables of all documents end to end, and where each row starts in them."""
        left, right = (
            self.kb.incidence(pairs.entities, pairs.documents, len(pairs.n_by_document))
            for pairs in (rows, columns)
        )
        joint = shared_articles(left, right).tocoo()
        entity_a, entity_b = rows.entities[joint.row], columns.entities[joint.col]
        frequency = self.kb.document_frequency
        related = wlm(frequency[entity_a], frequency[entity_b], joint.data, self.kb.n_documents)
        width = columns.n_by_document[rows.documents]
        starts = np.concatenate([[0], np.cumsum(width)])
        table = np.zeros(starts[-1] + 1, dtype=np.float32)
        table[starts[joint.row] + joint.col - columns.first[columns.documents[joint.col]]] = related
        return table, starts


@dataclass(frozen=True)
class _Pairs:
    """Distinct pairs of document and entity, ordered by document."""

    documents: Int64  # (P,)
    entities: Int64  # (P,)
    place: Int64  # (n,) the pair of each of the n given ones
    n_by_document: Int64  # (documents,)
    first: Int64  # (documents,) first pair of each document

    @classmethod
    def of(cls, documents: Int64, entities: Int32, n: tuple[int, int]) -> _Pairs:
        n_documents, n_entities = n
        keys = documents * n_entities + entities
        distinct, place = np.unique(keys, return_inverse=True)
        owner = distinct // n_entities
        counts = np.bincount(owner, minlength=n_documents)
        first = np.cumsum(counts) - counts
        return cls(owner, distinct % n_entities, place, counts, first)
