"""What stands around a mention, in views whose weights tell this entity from its namesakes.

The words beside the name, longer names, all words around as a vector, the window as a sentence
encoder reads it with the name masked, and how like it is to the description of the entity.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from scipy import sparse

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import EmergingEntity
from stamo.features.base import Term, View, named_columns, unit
from stamo.features.embedding import description_vector, pile_contexts
from stamo.features.mentions import Surroundings
from stamo.features.pile import Pile
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Bools, Float64


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


WINDOW = 220
"""Characters on either side of a mention that are read together."""


@dataclass(frozen=True)
class Sentence(View):
    """What the window calls for in the place of the name, as the encoder reads it, (M, d)."""

    name = "sentence"
    part = "sentence"
    is_centred = True
    reads_text = True

    def rows(self, pile: Pile) -> Float64:
        """Read the windows; no column without an encoder or without text."""
        if pile.encoder is None or pile.text is None:
            return np.zeros((len(pile), 0))
        windows = pile.text.windows(WINDOW)
        starts = np.array([window.start for window in windows], dtype=np.int64)
        ends = np.array([window.end for window in windows], dtype=np.int64)
        texts = [window.text for window in windows]
        return pile.encoder.encode_masked(texts, starts, ends).astype(np.float64)


MOST_NEAR = 1.5
"""Words of the description near a mention count up to this sum of their rarity."""


@dataclass(frozen=True)
class Description(View):
    """How like the surroundings are to the description of the entity, two columns, (M, 2).

    The first is the likeness: the encoder's, between the window without the name and the
    description, or that of the word vectors where nothing reads. The second counts the words of
    the description near the mention, by their rarity. Where nobody wrote a description, what
    stands in brackets behind the name is compared.
    """

    name = "description"
    part = "description"
    reads_text = True

    def rows(self, pile: Pile) -> Float64:
        """Compare; no column where nothing is known about the entity."""
        entity = pile.entities[0]
        if len(pile.entities) > 1 or pile.text is None or not entity.line:
            return np.zeros((len(pile), 0))
        if pile.encoder is not None:
            description = pile.encoder.encode([entity.line])[0]
            likeness = LIKENESS_SCALE * np.asarray(pile.rows(Sentence()) @ description)
        else:
            likeness = pile.rows(Words()) @ description_vector(entity, pile.kb)
        rarity = description_words(entity, pile.kb)
        around = (tokenize(window.text)[0] for window in pile.text.windows(WINDOW))
        near = np.minimum(_sums(around, rarity), MOST_NEAR)
        return np.stack([likeness, near], axis=1)

    def terms(self, pile: Pile, row: int) -> list[Term]:
        """Return the likeness and the words of the description that stand near."""
        own = np.asarray(pile.rows(self)[row])
        names = ("likeness to the description", "words of the description")
        return [(n, part) for n, part in zip(names, np.diag(own), strict=False) if part.any()]


LIKENESS_SCALE = 4.0
"""Brings the encoder's likeness to the spread of the other columns."""


def _sums(said: Iterable[Sequence[str]], rarity: Mapping[str, float]) -> Float64:
    """Add up the rarity of the distinct words of the description in each of what is said."""
    folded = ({fold_word(word) for word in words} for words in said)
    return np.array([sum(rarity.get(word, 0.0) for word in words) for words in folded])


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


def fold_word(word: str) -> str:
    """Fold case and the commonest plural: "Rockets" and "rocket" are one word of a description."""
    folded = word.casefold()
    return folded[:-1] if folded.endswith("s") and len(folded) > 3 else folded


_FAR = 0.5
"""What the second word counts beside the first."""


@dataclass(frozen=True)
class NextWords(View):
    """Which words stand next to the mention, and of which kind: capitals, digits, signs, (M, V).

    A mention inside a longer name has a capital beside it; whether that speaks for or against the
    entity is learned ("Falcon Heavy" is of the family, "Falcon Crest" is not). The columns are the
    pile's vocabulary; what a pack does not know of still counts in a row's norm.
    """

    name = "neighbours"
    part = "words next to the name"
    has_vocabulary = True

    def rows(self, pile: Pile) -> sparse.csr_matrix:
        """Mark the words and kinds next to each mention; no columns where the text is not known."""
        if pile.text is None:
            return sparse.csr_matrix((len(pile), 0))
        marks = []  # of each mention, with their weights
        for near in pile.text.next_to():
            (left, far_left), (right, far_right) = ((*side, "", "")[:2] for side in near)
            marks.append(
                {
                    f"{left.casefold()} _": 1.0,
                    f"_ {right.casefold()}": 1.0,
                    f"{far_left.casefold()} . _": _FAR,
                    f"_ . {far_right.casefold()}": _FAR,
                    f"<{_kind(left)}> _": 1.0,
                    f"_ <{_kind(right)}>": 1.0,
                }
            )
        if self.name not in pile.vocabularies:  # a pack brings its own
            pile.vocabularies[self.name] = tuple(sorted({m for row in marks for m in row}))
        vocabulary = pile.vocabularies[self.name]
        column = {mark: i for i, mark in enumerate(vocabulary)}
        entries = []
        for row, own in enumerate(marks):
            norm = float(np.sqrt(sum(v * v for v in own.values())))
            entries += [(row, column[m], value / norm) for m, value in own.items() if m in column]
        rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
        shape = (len(marks), len(vocabulary))
        return sparse.csr_matrix((np.array(values, dtype=np.float64), (rows, columns)), shape=shape)

    def terms(self, pile: Pile, row: int) -> list[Term]:
        """Return the words and kinds next to a mention that the pile's vocabulary holds."""
        own = pile.rows(self)[row]
        vocabulary = pile.vocabularies[self.name]
        return named_columns([_read(vocabulary[column]) for column in own.indices], own)


_KINDS = {
    "<edge>": "nothing",
    "<digit>": "a number",
    "<sign>": "a sign",
    "<Capital>": "a capital",
    "<small>": "a small letter",
    "<letter>": "a letter",
    "": "nothing",
}


def _read(mark: str) -> str:
    """Write a mark as people read it: "heavy _" stands before the name, "_ heavy" after it."""
    where = "before it" if mark.endswith(" _") else "after it"
    word = mark.removesuffix(" _") if mark.endswith(" _") else mark.removeprefix("_ ")
    is_far = word.endswith(" .") if mark.endswith(" _") else word.startswith(". ")
    word = word.removesuffix(" .").removeprefix(". ") if is_far else word
    return f"{_KINDS.get(word, f'“{word}”')} {'two words ' if is_far else ''}{where}"


def _kind(word: str) -> str:
    """Return what sort of a word or sign stands there."""
    if not word:
        return "edge"
    if word[0].isdigit():
        return "digit"
    if not word[0].isalpha():
        return "sign"
    if word[0].isupper():
        return "Capital"
    return "small" if word[0].islower() else "letter"


ELSEWHERE = 0.5
"""What the whole name elsewhere in the document counts beside one around the mention."""


@dataclass(frozen=True)
class LongerName(View):
    """Whether a longer name is said, two columns, (M, 2).

    The first: the mention is a part of the entity's whole name, or the document says it elsewhere;
    who reads "Katy Perry" knows whom "Perry" means. The second: the mention is a part of a longer
    name that is not the entity's. Both speak before any label does, and labels move both: "Falcon
    Heavy" is of the family, "Falcon Crest" is not.
    """

    name = "longer name"
    part = "longer name"

    def rows(self, pile: Pile) -> Float64:
        """Look for the names; no column where the text is not known."""
        if len(pile.entities) != 1 or pile.text is None:
            return np.zeros((len(pile), 0))
        entity, text = pile.entities[0], pile.text
        name, said = entity.plain_name, []  # without what stands in brackets
        if min(map(len, entity.aliases)) < len(name):
            # In any case, with any signs between its words. Scripts without case write particles
            # and prefixes on to a name, so only a letter with case and a digit must not go on into
            # a word.
            edges = (name[0], name[-1])
            first, last = (sign.isdigit() or sign.lower() != sign.upper() for sign in edges)
            before, after = r"(?<!\w)" if first else "", r"(?!\w)" if last else ""
            words = r"\W+".join(map(re.escape, re.findall(r"\w+", name)))
            find = re.compile(before + words + after, re.IGNORECASE)
            spans = {
                d: [match.span() for match in find.finditer(text.texts[d])]
                for d in np.unique(text.documents).tolist()
            }
            for d, start, end in text.places():
                i = bisect(spans[d], start, key=itemgetter(0)) - 1  # the last that begins before it
                is_inside = i >= 0 and end <= spans[d][i][1]
                said.append(1.0 if is_inside else ELSEWHERE if spans[d] else 0.0)
        whole = np.array(said or [0.0] * len(pile))
        another = _inside_another(entity, text, pile.kb) & (whole < 1)
        return np.stack([whole, another], axis=1)

    def terms(self, pile: Pile, row: int) -> list[Term]:
        """Return which of both is said."""
        own = np.asarray(pile.rows(self)[row])
        names = ("its whole name", "part of another name")
        return [(n, part) for n, part in zip(names, np.diag(own), strict=False) if part.any()]


def _inside_another(entity: EmergingEntity, text: Surroundings, kb: KnowledgeBase) -> Bools:
    """Return where a capitalised word that says something stands right beside the mention.

    In a headline in capitals all words have them, so those beside an alias that has none otherwise
    say nothing.
    """
    own = {word.casefold() for word in tokenize(f"{entity.id} {entity.description}")[0]}
    written = (text.texts[d][start:end] for d, start, end in text.places())
    headlines = (surface.isupper() and surface not in entity.aliases for surface in written)
    beside = [
        [
            side[0].casefold()
            for side in near
            if side and side[0][0].isupper() and not (is_headline and side[0].isupper())
        ]
        for near, is_headline in zip(text.next_to(1), headlines, strict=True)
    ]
    words = sorted({word for near in beside for word in near} - own)
    ids = kb.words.find_many(words)
    silent = (ids >= 0) & (np.asarray(kb.word_weights)[ids] <= 0)
    names = {word for word, is_silent in zip(words, silent.tolist(), strict=True) if not is_silent}
    return np.array([any(word in names for word in near) for near in beside], dtype=bool)
