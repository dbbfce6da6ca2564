"""ContextReader of a name that agree with each other: each cluster is a meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial import distance

from stamo.discovery.sightings import ContextVectors, Sighting
from stamo.features.encoding import Lexicon
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float32, Float64, Int32, Int64

ENCODER_WEIGHT = 0.5
"""Share of the sentence encoder in how alike two contexts are, where there is one."""
ENCODER_MEAN = 0.25
"""Likeness of two unrelated texts by the encoder; contexts of words have 0."""

MAX_CACHED_NAMES = 1000


@dataclass(frozen=True)
class ContextReader:
    """Reads the windows of sightings."""

    kb: KnowledgeBase
    vectors: ContextVectors
    lexicon: Lexicon
    encoder: TextEncoder | None = None
    _names: dict[str, Int32] = field(default_factory=dict)

    @classmethod
    def of(cls, kb: KnowledgeBase, encoder: TextEncoder | None = None) -> ContextReader:
        """Take the words of a knowledge base, and perhaps a sentence encoder."""
        return cls(kb, ContextVectors(kb), Lexicon.of(kb), encoder)

    def words(self, sighting: Sighting) -> Int32:
        """Return the content words around the name, but not of the name itself."""
        found = self.lexicon.encode(sighting.window)
        end = sighting.at + sighting.end - sighting.start
        outside = (found.ends <= sighting.at) | (found.starts >= end)
        own = self._own_words(sighting.name)
        return found.ids[outside & ~np.isin(found.ids, own)]

    def _own_words(self, name: str) -> Int32:
        return self._names[name] if name in self._names else self._read_name(name)

    def _read_name(self, name: str) -> Int32:
        if len(self._names) > MAX_CACHED_NAMES:
            self._names.clear()
        found = self._names[name] = self.lexicon.encode(name).ids
        return found

    def word_vectors(self, sightings: Sequence[Sighting]) -> Float32:
        """Return the directions of the contexts, (n, Q)."""
        rows = [self.words(sighting) for sighting in sightings]
        padded = np.full((len(rows), max(1, *map(len, rows))), -1, dtype=np.int32)
        for i, row in enumerate(rows):
            padded[i, : len(row)] = row
        return self.vectors.of(padded)

    def likeness(self, sightings: Sequence[Sighting], vectors: Float32) -> Float64:
        """Return how alike the contexts are, (n, n), about 0 for unrelated ones."""
        alike = (vectors @ vectors.T).astype(np.float64)
        if self.encoder is None:
            return alike
        read = self.encoder.encode([masked(sighting) for sighting in sightings])
        by_encoder = ((read @ read.T).astype(np.float64) - ENCODER_MEAN) / (1 - ENCODER_MEAN)
        return (1 - ENCODER_WEIGHT) * alike + ENCODER_WEIGHT * by_encoder

    def fit(self, vectors: Float32, entities: Sequence[int]) -> tuple[float, int]:
        """Return how well contexts fit the best of some entities, and which; (0, -1) for none."""
        if not len(entities):
            return 0.0, -1
        mean = vectors.mean(axis=0)
        mean /= max(float(np.linalg.norm(mean)), 1e-9)
        cosines = self.vectors.entities(np.array(entities, dtype=np.int32)) @ mean
        best = int(cosines.argmax())
        return float(cosines[best]), int(entities[best])


def masked(sighting: Sighting) -> str:
    """Return the window without the name, so that contexts are not alike by it."""
    end = sighting.at + sighting.end - sighting.start
    return f"{sighting.window[: sighting.at]}it{sighting.window[end:]}"


def cluster(alike: Float64, least: float) -> list[Int64]:
    """Cut n contexts into clusters whose mean likeness between halves is at least `least`.

    Returns:
        The rows of each cluster, the largest first, then the first.
    """
    n = len(alike)
    if n == 1:
        return [np.zeros(1, dtype=np.int64)]
    apart = np.maximum(1 - (alike + alike.T) / 2, 0)
    np.fill_diagonal(apart, 0)
    tree = hierarchy.linkage(distance.squareform(apart, checks=False), method="average")
    labels = hierarchy.fcluster(tree, 1 - least, criterion="distance")
    found = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return sorted(found, key=lambda rows: (-len(rows), int(rows[0])))


def coherence(alike: Float64) -> float:
    """Return the mean likeness of different contexts, shrunk towards 0 for few of them."""
    n = len(alike)
    if n < 2:
        return 0.0
    pairs = n * (n - 1)
    return float((alike.sum() - np.trace(alike)) / (pairs + 2))
