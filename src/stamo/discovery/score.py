"""How much speaks for a group of contexts being a new entity.

Frequent, of a later time than the knowledge base, agreeing contexts, fitting no known meaning: the
product of these ranks proposals of one kind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stamo.discovery.proposal import ProposalKind
from stamo.discovery.sightings import Sighting
from stamo.discovery.tally import NameTally, Tally
from stamo.system.arrays import Float32, Float64, Int64

Z = 1.0
"""Standard errors by which a share seen in few documents is lowered."""
PRIOR_LATER = 0.1
"""What a name that no document connects with a later year still counts."""
COMMON_NAME = 1 / 3
"""Share of the documents that one form of a name has where all forms mean one thing."""
COPIED = 0.93
"""ContextReader at least so alike are copies of one text."""
FULL_NAME = 0.2
"""How much less a known full name, or one with a number, counts as one with a new meaning."""


@dataclass(frozen=True)
class Found:
    """A group of contexts that may be a new entity."""

    kind: ProposalKind
    tallies: tuple[NameTally, ...]
    sightings: tuple[Sighting, ...]
    share: float
    """Share of the name's contexts that they are."""
    later: float
    """Share of the documents that speak of a later time, lowered for few; 1 without time."""
    coherence: float
    novelty: float
    """By how much the contexts are more alike than like those of the knowledge base's articles."""
    fit: float
    """How well the contexts fit the best known meaning, 0 where nothing is known."""
    confused_with: int
    rise: float
    """Share of now in how frequent the name is now and was then."""
    rarity: float
    """How rare the name was, 0 to 1."""
    is_full: bool
    """Whether the name is the title of a known meaning, or holds a number."""

    @property
    def name(self) -> str:
        """The name."""
        return self.tallies[0].name

    @property
    def n_documents(self) -> int:
        """Documents that hold it, as far as the kept contexts tell."""
        n = sum(tally.n_seen for tally in self.tallies)
        return max(len(self.sightings), round(self.share * n))

    @property
    def n_mentions(self) -> int:
        """Mentions of it, as far as the kept contexts tell."""
        n = sum(tally.n_mentions for tally in self.tallies)
        return max(self.n_documents, round(self.share * n))

    @property
    def score(self) -> float:
        """What proposals of one kind are ranked by."""
        often = math.log2(1 + self.n_documents)
        time = PRIOR_LATER + self.later
        if self.kind == "name":
            return often * time * math.sqrt(max(self.coherence, 0.05)) * self.rise**2
        # Known things come in new settings; only time tells them from new meanings.
        fits_none = max(self.novelty, 0.0) * (1 - max(self.fit, 0.0))
        return often * time**2 * fits_none * self.rarity * (FULL_NAME if self.is_full else 1.0)


@dataclass(frozen=True)
class Past:
    """What the knowledge base's own articles say: the same names there, and its last year."""

    tally: Tally
    year: int | None
    """The last year that it speaks of; None leaves time out."""

    def sightings(self, names: Iterable[str]) -> list[Sighting]:
        """Return how its articles use some names."""
        tallies = self.tally.names
        return [s for name in names if name in tallies for s in tallies[name].sightings]

    def rise(self, tallies: Sequence[NameTally], n_stream: int) -> float:
        """Return the share of now in how frequent names are now and were then, 0 to 1."""
        n_now = sum(t.n_seen + t.n_explained for t in tallies)
        n_then = sum(self._n_documents(t.name) for t in tallies)
        now = n_now / max(n_stream, 1)
        then = n_then / max(self.tally.n_documents, 1)
        return now / (now + then)

    def rarity(self, name: str) -> float:
        """Return how rare a name was, 0 to 1.

        What stood in every article ("September", "Europe") comes with any context.
        """
        return 1 - math.log(1 + self._n_documents(name)) / math.log(2 + self.tally.n_documents)

    def _n_documents(self, name: str) -> int:
        return self.tally.names[name].n_documents if name in self.tally.names else 0


def is_called(name: str, sightings: Sequence[Sighting]) -> bool:
    """Tell whether most documents call it by that name alone, not just inside longer names."""
    n = sum(s.name == name or name in s.surfaces for s in sightings)
    return 2 * n >= len(sightings)


def has_common_name(sightings: Sequence[Sighting]) -> bool:
    """Tell whether one form of the name has its share: people who share a word have none."""
    (_, n), *_ = Counter(s.name for s in sightings).most_common(1)
    return n >= COMMON_NAME * len(sightings)


def without_copies(rows: Int64, alike: Float64) -> Int64:
    """Leave out contexts that repeat an earlier one: what is copied was written once."""
    kept: list[int] = []
    for row in rows.tolist():
        if all(alike[row, other] < COPIED for other in kept):
            kept.append(row)
    return np.array(kept, dtype=np.int64)


def surprise(inside: Float64, past: Float32) -> float:
    """Return by how much contexts are more alike than like those of the past.

    Args:
        inside: Likeness of the n contexts of a cluster, (n, n).
        past: Their likeness to m contexts of the same name in the knowledge base, (n, m).
    """
    others = np.sort(inside - 2 * np.eye(len(inside)), axis=1)[:, -2:].mean(axis=1)
    if not past.shape[1]:
        return float(others.mean())
    then = np.sort(past, axis=1)[:, -2:].mean(axis=1)
    return float((others - np.maximum(then, 0)).mean())


def lower_bound(k: float, n: int) -> float:
    """Return a share k / n lowered by `Z` standard errors (Wilson)."""
    p, z = k / n, Z
    middle, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, (middle - spread) / (1 + z * z / n))
