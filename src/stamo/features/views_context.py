"""What stands around a mention: its words, its entities, and what all of it says together.

The words and entities as vectors and one by one; the text as a frozen sentence encoder reads it,
alone and beside the line about the entity, or what stands in brackets behind its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import EmergingEntity
from stamo.features.about import (
    BLIND,
    about_vector,
    about_words,
    fold_word,
    neutral_likeness,
)
from stamo.features.base import Term, View, named_columns, unit_rows, view_mentions
from stamo.features.embedding import pile_contexts
from stamo.features.mentions import Surroundings
from stamo.features.pile import Pile, TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float64


@dataclass(frozen=True)
class Words(View):
    """The weighted mean of the context words less the background, (M, Q)."""

    name = "words"
    part = "words"
    is_centred = True

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
        own = view_mentions(pile, kb, (self,))[self.name][row]
        return named_columns(kb.titles(pile.neighbours[own.indices]), own)


WINDOW = 220
"""Characters on either side of a mention that are encoded together."""
PHRASE = 40
"""Characters on either side that are encoded alone: what a sentence on something else drowns."""
N_READINGS = 3


@dataclass(frozen=True)
class Sentence(View):
    """Three readings of the surroundings side by side, (M, 3 d).

    The windows around all mentions of the name in the document, on average; the words near the
    mention as the encoder sees them inside the window; and the few words around it alone.
    """

    name = "sentence"
    part = "sentence"
    is_centred = True
    reads_text = True

    variance: float = 20.0

    def rows(self, pile: Pile, kb: KnowledgeBase) -> Float64:
        """Encode the surroundings; no columns without an encoder or without text."""
        if pile.encoder is None or pile.text is None:
            return np.zeros((len(pile), 0))
        windows = pile.text.windows(WINDOW)
        starts = np.array([window.start for window in windows], dtype=np.int64)
        ends = np.array([window.end for window in windows], dtype=np.int64)
        whole, near = pile.encoder.encode_spans([window.text for window in windows], starts, ends)
        phrase = pile.encoder.encode([window.text for window in pile.text.windows(PHRASE)])
        _, vote, _ = pile.votes
        sums = np.zeros((int(vote.max(initial=-1)) + 1, whole.shape[1]))
        np.add.at(sums, vote, whole)  # over the mentions of one name in one document
        together = unit_rows(sums)[vote].astype(np.float32)
        return unit_rows(np.hstack([together, near, phrase]).astype(np.float64))


def n_columns(encoder: TextEncoder) -> int:
    """Return how many columns the view has with an encoder."""
    return N_READINGS * int(encoder.encode([""]).shape[1])


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
    part = "line about it"
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
    """What all of it counts where no line was written and only brackets behind the name speak."""

    def rows(self, pile: Pile, kb: KnowledgeBase) -> Float64:
        """Compare; no column where nothing is known about the entity."""
        entity = pile.entities[0]
        nothing = np.zeros((len(pile), 0))
        if len(pile.entities) > 1 or pile.text is None or not entity.line:
            return nothing
        likeness = self._likeness(entity, pile, kb)
        if likeness is None and not entity.description:
            return nothing
        shared = self._shared_words(entity, pile.text, kb)
        counts = 1.0 if entity.description else self.by_name
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
