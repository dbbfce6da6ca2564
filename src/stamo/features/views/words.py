"""The context words of a mention, as one vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stamo.features.embedding import pile_contexts
from stamo.features.pile import Pile
from stamo.features.views.base import Term, unit_rows
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float64


@dataclass(frozen=True)
class Words:
    """The weighted mean of the context words less the background, (M, Q)."""

    name = "words"
    part = "words"
    is_centred = True
    has_vocabulary = False
    reads_text = False

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
