"""Names inside words: particles, prefixes and inflected forms, in languages that have them.

A name need not be a whole word: 서울은 is 서울 with a particle, בפריז is פריז with a preposition,
Москве is a form of Москва. What a knowledge base's own links teach comes first: what stands in one
word with them (`[[서울]]은`), and which endings piped links change (`[[Лондон|Лондоне]]`). A list
of particles and a stemmer help where a wiki is too small to teach them.

Affixes stay outside the span, as in the wiki's own links; an inflected form is the span as it is.
English, which hardly does any of this to names, is left alone and pays nothing. `WordForms`
finds names of the knowledge base, `AliasForms` those of new entities.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np

from stamo.corpus.aliases import AliasMatcher, longest_mentions
from stamo.corpus.tokenizer import capital, is_georgian, lower, tokenize
from stamo.corpus.types import Mention
from stamo.features.mentions import iterate_articles
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LEFT_ALONE
from stamo.linking.letters import (
    ACCENTED,
    GRADED,
    MAX_AFFIX,
    MAX_CHANGE,
    MAX_ENDING,
    MIN_STEM,
    N_ARTICLES,
    REWRITTEN,
    FormRules,
    form_rules,
    other_letters,
    strong_root,
    without_accents,
)
from stamo.linking.texts import (
    CodeArray,
    Detected,
    JoinedTexts,
    Remembered,
    join_texts,
)
from stamo.system.files import Bools, Int32, Int64

HAN_LANGUAGES = frozenset({"ja", "zh"})
LEAST_NAME_SHARE = 0.3
"""A name is inside a word if fewer of those after the same character are names."""
PRIOR_LINKS = 5.0
"""Expected links for which a character counts as all Han characters do."""
_DIGITS = np.array([*b"0123456789", *range(0xFF10, 0xFF1A)], dtype=np.uint32)
_HAN = ((0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF))


@dataclass(frozen=True)
class NameStarts:
    """After which Han characters names begin."""

    share: float
    """How many of the matches after any Han character are names, by the links."""
    share_by_code: Mapping[int, float]
    """The same after one character, for those that were seen."""

    def begin_inside(
        self, joined: JoinedTexts, starts: Int64, ends: Int64, is_sure: Bools
    ) -> Bools:
        """Tell which matches begin inside a word, (n,); not those that are sure or follow a name.

        Args:
            joined: The texts.
            starts: First character of each match, shape (n,).
            ends: One past its last character.
            is_sure: Matches that are names wherever they stand.
        """
        before = _han_before(joined.codes, starts)
        codes, place = np.unique(before, return_inverse=True)
        shares = [self.share_by_code.get(code, self.share) for code in codes.tolist()]
        inside = (before > 0) & ~is_sure & (np.array(shares)[place] < LEAST_NAME_SHARE)
        # What begins where a name ends is a name, too; in one pass from left to right, as a text
        # may be one chain of names.
        name_ends, doubtful = set(ends[~inside].tolist()), np.flatnonzero(inside)
        doubtful = doubtful[np.argsort(starts[doubtful], kind="stable")]
        columns = (doubtful.tolist(), starts[doubtful].tolist(), ends[doubtful].tolist())
        for row, start, end in zip(*columns, strict=True):
            if start in name_ends:
                inside[row] = False
                name_ends.add(end)
        return np.asarray(inside)


def learn_name_starts(kb: KnowledgeBase) -> NameStarts | None:
    """Learn from the articles; None where names have no Han characters, or the language none."""
    if kb.language not in HAN_LANGUAGES:
        return None
    linked: Counter[int] = Counter()
    met: Counter[int] = Counter()
    for text, starts, _, _ in islice(iterate_articles(kb, held_out=False), N_ARTICLES):
        codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)
        linked.update(_han_before(codes, starts[_is_han(codes[starts])]).tolist())
        places = kb.matcher.find(text).starts
        met.update(_han_before(codes, places[_is_han(codes[places])]).tolist())
    if not linked[0]:
        return None
    rate = linked.pop(0) / max(met.pop(0), 1)  # of matches after no Han character, all names
    share = min(linked.total() / (met.total() * rate + 1), 1.0)
    by_code = {
        code: (linked[code] + PRIOR_LINKS * share) / (n * rate + PRIOR_LINKS)
        for code, n in met.items()
    }
    return NameStarts(share, by_code)


def _han_before(codes: CodeArray, starts: Int32 | Int64) -> CodeArray:
    """Return the character before each place where two Han characters meet there, else 0.

    One that counts what a number stands before (2002年) belongs to the number.
    """
    before = codes[np.maximum(starts - 1, 0)]
    meets = (starts > 0) & _is_han(before) & _is_han(codes[starts])
    meets &= ~np.isin(codes[np.maximum(starts - 2, 0)], _DIGITS)
    return np.where(meets, before, np.uint32(0))


def _is_han(codes: CodeArray) -> Bools:
    inside = [(codes >= first) & (codes <= last) for first, last in _HAN]
    return np.asarray(np.logical_or.reduce(inside))


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
        self._aliases: list[_Alias] = []
        for alias in aliases:
            words, starts, ends = tokenize(alias)
            edges = zip(ends[:-1].tolist(), starts[1:].tolist(), strict=True)
            raised = (alias[i] != word[0] for i, word in zip(starts.tolist(), words, strict=True))
            self._aliases.append(
                _Alias(
                    tuple(self._numbers.setdefault(word, len(self._numbers)) for word in words),
                    tuple("".join(alias[end:start].split()) for end, start in edges),
                    tuple(raised),
                )
            )
        self._names, self._ids = tuple(aliases), kb.alias_ids(aliases)
        self._starting: dict[int, list[int]] = {}
        for number, apart in enumerate(self._aliases):
            if apart.words:
                self._starting.setdefault(apart.words[0], []).append(number)
        self._forms = WordForms(GivenWords(list(self._numbers)), rules).by_word
        self._begun = tuple({begun for word in self._numbers for begun in _begun(word, rules)})
        self._known = Remembered(self._form)
        self._name_by_form = Remembered(self._whole_form)
        self._is_other_name: dict[tuple[str, int], bool] = {}
        stems = [stem for alias in aliases for stem in _stems_of(alias, rules)]
        self.stems = tuple(
            s
            for stem in dict.fromkeys([*stems, *map(str.upper, stems)])
            for s in (stem, *_rewritten(stem, self._letters))
        )
        """One of them stands in every text that holds a form."""

    def find(self, joined: JoinedTexts) -> Detected:
        """Find the forms of names in texts; `extras` are numbers of the given names."""
        forms = [self._known[word] for word in joined.words]
        found = [
            (start, end, number)
            for row, form in enumerate(forms)
            if form is not None
            for number in self._starting.get(form[2], ())
            for start, end in self._spans(joined, forms, row, number)
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
        return self._name_by_form[surface]

    def _whole_form(self, surface: str) -> str:
        found = self.mentions(surface)
        is_whole = len(found) == 1 and (found[0].start, found[0].end) == (0, len(surface))
        return found[0].surface if is_whole else surface

    def _form(self, word: str) -> WordForm | None:
        spellings = [word, *_rewritten(word, self._letters)]
        numbers = [self._numbers[s] for s in spellings if s in self._numbers]
        if numbers:
            return 0, 0, numbers[0]
        return self._forms[word] if any(begun in word for begun in self._begun) else None

    def _spans(
        self,
        joined: JoinedTexts,
        forms: Sequence[WordForm | None],
        row: int,
        number: int,
    ) -> list[tuple[int, int]]:
        """Return the span of a name that begins with a word of the texts; none if it does not.

        A prefix may stand before its first word only, a particle behind its last. A name as it was
        given is no form of itself.
        """
        alias = self._aliases[number]
        n = len(alias.words)
        some = forms[row : row + n]
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
    begun += [same + other for same, other in rules.changed_beginnings(word)]
    begun += [other for begin in begun for other in rules.respell(begin)]
    return list(dict.fromkeys(b for begin in begun for b in rules.beginnings(begin)))


def _n_shared(word: str, rules: FormRules) -> int:
    """Return how many of its first letters a word shares with all of its forms."""
    shared = [len(word)]
    if rules.endings:
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


MIN_OTHER_WORDS = 2
"""Words in capitals beside a name of one word."""
COMMON_COUNT = 100
"""Times that a word is written in the articles, in any case, to be a common one."""
LEAST_NAMED = 0.1
"""Articles that have it as a name, for each of these times, of a word that is mostly a name."""
_NEAR = 100
_WORDS_BEFORE = re.compile(r"(?:[^\W\d_]+['’-]?[ \t]+)*\Z")
_WORDS_AFTER = re.compile(r"(?:['’][^\W\d_]+)?(?:[ \t]+[^\W\d_]+)*")


class CapitalNames:
    """Tells which names may be meant by words in capitals.

    Args:
        aliases: The names.
        kb: Knows which words are common, and which words in capitals are names of their own.
    """

    def __init__(self, aliases: Sequence[str], kb: KnowledgeBase) -> None:
        fit = [a for a in aliases if a != a.upper() and _is_fit(a, kb)]
        self._name_by_capitals = {alias.upper(): alias for alias in fit}
        self.surfaces = frozenset(self._name_by_capitals)
        """The names in capitals."""

    def name_of(self, surface: str, text: str, start: int, end: int) -> str:
        """Return the name that a mention in capitals is one of, else the mention's own text."""
        name = self._name_by_capitals.get(surface, surface)
        if name == surface or " " in name or _n_beside(text, start, end) >= MIN_OTHER_WORDS:
            return name
        return surface


def _is_fit(alias: str, kb: KnowledgeBase) -> bool:
    known, small, raised = kb.alias_ids([alias, lower(alias), alias.upper()]).tolist()
    if raised >= 0 and kb.alias_counts[raised]:
        return False
    if " " in alias:
        return True
    (word,) = kb.word_ids([lower(alias)]).tolist() if kb.dimensions else (-1,)
    count = int(kb.word_counts[word]) if word >= 0 else 0
    n_documents = int(kb.alias_documents[known]) if known >= 0 else 0
    is_common = count >= COMMON_COUNT and n_documents < LEAST_NAMED * count
    return small < 0 and not is_common


def _n_beside(text: str, start: int, end: int) -> int:
    """Count the words in capitals right before and behind a place, of at least two letters."""
    before = _WORDS_BEFORE.search(text, max(start - _NEAR, 0), start)
    behind = _WORDS_AFTER.match(text, end, end + _NEAR)
    n = 0
    for words in (before[0].split()[::-1] if before else [], behind[0].split() if behind else []):
        for word in words:
            if not word.isupper():
                break
            n += len(word) > 1
    return n


MIN_NAME = 2
MAX_SAME_STEM = 50

WordForm = tuple[int, int, int]
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
        self._rules, self._stem = rules, rules.stem
        self.by_word = Remembered(self._best)
        """What each word is best taken for as a form of a name, None if it is none."""

    def find(self, joined: JoinedTexts) -> Detected:
        """Find names inside the words of texts, at most one in each."""
        words = joined.words
        # In a script with capitals a name begins with one.
        looked_at = [
            i
            for i, is_raised in enumerate(joined.is_raised.tolist())
            if is_raised or not _has_case(words[i][0])
        ]
        found = [(i, *r) for i in looked_at if (r := self.by_word[words[i]]) is not None]
        rows, front, back, aliases = np.array(found, dtype=np.int64).reshape(-1, 4).T
        starts, ends = joined.starts[rows] + front, joined.ends[rows] - back
        if self._rules.language in ACCENTED:
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

    def _best(self, word: str) -> WordForm | None:
        """Return the first name in use that a word may be a form of, else the first of all."""
        first = None
        for form in self._search(word) if len(word) > MIN_NAME else ():
            if self._counts[form[2]]:
                return form
            first = first or form
        return first

    def _search(self, word: str) -> Iterator[WordForm]:
        """Yield what a word may be a form of, the best first; nothing if it is a name itself."""
        capitals = self._rules.capitals(word)
        if any(n >= 0 and self._counts[n] for n in map(self._id, (*capitals, word))):
            return
        yield from self._without_affixes(word)
        for raised in capitals:
            yield from self._with_other_ending(raised)
        for raised in capitals:
            yield from self._with_same_stem(word, raised)
        others = list(self._rules.respell(word))
        yield from ((0, 0, n) for n in map(self._id, map(capital, others)) if n >= 0)
        for other in others:
            yield from self._with_other_ending(capital(other))
            yield from self._with_same_stem(other, capital(other))
        for raised in capitals:
            yield from self._with_other_stem(raised)

    def _without_affixes(self, word: str) -> Iterator[WordForm]:
        """Yield the longest names that are left without a prefix, a particle or both."""
        rules, n = self._rules, len(word)
        fronts = [i for i in range(min(MAX_AFFIX, n) + 1) if not i or word[:i] in rules.before]
        backs = [i for i in range(min(MAX_AFFIX, n) + 1) if not i or word[n - i :] in rules.after]
        cuts = sorted((i + j, i, j) for i in fronts for j in backs if 0 < i + j <= n - MIN_NAME)
        for _, i, j in cuts:
            aliases = map(self._id, rules.capitals(word[i : n - j]))
            yield from ((i, j, alias) for alias in aliases if alias >= 0)

    def _with_other_ending(self, word: str) -> Iterator[WordForm]:
        endings = self._rules.endings
        for n in range(min(MAX_ENDING, len(word) - MIN_STEM), -1, -1):
            stem = word[: len(word) - n]
            for other in endings.get(word[len(stem) :], ()):
                alias = self._id(stem + other)
                if alias >= 0:
                    yield 0, 0, alias

    def _with_other_stem(self, word: str) -> Iterator[WordForm]:
        """Yield names whose stem changes before some endings: Praha, Praze; Marek, Marka."""
        endings, stems = self._rules.endings, self._rules.stems
        for n in range(min(MAX_ENDING, len(word) - MIN_NAME) if stems else -1, -1, -1):
            stem = word[: len(word) - n]
            others = endings.get(word[len(stem) :], ())
            for k in range(min(MAX_CHANGE, len(stem) - 1) if others else 0, 0, -1):
                for changed in stems.get(stem[-k:], ()):
                    names = (stem[:-k] + changed + other for other in others)
                    yield from ((0, 0, a) for a in map(self._id, names) if a >= 0)

    def _with_same_stem(self, word: str, raised: str) -> Iterator[WordForm]:
        if self._stem is None:
            return
        stem = self._stem(word)
        is_rewritten = self._rules.language in REWRITTEN
        if len(stem) < MIN_STEM or not (is_rewritten or word.startswith(stem)):
            return
        least = self._rules.n_shared(stem)
        # Written in other letters, a stem may be longer than its part of the word.
        most = min(len(stem), len(word)) if is_rewritten else least
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
            self._rules.language in GRADED and strong_root(name) == strong_root(stem)
        )
