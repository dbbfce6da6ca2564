"""Capitalised names in text: what looks like a name, whether or not anything knows it.

A name is a run of words with capitals, with the small words that stand inside names ("Game of
Thrones"), initials, hyphens and short numbers ("Falcon 9"). All runs of a batch are found at once.
Scripts without capitals give none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stamo.linking.haystack import begins_sentence
from stamo.linking.texts import JoinedTexts
from stamo.system.arrays import Bools, Int64

SMALL_WORDS = frozenset(
    {"of", "the", "de", "la", "le", "du", "des", "del", "della", "di", "da", "dos"}
    | {"van", "von", "der", "den", "al", "el", "y"}
)
"""Words that are written small inside names."""
MAX_SMALL = max(map(len, SMALL_WORDS))
MAX_NAME_WORDS = 8
"""A longer run is a heading in capitals, not a name."""
MAX_DIGITS = 3
"""A number that belongs to a name is shorter than a year."""


@dataclass(frozen=True)
class CapitalSpans:
    """Runs of capitalised words, as words of the joined texts."""

    first: Int64  # (n,) first word
    last: Int64  # (n,) one past the last word
    opens: Bools  # (n,) whether the run begins a sentence

    def __len__(self) -> int:
        return len(self.first)


def capital_spans(joined: JoinedTexts, frequent: Mapping[str, bool]) -> CapitalSpans:
    """Find all runs of capitalised words, in the order of the text.

    Args:
        joined: The texts.
        frequent: Whether a word is frequent: after an initial's full stop it begins a sentence.
    """
    n = len(joined.words)
    if n == 0:
        none = np.zeros(0, dtype=np.int64)
        return CapitalSpans(none, none, np.zeros(0, np.bool_))
    capital = joined.codes[joined.starts] != joined.lowered[joined.starts]
    joins = _joins(joined, capital, frequent)
    begins = np.ones(n, dtype=np.bool_)
    begins[1:] = ~joins
    first = np.flatnonzero(begins)
    last = np.append(first[1:], n)
    wanted = capital[first] & (last - first <= MAX_NAME_WORDS)
    length = joined.ends[last - 1] - joined.starts[first]
    wanted &= length > 1  # a single letter is no name
    return CapitalSpans(first[wanted], last[wanted], begins_sentence(joined)[first[wanted]])


def _joins(joined: JoinedTexts, capital: Bools, frequent: Mapping[str, bool]) -> Bools:
    """Tell between which neighbouring words a name goes on, (n - 1,)."""
    gaps = joined.starts[1:] - joined.ends[:-1]
    single = (joined.ends - joined.starts) == 1
    sign = joined.codes[joined.ends[:-1]]
    near = gaps == 1
    space, hyphen = near & (sign == ord(" ")), near & (sign == ord("-"))
    apostrophe = near & ((sign == ord("'")) | (sign == ord("’"))) & single[:-1]
    dot = (sign == ord(".")) & single[:-1]
    letters = dot & near & single[1:]  # "U.S."
    both = capital[:-1] & capital[1:]
    joins = both & (space | hyphen | apostrophe | letters)
    wide = gaps == 3  # "Ernst & Young", "Travel + Leisure"
    middle = joined.codes[np.minimum(joined.ends[:-1] + 1, len(joined.codes) - 1)]
    joins |= both & wide & (sign == ord(" ")) & ((middle == ord("&")) | (middle == ord("+")))
    joins |= both & near & (sign == ord("&"))
    joins |= both & _after_initial(joined, both & dot & (gaps == 2), frequent)
    # "Gamma-ray Space": what a hyphen joins belongs to the name when the name goes on.
    n = len(capital) - 2
    over = capital[:n] & hyphen[:n] & ~capital[1 : n + 1] & space[1:] & capital[2:]
    joins[:n] |= over
    joins[1:] |= over
    joins |= _with_numbers(joined, capital, space)
    small = _small_words(joined, capital, space)
    for width in (1, 2):
        if len(capital) > width + 1:
            joins = _with_small_words(small, capital, space, joins, width)
    return np.asarray(joins)


def _after_initial(joined: JoinedTexts, after: Bools, frequent: Mapping[str, bool]) -> Bools:
    """Keep the places after an initial where a name goes on and no sentence begins."""
    result = np.zeros(len(after), dtype=np.bool_)
    for i in np.flatnonzero(after).tolist():
        blank = joined.codes[joined.ends[i] + 1] == ord(" ")
        result[i] = blank and not frequent[joined.words[i + 1]]
    return result


def _with_numbers(joined: JoinedTexts, capital: Bools, space: Bools) -> Bools:
    codes = joined.codes[joined.starts]
    short = (joined.ends - joined.starts) <= MAX_DIGITS
    number = (codes >= ord("0")) & (codes <= ord("9")) & short
    return np.asarray(capital[:-1] & number[1:] & space)


def _small_words(joined: JoinedTexts, capital: Bools, space: Bools) -> Bools:
    """Tell which words between blanks are written small inside names; few are looked up."""
    n = len(capital)
    found = np.zeros(n, dtype=np.bool_)
    maybe = ~capital & (joined.ends - joined.starts <= MAX_SMALL)
    maybe[:-1] &= space
    maybe[1:] &= space
    maybe[1:] &= capital[:-1] | maybe[:-1]
    places = np.flatnonzero(maybe).tolist()
    words = joined.words
    found[[i for i in places if words[i] in SMALL_WORDS]] = True
    return found


def _with_small_words(
    small: Bools, capital: Bools, space: Bools, joins: Bools, width: int
) -> Bools:
    """Join names over `width` small words."""
    n = len(capital) - width - 1
    over = capital[:n] & capital[width + 1 :]
    for i in range(width):
        over &= small[i + 1 : i + 1 + n]
    for i in range(width + 1):
        over &= space[i : i + n]
    joins = joins.copy()
    for i in range(width + 1):
        joins[i : i + n] |= over
    return joins
