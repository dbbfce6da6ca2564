"""Contexts of a name as vectors, in the space of the entities' vectors; those that agree cluster.

Each cluster is a meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.cluster import hierarchy
from scipy.spatial import distance

from stamo.discovery.sightings import Sighting
from stamo.discovery.time import EARLIER, LATER
from stamo.features.encoding import Lexicon
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float32, Float64, Int32, Int64

ENCODER_WEIGHT = 0.5
"""Share of the sentence encoder in how alike two contexts are, where there is one."""
ENCODER_MEAN = 0.25
"""Likeness of two unrelated texts by the encoder; contexts of words have 0."""

NEAR = 8.0
"""How much more the content word next to a name says of it than one far away."""
NEAR_WORDS = 1.5
"""Content words on either side over which that falls to a third."""
QUOTED = 0.2
"""How much more alike two names in quotation marks are, as titles are; one and none, less."""
OTHER_FORM = 0.2
"""How much less alike a name is inside two different longer names: people share surnames."""
TITLED_YEAR = 0.3
"""How much more alike two titles of one year are, "Gravity" (2013); of two years, less."""
OTHER_TIME = 0.2
"""How much less alike a text of a later time is to one of an earlier time."""
MAX_CACHED_NAMES = 1000


class ContextVectors:
    """Turns context words, and entities, into vectors."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._words = np.asarray(kb.word_vectors, dtype=np.float32)
        self._weights = kb.word_weights
        self._background = kb.background
        self._entities = kb.entity_vectors()

    def of(self, words: Int32, emphasis: Float32 | None = None) -> Float32:
        """Return the directions of contexts of H words, (M, H) with -1 for none, as (M, Q)."""
        weights = np.where(words >= 0, self._weights[words], 0).astype(np.float32)
        if emphasis is not None:
            weights *= emphasis
        mass = weights.sum(axis=1, keepdims=True)
        direction = self._sums(words, weights) - mass * self._background
        norm = np.linalg.norm(direction, axis=1, keepdims=True)
        return np.asarray(direction / np.maximum(norm, 1e-9), dtype=np.float32)

    def _sums(self, words: Int32, weights: Float32) -> Float32:
        """Return the weighted sums of word vectors, (M, Q), without copying the vectors."""
        edges = np.arange(len(words) + 1) * words.shape[1]
        chosen = np.maximum(words, 0).ravel()
        shape = len(words), len(self._words)
        table = sparse.csr_array((weights.ravel(), chosen, edges), shape=shape)
        return np.asarray(table @ self._words, dtype=np.float32)

    def entities(self, ids: Int32) -> Float32:
        """Return the vectors of entities, zeros for -1."""
        used, place = np.unique(ids, return_inverse=True)
        vectors = np.asarray(self._entities[np.maximum(used, 0)], dtype=np.float32)
        vectors[used < 0] = 0
        return vectors[place.reshape(ids.shape)]


class ContextReader:
    """Reads the windows of sightings by the words of a knowledge base, and perhaps an encoder."""

    def __init__(self, kb: KnowledgeBase, encoder: TextEncoder | None = None) -> None:
        self.kb, self.encoder = kb, encoder
        self.vectors, self._lexicon = ContextVectors(kb), Lexicon.of(kb)
        self._own_words = lru_cache(MAX_CACHED_NAMES)(self._read_name)

    def read(self, sighting: Sighting) -> tuple[Int32, int]:
        """Return the content words around a name, not its own, and how many stand before it."""
        found = self._lexicon.encode(sighting.window)
        outside = (found.ends <= sighting.at) | (found.starts >= sighting.stop)
        kept = outside & ~np.isin(found.ids, self._own_words(sighting.name))
        return found.ids[kept], int((found.ends[kept] <= sighting.at).sum())

    def _read_name(self, name: str) -> Int32:
        return self._lexicon.encode(name).ids

    def word_vectors(self, sightings: Sequence[Sighting]) -> Float32:
        """Return the directions of the contexts, (n, Q); what stands near the name counts more."""
        rows = [self.read(sighting) for sighting in sightings]
        shape = len(rows), max(1, *(len(words) for words, _ in rows))
        padded = np.full(shape, -1, dtype=np.int32)
        emphasis = np.zeros(shape, dtype=np.float32)
        for i, (words, n_before) in enumerate(rows):
            place = np.arange(len(words))
            away = np.where(place < n_before, n_before - 1 - place, place - n_before)
            padded[i, : len(words)] = words
            emphasis[i, : len(words)] = 1 + NEAR * np.exp(-away / NEAR_WORDS)
        return self.vectors.of(padded, emphasis)

    def likeness(self, sightings: Sequence[Sighting], vectors: Float32) -> Float64:
        """Return how alike the contexts are, (n, n), about 0 for unrelated ones."""
        alike = (vectors @ vectors.T).astype(np.float64)
        if self.encoder is not None:
            read = self.encoder.encode([masked(sighting) for sighting in sightings])
            by_encoder = ((read @ read.T).astype(np.float64) - ENCODER_MEAN) / (1 - ENCODER_MEAN)
            alike = (1 - ENCODER_WEIGHT) * alike + ENCODER_WEIGHT * by_encoder
        quoted = np.array([is_quoted(sighting) for sighting in sightings], dtype=np.float64)
        both, one = np.outer(quoted, quoted), np.abs(quoted[:, None] - quoted)
        alike += QUOTED * (both - one) + TITLED_YEAR * _same_years(sightings)
        alike -= OTHER_TIME * _other_times(sightings)
        return np.asarray(alike - OTHER_FORM * _other_forms(sightings))

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
    return f"{sighting.window[: sighting.at]}it{sighting.window[sighting.stop :]}"


def is_quoted(sighting: Sighting) -> bool:
    """Tell whether a name stands in quotation marks, as titles of works do."""
    before = sighting.window[max(0, sighting.at - 1) : sighting.at]
    after = sighting.window[sighting.stop :][:1]
    return bool(before and after) and before in "\"“«‘'" and after in "\"”»’',"


def _same_years(sightings: Sequence[Sighting]) -> Float64:
    """Return 1 for two titles of one year, -1 for those of different years, 0 for others."""
    years = np.array([sighting.own_year or 0 for sighting in sightings])
    same = years[:, None] == years
    return np.where((years > 0)[:, None] & (years > 0), np.where(same, 1.0, -1.0), 0.0)


def _other_times(sightings: Sequence[Sighting]) -> Float64:
    """Return 1 where one text names a later year and the other only earlier ones."""
    time = np.array([sighting.time for sighting in sightings])
    apart = np.outer(time == LATER, time == EARLIER)
    return np.asarray(apart | apart.T, dtype=np.float64)


def _other_forms(sightings: Sequence[Sighting]) -> Float64:
    """Tell which two stand inside different longer names; each pair of forms is compared once."""
    forms, place = np.unique([sighting.form for sighting in sightings], return_inverse=True)
    other = [[is_other_form(a, b) for b in forms.tolist()] for a in forms.tolist()]
    return np.array(other, dtype=np.float64)[np.ix_(place, place)]


def is_other_form(form: str, other: str) -> bool:
    """Tell whether two longer names differ, and neither is part of the other."""
    return bool(form and other) and form not in other and other not in form


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
