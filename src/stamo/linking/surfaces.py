"""Find a name of the knowledge base for a surface form that is not one itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stamo.kb.base import KnowledgeBase
from stamo.kb.names import normalise_surface
from stamo.system.arrays import Int64

_QUOTES = "\"'`“”‘’«»„‚‹›()[]{}<>.,;:!?*_|/\\-–— "
_POSSESSIVES = ("'s", "’s", "'", "’")
_PLAIN = str.maketrans("‘’ʼ‐‑‒–—−", "'''------")


def known_names(kb: KnowledgeBase, surfaces: Sequence[str]) -> list[str]:
    """Return for each surface the alias to look it up by; unknown ones come back as they are.

    The exact form comes first, then other spellings of it: other quotes and dashes, without
    quotes around it, without a possessive, without an article, in another case.
    """
    names = [normalise_surface(surface) for surface in surfaces]
    unknown: Int64 = np.flatnonzero(kb.alias_ids(names) < 0)
    for i in unknown.tolist():
        spellings = list(dict.fromkeys(other_spellings(names[i])))
        found = np.flatnonzero(kb.alias_ids(spellings) >= 0)
        if len(found):
            names[i] = spellings[found[0]]
    return names


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
        capital, small = base[:1].upper() + base[1:], base[:1].lower() + base[1:]
        yield from (capital, small, base.title(), base.lower(), base.upper())
        yield base[:1].upper() + base[1:].lower()
        yield _small_short_words(base.title())


def _small_short_words(title: str) -> str:
    first, *others = title.split(" ")
    return " ".join([first, *(word.lower() if len(word) <= 3 else word for word in others)])
