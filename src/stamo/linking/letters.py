"""How a language writes names into words: what its wiki teaches, what we list, a stemmer."""

from __future__ import annotations

import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from itertools import islice

import numpy as np

from stamo.corpus.tokenizer import DOTTED_I, capital, lower, word_spans
from stamo.features.mentions import iterate_articles
from stamo.kb.base import KnowledgeBase
from stamo.linking.texts import TABLE_SIZE, CodeArray

_SAME = {"bs": "hr", "sh": "hr"}
"""Languages whose endings are those of another."""
LETTER_CLASSES = {"V": "aeiouyäöõü", "C": "bcdfghjklmnprstvz"}
"""In a list, such a capital is any of these letters, the same in a name and in its form."""

_HAN = (0x3400, 0x9FFF)
_WIDE = range(0xFF01, 0xFF5F)
_WIDE_SHIFT = 0xFEE0
_CHINESE = frozenset({"zh", "yue", "wuu", "gan", "lzh"})


@cache
def affix_lists() -> dict[str, dict[str, str]]:
    """Return the affixes and letters of languages that we list."""
    path = resources.files("stamo.linking") / "affixes.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def listed_changes(language: str, kind: str) -> dict[str, list[str]]:
    """Return what the endings or stems of forms are in the names; "-" is none at all.

    Args:
        language: Its code.
        kind: `endings` or `stems`, lists of "name: forms".
    """
    listed = affix_lists().get(_SAME.get(language, language), {}).get(kind, "")
    changes: dict[str, list[str]] = {}
    for group in filter(str.strip, listed.split(";")):
        name, _, forms = unicodedata.normalize("NFC", group).partition(":")
        for form in forms.split():
            for written, stands_for in _of_all_letters(form.strip("-"), name.strip().strip("-")):
                changes.setdefault(written, []).append(stands_for)
    return changes


def _of_all_letters(form: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield a change for each letter of the classes that stand in it."""
    for sign, letters in LETTER_CLASSES.items():
        if sign in form:
            for letter in letters:
                both = (side.replace(sign, letter, 1) for side in (form, name))
                yield from _of_all_letters(*both)
            return
    yield form, name


@cache
def other_letters(language: str) -> tuple[CodeArray, ...]:
    """Return the ways to rewrite texts for a knowledge base in a language, most often none.

    Traditional and simplified Chinese need the package opencc; without it they stay apart.
    """
    tables = []
    if pairs := affix_lists()["letters"].get(language):
        first, second = map("".join, zip(*pairs.split(), strict=True))
        tables += [_table(second, first), _table(first, second)]
    if language in _CHINESE:
        tables += _chinese()
    if language in _CHINESE | {"ja", "ko"}:
        wide = map(chr, _WIDE)
        tables.append(_table("".join(wide), "".join(chr(code - _WIDE_SHIFT) for code in _WIDE)))
    return tuple(tables)


def _table(letters: str, written: str) -> CodeArray:
    table = np.arange(TABLE_SIZE, dtype=np.uint32)
    table[[ord(letter) for letter in letters]] = [ord(letter) for letter in written]
    return table


def _chinese() -> list[CodeArray]:
    try:
        from opencc import OpenCC
    except ImportError:
        return []
    han = "".join(map(chr, range(_HAN[0], _HAN[1] + 1)))
    tables = []
    for direction in ("t2s", "s2t"):
        convert = OpenCC(direction).convert
        written = [convert(letter) for letter in han]
        same = [
            w if len(w) == 1 and ord(w) < TABLE_SIZE else letter
            for letter, w in zip(han, written, strict=True)
        ]
        tables.append(_table(han, "".join(same)))
    return tables


N_ARTICLES, N_ENTITIES = 2000, 5000
"""How much of a knowledge base is looked at to learn from."""
MIN_SEEN = 2
"""Different entities that must show an affix or a change."""
MAX_AFFIX, MAX_ENDING = 6, 4
MAX_CHANGE = 4
"""Letters before an ending in which a stem may change."""
MIN_STEM = 3
"""Letters that a form shares with its name; two where a script has syllables or no vowels."""

Change = tuple[str, str]
"""What a form has, and what the name has instead."""


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


def changed_words(kb: KnowledgeBase) -> list[tuple[int, Change]]:
    """Return the ends in which words of titles and of links to them differ, by entity.

    Names of several words are compared word by word: `[[Nový Most|Novém Mostě]]` shows two.
    """
    found = []
    for entity in range(min(kb.n_entities, N_ENTITIES)):
        title = kb.title(entity).split(" ")
        for form, n in kb.aliases_of(entity):
            words = form.split(" ")
            if n and len(words) == len(title):
                changes = (_change(*pair) for pair in zip(words, title, strict=True))
                found += [(entity, change) for change in changes if change is not None]
    return list(dict.fromkeys(found))


def changed_endings(changes: Iterable[tuple[int, Change]]) -> dict[str, tuple[str, ...]]:
    """Return which endings of forms stand for which endings of names, the most seen first."""
    return _often_changed(change for _, change in changes if max(map(len, change)) <= MAX_ENDING)


def changed_stems(
    changes: Iterable[tuple[int, Change]], endings: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return which ends of stems in forms stand for which in names.

    Praze of Praha has the ending of Ostravě of Ostrava, if e stands for a, behind a stem that has z
    for h. Several entities must show the change of the stem, behind whatever endings.
    """
    stems = {
        (entity, stem)
        for entity, change in changes
        for stem in islice(_stem_changes(change, endings), 1)
    }
    return _often_changed(stem for _, stem in stems)


def _stem_changes(change: Change, endings: Mapping[str, tuple[str, ...]]) -> Iterator[Change]:
    """Yield what is left of a change without known endings, the shortest first."""
    form, name = change
    for n in range(len(form), -1, -1):
        for other in endings.get(form[len(form) - n :], ()):
            stem, name_stem = form[: len(form) - n], name.removesuffix(other)
            if name.endswith(other) and stem and name_stem and stem[-1] != name_stem[-1]:
                yield stem, name_stem


def _often_changed(changes: Iterable[Change]) -> dict[str, tuple[str, ...]]:
    often: dict[str, list[str]] = {}
    for (form, name), n in Counter(changes).most_common():
        if n >= MIN_SEEN:
            often.setdefault(form, []).append(name)
    return {form: tuple(names) for form, names in often.items()}


def _change(form: str, title: str) -> Change | None:
    """Return the ends in which two words differ, None when they are no forms of one name."""
    # Letters alone, with the vowel signs that the scripts of India have.
    is_word = all(c.isalpha() or unicodedata.category(c).startswith("M") for c in form + title)
    if form == title or not is_word:
        return None
    shared = next(
        (i for i, (a, b) in enumerate(zip(form, title, strict=False)) if a != b),
        min(len(form), len(title)),
    )
    ending, other = form[shared:], title[shared:]
    is_form = shared >= MIN_STEM and max(len(ending), len(other)) <= MAX_ENDING + MAX_CHANGE
    return (ending, other) if is_form else None


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
ACCENTED = frozenset({"el"})
"""Languages in which accents move in other forms of a word, and capitals have none."""
GRADED = frozenset({"fi", "et"})
"""Languages in which stems change their last letters: Suomi, Suomessa; Lahti, Lahdessa."""
_GRADES = (("ng", "nk"), ("mm", "mp"), ("nn", "nt"), ("d", "t"))
_VOWELS = "aeiouyäöõü"
_PLAIN, _WITH_ACCENT = "αεηιουωΑΕΗΙΟΥΩ", "άέήίόύώΆΈΉΊΌΎΏ"
_WITHOUT_ACCENT = str.maketrans(_WITH_ACCENT, _PLAIN)

Stem = Callable[[str], str]
Respelling = Callable[[str], Iterator[str]]


@dataclass(frozen=True)
class FormRules:
    """How a language writes names into words."""

    language: str
    stem: Stem | None
    before: frozenset[str] = frozenset()
    """What is written into one word with a name, before it and after it."""
    after: frozenset[str] = frozenset()
    endings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Ending of a form -> endings of the name, the most seen first."""
    stems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """End of a stem in a form, before its ending -> the same in the name."""

    def changed_beginnings(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield what forms of a name begin with whose stem changes: letters of it, and others."""
        for ending in {other for others in self.endings.values() for other in others}:
            stem = name.removesuffix(ending) if name.endswith(ending) else ""
            most = min(MAX_CHANGE, len(stem) - 1)
            for form, changes in self.stems.items():
                for changed in changes:
                    if 0 < len(changed) <= most and stem.endswith(changed):
                        yield stem.removesuffix(changed), form

    def respell(self, word: str) -> Iterator[str]:
        """Yield how else a word may be written, in capitals or by others."""
        if self.language in RESPELLINGS:
            yield from RESPELLINGS[self.language](word)

    def beginnings(self, letters: str) -> list[str]:
        """Return how the first letters of a word may be written in other forms of it."""
        if self.language not in ACCENTED:
            return [letters]
        plain = without_accents(letters)
        return list(dict.fromkeys([letters, plain, *accented(plain)]))

    def capitals(self, word: str) -> tuple[str, ...]:
        """Return how a word in small letters may be written with a capital."""
        is_dotted = self.language in DOTTED_I and word.startswith("i")
        return ("\u0130" + word[1:], capital(word)) if is_dotted else (capital(word),)

    def n_shared(self, stem: str) -> int:
        """Return how many letters of a stem all names of this stem begin with."""
        n_other = 2 if self.language in GRADED else 0
        n_other = MAX_ENDING if self.language in REWRITTEN else n_other
        return max(len(stem) - n_other, MIN_STEM) if n_other else len(stem)


def without_accents(word: str) -> str:
    """Return a Greek word without accents."""
    return word.translate(_WITHOUT_ACCENT)


def accented(word: str) -> Iterator[str]:
    """Yield a Greek word without an accent with one on each vowel; capitals have none."""
    if not any(sign in _WITH_ACCENT for sign in word):
        vowels = ((i, _PLAIN.find(sign)) for i, sign in enumerate(word))
        yield from (word[:i] + _WITH_ACCENT[n] + word[i + 1 :] for i, n in vowels if n >= 0)


def with_sharp_s(word: str) -> Iterator[str]:
    """Yield a German word with "ß" for "ss": that is what its capitals are, and Swiss text."""
    if "ss" in word:
        yield word.replace("ss", "ß")


def with_dots(word: str) -> Iterator[str]:
    """Yield a Russian word with "ё" for an "е", or none of it: few texts write the dots."""
    if "ё" in word:
        yield word.replace("ё", "е")
    yield from (word[:i] + "ё" + word[i + 1 :] for i, sign in enumerate(word) if sign == "е")


RESPELLINGS: Mapping[str, Respelling] = {
    "be": with_dots,
    "de": with_sharp_s,
    "el": accented,
    "ru": with_dots,
}


def strong_root(stem: str) -> str:
    """Return a stem without its last vowel, and with the consonants that a dictionary has."""
    root = stem[:-1] if stem[-1:] in _VOWELS else stem
    for weak, strong in _GRADES:
        if root.endswith(weak):
            return root.removesuffix(weak) + strong
    return root


def learn_rules(kb: KnowledgeBase, language: str, stem: Stem | None = None) -> FormRules:
    """Join what a knowledge base's links teach with the lists of its language."""
    listed = affix_lists().get(language, {})
    before, after = linked_affixes(kb)
    changes = changed_words(kb)
    endings = _joined(changed_endings(changes), listed_changes(language, "endings"))
    stems = _joined(changed_stems(changes, endings), listed_changes(language, "stems"))
    before |= set(listed.get("before", "").split())
    after |= set(listed.get("after", "").split())
    return FormRules(language, stem, before, after, endings, stems)


@lru_cache(maxsize=2)
def form_rules(kb: KnowledgeBase) -> FormRules:
    """Return the rules of a knowledge base's language, with its stemmer."""
    return learn_rules(kb, kb.language, stemmer(kb.language))


def _joined(
    learned: Mapping[str, Sequence[str]], listed: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Put what is listed behind what was learned."""
    forms = dict.fromkeys((*learned, *listed))
    return {
        form: tuple(dict.fromkeys((*learned.get(form, ()), *listed.get(form, ()))))
        for form in forms
    }


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
