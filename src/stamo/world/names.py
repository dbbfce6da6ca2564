"""Pronounceable invented names, built from our own syllables."""

from __future__ import annotations

import random
from collections.abc import Iterable

# Each province speaks one of these: (onsets, vowels, inner consonants, endings of places,
# endings of surnames, endings of given names).
STYLES = (
    (
        [
            "b",
            "br",
            "d",
            "dr",
            "f",
            "g",
            "gr",
            "h",
            "k",
            "kr",
            "l",
            "m",
            "n",
            "r",
            "s",
            "st",
            "t",
            "tr",
            "v",
        ],
        ["a", "e", "i", "o", "u"],
        ["ld", "lm", "nd", "r", "rn", "rv", "sk", "st", "l", "v"],
        ["avik", "enholm", "edal", "ovar", "unde", "ersk", "ulme", "askar"],
        ["rsk", "lsen", "dvar", "lstad", "mark", "vik", "gren", "und"],
        ["ar", "en", "if", "or", "uld", "il", "ea", "ine"],
    ),
    (
        ["b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "t", "v", "z", "ch"],
        ["a", "e", "i", "o", "ia", "eo"],
        ["l", "r", "n", "ss", "nt", "rt", "v", "z", "m"],
        ["ora", "enza", "illo", "aro", "etta", "iana", "ovia", "emo"],
        ["etti", "arro", "oni", "elli", "ando", "izzo", "ero", "assi"],
        ["a", "o", "io", "ella", "ina", "etto", "emo", "ila"],
    ),
    (
        ["b", "d", "f", "h", "k", "kh", "l", "m", "n", "q", "r", "s", "sh", "t", "y", "z"],
        ["a", "e", "i", "u", "aa"],
        ["b", "d", "k", "l", "m", "n", "r", "sh", "z"],
        ["abad", "ezar", "umar", "ashan", "irat", "eydan", "uzal", "akesh"],
        ["ani", "azi", "uri", "oudi", "amin", "eshi", "adar", "ilou"],
        ["ir", "an", "ah", "een", "ud", "ima", "osh", "ara"],
    ),
    (
        [
            "bl",
            "c",
            "cl",
            "d",
            "f",
            "g",
            "gl",
            "gw",
            "l",
            "ll",
            "m",
            "n",
            "p",
            "r",
            "rh",
            "t",
            "tr",
            "w",
        ],
        ["a", "e", "i", "o", "y", "ae", "ow"],
        ["dd", "l", "ll", "nn", "r", "rth", "th", "w", "g"],
        ["wyth", "anport", "ombe", "elach", "owen", "irth", "aford", "estry"],
        ["wyn", "ard", "eth", "och", "anly", "orth", "ick", "umben"],
        ["yn", "eth", "wen", "an", "on", "is", "or", "ira"],
    ),
    (
        ["b", "d", "g", "j", "k", "l", "m", "n", "p", "r", "s", "t", "w", "y", "mb", "nd"],
        ["a", "e", "i", "o", "u"],
        ["b", "k", "l", "m", "n", "mb", "nd", "ng", "r", "w"],
        ["ali", "ombe", "uwa", "iro", "angu", "ekko", "umi", "anda"],
        ["oko", "awe", "imba", "undu", "elo", "ari", "anga", "iku"],
        ["a", "e", "o", "i", "una", "eko", "ami", "osi"],
    ),
)


class NameMaker:
    """Makes names that were not used before."""

    def __init__(self, rng: random.Random, forbidden: Iterable[str]) -> None:
        self._rng = rng
        self._used = {word.casefold() for word in forbidden}

    def place(self, style: int) -> str:
        """Return a new name for a place or a thing."""
        return self._coin(style, ending=3)

    def surname(self, style: int) -> str:
        """Return a new family name."""
        return self._coin(style, ending=4)

    def given(self, style: int) -> str:
        """Return a new given name."""
        return self._coin(style, ending=5)

    def _coin(self, style: int, ending: int) -> str:
        onsets, vowels, inner, *_ = STYLES[style % len(STYLES)]
        endings = STYLES[style % len(STYLES)][ending]
        rng = self._rng
        for attempt in range(1000):
            # Longer names only once the short ones become rare.
            n_syllables = 1 + (rng.random() < 0.25) + attempt // 20
            stem = rng.choice(onsets)
            for i in range(n_syllables):
                if i:
                    stem += rng.choice(inner)
                stem += rng.choice(vowels)
            tail = rng.choice(endings)
            # A vowel meets a vowel only through a consonant.
            joint = rng.choice(inner) if tail[0] in "aeiouy" else ""
            name = (stem + joint + tail).capitalize()
            if len(name) >= 4 and name.casefold() not in self._used:
                self._used.add(name.casefold())
                return name
        raise AssertionError("the syllables are exhausted")  # more than 10^8 combinations


def demonym(place: str) -> str:
    """Return the adjective of a country."""
    if place.endswith("ia"):
        return place + "n"
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
