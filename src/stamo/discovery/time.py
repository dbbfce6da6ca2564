"""How old the knowledge base is, and which text speaks of later years."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from stamo.kb.base import KnowledgeBase
from stamo.linking.texts import JoinedTexts
from stamo.system.arrays import Int32, Int64

_YEAR = re.compile(r"(?:19|20)(?<![\d.,][12][90])\d\d(?!\d|[.,]\d)")
"""What stands before it is looked at last: a search is then one for the first digit."""
N_DIGITS = 4
LEAST_SHARE = 0.2
"""A year that so many articles speak of, next to the most frequent year, is still its time."""
LEAST_ARTICLES = 20
"""Fewer articles with a year say nothing about the time of a knowledge base."""
MAX_ARTICLES = 4096
"""Articles that are looked at."""
HORIZON = 30
"""Years beyond the knowledge base that text may speak of; a later one is no date."""
EARLIER, NO_YEAR, LATER = 0, 1, 2
"""A text names only years that the knowledge base knows, none at all, or a later one."""


def last_year(kb: KnowledgeBase) -> int | None:
    """Return the last year that the articles of a knowledge base speak of as a matter of course.

    Few of its articles name a later one: the number falls steeply after the year of the dump.
    None where the articles name no years.
    """
    counts: Counter[int] = Counter()
    n = 0
    for batch in kb.articles(columns=["text"]):
        for text in batch["text"].to_pylist():
            counts.update(set(years(text)))
        n += len(batch)
        if n >= MAX_ARTICLES:
            break
    if not counts or max(counts.values()) < LEAST_ARTICLES:
        return None
    least = LEAST_SHARE * max(counts.values())
    return max(year for year, count in counts.items() if count >= least)


def years(text: str) -> Iterable[int]:
    """Return the years that a text names."""
    return map(int, _YEAR.findall(text))


class NamedYears(NamedTuple):
    """The years that texts name, in order, next to the last year of a knowledge base."""

    places: Int64
    """Document and first character of each year, as one number, (n,)."""
    n_later: Int64
    """How many of the years before each one, and before the end, are later, (n + 1,)."""

    @classmethod
    def of(cls, joined: JoinedTexts, year: int | None) -> NamedYears:
        """Find them; none where the year is unknown."""
        last = (year or 0) + HORIZON
        found = [] if year is None else _find_years(joined)
        found = [(place, number) for place, number in found if number <= last]
        starts = np.array([place for place, _ in found], dtype=np.int64)
        documents = joined.document_of(starts)
        later = [number > (year or 0) for _, number in found]
        places = _place(documents, joined.local(documents, starts))
        return cls(places, np.cumsum([0, *later]))

    def times_of(self, documents: Int32, begins: Int32, ends: Int32) -> Int64:
        """Return `LATER`, `EARLIER` or `NO_YEAR` for n pieces of the texts, (n,)."""
        first = np.searchsorted(self.places, _place(documents, np.maximum(begins, 0)))
        last = np.searchsorted(self.places + N_DIGITS, _place(documents, ends), side="right")
        last = np.maximum(first, last)
        is_later = self.n_later[last] > self.n_later[first]
        return np.where(first == last, NO_YEAR, np.where(is_later, LATER, EARLIER))


def _find_years(joined: JoinedTexts) -> Iterator[tuple[int, int]]:
    """Yield place and number of all years; only where one may begin the text is looked at."""
    left, right = joined.codes[:-1], joined.codes[1:]
    begins = (left == ord("1")) & (right == ord("9")) | (left == ord("2")) & (right == ord("0"))
    for place in np.flatnonzero(begins).tolist():
        match = _YEAR.match(joined.text, place)
        if match is not None:
            yield place, int(match[0])


def _place(documents: Int32, places: Int32) -> Int64:
    return documents.astype(np.int64) << 32 | places
