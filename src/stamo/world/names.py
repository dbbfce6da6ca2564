"""Pronounceable invented names, built from our own syllables."""

from __future__ import annotations

import random
from collections.abc import Iterable

from stamo.world.lexicon import read_words

STYLES: list[dict[str, list[str]]] = [
    {part: words.split() for part, words in style.items()}
    for style in read_words("names")["styles"]
]
"""The syllables of names; each province speaks one of these styles."""


class NameMaker:
    """Makes names that were not used before."""

    def __init__(self, rng: random.Random, forbidden: Iterable[str]) -> None:
        self._rng = rng
        self._used = {word.casefold() for word in forbidden}

    def coin(self, ending: str, style: int) -> str:
        """Return a new name in a style, with an ending of `places`, `surnames` or `given`."""
        parts = STYLES[style % len(STYLES)]
        onsets, vowels, inner = parts["onsets"], parts["vowels"], parts["inner"]
        rng = self._rng
        for attempt in range(1000):
            # Longer names only once the short ones become rare.
            n_syllables = 1 + (rng.random() < 0.25) + attempt // 20
            stem = rng.choice(onsets)
            for i in range(n_syllables):
                if i:
                    stem += rng.choice(inner)
                stem += rng.choice(vowels)
            tail = rng.choice(parts[ending])
            # A vowel meets a vowel only through a consonant.
            joint = rng.choice(inner) if tail[0] in "aeiouy" else ""
            name = (stem + joint + tail).capitalize()
            if len(name) >= 4 and name.casefold() not in self._used:
                self._used.add(name.casefold())
                return name
        raise AssertionError("the syllables are exhausted")  # more than 10^8 combinations


def demonym(place: str) -> str:
    """Return the adjective of a country."""
    if place.endswith(("a", "e")):
        return place + "n"
    if place.endswith(("o", "i", "u")):
        return place + "an"
    return place + ("ish" if len(place) < 7 else "ian")


def variant(name: str, rng: random.Random) -> str:
    """Return another spelling of a name, as redirects keep them."""
    swaps = [("k", "c"), ("i", "y"), ("v", "w"), ("s", "z"), ("c", "k"), ("u", "oo"), ("e", "ae")]
    rng.shuffle(swaps)
    for old, new in swaps:
        at = name.find(old, 1)
        if at > 0:
            return name[:at] + new + name[at + 1 :]
    return name + "e"
