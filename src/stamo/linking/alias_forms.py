"""Forms of the names of new entities, in languages that write names into words or inflect them.

A Korean text hardly ever writes a name alone (아라온은, 아라온에서), a Russian one in a third of
its sentences (Спектра, о Спектре). The rules are those of the names of the knowledge base
(`linking.word_forms`); names of several words may have each of them inflected (у Нового Моста).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stamo.corpus.aliases import AliasMatcher, longest_mentions
from stamo.corpus.tokenizer import capital, lower, tokenize
from stamo.corpus.types import Mention
from stamo.kb.base import KnowledgeBase
from stamo.linking.form_lists import other_letters
from stamo.linking.form_rules import FormRules, form_rules
from stamo.linking.learned_forms import MAX_ENDING, MIN_STEM
from stamo.linking.settings import LEFT_ALONE
from stamo.linking.surfaces import MAX_REMEMBERED_LENGTH
from stamo.linking.texts import CodeArray, Detected, JoinedTexts, join_texts
from stamo.linking.word_forms import MAX_CACHED, GivenWords, WordForms, WordReading


@dataclass(frozen=True)
class _Alias:
    """A name by its words."""

    words: tuple[int, ...]
    gaps: tuple[str, ...]
    """What stands between them, without white space."""
    is_raised: tuple[bool, ...]
    """Which of them begin with a capital."""


class AliasForms:
    """Finds names that texts write in another form than they were given in.

    Args:
        aliases: The names.
        kb: Whose language says how names are written.
        rules: The rules of that language.
    """

    def __init__(self, aliases: Sequence[str], kb: KnowledgeBase, rules: FormRules) -> None:
        self._kb = kb
        self._letters = other_letters(kb.language)
        self._numbers: dict[str, int] = {}
        self._aliases = [self._taken_apart(alias) for alias in aliases]
        self._names, self._ids = tuple(aliases), kb.alias_ids(aliases)
        self._starting: dict[int, list[int]] = {}
        for number, alias in enumerate(self._aliases):
            if alias.words:
                self._starting.setdefault(alias.words[0], []).append(number)
        self._forms = WordForms(GivenWords(list(self._numbers)), rules)
        self._begun = tuple({begun for word in self._numbers for begun in _begun(word, rules)})
        self._readings: dict[str, WordReading | None] = {}
        self._is_other_name: dict[tuple[str, int], bool] = {}
        self._name_by_form: dict[str, str] = {}
        stems = [stem for alias in aliases for stem in _stems_of(alias, rules)]
        self.stems = tuple(
            s
            for stem in dict.fromkeys([*stems, *map(str.upper, stems)])
            for s in (stem, *_rewritten(stem, self._letters))
        )
        """One of them stands in every text that holds a form."""

    def _taken_apart(self, alias: str) -> _Alias:
        words, starts, ends = tokenize(alias)
        numbers = [self._numbers.setdefault(word, len(self._numbers)) for word in words]
        edges = zip(ends[:-1].tolist(), starts[1:].tolist(), strict=True)
        return _Alias(
            tuple(numbers),
            tuple("".join(alias[end:start].split()) for end, start in edges),
            tuple(alias[i] != word[0] for i, word in zip(starts.tolist(), words, strict=True)),
        )

    def find(self, joined: JoinedTexts) -> Detected:
        """Find the forms of names in texts; `extras` are numbers of the given names."""
        readings = [self._reading(word) for word in joined.words]
        found = [
            (start, end, number)
            for row, reading in enumerate(readings)
            if reading is not None
            for number in self._starting.get(reading[2], ())
            for start, end in self._spans(joined, readings, row, number)
        ]
        table = np.array(found, dtype=np.int64).reshape(-1, 3)
        numbers = table[:, 2].astype(np.int32)
        return Detected(table[:, 0], table[:, 1], self._ids[numbers], numbers)

    def mentions(self, text: str) -> list[Mention]:
        """Return the forms in one text as mentions of the names, in order, without overlaps."""
        if not self._letters and not any(stem in text for stem in self.stems):
            return []
        joined = join_texts([text])
        found = self.find(joined)
        nowhere = np.zeros(len(found.starts), dtype=np.int32)
        starts, ends = (
            joined.local(nowhere, places).tolist() for places in (found.starts, found.ends)
        )
        names = map(self._names.__getitem__, found.extras.tolist())
        return longest_mentions(zip(starts, ends, names, strict=True))

    def name_of(self, surface: str) -> str:
        """Return the name that a mention is a form of, the mention's own text if of none."""
        if (name := self._name_by_form.get(surface)) is None:
            found = self.mentions(surface)
            is_whole = len(found) == 1 and (found[0].start, found[0].end) == (0, len(surface))
            name = found[0].surface if is_whole else surface
            if len(self._name_by_form) < MAX_CACHED and len(surface) <= MAX_REMEMBERED_LENGTH:
                self._name_by_form[surface] = name
        return name

    def _reading(self, word: str) -> WordReading | None:
        try:
            return self._readings[word]
        except KeyError:
            spellings = [word, *_rewritten(word, self._letters)]
            numbers = [self._numbers[s] for s in spellings if s in self._numbers]
            found = (0, 0, numbers[0]) if numbers else None
            if found is None and any(begun in word for begun in self._begun):
                found = self._forms.reading(word)
            if len(self._readings) < MAX_CACHED and len(word) <= MAX_REMEMBERED_LENGTH:
                self._readings[word] = found
            return found

    def _spans(
        self,
        joined: JoinedTexts,
        readings: Sequence[WordReading | None],
        row: int,
        number: int,
    ) -> list[tuple[int, int]]:
        """Return the span of a name that begins with a word of the texts; none if it does not.

        A prefix may stand before its first word only, a particle behind its last. A name as it was
        given is no form of itself.
        """
        alias = self._aliases[number]
        n = len(alias.words)
        some = readings[row : row + n]
        cuts = [(r[0], r[1]) for r, w in zip(some, alias.words, strict=False) if r and r[2] == w]
        if (
            len(cuts) < n
            or any(back for _, back in cuts[:-1])
            or any(front for front, _ in cuts[1:])
        ):
            return []
        words = joined.words[row : row + n]
        if [self._numbers.get(word) for word in words] == list(alias.words):
            return []
        raised = joined.is_raised[row : row + n].tolist()
        if any(wanted and not is_so for wanted, is_so in zip(alias.is_raised, raised, strict=True)):
            return []
        gaps = [
            "".join(joined.text[joined.ends[i] : joined.starts[i + 1]].split())
            for i in range(row, row + n - 1)
        ]
        if tuple(gaps) != alias.gaps or (n == 1 and self._is_another(words[0], number)):
            return []
        return [(int(joined.starts[row]) + cuts[0][0], int(joined.ends[row + n - 1]) - cuts[-1][1])]

    def _is_another(self, word: str, number: int) -> bool:
        """Tell whether a word is a name of its own, which means nothing that the alias means."""
        key = word, number
        if key not in self._is_other_name:
            own = self._ids[number]
            raised, small = self._kb.alias_ids([capital(word), word])
            linked = [a for a in (raised, small) if a >= 0 and self._kb.alias_counts[a]]
            meant, mine = (
                set(self._kb.by_alias.batch(np.array(some, np.int32))[0].ravel().tolist()) - {-1}
                for some in (linked, [own] if own >= 0 else [])
            )
            self._is_other_name[key] = bool(linked) and not meant & mine
        return self._is_other_name[key]


def find_alias_forms(aliases: Sequence[str], kb: KnowledgeBase) -> AliasForms | None:
    """Return what finds the forms of names in a knowledge base's language, None for English."""
    if kb.language in LEFT_ALONE or not aliases:
        return None
    return AliasForms(aliases, kb, form_rules(kb))


def matcher_for(
    aliases: Sequence[str], kb: KnowledgeBase, *, casefold: bool = False
) -> AliasMatcher:
    """Return a matcher that rules out no text with a form of the names."""
    forms = find_alias_forms(aliases, kb)
    return AliasMatcher(aliases, casefold=casefold, stems=forms.stems if forms else ())


def _stems_of(alias: str, rules: FormRules) -> list[str]:
    """Return what forms of a name hold, one of them each: the beginnings of its longest word."""
    words, starts, ends = tokenize(alias)
    if not words:
        return [alias]
    at = max(range(len(words)), key=lambda i: len(words[i]))
    return _begun(alias[int(starts[at]) : int(ends[at])], rules)


def _begun(word: str, rules: FormRules) -> list[str]:
    """Return what forms of a word begin with, one of them each, in its own case."""
    begun = [word[: _n_shared(lower(word), rules)]]
    begun += [same + other for same, other in rules.affixes.changed_beginnings(word)]
    if rules.respell is not None:
        begun += [other for begin in begun for other in rules.respell(begin)]
    return list(dict.fromkeys(b for begin in begun for b in rules.beginnings(begin)))


def _n_shared(word: str, rules: FormRules) -> int:
    """Return how many of its first letters a word shares with all of its forms."""
    shared = [len(word)]
    if rules.affixes.endings:
        shared.append(max(MIN_STEM, len(word) - MAX_ENDING))
    if rules.stem is not None and len(stem := rules.stem(word)) >= MIN_STEM:
        shared.append(rules.n_shared(stem))
    return min(shared)


def _rewritten(text: str, letters: Sequence[CodeArray]) -> list[str]:
    """Return a text in the other letters of its language, where they differ."""
    if not letters:
        return []
    codes = np.array([min(ord(sign), len(letters[0]) - 1) for sign in text], dtype=np.uint32)
    others = ("".join(map(chr, table[codes].tolist())) for table in letters)
    return [other for other in dict.fromkeys(others) if other != text]
