"""How old the knowledge base is, and which text speaks of later years."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from stamo.kb.base import KnowledgeBase

_YEAR = re.compile(r"(?<![\d.,])(?:19|20)\d\d(?!\d|[.,]\d)")
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
    """The years that a text names, in order, next to the last year of a knowledge base."""

    starts: list[int]
    ends: list[int]
    is_later: list[bool]

    @classmethod
    def of(cls, text: str, year: int | None) -> NamedYears:
        """Find them; none where the year is unknown."""
        found = [] if year is None else list(_YEAR.finditer(text))
        last = (year or 0) + HORIZON
        found = [match for match in found if int(match[0]) <= last]
        later = [int(match[0]) > (year or 0) for match in found]
        return cls([m.start() for m in found], [m.end() for m in found], later)

    def time_of(self, begin: int, end: int) -> int:
        """Return `LATER`, `EARLIER` or `NO_YEAR` for a piece of the text."""
        first, last = bisect_left(self.starts, begin), bisect_right(self.ends, end)
        if first >= last:
            return NO_YEAR
        return LATER if any(self.is_later[first:last]) else EARLIER
