"""How much speaks for a group of contexts being a new entity.

Seen where text speaks of a later time than the knowledge base, in contexts that agree, that its
articles do not hold and that fit no known meaning: the product ranks proposals of one kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stamo.discovery.proposal import ProposalKind
from stamo.discovery.sightings import NameTally, Sighting, Tally
from stamo.discovery.time import EARLIER, HORIZON, LATER, NO_YEAR
from stamo.system.arrays import Float32, Float64, Int64

EVIDENCE = {LATER: 1.28, NO_YEAR: 0.1, EARLIER: -2.0}
"""Log odds that a document adds: text about new things names later years (.54 of the judged
mentions of new entities, .10 of others of the same name) and hardly ever only earlier ones (.06,
.31). A document without a year counts a little, so that text without years is ranked too."""
NEW_TITLE, OLD_TITLE = 2.0, -3.0
"""The same for a title with its own year: "Gravity" (2013)."""
UNLIKE_POWER = 1.5
"""How steeply a meaning falls that is like a known one: known things in a new setting are."""
COPIED = 0.95
"""Contexts at least so alike are copies of one text."""
USUAL_PAST = 0.3
"""How alike new contexts and those of the articles are where nothing is known of them."""
PRIOR_PAST = 3
"""So many contexts of the articles weigh as much as that."""


@dataclass(frozen=True)
class Found:
    """A group of contexts that may be a new entity."""

    kind: ProposalKind
    tallies: tuple[NameTally, ...]
    name: str
    sightings: tuple[Sighting, ...]
    share: float
    """Share of the name's contexts that they are."""
    evidence: float
    """What the years in their text say, see `EVIDENCE`."""
    coherence: float
    novelty: float
    """By how much the contexts are more alike than like those of the knowledge base's articles."""
    fit: float
    """How well the contexts fit the best known meaning, 0 where nothing is known."""
    confused_with: int
    rise: float
    """Share of now in how frequent the name is now and was then."""
    doubt: float
    """What the name itself leaves of the score, 0 to 1: a full name hardly gets a new meaning."""

    @property
    def n_documents(self) -> int:
        """Documents that hold it, as far as the kept contexts tell."""
        n = sum(tally.n_documents for tally in self.tallies)
        return max(len(self.sightings), round(self.share * n))

    @property
    def n_mentions(self) -> int:
        """Mentions of it, as far as the kept contexts tell."""
        n = sum(tally.n_mentions for tally in self.tallies)
        return max(self.n_documents, round(self.share * n))

    @property
    def later(self) -> float:
        """Share of the documents that name a later year."""
        return sum(s.time == LATER for s in self.sightings) / len(self.sightings)

    @property
    def score(self) -> float:
        """What proposals of one kind are ranked by; nothing is proposed at 0."""
        often = math.sqrt(max(self.evidence, 0.0))
        if self.kind == "name":
            return float(often * max(self.coherence, 0.05) ** 0.25 * self.rise**2 * self.doubt)
        unlike = (1 - max(self.fit, 0.0)) ** UNLIKE_POWER
        return float(often * max(self.novelty, 0.0) * unlike * self.doubt)


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

    def n_documents(self, name: str) -> int:
        """Return in how many articles a name stands."""
        return self.tally.names[name].n_documents if name in self.tally.names else 0

    def rise(self, tallies: Sequence[NameTally], n_stream: int) -> float:
        """Return the share of now in how frequent names are now and were then, 0 to 1."""
        n_now = sum(t.n_documents + t.n_explained for t in tallies)
        now = n_now / max(n_stream, 1)
        then = sum(self.n_documents(t.name) for t in tallies) / max(self.tally.n_documents, 1)
        return now / (now + then)

    def evidence(self, sightings: Iterable[Sighting]) -> float:
        """Return what the years in the text say for a new entity; without years, documents."""
        if self.year is None:
            return float(sum(1 for _ in sightings))
        return sum(self._says(s) for s in sightings)

    def _says(self, sighting: Sighting) -> float:
        year = sighting.own_year
        if year is None or self.year is None:
            return EVIDENCE[sighting.time]
        return NEW_TITLE if self.year < year <= self.year + HORIZON else OLD_TITLE


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
        past: Their likeness to m contexts of the same name in the knowledge base, (n, m). Few of
            them prove little.
    """
    n, m = past.shape
    if n < 2:
        return 0.0
    alone = np.diag(np.full(n, np.inf))
    others = float(np.sort(inside - alone, axis=1)[:, 1:][:, -2:].mean())
    then = float(np.sort(past, axis=1)[:, -2:].mean()) if m else 0.0
    weight = min(m, 10)
    usual = (weight * max(then, 0.0) + PRIOR_PAST * USUAL_PAST) / (weight + PRIOR_PAST)
    return float(others - usual)
