"""The entities around a mention, one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from stamo.features.pile import Pile
from stamo.features.views.base import Term, single_columns, view_mentions
from stamo.kb.base import KnowledgeBase


@dataclass(frozen=True)
class SingleEntities:
    """Which neighbours stand in the entity context; rare ones weigh more, (M, R)."""

    name = "entities"
    part = "single entities"
    is_centred = False
    has_vocabulary = False
    reads_text = False

    variance: float = 2.0
    mean: float = 0.0

    def rows(self, pile: Pile, kb: KnowledgeBase) -> sparse.csr_matrix:
        """Mark the neighbours of each mention by their rarity."""
        index = pile.context
        row, column = np.nonzero(index >= 0)
        n = max(kb.n_documents, 2)
        frequency = np.maximum(kb.document_frequency[pile.neighbours], 1)
        rarity = np.log(n / frequency).clip(0) / np.log(n)
        shape = (len(index), len(pile.neighbours))
        matrix = sparse.csr_matrix((np.ones(len(row)), (row, index[row, column])), shape=shape)
        matrix.data[:] = 1.0  # an entity that stands there twice says it once
        matrix = matrix @ sparse.diags(rarity)
        norm = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        return sparse.csr_matrix(sparse.diags(1.0 / np.maximum(norm, 1e-9)) @ matrix)

    def terms(self, pile: Pile, kb: KnowledgeBase, row: int) -> list[Term]:
        """Return the neighbours around a mention."""
        matrix = view_mentions(pile, kb, (self,))[self.name]
        own = matrix[row]
        titles = kb.titles(np.asarray(pile.neighbours)[own.indices])
        return [(titles[i], one.toarray()[0]) for i, one in enumerate(single_columns(own))]
