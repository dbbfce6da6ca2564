"""How old the knowledge base is, and which text speaks of a later time.

A text that names a later year tells it. Most texts name no year, but their words tell: those that
stand beside later years elsewhere in the stream ("smartphone") speak of the same time.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stamo.corpus.tokenizer import tokenize
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

PRIOR_TEXTS = 3.0
"""A word says nothing before it is seen in a few texts: so many are added, of the usual time."""


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


@dataclass(frozen=True)
class TimeWords:
    """Tells how likely a text speaks of a later time than the knowledge base."""

    year: int | None
    """The last year of the knowledge base; None knows nothing of time."""
    usual: float
    """Log odds of a later time for any text that names a year."""
    weights: Mapping[str, float]
    """By how much each word changes them."""

    @classmethod
    def learn(cls, texts: Iterable[str], year: int | None) -> TimeWords:
        """Learn from the texts that name a year which words stand beside later ones."""
        n = [PRIOR_TEXTS, PRIOR_TEXTS]
        counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for text in texts:
            if year is not None and any(y <= year + HORIZON for y in years(text)):
                is_later = speaks_of_later(text, year)
                n[is_later] += 1
                counts[is_later].update(_plain_words(text))
        early, late = counts
        usual = math.log(n[1] / n[0])
        less, more = (PRIOR_TEXTS * share / sum(n) for share in n)
        weights = {
            word: math.log((late[word] + more) / (early[word] + less)) - usual
            for word in early.keys() | late.keys()
        }
        return cls(year, usual, weights)

    def later(self, text: str) -> float:
        """Return how likely a text speaks of a later time: 1 where it names a later year."""
        if speaks_of_later(text, self.year):
            return 1.0
        found = [self.weights.get(word, 0.0) for word in sorted(_plain_words(text))]
        # Words of one text say much the same thing, so that n of them count as the root of n.
        odds = self.usual + sum(found) / math.sqrt(1 + len(found))
        return 1 / (1 + math.exp(-odds))


def _plain_words(text: str) -> set[str]:
    return {word for word in tokenize(text)[0] if not word.isdigit()}
