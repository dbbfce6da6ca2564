"""Names inside words: particles, prefixes and inflected forms, in languages that have them.

A name need not be a whole word: 서울은 is 서울 with a particle, בפריז is פריז with a preposition,
Москве is a form of Москва. What a knowledge base's own links teach comes first: what stands in one
word with them (`[[서울]]은`), and which endings piped links change (`[[Лондон|Лондоне]]`). A list
of particles and a stemmer help where a wiki is too small to teach them.

Affixes stay outside the span, as in the wiki's own links; an inflected form is the span as it is.
English, which hardly does any of this to names, is left alone and pays nothing. Words are read as
names of the knowledge base; those of new entities are found by `linking.alias_forms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from stamo.corpus.tokenizer import capital, is_georgian, lower
from stamo.kb.base import KnowledgeBase
from stamo.linking.form_rules import FormRules, strong_root, without_accents
from stamo.linking.learned_forms import MAX_AFFIX, MAX_CHANGE, MAX_ENDING, MIN_STEM
from stamo.linking.surfaces import MAX_REMEMBERED_LENGTH
from stamo.linking.texts import Detected, JoinedTexts

MIN_NAME = 2
MAX_CACHED = 500_000
MAX_SAME_STEM = 50

WordReading = tuple[int, int, int]
"""Letters to leave out at the front, at the end, and the alias of the rest."""


@cache
def _has_case(letter: str) -> bool:
    return letter.upper() != letter.lower() and not is_georgian(letter)


class GivenWords:
    """Words that stand for the names of a knowledge base, whatever their case."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._numbers = {word: number for number, word in enumerate(words)}
        self.alias_counts = np.ones(len(words), np.int32)

    def alias_id(self, name: str) -> int:
        """Return the number of a word, -1 if it is none of them."""
        return self._numbers.get(lower(name), -1)

    def names_with_prefix(self, prefix: str, most: int) -> list[str]:
        """Return words that begin with a prefix."""
        begin = lower(prefix)
        return [word for word in self._words if word.startswith(begin)][:most]


class WordForms:
    """Finds names inside the words of texts; what it found out of a word is remembered."""

    def __init__(self, names: KnowledgeBase | GivenWords, rules: FormRules) -> None:
        self._id, self._with_prefix = names.alias_id, names.names_with_prefix
        self._counts = names.alias_counts
        self._rules, self._affixes, self._stem = rules, rules.affixes, rules.stem
        self._readings: dict[str, WordReading | None] = {}

    def find(self, joined: JoinedTexts) -> Detected:
        """Find names inside the words of texts, at most one in each."""
        words = joined.words
        # In a script with capitals a name begins with one.
        looked_at = [
            i
            for i, is_raised in enumerate(joined.is_raised.tolist())
            if is_raised or not _has_case(words[i][0])
        ]
        found = [(i, *r) for i in looked_at if (r := self.reading(words[i])) is not None]
        rows, front, back, aliases = np.array(found, dtype=np.int64).reshape(-1, 4).T
        starts, ends = joined.starts[rows] + front, joined.ends[rows] - back
        if self._rules.accents_move:
            more = np.array(list(self._capital_phrases(joined)), np.int64).reshape(-1, 3).T
            starts, ends, aliases = np.concatenate([[starts, ends, aliases], more], axis=1)
        return Detected(starts, ends, aliases.astype(np.int32), np.full(len(starts), -1, np.int32))

    def _capital_phrases(self, joined: JoinedTexts) -> Iterator[tuple[int, int, int]]:
        """Yield names of several words that are written in capitals, which have no accents."""
        edges = zip(joined.starts.tolist(), joined.ends.tolist(), strict=True)
        lowered, stops = lower(joined.text), set(joined.ends.tolist())
        for (start, end), word in zip(edges, joined.words, strict=True):
            if not joined.text[start:end].isupper() or end - start < MIN_NAME:
                continue
            for begin in self._rules.beginnings(capital(word)):
                for name in self._with_prefix(f"{begin} ", MAX_SAME_STEM):
                    stop = start + len(name)
                    plain = without_accents(lower(name))
                    if lowered.startswith(plain, start) and stop in stops:
                        yield start, stop, self._id(name)

    def reading(self, word: str) -> WordReading | None:
        """Return the best way to read a word as a form of a name, None if there is none."""
        try:
            return self._readings[word]
        except KeyError:
            found = self._best(word) if len(word) > MIN_NAME else None
            if len(self._readings) < MAX_CACHED and len(word) <= MAX_REMEMBERED_LENGTH:
                self._readings[word] = found
            return found

    def _best(self, word: str) -> WordReading | None:
        """Return the first way to read a word as a name that is used, else the first of all."""
        first = None
        for reading in self._search(word):
            if self._counts[reading[2]]:
                return reading
            first = first or reading
        return first

    def _search(self, word: str) -> Iterator[WordReading]:
        """Yield ways to read a word as a form of a name, the best first; none if it is a name."""
        capitals = self._rules.capitals(word)
        if any(n >= 0 and self._counts[n] for n in map(self._id, (*capitals, word))):
            return
        yield from self._without_affixes(word)
        for raised in capitals:
            yield from self._with_other_ending(raised)
        for raised in capitals:
            yield from self._with_same_stem(word, raised)
        if self._rules.respell is not None:
            others = list(self._rules.respell(word))
            yield from ((0, 0, n) for n in map(self._id, map(capital, others)) if n >= 0)
            for other in others:
                yield from self._with_other_ending(capital(other))
                yield from self._with_same_stem(other, capital(other))
        for raised in capitals:
            yield from self._with_other_stem(raised)

    def _without_affixes(self, word: str) -> Iterator[WordReading]:
        """Yield the longest names that are left without a prefix, a particle or both."""
        affixes, n = self._affixes, len(word)
        fronts = [i for i in range(min(MAX_AFFIX, n) + 1) if not i or word[:i] in affixes.before]
        backs = [i for i in range(min(MAX_AFFIX, n) + 1) if not i or word[n - i :] in affixes.after]
        cuts = sorted((i + j, i, j) for i in fronts for j in backs if 0 < i + j <= n - MIN_NAME)
        for _, i, j in cuts:
            aliases = map(self._id, self._rules.capitals(word[i : n - j]))
            yield from ((i, j, alias) for alias in aliases if alias >= 0)

    def _with_other_ending(self, word: str) -> Iterator[WordReading]:
        endings = self._affixes.endings or {}
        for n in range(min(MAX_ENDING, len(word) - MIN_STEM), -1, -1):
            stem = word[: len(word) - n]
            for other in endings.get(word[len(stem) :], ()):
                alias = self._id(stem + other)
                if alias >= 0:
                    yield 0, 0, alias

    def _with_other_stem(self, word: str) -> Iterator[WordReading]:
        """Yield names whose stem changes before some endings: Praha, Praze; Marek, Marka."""
        endings, stems = self._affixes.endings or {}, self._affixes.stems
        for n in range(min(MAX_ENDING, len(word) - MIN_NAME) if stems else -1, -1, -1):
            stem = word[: len(word) - n]
            others = endings.get(word[len(stem) :], ())
            for k in range(min(MAX_CHANGE, len(stem) - 1) if others else 0, 0, -1):
                for changed in stems.get(stem[-k:], ()):
                    names = (stem[:-k] + changed + other for other in others)
                    yield from ((0, 0, a) for a in map(self._id, names) if a >= 0)

    def _with_same_stem(self, word: str, raised: str) -> Iterator[WordReading]:
        if self._stem is None:
            return
        stem = self._stem(word)
        if len(stem) < MIN_STEM or not (self._rules.rewritten or word.startswith(stem)):
            return
        least = self._rules.n_shared(stem)
        # Written in other letters, a stem may be longer than its part of the word.
        most = min(len(stem), len(word)) if self._rules.rewritten else least
        for n in range(most, least - 1, -1):
            begins = self._rules.beginnings(raised[:n])
            names = [name for b in begins for name in self._with_prefix(b, MAX_SAME_STEM)]
            alike = [
                name for name in names if " " not in name and self._is_alike(lower(name), stem)
            ]
            if alike:
                yield 0, 0, max(map(self._id, alike), key=self._counts.__getitem__)
                return

    def _is_alike(self, name: str, stem: str) -> bool:
        assert self._stem is not None
        return self._stem(name) == stem or (
            self._rules.graded and strong_root(name) == strong_root(stem)
        )
