"""Capitalised names in text: what looks like a name, whether or not anything knows it.

A name is a run of words with capitals, with the small words that stand inside names ("Game of
Thrones"), initials, hyphens and short numbers ("Falcon 9"). All runs of a batch are found at once.
Scripts without capitals give none. Then words are taken from the front whose capital is only the
sentence's.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stamo.kb.base import KnowledgeBase
from stamo.kb.word_weights import STOP_WORD_FREQUENCY
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
FREQUENT_WORD = 1e-4
"""A word above this share of the text that begins a sentence is hardly part of a name."""
_ARTICLES = frozenset({"the", "a", "an"})


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


class FrequentWords(NamedTuple):
    """The words whose capital may say nothing."""

    frequent: frozenset[str]
    """At a sentence's start."""
    stop_words: frozenset[str]
    """Anywhere."""

    @classmethod
    def of(cls, kb: KnowledgeBase) -> FrequentWords:
        """Let the counts of a knowledge base decide."""
        shares = kb.word_counts / float(kb.word_counts.sum())
        above = (np.flatnonzero(shares > share) for share in (FREQUENT_WORD, STOP_WORD_FREQUENCY))
        return cls(*(frozenset(kb.words.texts(numbers)) for numbers in above))


def trim(
    joined: JoinedTexts,
    runs: CapitalSpans,
    kb: KnowledgeBase,
    words: FrequentWords,
    small: Set[str],
) -> CapitalSpans:
    """Take words from the front of a run that have their capital from the sentence alone.

    So do stop words anywhere ("The", "If"). A single word that begins a sentence is no name that
    could be trusted. What the knowledge base knows as it stands is left alone.

    Args:
        joined: The texts.
        runs: The runs.
        kb: Knows names.
        words: Which words are frequent.
        small: The words that the texts write without a capital.
    """
    first, single = runs.first.copy(), runs.last - runs.first == 1
    begins = list(map(joined.words.__getitem__, first.tolist()))
    is_stop = np.fromiter(map(words.stop_words.__contains__, begins), np.bool_, len(runs))
    maybe = runs.opens | _follows_bracket(joined, runs)
    is_small = _is_one_of(begins, small, maybe)
    # "(Friday) Does Mira": a bracket may end what stands before a sentence.
    opens = runs.opens | (maybe & is_small)
    keep = ~single | ~(opens | is_stop)
    rows = np.flatnonzero(single & is_stop & ~opens)
    keep[rows] = _are_known(joined, first[rows], runs.last[rows], kb)
    # "Users of Mira": what begins a sentence before a small word is hardly part of the name.
    goes_on = joined.is_raised[np.minimum(first + 1, len(joined.words) - 1)]
    is_cut = opens & (is_small | ~goes_on | _is_one_of(begins, words.frequent, opens & ~single))
    rows = np.flatnonzero(~single & (is_cut | is_stop))
    rows = rows[~_are_known(joined, first[rows], runs.last[rows], kb)]
    for i in rows.tolist():
        begin, end = int(first[i]), int(runs.last[i])
        place = _first_name_word(joined, begin + int(is_cut[i]), end, kb, words.stop_words)
        first[i], keep[i] = place, place < end
    return CapitalSpans(first[keep], runs.last[keep], runs.opens[keep])


def _is_one_of(words: Sequence[str], wanted: Set[str], is_asked: Bools) -> Bools:
    """Tell which of the words that are asked for are wanted ones."""
    found = np.zeros(len(words), dtype=np.bool_)
    found[[i for i in np.flatnonzero(is_asked).tolist() if words[i] in wanted]] = True
    return found


def _first_name_word(
    joined: JoinedTexts, begin: int, end: int, kb: KnowledgeBase, stop_words: Set[str]
) -> int:
    """Return the first word from `begin` on that has a capital of its own, `end` for none.

    A stop word in front has none where it belongs to no known name: "The Colbert Report" loses its
    first word, "New York Comic Con" does not.
    """

    def is_known(first: int, last: int) -> bool:
        return kb.alias_id(joined.text[joined.starts[first] : joined.ends[last - 1]]) >= 0

    for place in range(begin, end):
        word = joined.words[place]
        if joined.is_raised[place] and (word not in stop_words or is_known(place, end)):
            return place
        is_pair = word not in _ARTICLES and place + 2 <= end
        if joined.is_raised[place] and is_pair and is_known(place, place + 2):
            return place
    return end


def _are_known(joined: JoinedTexts, first: Int64, last: Int64, kb: KnowledgeBase) -> Bools:
    spans = zip(joined.starts[first].tolist(), joined.ends[last - 1].tolist(), strict=True)
    return np.asarray(kb.alias_ids([joined.text[start:end] for start, end in spans]) >= 0)


def _follows_bracket(joined: JoinedTexts, runs: CapitalSpans) -> Bools:
    places = joined.starts[runs.first]
    before = joined.codes.take(places - 1, mode="clip"), joined.codes.take(places - 2, mode="clip")
    return np.asarray((before[0] == ord(" ")) & (before[1] == ord(")")) & (places > 1))
