"""The context words of a mention, as one vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stamo.features.embedding import pile_contexts
from stamo.features.pile import Pile
from stamo.features.views.base import unit_rows
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
