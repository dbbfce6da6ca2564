"""Find a name of the knowledge base for a surface form that is not one itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape

import numpy as np

from stamo.kb.base import KnowledgeBase
from stamo.kb.names import normalise_surface
from stamo.system.arrays import Float64, Int32, Int64

_QUOTES = "\"'`“”‘’«»„‚‹›()[]{}<>.,;:!?*_|/\\-–— "
_POSSESSIVES = ("'s", "’s", "'", "’")
_PLAIN = str.maketrans("‘’ʼ‐‑‒–—−", "'''------")
SPELLING_WEIGHT = 1.0
"""Links that all other spellings of a name together are worth beside its own."""
LONGER_WEIGHT = 0.5
"""The same for all longer names that begin with it."""
LEAST_READING_SHARE = 0.003
"""A reading that would get less of the prior than this is left out."""
MAX_PREFIXED = 500
MIN_LONGER = 3
MAX_INITIALS = 5
MAX_REMEMBERED = 100_000
"""Names whose readings are remembered, of some hundred bytes each; then all are forgotten."""
MAX_REMEMBERED_LENGTH = 100
MAX_PARTS = 5
_BEFORE_DIGIT = re.compile(r"(?<=[^\W\d_])(?=\d)")
_BRACKETS = re.compile(r" \([^()]*\)?$")
_TITLES = (
    "mr mrs ms miss dr prof professor sir dame lord lady president king queen emperor empress pope "
    "prince princess duke earl count saint st general captain colonel admiral senator governor "
    "congressman representative judge justice minister chancellor rev reverend bishop archbishop "
    "cardinal state republic kingdom city town county province district commonwealth the of"
)
TITLES = frozenset(_TITLES.split())
"""English words before a name that say what it is and belong to it only sometimes."""


def known_names(kb: KnowledgeBase, surfaces: Sequence[str]) -> list[str]:
    """Return for each surface the alias to look it up by; unknown ones come back as they are.

    What HTML escapes is read as a browser does. The exact form comes first, then other spellings
    of it: other quotes and dashes, without quotes around it, without a possessive, without an
    article, in another case.
    """
    names = [normalise_surface(unescape(surface)) for surface in surfaces]
    unknown: Int64 = np.flatnonzero(kb.alias_ids(names) < 0)
    for i in unknown.tolist():
        spellings = list(dict.fromkeys(other_spellings(names[i])))
        found = np.flatnonzero(kb.alias_ids(spellings) >= 0)
        if len(found):
            names[i] = spellings[found[0]]
    return names


@dataclass(frozen=True)
class Readings:
    """Which aliases names may be read as, and how much each reading counts; r readings."""

    names: Int64  # (r,) index of the name
    aliases: Int32  # (r,)
    weights: Float64  # (r,) as if the name had been so many links to the alias's entities

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, float]]) -> Readings:
        """Take rows of name, alias and weight."""
        names, aliases, weights = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(
            np.array(names, np.int64), np.array(aliases, np.int32), np.array(weights, np.float64)
        )


NO_READINGS = Readings(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float64))


@dataclass(frozen=True)
class NameReadings:
    """Finds the aliases that are written like given names, or begin with them.

    Somebody says that these are names, so they are searched harder than those that are detected:
    in other spellings, in singular and plural ("Lectionaries"), as the beginning of a longer name
    ("Asheville" of "Asheville, North Carolina"). A name's own links outweigh all of that as soon
    as there are some.

    What was found is remembered: the same names come in batch after batch.
    """

    kb: KnowledgeBase
    _known: dict[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)

    def of(self, names: Sequence[str], fixed: frozenset[str] = frozenset()) -> Readings:
        """Return the readings of names, but of those that are fixed."""
        rows = [
            (i, alias, weight)
            for i, name in enumerate(names)
            if name not in fixed
            for alias, weight in self._of(name)
        ]
        return Readings.of(rows)

    def _of(self, name: str) -> tuple[tuple[int, float], ...]:
        found = self._known.get(name)
        if found is None:
            found = _weighted(self.kb, name)
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            if len(name) <= MAX_REMEMBERED_LENGTH:
                self._known[name] = found
        return found


def _weighted(kb: KnowledgeBase, name: str) -> tuple[tuple[int, float], ...]:
    """Return the aliases that a name may be read as, with their weights; empty if only itself."""
    own = kb.alias_id(name)
    alike = _shares(kb, list(spelled_alike(name)), own, SPELLING_WEIGHT)
    longer = _shares(kb, _longer(kb, name, own), own, LONGER_WEIGHT)
    if own < 0 and not alike and not longer:
        longer = _shares(kb, _without_title(kb, name), own, LONGER_WEIGHT)
    if not alike and not longer:
        return ()
    itself = {own: max(float(kb.alias_counts[own]), 1.0)} if own >= 0 else {}
    return (*{**longer, **alike}.items(), *itself.items())


def _shares(kb: KnowledgeBase, names: list[str], own: int, weight: float) -> dict[int, float]:
    """Divide a weight among known names by how often each is a link."""
    aliases = np.unique(kb.alias_ids(names))
    aliases = aliases[(aliases >= 0) & (aliases != own)]
    counts = np.maximum(kb.alias_counts[aliases], 0.5)
    shares = weight * counts / counts.sum() if len(aliases) else counts
    n_own = float(kb.alias_counts[own]) if own >= 0 else 0.0
    kept = shares >= LEAST_READING_SHARE * (n_own + weight)
    return dict(zip(aliases[kept].tolist(), shares[kept].tolist(), strict=True))


def _longer(kb: KnowledgeBase, name: str, own: int) -> list[str]:
    """Return known names that begin with a name and mean something else than it does."""
    if len(name) < MIN_LONGER:
        return []
    prefixes = (f"{name}{sign}" for sign in (",", " ", "-"))
    longer = [n for prefix in prefixes for n in kb.names_with_prefix(prefix, MAX_PREFIXED)]
    if own < 0 or not longer:
        return longer
    meant = kb.by_alias.batch(np.array([own], np.int32))[0]
    is_known = np.isin(kb.candidate_table(longer, 1)[0][:, 0], meant)
    return [n for n, known in zip(longer, is_known.tolist(), strict=True) if not known]


def _without_title(kb: KnowledgeBase, name: str) -> list[str]:
    """Return the known name that is left without words that only describe it.

    Words in small letters and titles do: "western Anatolia", "Emperor Leopold I", "State of
    Nevada". Another capital does not: who "Bob Perry" is, "Perry" does not tell.
    """
    words = name.strip(_QUOTES).split(" ")
    for n in range(len(words) - 1, 0, -1):
        for first in range(len(words) - n, -1, -1):
            rest = words[:first] + words[first + n :]
            if all(map(_describes, rest)):
                kept = " ".join(words[first : first + n])
                spellings = [kept, *other_spellings(kept)]
                found = np.flatnonzero(kb.alias_ids(spellings) >= 0)
                if kept[:1].isupper() and len(found):
                    return [spellings[found[0]]]
    return []


def _describes(word: str) -> bool:
    return word[:1].islower() or word.rstrip(".").lower() in TITLES


def spelled_alike(name: str) -> Iterator[str]:
    """Yield other ways to write a name, in another number and with other signs inside too."""
    yield from other_spellings(name)
    bare = name.strip(_QUOTES).translate(_PLAIN).removesuffix("'s")
    for other in dict.fromkeys([*_other_number(bare), *_other_signs(bare), *_other_parts(bare)]):
        yield from dict.fromkeys([other, *other_cases(other)])


def _other_number(name: str) -> Iterator[str]:
    """Yield the singular of a plural, or the plural of a singular, as English forms them."""
    for ending, singular in (("ies", "y"), ("es", ""), ("s", "")):
        if name.lower().endswith(ending) and len(name) > len(ending) + 2:
            yield name[: -len(ending)] + singular
    yield name + "s"


def _other_signs(name: str) -> Iterator[str]:
    yield from (name.replace("-", " "), name.replace(" ", "-"), name.replace("-", ""))
    yield from (name.replace(".", ""), name.replace(" & ", " and "), name.replace(" and ", " & "))
    if 1 < len(name) <= MAX_INITIALS and name.isupper() and name.isalpha():
        yield "".join(f"{letter}." for letter in name)


def _other_parts(name: str) -> Iterator[str]:
    """Yield a name with its parts written apart or together, or put in another order."""
    yield _BEFORE_DIGIT.sub("-", name)
    yield _BEFORE_DIGIT.sub(" ", name)
    yield _BRACKETS.sub("", name)
    words = name.split(" ")
    if not 1 < len(words) <= MAX_PARTS:
        return
    yield f"The {name}"
    yield "".join(words)
    first, rest = words[0], " ".join(words[1:])
    if first.replace(".", "").isupper() and len(letters := first.replace(".", "")) <= MAX_INITIALS:
        yield f"{'.'.join(letters)}. {rest}"
        yield f"{'. '.join(letters)}. {rest}"
    if len(words) == 2:
        yield f"{rest} of {first}"
    for i in range(1, len(words)):
        left, right = " ".join(words[:i]), " ".join(words[i:])
        yield from (f"{left}-{right}", f"{left}, {right}", f"{left} ({right})")
    for i, word in enumerate(words):
        if word.endswith("s") and "'" not in word:
            yield " ".join([*words[:i], f"{word[:-1]}'s", *words[i + 1 :]])


def other_spellings(name: str) -> Iterator[str]:
    """Yield other ways to write a name, the closest first."""
    bases = [
        name,
        name.translate(_PLAIN),
        name.strip(_QUOTES),
        name.strip(_QUOTES).translate(_PLAIN),
    ]
    for base in list(bases):
        bases += [base.removesuffix(ending) for ending in _POSSESSIVES if base.endswith(ending)]
    bases += [base[4:] for base in bases if base[:4].lower() == "the "]
    bases = [base for base in dict.fromkeys(bases) if base]
    yield from bases
    for base in bases:
        yield from other_cases(base)


def other_cases(name: str) -> Iterator[str]:
    """Yield a name in small letters, capitals and the ways between."""
    yield from (name[:1].upper() + name[1:], name[:1].lower() + name[1:])
    yield from (name.title(), name.lower(), name.upper())
    yield name[:1].upper() + name[1:].lower()
    yield _small_short_words(name.title())


def _small_short_words(title: str) -> str:
    first, *others = title.split(" ")
    return " ".join([first, *(word.lower() if len(word) <= 3 else word for word in others)])
