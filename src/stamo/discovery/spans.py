"""Capitalised names in text: what looks like a name, whether or not anything knows it.

A name is a run of words with capitals, with the small words that stand inside names ("Game of
Thrones"), initials, hyphens and short numbers ("Falcon 9"). All runs of a batch are found at once.
Scripts without capitals give none.
"""

from __future__ import annotations

from collections.abc import Set
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


def capital_spans(joined: JoinedTexts, frequent: Set[str]) -> CapitalSpans:
    """Find all runs of capitalised words, in the order of the text.

    Args:
        joined: The texts.
        frequent: Frequent words: after an initial's full stop one begins a sentence.
    """
    n = len(joined.words)
    if n == 0:
        none = np.zeros(0, dtype=np.int64)
        return CapitalSpans(none, none, np.zeros(0, np.bool_))
    capital = joined.is_raised
    joins = _joins(joined, capital, frequent)
    begins = np.ones(n, dtype=np.bool_)
    begins[1:] = ~joins
    first = np.flatnonzero(begins)
    last = np.append(first[1:], n)
    wanted = capital[first] & (last - first <= MAX_NAME_WORDS)
    length = joined.ends[last - 1] - joined.starts[first]
    wanted &= length > 1  # a single letter is no name
    first, last = first[wanted], last[wanted]
    return CapitalSpans(first, last, begins_sentence(joined, first))


def _joins(joined: JoinedTexts, capital: Bools, frequent: Set[str]) -> Bools:
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
    for width in (1, 2):
        joins[_over_small_words(joined, capital, space, width)] = True
    return np.asarray(joins)


def _after_initial(joined: JoinedTexts, after: Bools, frequent: Set[str]) -> Bools:
    """Keep the places after an initial where a name goes on and no sentence begins."""
    result = np.zeros(len(after), dtype=np.bool_)
    for i in np.flatnonzero(after).tolist():
        blank = joined.codes[joined.ends[i] + 1] == ord(" ")
        result[i] = blank and joined.words[i + 1] not in frequent
    return result


def _with_numbers(joined: JoinedTexts, capital: Bools, space: Bools) -> Bools:
    codes = joined.codes[joined.starts]
    short = (joined.ends - joined.starts) <= MAX_DIGITS
    number = (codes >= ord("0")) & (codes <= ord("9")) & short
    return np.asarray(capital[:-1] & number[1:] & space)


def _over_small_words(joined: JoinedTexts, capital: Bools, space: Bools, width: int) -> Int64:
    """Return the gaps that a name goes over with `width` small words in it; few are looked up."""
    n = max(len(capital) - width - 1, 0)
    short = ~capital & (joined.ends - joined.starts <= MAX_SMALL)
    over = capital[:n] & capital[width + 1 :]
    for i in range(width):
        over &= short[i + 1 : i + 1 + n]
    for i in range(width + 1):
        over &= space[i : i + n]
    words, places = joined.words, np.flatnonzero(over).tolist()
    found = [i for i in places if SMALL_WORDS.issuperset(words[i + 1 : i + 1 + width])]
    return np.add.outer(np.array(found, dtype=np.int64), np.arange(width + 1)).ravel()
