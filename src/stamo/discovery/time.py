"""How old the knowledge base is, and which text speaks of later years."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

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


def speaks_of_later(text: str, year: int | None) -> bool:
    """Tell whether a text names a year after the given one."""
    return year is not None and any(year < y <= year + HORIZON for y in years(text))
