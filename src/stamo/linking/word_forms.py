"""Names inside words: particles, prefixes and inflected forms, in languages that have them.

A name need not be a whole word: 서울은 is 서울 with a particle, בפריז is פריז with a preposition,
Москве is a form of Москва. What a knowledge base's own links teach comes first: what stands in one
word with them (`[[서울]]은`), and which endings piped links change (`[[Лондон|Лондоне]]`). A list
of particles and a stemmer help where a wiki is too small to teach them.

Affixes stay outside the span, as in the wiki's own links; an inflected form is the span as it is.
English, which hardly does any of this to names, is left alone and pays nothing. What names the
words are read as is behind one small protocol: those of the knowledge base here, those of new
entities in `linking.alias_forms`.
"""

from __future__ import annotations

import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import islice
from typing import Protocol

import numpy as np

from stamo.corpus.tokenizer import DOTTED_I, capital, is_georgian, lower, word_spans
from stamo.features.articles import iterate_articles
from stamo.kb.base import KnowledgeBase
from stamo.linking.settings import LEFT_ALONE
from stamo.linking.surfaces import MAX_REMEMBERED_LENGTH
from stamo.linking.texts import JoinedTexts
from stamo.system.arrays import Int32, Int64

N_ARTICLES, N_ENTITIES = 2000, 5000
"""How much of a knowledge base is looked at to learn from."""
MIN_SEEN = 2
"""Different entities that must show an affix or a change of ending."""
MAX_AFFIX, MAX_ENDING = 6, 4
MIN_STEM = 3
"""Letters that a form shares with its name; two where a script has syllables or no vowels."""
MIN_NAME = 2
MAX_CACHED = 500_000
MAX_SAME_STEM = 50
STEMMERS = {
    **{"ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german"},
    **{"el": "greek", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian"},
    **{"fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian"},
    **{"bs": "serbian", "hr": "serbian", "nb": "norwegian", "nn": "norwegian", "sh": "serbian"},
    **{"hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali"},
    **{"nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian"},
    **{"ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish"},
}
"""The stemmers of snowballstemmer by language code."""

REWRITTEN = frozenset({"bs", "el", "hr", "sh", "sr"})
"""Languages whose stemmer drops accents or writes Cyrillic in Latin letters."""
GRADED = frozenset({"fi", "et"})
"""Languages in which stems change their last letters: Suomi, Suomessa; Lahti, Lahdessa."""
_GRADES = (("ng", "nk"), ("mm", "mp"), ("nn", "nt"), ("d", "t"))
_VOWELS = "aeiouyäöõü"
_PLAIN, _ACCENTED = "αεηιουω", "άέήίόύώ"

WordReading = tuple[int, int, int]
"""Letters to leave out at the front, at the end, and the alias of the rest."""
Stem = Callable[[str], str]
Respelling = Callable[[str], Iterator[str]]


@cache
def _has_case(letter: str) -> bool:
    return letter.upper() != letter.lower() and not is_georgian(letter)


@dataclass(frozen=True)
class FoundForms:
    """Names found inside words; places are those of the joined texts."""

    starts: Int64  # (n,)
    ends: Int64  # (n,)
    aliases: Int32  # (n,)


@dataclass(frozen=True)
class Affixes:
    """What is written into one word with a name, and which endings forms of names have."""

    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    endings: Mapping[str, tuple[str, ...]] | None = None
    """Ending of a form -> endings of the name, the most seen first."""


@dataclass(frozen=True)
class FormRules:
    """How a language writes names into words."""

    affixes: Affixes
    stem: Stem | None
    graded: bool = False
    rewritten: bool = False
    dotted_i: bool = False
    respell: Respelling | None = None
    """How else a word may be written that stands in capitals."""

    def capitals(self, word: str) -> tuple[str, ...]:
        """Return how a word in small letters may be written with a capital."""
        is_dotted = self.dotted_i and word.startswith("i")
        return ("\u0130" + word[1:], capital(word)) if is_dotted else (capital(word),)

    def n_shared(self, stem: str) -> int:
        """Return how many letters of a stem all names of this stem begin with."""
        n_other = MAX_ENDING if self.rewritten else 2 if self.graded else 0
        return max(len(stem) - n_other, MIN_STEM) if n_other else len(stem)


@lru_cache(maxsize=2)
def form_rules(kb: KnowledgeBase) -> FormRules | None:
    """Return the rules of a knowledge base's language, None if names are left alone in it."""
    language = kb.language
    if language in LEFT_ALONE:
        return None
    return FormRules(
        learn_affixes(kb, language),
        stemmer(language),
        graded=language in GRADED,
        rewritten=language in REWRITTEN,
        dotted_i=language in DOTTED_I,
        respell=RESPELLINGS.get(language),
    )


def accented(word: str) -> Iterator[str]:
    """Yield a Greek word without an accent with one on each vowel; capitals have none."""
    if not any(sign in _ACCENTED for sign in word):
        vowels = ((i, _PLAIN.find(sign)) for i, sign in enumerate(word))
        yield from (word[:i] + _ACCENTED[n] + word[i + 1 :] for i, n in vowels if n >= 0)


def with_sharp_s(word: str) -> Iterator[str]:
    """Yield a German word with "ß" for "ss": that is what its capitals are, and Swiss text."""
    if "ss" in word:
        yield word.replace("ss", "ß")


RESPELLINGS: Mapping[str, Respelling] = {"de": with_sharp_s, "el": accented}


class NameSource(Protocol):
    """The names that words may be forms of."""

    def id(self, name: str) -> int:
        """Return the number of a name, -1 if it is none."""

    def count(self, number: int) -> int:
        """Return how often a name is used."""

    def with_prefix(self, prefix: str, most: int) -> list[str]:
        """Return names that begin with a capital prefix."""


@dataclass(frozen=True)
class KnownNames:
    """Those of a knowledge base."""

    kb: KnowledgeBase

    def id(self, name: str) -> int:
        """Return the alias of a name."""
        return self.kb.alias_id(name)

    def count(self, number: int) -> int:
        """Return how often an alias is linked."""
        return int(self.kb.alias_counts[number])

    def with_prefix(self, prefix: str, most: int) -> list[str]:
        """Return aliases that begin with a prefix."""
        return self.kb.names_with_prefix(prefix, most)


def find_word_forms(kb: KnowledgeBase) -> WordForms | None:
    """Return what finds names inside words of a knowledge base's language, None if nothing does."""
    rules = form_rules(kb)
    return None if rules is None else WordForms(KnownNames(kb), rules)


class WordForms:
    """Finds names inside the words of texts; what it found out of a word is remembered."""

    def __init__(self, names: NameSource, rules: FormRules) -> None:
        self._names = names
        self._rules, self._affixes, self._stem = rules, rules.affixes, rules.stem
        self._readings: dict[str, WordReading | None] = {}

    def find(self, joined: JoinedTexts) -> FoundForms:
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
        return FoundForms(starts, ends, aliases.astype(np.int32))

    def reading(self, word: str) -> WordReading | None:
        """Return the best way to read a word as a form of a name, None if there is none."""
        try:
            return self._readings[word]
        except KeyError:
            found = next(self._search(word), None) if len(word) > MIN_NAME else None
            if len(self._readings) < MAX_CACHED and len(word) <= MAX_REMEMBERED_LENGTH:
                self._readings[word] = found
            return found

    def _search(self, word: str) -> Iterator[WordReading]:
        """Yield ways to read a word as a form of a name, the best first; none if it is a name."""
        capitals = self._rules.capitals(word)
        if any(n >= 0 and self._names.count(n) for n in map(self._names.id, (*capitals, word))):
            return
        yield from self._without_affixes(word)
        for raised in capitals:
            yield from self._with_other_ending(raised)
        for raised in capitals:
            yield from self._with_same_stem(word, raised)
        if self._rules.respell is not None:
            others = list(self._rules.respell(word))
            yield from ((0, 0, n) for n in map(self._names.id, map(capital, others)) if n >= 0)
            for other in others:
                yield from self._with_same_stem(other, capital(other))

    def _without_affixes(self, word: str) -> Iterator[WordReading]:
        """Yield the longest names that are left without a prefix, a particle or both."""
        affixes, n = self._affixes, len(word)
        fronts = [i for i in range(min(MAX_AFFIX, n) + 1) if not i or word[:i] in affixes.before]
        backs = [i for i in range(min(MAX_AFFIX, n) + 1) if not i or word[n - i :] in affixes.after]
        cuts = sorted((i + j, i, j) for i in fronts for j in backs if 0 < i + j <= n - MIN_NAME)
        for _, i, j in cuts:
            aliases = map(self._names.id, self._rules.capitals(word[i : n - j]))
            yield from ((i, j, alias) for alias in aliases if alias >= 0)

    def _with_other_ending(self, word: str) -> Iterator[WordReading]:
        endings = self._affixes.endings or {}
        for n in range(min(MAX_ENDING, len(word) - MIN_STEM), -1, -1):
            stem = word[: len(word) - n]
            for other in endings.get(word[len(stem) :], ()):
                alias = self._names.id(stem + other)
                if alias >= 0:
                    yield 0, 0, alias

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
            names = self._names.with_prefix(raised[:n], MAX_SAME_STEM)
            alike = [
                name for name in names if " " not in name and self._is_alike(lower(name), stem)
            ]
            if alike:
                yield 0, 0, max(map(self._names.id, alike), key=self._names.count)
                return

    def _is_alike(self, name: str, stem: str) -> bool:
        assert self._stem is not None
        return self._stem(name) == stem or (
            self._rules.graded and strong_root(name) == strong_root(stem)
        )


def strong_root(stem: str) -> str:
    """Return a stem without its last vowel, and with the consonants that a dictionary has."""
    root = stem[:-1] if stem[-1:] in _VOWELS else stem
    for weak, strong in _GRADES:
        if root.endswith(weak):
            return root.removesuffix(weak) + strong
    return root


def learn_affixes(kb: KnowledgeBase, language: str) -> Affixes:
    """Join what a knowledge base's links teach with the list of its language."""
    listed = affix_lists().get(language, {})
    before, after = linked_affixes(kb)
    endings = changed_endings(kb)
    for form, others in listed_endings(language).items():
        endings[form] = tuple(dict.fromkeys((*endings.get(form, ()), *others)))
    return Affixes(
        frozenset(listed.get("before", "").split()) | before,
        frozenset(listed.get("after", "").split()) | after,
        endings,
    )


def listed_endings(language: str) -> dict[str, list[str]]:
    """Return the listed endings of forms with those of the names; "-" is none at all."""
    listed = affix_lists().get(language, {}).get("endings", "")
    endings: dict[str, list[str]] = {}
    for group in filter(str.strip, listed.split(";")):
        name, _, forms = unicodedata.normalize("NFC", group).partition(":")
        for form in forms.split():
            endings.setdefault(form.strip("-"), []).append(name.strip().strip("-"))
    return endings


@cache
def affix_lists() -> dict[str, dict[str, str]]:
    """Return the affixes and letters of languages that we list."""
    path = resources.files("stamo.linking") / "affixes.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def linked_affixes(kb: KnowledgeBase) -> tuple[frozenset[str], frozenset[str]]:
    """Find what stands before and after links in the same word."""
    before: Counter[tuple[str, int]] = Counter()
    after: Counter[tuple[str, int]] = Counter()
    for text, starts, ends, entities in islice(iterate_articles(kb, held_out=False), N_ARTICLES):
        lowered = lower(text)
        word_starts, word_ends = word_spans(lowered)
        for start, end, entity in zip(
            starts.tolist(), ends.tolist(), entities.tolist(), strict=True
        ):
            i = int(np.searchsorted(word_ends, start, side="right"))
            j = int(np.searchsorted(word_ends, end, side="left"))
            if i < len(word_starts) and 0 < start - word_starts[i] <= MAX_AFFIX:
                before[lowered[word_starts[i] : start], entity] += 1
            if j < len(word_starts) and word_starts[j] < end < word_ends[j] <= end + MAX_AFFIX:
                after[lowered[end : word_ends[j]], entity] += 1
    return _often(before), _often(after)


def _often(seen: Counter[tuple[str, int]]) -> frozenset[str]:
    """Return the affixes that stand beside several entities."""
    counts = Counter(affix for affix, _ in seen)
    return frozenset(affix for affix, n in counts.items() if n >= MIN_SEEN)


def changed_endings(kb: KnowledgeBase) -> dict[str, tuple[str, ...]]:
    """Learn from piped links which endings of forms stand for which endings of names."""
    counts: Counter[tuple[str, str]] = Counter()
    for entity in range(min(kb.n_entities, N_ENTITIES)):
        title = kb.title(entity)
        if not _is_word(title):
            continue
        counts.update(
            {change for form, n in kb.aliases_of(entity) if n and (change := _change(form, title))}
        )
    rules: dict[str, list[str]] = {}
    for (ending, other), n in counts.most_common():
        if n >= MIN_SEEN:
            rules.setdefault(ending, []).append(other)
    return {ending: tuple(others) for ending, others in rules.items()}


def _is_word(name: str) -> bool:
    """Tell whether a name is letters alone, with the vowel signs that the scripts of India have."""
    return all(sign.isalpha() or unicodedata.category(sign).startswith("M") for sign in name)


def _change(form: str, title: str) -> tuple[str, str] | None:
    """Return the endings in which two words differ, None when they are no forms of one name."""
    if form == title or not _is_word(form):
        return None
    shared = next(
        (i for i, (a, b) in enumerate(zip(form, title, strict=False)) if a != b),
        min(len(form), len(title)),
    )
    ending, other = form[shared:], title[shared:]
    is_form = shared >= MIN_STEM and max(len(ending), len(other)) <= MAX_ENDING
    return (ending, other) if is_form else None


@cache
def stemmer(language: str) -> Stem | None:
    """Return the stemmer of a language, None when there is none or the extra is not installed."""
    if language not in STEMMERS:
        return None
    try:
        import snowballstemmer
    except ImportError:
        return None
    stem: Stem = snowballstemmer.stemmer(STEMMERS[language]).stemWord
    return stem
