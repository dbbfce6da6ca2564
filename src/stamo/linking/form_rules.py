"""How a language writes names into words: what its wiki teaches, what we list, a stemmer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache

from stamo.corpus.tokenizer import DOTTED_I, capital
from stamo.kb.base import KnowledgeBase
from stamo.linking.form_lists import affix_lists, listed_changes
from stamo.linking.learned_forms import (
    MAX_CHANGE,
    MAX_ENDING,
    MIN_STEM,
    changed_endings,
    changed_stems,
    changed_words,
    linked_affixes,
)

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
_PLAIN, _ACCENTED = "αεηιουωΑΕΗΙΟΥΩ", "άέήίόύώΆΈΉΊΌΎΏ"
_WITHOUT_ACCENT = str.maketrans(_ACCENTED, _PLAIN)

Stem = Callable[[str], str]
Respelling = Callable[[str], Iterator[str]]


@dataclass(frozen=True)
class Affixes:
    """What is written into one word with a name, and which endings forms of names have."""

    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    endings: Mapping[str, tuple[str, ...]] | None = None
    """Ending of a form -> endings of the name, the most seen first."""
    stems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """End of a stem in a form, before its ending -> the same in the name."""

    @cached_property
    def stems_by_name(self) -> dict[str, list[str]]:
        """The other way round: end of a stem in a name -> the same in forms."""
        forms: dict[str, list[str]] = {}
        for form, names in self.stems.items():
            for name in names:
                forms.setdefault(name, []).append(form)
        return forms

    @cached_property
    def name_endings(self) -> frozenset[str]:
        """Endings of names that forms replace by others."""
        return frozenset(other for others in (self.endings or {}).values() for other in others)

    def changed_beginnings(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield what forms of a name begin with whose stem changes: letters of it, and others."""
        for ending in self.name_endings:
            stem = name.removesuffix(ending) if name.endswith(ending) else ""
            for n in range(1, min(MAX_CHANGE, len(stem) - 1) + 1):
                for form in self.stems_by_name.get(stem[-n:], ()):
                    yield stem[:-n], form


@dataclass(frozen=True)
class FormRules:
    """How a language writes names into words."""

    affixes: Affixes
    stem: Stem | None
    graded: bool = False
    rewritten: bool = False
    dotted_i: bool = False
    respell: Respelling | None = None
    """How else a word may be written, in capitals or by others."""
    accents_move: bool = False

    def beginnings(self, letters: str) -> list[str]:
        """Return how the first letters of a word may be written in other forms of it."""
        if not self.accents_move:
            return [letters]
        plain = without_accents(letters)
        return list(dict.fromkeys([letters, plain, *accented(plain)]))

    def capitals(self, word: str) -> tuple[str, ...]:
        """Return how a word in small letters may be written with a capital."""
        is_dotted = self.dotted_i and word.startswith("i")
        return ("\u0130" + word[1:], capital(word)) if is_dotted else (capital(word),)

    def n_shared(self, stem: str) -> int:
        """Return how many letters of a stem all names of this stem begin with."""
        n_other = MAX_ENDING if self.rewritten else 2 if self.graded else 0
        return max(len(stem) - n_other, MIN_STEM) if n_other else len(stem)


@lru_cache(maxsize=2)
def form_rules(kb: KnowledgeBase) -> FormRules:
    """Return the rules of a knowledge base's language."""
    language = kb.language
    return FormRules(
        learn_affixes(kb, language),
        stemmer(language),
        graded=language in GRADED,
        rewritten=language in REWRITTEN,
        dotted_i=language in DOTTED_I,
        respell=RESPELLINGS.get(language),
        accents_move=language == "el",
    )


def without_accents(word: str) -> str:
    """Return a Greek word without accents."""
    return word.translate(_WITHOUT_ACCENT)


def accented(word: str) -> Iterator[str]:
    """Yield a Greek word without an accent with one on each vowel; capitals have none."""
    if not any(sign in _ACCENTED for sign in word):
        vowels = ((i, _PLAIN.find(sign)) for i, sign in enumerate(word))
        yield from (word[:i] + _ACCENTED[n] + word[i + 1 :] for i, n in vowels if n >= 0)


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


def learn_affixes(kb: KnowledgeBase, language: str) -> Affixes:
    """Join what a knowledge base's links teach with the lists of its language."""
    listed = affix_lists().get(language, {})
    before, after = linked_affixes(kb)
    changes = changed_words(kb)
    endings = _joined(changed_endings(changes), listed_changes(language, "endings"))
    return Affixes(
        frozenset(listed.get("before", "").split()) | before,
        frozenset(listed.get("after", "").split()) | after,
        endings,
        _joined(changed_stems(changes, endings), listed_changes(language, "stems")),
    )


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
