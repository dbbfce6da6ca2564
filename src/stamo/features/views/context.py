"""What stands around a mention: its words and its entities, as vectors and one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from stamo.features.embedding import pile_contexts
from stamo.features.pile import Pile
from stamo.features.views.base import Term, View, single_columns, unit_rows, view_mentions
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float64


@dataclass(frozen=True)
class Words(View):
    """The weighted mean of the context words less the background, (M, Q)."""

    name = "words"
    part = "words"
    is_centred = True

    variance: float = 2.0
    mean: float = 0.0

    def rows(self, pile: Pile, kb: KnowledgeBase) -> Float64:
        """Average the vectors of all context words; zero where none is known."""
        contexts = pile_contexts(pile, kb, pile.mentions.words.shape[1])
        mass = np.asarray(contexts.matrix.sum(axis=1))  # (M, 1)
        words = contexts.matrix @ contexts.vectors / np.maximum(mass, 1e-9) - contexts.background
        words[mass[:, 0] <= 0] = 0.0
        return unit_rows(words)

    def terms(self, pile: Pile, kb: KnowledgeBase, row: int) -> list[Term]:
        """Return the known context words."""
        contexts = pile_contexts(pile, kb, pile.mentions.words.shape[1])
        own = contexts.matrix[row]
        weight = own.data / max(float(own.data.sum()), 1e-9)
        parts = weight[:, None] * (contexts.vectors[own.indices] - contexts.background)
        norm = max(float(np.linalg.norm(parts.sum(axis=0))), 1e-9)
        names = [f"“{word}”" for word in kb.words.texts(contexts.words[own.indices])]
        return list(zip(names, np.asarray(parts / norm, dtype=np.float64), strict=True))


@dataclass(frozen=True)
class EntityContext(View):
    """The mean vector of the entity context, (M, Q)."""

    name = "context"
    part = "entity context"
    is_centred = True

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


@dataclass(frozen=True)
class SingleEntities(View):
    """Which neighbours stand in the entity context; rare ones weigh more, (M, R)."""

    name = "entities"
    part = "single entities"

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
