"""Find a name of the knowledge base for a surface form that is not one itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape

import numpy as np

from stamo.kb.base import KnowledgeBase
from stamo.kb.candidates import normalise_surface
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
        names[i] = _first_known(kb, other_spellings(names[i])) or names[i]
    return names


def _first_known(kb: KnowledgeBase, spellings: Iterable[str]) -> str:
    """Return the first of some spellings that is an alias, empty where none is."""
    distinct = list(dict.fromkeys(spellings))
    found = np.flatnonzero(kb.alias_ids(distinct) >= 0)
    return distinct[found[0]] if len(found) else ""


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
        wanted = [(i, name) for i, name in enumerate(names) if name not in fixed]
        new = list(dict.fromkeys(name for _, name in wanted if name not in self._known))
        if len(self._known) + len(new) > MAX_REMEMBERED:
            self._known.clear()
            new = list(dict.fromkeys(name for _, name in wanted))
        found = dict(zip(new, _weighted(self.kb, new), strict=True))
        rows = [
            (i, alias, weight)
            for i, name in wanted
            for alias, weight in (found[name] if name in found else self._known[name])
        ]
        self._known.update(
            (n, all_) for n, all_ in found.items() if len(n) <= MAX_REMEMBERED_LENGTH
        )
        return Readings.of(rows)


def _weighted(kb: KnowledgeBase, names: Sequence[str]) -> list[tuple[tuple[int, float], ...]]:
    """Return the aliases that each name may be read as, with weights; none if only as itself."""
    own = kb.alias_ids(names)
    alike = _shares(kb, [set(spelled_alike(name)) for name in names], own, SPELLING_WEIGHT)
    longer = _shares(kb, _longer(kb, names, own), own, LONGER_WEIGHT)
    lost = [i for i, n in enumerate(own.tolist()) if n < 0 and not alike[i] and not longer[i]]
    bare = [_without_title(kb, names[i]) for i in lost]
    longer |= zip(lost, _shares(kb, bare, own[lost], LONGER_WEIGHT).values(), strict=True)
    links = np.where(own >= 0, np.maximum(kb.alias_counts[own], 1), 0).astype(np.float64)
    itself = [{a: n} if a >= 0 else {} for a, n in zip(own.tolist(), links.tolist(), strict=True)]
    return [
        (*{**longer[i], **alike[i]}.items(), *itself[i].items()) if alike[i] or longer[i] else ()
        for i in range(len(names))
    ]


def _shares(
    kb: KnowledgeBase, forms: Sequence[Collection[str]], own: Int32, weight: float
) -> dict[int, dict[int, float]]:
    """Divide a weight, for each name, among its forms that are known by how often each is a link.

    Args:
        kb: Knows the forms.
        forms: Other forms of each of n names.
        own: The alias that each name is itself, which gets nothing; -1 where it is none, (n,).
        weight: What is divided.

    Returns:
        For each name the aliases, ascending, with their shares; small ones are left out.
    """
    aliases = kb.alias_ids([form for some in forms for form in some])
    name = np.repeat(np.arange(len(forms)), [len(some) for some in forms])
    is_other = (aliases >= 0) & (aliases != own[name])
    pairs = np.unique(name[is_other] << 32 | aliases[is_other])
    name, aliases = pairs >> 32, (pairs & 0xFFFFFFFF).astype(np.int32)
    counts = np.maximum(kb.alias_counts[aliases], 0.5)
    shares = weight * counts / np.bincount(name, counts, minlength=len(forms))[name]
    n_own = np.where(own >= 0, kb.alias_counts[own], 0).astype(np.float64)
    kept = np.flatnonzero(shares >= LEAST_READING_SHARE * (n_own + weight)[name])
    result: dict[int, dict[int, float]] = {i: {} for i in range(len(forms))}
    columns = (name[kept].tolist(), aliases[kept].tolist(), shares[kept].tolist())
    for i, alias, share in zip(*columns, strict=True):
        result[i][alias] = share
    return result


def _longer(kb: KnowledgeBase, names: Sequence[str], own: Int32) -> list[list[str]]:
    """Return for each name the known ones that begin with it and mean something else."""
    longer = [
        [n for sign in (",", " ", "-") for n in kb.names_with_prefix(name + sign, MAX_PREFIXED)]
        if len(name) >= MIN_LONGER
        else []
        for name in names
    ]
    some = [i for i, found in enumerate(longer) if found and own[i] >= 0]
    meant = kb.by_alias.batch(own[some])[0]
    row, column = np.nonzero(meant >= 0)
    known = row << 32 | meant[row, column]
    first = kb.candidate_table([n for i in some for n in longer[i]], 1)[0][:, 0]
    of_row = np.repeat(np.arange(len(some)), [len(longer[i]) for i in some])
    is_other = iter((~np.isin(of_row << 32 | first, known)).tolist())
    for i in some:
        longer[i] = [n for n in longer[i] if next(is_other)]
    return longer


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
                known = _first_known(kb, [kept, *other_spellings(kept)])
                if kept[:1].isupper() and known:
                    return [known]
    return []


def _describes(word: str) -> bool:
    return word[:1].islower() or word.rstrip(".").lower() in TITLES


def spelled_alike(name: str) -> Iterator[str]:
    """Yield other ways to write a name, in another number and with other signs inside too."""
    yield from other_spellings(name)
    bare = name.strip(_QUOTES).translate(_PLAIN).removesuffix("'s")
    for other in dict.fromkeys([*_other_number(bare), *_other_signs(bare), *_other_parts(bare)]):
        yield other
        yield from other_cases(other)


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


def other_cases(name: str) -> tuple[str, ...]:
    """Return a name in small letters, capitals and the ways between."""
    first, rest, small, title = name[:1], name[1:], name.lower(), name.title()
    capital = first.upper()
    return (
        capital + rest,
        first.lower() + rest,
        title,
        small,
        name.upper(),
        capital + rest.lower(),
        _small_short_words(title) if " " in title else title,
    )


def _small_short_words(title: str) -> str:
    first, *others = title.split(" ")
    return " ".join([first, *[word.lower() if len(word) <= 3 else word for word in others]])
