"""The entities around a mention, as one vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from stamo.features.pile import Pile
from stamo.features.views.base import Term, unit_rows
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float64


@dataclass(frozen=True)
class EntityContext:
    """The mean vector of the entity context, (M, Q)."""

    name = "context"
    part = "entity context"
    is_centred = True
    has_vocabulary = False
    reads_text = False

    variance: float = 2.0
    mean: float = 0.0

    def rows(self, pile: Pile, kb: KnowledgeBase) -> Float64:
        """Average the vectors of the entity context."""
        ids = pile.mentions.context
        row, column = np.nonzero(ids >= 0)
        distinct, place = np.unique(ids[row, column], return_inverse=True)
        vectors = np.asarray(kb.entity_vectors()[distinct], dtype=np.float64)
        shape = (len(ids), len(distinct))
        return unit_rows(
            sparse.csr_matrix((np.ones(len(row)), (row, place)), shape=shape) @ vectors
        )

    def terms(self, pile: Pile, kb: KnowledgeBase, row: int) -> list[Term]:
        """Return the entities around a mention."""
        own = pile.mentions.context[row]
        distinct, n = np.unique(own[own >= 0], return_counts=True)
        parts = n[:, None] * np.asarray(kb.entity_vectors()[distinct], dtype=np.float64)
        norm = max(float(np.linalg.norm(parts.sum(axis=0))), 1e-9)
        return list(zip(kb.titles(distinct), parts / norm, strict=True))
