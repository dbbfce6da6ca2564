"""What stands around a mention: its words, its entities, and what all of it says together.

The words and entities as vectors and one by one; the text as a frozen sentence encoder reads it,
alone and beside the description of the entity, or what stands in brackets behind its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import EmergingEntity
from stamo.features.base import Term, View, named_columns, unit
from stamo.features.embedding import description_vector, pile_contexts
from stamo.features.pile import Pile, TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float64


@dataclass(frozen=True)
class Words(View):
    """The weighted mean of the context words less the background, (M, Q)."""

    name = "words"
    part = "words"
    is_centred = True

    def rows(self, pile: Pile) -> Float64:
        """Average the vectors of all context words; zero where none is known."""
        contexts = pile_contexts(pile, pile.mentions.words.shape[1])
        mass = np.asarray(contexts.matrix.sum(axis=1))  # (M, 1)
        words = contexts.matrix @ contexts.vectors / np.maximum(mass, 1e-9) - contexts.background
        words[mass[:, 0] <= 0] = 0.0
        return np.asarray(unit(words))

    def terms(self, pile: Pile, row: int) -> list[Term]:
        """Return the known context words."""
        contexts = pile_contexts(pile, pile.mentions.words.shape[1])
        own = contexts.matrix[row]
        weight = own.data / max(float(own.data.sum()), 1e-9)
        parts = weight[:, None] * (contexts.vectors[own.indices] - contexts.background)
        norm = max(float(np.linalg.norm(parts.sum(axis=0))), 1e-9)
        names = [f"“{word}”" for word in pile.kb.words.texts(contexts.words[own.indices])]
        return list(zip(names, np.asarray(parts / norm, dtype=np.float64), strict=True))


@dataclass(frozen=True)
class EntityContext(View):
    """The mean vector of the entity context, (M, Q)."""

    name = "context"
    part = "entity context"
    is_centred = True

    def rows(self, pile: Pile) -> Float64:
        """Average the vectors of the entity context."""
        ids = pile.mentions.context
        row, column = np.nonzero(ids >= 0)
        distinct, place = np.unique(ids[row, column], return_inverse=True)
        vectors = np.asarray(pile.kb.entity_vectors()[distinct], dtype=np.float64)
        shape = (len(ids), len(distinct))
        sums = sparse.csr_matrix((np.ones(len(row)), (row, place)), shape=shape) @ vectors
        return np.asarray(unit(sums))

    def terms(self, pile: Pile, row: int) -> list[Term]:
        """Return the entities around a mention."""
        own = pile.mentions.context[row]
        distinct, n = np.unique(own[own >= 0], return_counts=True)
        parts = n[:, None] * np.asarray(pile.kb.entity_vectors()[distinct], dtype=np.float64)
        norm = max(float(np.linalg.norm(parts.sum(axis=0))), 1e-9)
        return list(zip(pile.kb.titles(distinct), parts / norm, strict=True))


@dataclass(frozen=True)
class SingleEntities(View):
    """Which neighbours stand in the entity context; rare ones weigh more, (M, R)."""

    name = "entities"
    part = "single entities"

    def rows(self, pile: Pile) -> sparse.csr_matrix:
        """Mark the neighbours of each mention by their rarity."""
        index, kb = pile.context, pile.kb
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

    def terms(self, pile: Pile, row: int) -> list[Term]:
        """Return the neighbours around a mention."""
        own = pile.rows(self)[row]
        return named_columns(pile.kb.titles(pile.neighbours[own.indices]), own)


WINDOW = 220
"""Characters on either side of a mention that are encoded together."""
PHRASE = 40
"""Characters on either side that are encoded alone: what a sentence on something else drowns."""
N_ENCODINGS = 3


@dataclass(frozen=True)
class Sentence(View):
    """Three encodings of the surroundings side by side, (M, 3 d).

    The windows around all mentions of the name in the document, on average; the words near the
    mention as the encoder sees them inside the window; and the few words around it alone.
    """

    name = "sentence"
    part = "sentence"
    is_centred = True
    reads_text = True

    variance: float = 20.0

    def rows(self, pile: Pile) -> Float64:
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
        together = unit(sums)[vote].astype(np.float32)
        return np.asarray(unit(np.hstack([together, near, phrase]).astype(np.float64)))


def n_columns(encoder: TextEncoder) -> int:
    """Return how many columns the view has with an encoder."""
    return N_ENCODINGS * int(encoder.encode([""]).shape[1])


MOST_NEXT = 0.6
MOST_NEAR = 1.5
"""Words of the description that stand next to the mention, or near it, count up to these sums."""


@dataclass(frozen=True)
class About(View):
    """How much the surroundings are like the description of the entity, one column, (M, 1).

    Likeness is the encoder's cosine, or that of the word vectors where there is no encoder; a word
    of the description right beside the name ("Hurricane Sandy") or near it adds to it. Before any
    label speaks, `mean` is what a likeness above `even` is worth in log odds; both were chosen on
    the development entities of the wild suite.
    """

    name = "about"
    part = "description"
    reads_text = True

    variance: float = 8.0
    mean: float = 15.0
    even: float = 0.34
    """The likeness that speaks neither for nor against, with an encoder, in English."""
    even_words: float = 0.52
    """The same for word vectors."""
    next_to: float = 0.2
    near: float = 0.08
    """What a rare word of the description adds beside the name and near it."""
    by_name: float = 0.5
    """What all of it counts where nothing was written and only brackets behind the name speak."""

    def rows(self, pile: Pile) -> Float64:
        """Compare; no column where nothing is known about the entity."""
        entity = pile.entities[0]
        nothing = np.zeros((len(pile), 0))
        if len(pile.entities) > 1 or pile.text is None or not entity.line:
            return nothing
        encoder, even, likeness = pile.encoder, self.even, None
        if encoder is not None:
            even = neutral_likeness(entity.line, encoder, pile.kb, even)
        # How much more alike description and surroundings are than unrelated texts, (M,); None
        # where neither an encoder nor a word vector can tell.
        if encoder is not None and even < BLIND:
            encoded = np.tile(encoder.encode([entity.line])[0], N_ENCODINGS)
            likeness = pile.rows(Sentence()) @ encoded / np.sqrt(N_ENCODINGS) - even
        elif (vector := description_vector(entity, pile.kb)).any():
            likeness = pile.rows(Words()) @ vector - self.even_words
        if likeness is None and not entity.description:
            return nothing
        # What words of the description beside the name and near it add, (M,).
        rarity = description_words(entity, pile.kb)
        next_to = ([word for side in near for word in side[:1]] for near in pile.text.next_to())
        around = (tokenize(window.text)[0] for window in pile.text.windows(WINDOW))
        shared = self.next_to * np.minimum(_sums(next_to, rarity), MOST_NEXT)
        shared = shared + self.near * np.minimum(_sums(around, rarity), MOST_NEAR)
        counts = 1.0 if entity.description else self.by_name
        return np.asarray(counts * (shared if likeness is None else likeness + shared))[:, None]


def _sums(said: Iterable[Sequence[str]], rarity: Mapping[str, float]) -> Float64:
    """Add up the rarity of the distinct words of the description in each of what is said."""
    folded = ({fold_word(word) for word in words} for words in said)
    return np.array([sum(rarity.get(word, 0.0) for word in words) for words in folded])


# An encoder of English finds any two texts of another language alike: 64 % of unrelated sentences
# in French, 78 % in Spanish and all in Russian are above the likeness that only .4 % of English
# windows reach; other encoders find all texts alike in any language. So but for ours in English
# the description is compared with texts of the knowledge base first.
N_BACKGROUND, BACKGROUND_LENGTH = 16, 440
"""Texts of the knowledge base that a description is compared with, and their characters."""
USUAL_LIKENESS = 0.1
"""How like any text a description in English is, at most."""
UNKNOWN_LIKENESS = 0.6
"""The same of other languages, where the knowledge base has no texts."""
MOST_RAISED = 0.4
"""What says nothing lies at most so far between any text and the description itself."""
BLIND = 0.94
"""Raised so far, the encoder finds all texts the same: it knows no letter of the script (Thai)."""
_MAX_REMEMBERED = 1000
_background: dict[tuple[str, str, str], float] = {}


def description_words(entity: EmergingEntity, kb: KnowledgeBase) -> Mapping[str, float]:
    """Return the content words of description and brackets but names, and their rarity, 0 to 1."""
    names = {fold_word(word) for alias in entity.aliases for word in tokenize(alias)[0]}
    words = sorted({*tokenize(f"{entity.line} {entity.qualifier}")[0]})
    ids = kb.words.find_many(words)
    known = ids >= 0
    counts, total = np.ones(len(words)), max(float(kb.word_counts.sum()), 2.0)
    counts[known] = np.maximum(kb.word_counts[ids[known]], 1)
    rarity = 1 - np.log(counts) / np.log(total)
    says = np.ones(len(words), dtype=bool)
    says[known] = kb.word_weights[ids[known]] > 0
    return {
        fold_word(word): float(value)
        for word, value, kept in zip(words, rarity, says, strict=True)
        if kept and fold_word(word) not in names and len(word) > 1
    }


def neutral_likeness(
    description: str, encoder: TextEncoder, kb: KnowledgeBase, even: float
) -> float:
    """Return the likeness of a description and a text that has nothing to do with it.

    Args:
        description: Of an entity.
        encoder: What compares.
        kb: Its texts are in the language of the description.
        even: What the likeness is with our encoder in English.
    """
    if kb.language in encoder.languages:
        return even
    key = kb.fingerprint, encoder.fingerprint, description
    if key not in _background:
        if len(_background) >= _MAX_REMEMBERED:
            _background.clear()
        _background[key] = UNKNOWN_LIKENESS
        batch = next(kb.articles(columns=["text"]), None)
        texts = [] if batch is None else [t for t in batch["text"].to_pylist() if t.strip()]
        if texts:  # openings from all over the first of them
            chosen = np.unique(np.linspace(0, len(texts) - 1, N_BACKGROUND).astype(int)).tolist()
            openings = encoder.encode([texts[i][:BACKGROUND_LENGTH] for i in chosen])
            _background[key] = float(np.mean(openings @ encoder.encode([description])[0]))
    usual = _background[key]
    raised = min(even + usual - USUAL_LIKENESS, usual + MOST_RAISED * (1 - usual))
    return max(raised, even)


def fold_word(word: str) -> str:
    """Fold case and the commonest plural: "Rockets" and "rocket" are one word of a description."""
    folded = word.casefold()
    return folded[:-1] if folded.endswith("s") and len(folded) > 3 else folded
