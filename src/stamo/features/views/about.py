"""The line about the entity, or what its name says of it, compared with the text at a mention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import EmergingEntity
from stamo.features.about import BLIND, about_vector, about_words, fold_word, neutral_likeness
from stamo.features.pile import Pile
from stamo.features.surroundings import Surroundings
from stamo.features.views.base import View, view_mentions
from stamo.features.views.context import Words
from stamo.features.views.sentence import N_READINGS, WINDOW, Sentence
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float64

MOST_NEXT = 0.6
MOST_NEAR = 1.5
"""Words of the line that stand next to the mention, or near it, count up to these sums."""


@dataclass(frozen=True)
class About(View):
    """How much the surroundings are like the line about the entity, one column, (M, 1).

    Likeness is the encoder's cosine, or that of the word vectors where there is no encoder; a word
    of the line right beside the name ("Hurricane Sandy") or near it adds to it. Before any label
    speaks, `mean` is what a likeness above `even` is worth in log odds; both were chosen on the
    development entities of the wild suite.
    """

    name = "about"
    part = "line or name"
    reads_text = True

    variance: float = 8.0
    mean: float = 15.0
    even: float = 0.34
    """The likeness that speaks neither for nor against, with an encoder, in English."""
    even_words: float = 0.52
    """The same for word vectors."""
    next_to: float = 0.2
    near: float = 0.08
    """What a rare word of the line adds beside the name and near it."""
    by_name: float = 0.5
    """What all of it counts where no line was written and the name speaks: it says less."""

    def rows(self, pile: Pile, kb: KnowledgeBase) -> Float64:
        """Compare; no column where nothing is known about the entity."""
        entity = pile.entities[0]
        nothing = np.zeros((len(pile), 0))
        if len(pile.entities) > 1 or pile.text is None or not entity.line:
            return nothing
        likeness = self._likeness(entity, pile, kb)
        if likeness is None and not entity.about:
            return nothing
        shared = self._shared_words(entity, pile.text, kb)
        counts = 1.0 if entity.about else self.by_name
        return np.asarray(counts * (shared if likeness is None else likeness + shared))[:, None]

    def _likeness(self, entity: EmergingEntity, pile: Pile, kb: KnowledgeBase) -> Float64 | None:
        """Return how much more alike line and surroundings are than what says nothing, (M,).

        None where neither an encoder nor a word vector can tell.
        """
        encoder, even, line = pile.encoder, self.even, entity.line
        if encoder is not None:
            even = neutral_likeness(line, encoder, kb, even)
        if encoder is None or even >= BLIND:
            vector = about_vector(entity, kb)
            rows = view_mentions(pile, kb, [Words()])[Words.name]
            return np.asarray(rows @ vector - self.even_words) if vector.any() else None
        read = np.tile(encoder.encode([line])[0], N_READINGS)
        rows = view_mentions(pile, kb, [Sentence()])[Sentence.name]
        return np.asarray(rows @ read / np.sqrt(N_READINGS) - even)

    def _shared_words(
        self, entity: EmergingEntity, text: Surroundings, kb: KnowledgeBase
    ) -> Float64:
        """Return what words of the line beside the name and near it add, (M,)."""
        rarity = about_words(entity, kb)
        beside = [_sum([w for side in near for w in side[:1]], rarity) for near in text.next_to()]
        around = [_sum(tokenize(w.text)[0], rarity) for w in text.windows(WINDOW)]
        return np.asarray(
            self.next_to * np.minimum(beside, MOST_NEXT) + self.near * np.minimum(around, MOST_NEAR)
        )


def _sum(words: Sequence[str], rarity: Mapping[str, float]) -> float:
    return sum(rarity.get(word, 0.0) for word in {fold_word(word) for word in words})
