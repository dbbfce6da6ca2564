"""Names as they are seen in one batch of documents: each name once a document, with its context.

    texts ─▶ detected names + capitalised runs ─▶ ranked by the linker ─▶ short names to full names
          ─▶ one sighting a name and document

A sighting of a known name says how well its context fits the best of its known meanings; only
those that fit badly, or that speak of a later time than the knowledge base, keep their context.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stamo.corpus.parts import Part, ReadPart
from stamo.discovery.found_names import (
    DocumentNames,
    FoundNames,
    FrequentWords,
    find_names,
    full_names,
    small_words,
)
from stamo.discovery.time import LATER, NamedYears
from stamo.features.encoding import FlatCorpus, context_words
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from stamo.linking.rank import Ranking
from stamo.linking.texts import join_texts
from stamo.system.arrays import Float32, Float64, Int32

SIGHT = 200
"""Characters on each side of a name that are kept."""
N_CONTEXT_WORDS = 50
"""Content words around a name that its fit is measured on."""
N_NEAR_ENTITIES = 8
"""Linked entities near a name that are kept."""
LINKED_SHARE = 0.5
"""Other mentions linked with at least this share count as what a name comes with."""


class Sighting(NamedTuple):
    """One name in one document, at its first mention."""

    name: str
    alias: int
    """The number of the name in the knowledge base, -1 where it is unknown."""
    document: str
    date: str
    start: int
    end: int
    n_mentions: int
    surfaces: tuple[str, ...]
    """Short names that the document uses for it."""
    window: str
    at: int
    """Where the name begins in the window."""
    entities: tuple[int, ...]
    """Linked entities near it, the nearest first."""
    best: int
    """The known meaning that fits best, -1 where there is none."""
    confidence: float
    """The linker's calibrated confidence in it."""
    is_common: bool
    """Whether the document writes all words of the name small too."""
    fit: float
    """Cosine of the context with that meaning's vector; 1 where nothing is known of it."""
    time: int
    """Which years the context names: see `stamo.discovery.time`."""
    form: str = ""
    """The longer name that a known name was seen in; empty where it stands alone."""


class Seen(NamedTuple):
    """What a document, or a part of a long one, holds."""

    document: str
    date: str
    sightings: list[Sighting]
    explained: list[str]
    """Known names whose context fits a known meaning."""
    error: str | None = None


@dataclass(frozen=True)
class Observer:
    """Sees the names of documents, batch by batch."""

    linker: Linker
    least_fit: float
    """A known name whose context fits a known meaning at least so well is explained by it."""
    wanted: frozenset[str] | None = None
    """See only these names, whatever they mean; None sees all."""
    year: int | None = None
    """The last year that the knowledge base speaks of, where it is known."""

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base."""
        return self.linker.kb

    @cached_property
    def contexts(self) -> ContextVectors:
        """Turns context words into vectors."""
        return ContextVectors(self.kb)

    @cached_property
    def frequent(self) -> FrequentWords:
        """Knows which words begin sentences without being names."""
        return FrequentWords(self.kb)

    def warm_up(self) -> None:
        """Make everything that is made on first use."""
        self.linker.warm_up()
        _ = self.contexts, self.frequent

    def see(self, sources: Sequence[ReadPart]) -> list[Seen]:
        """See the names of a batch of documents; one that cannot be read gives its error."""
        parts = [source for source in sources if isinstance(source, Part)]
        seen = iter(self._see(parts) if parts else [])
        return [
            next(seen) if isinstance(s, Part) else Seen(s.id, "", [], [], s.error) for s in sources
        ]

    def _see(self, parts: Sequence[Part]) -> list[Seen]:
        joined = join_texts([part.document.text for part in parts])
        small = small_words(joined)
        found = find_names(joined, self.linker, self.frequent, set().union(*small))
        scores = self._scores(found) if self.wanted is None else _no_scores(len(found.names))
        edges = np.searchsorted(found.located.documents, np.arange(len(parts) + 1)).tolist()
        return [
            _see_document(
                part,
                found.rows(edges[i], edges[i + 1]),
                scores.rows(edges[i], edges[i + 1]),
                small[i],
                self,
            )
            for i, part in enumerate(parts)
        ]

    def _scores(self, found: FoundNames) -> _Scores:
        ranking = self.linker.rank(found.located)
        shares = ranking.shares[:, 0]
        confidence = self.linker.trained.calibration.confidence_of(shares.astype(np.float64))
        linked = np.where(shares >= LINKED_SHARE, ranking.best, -1).astype(np.int32)
        linked[~found.is_detected] = -1
        fits = self._fits(found.located.corpus, ranking)
        return _Scores(ranking.best, confidence, fits, linked)

    def _fits(self, corpus: FlatCorpus, ranking: Ranking) -> Float32:
        """Return how well the context of each mention fits the best of its known meanings."""
        fits = np.ones(corpus.n_mentions, dtype=np.float32)
        rows = np.flatnonzero(ranking.best >= 0)
        if not len(rows):
            return fits
        contexts = self.contexts.of(context_words(corpus, rows, N_CONTEXT_WORDS))
        candidates = ranking.candidates[rows]
        vectors = self.contexts.entities(candidates)
        cosines = np.einsum("md,mcd->mc", contexts, vectors)
        cosines[candidates < 0] = -1
        fits[rows] = cosines.max(axis=1)
        return fits


class ContextVectors:
    """Contexts as vectors of the space in which the entities' vectors lie."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self._words = np.asarray(kb.word_vectors, dtype=np.float32)
        self._weights = kb.word_weights
        self._background = kb.background
        self._entities = kb.entity_vectors()

    def of(self, words: Int32, emphasis: Float32 | None = None) -> Float32:
        """Return the directions of contexts of H words, (M, H) with -1 for none, as (M, Q)."""
        weights = np.where(words >= 0, self._weights[words], 0).astype(np.float32)
        if emphasis is not None:
            weights *= emphasis
        total = np.empty((len(words), self._words.shape[1]), dtype=np.float32)
        for i in range(0, len(words), 256):
            rows = slice(i, i + 256)
            total[rows] = np.einsum("mh,mhd->md", weights[rows], self._words[words[rows]])
        mass = weights.sum(axis=1, keepdims=True)
        direction = total - mass * self._background
        norm = np.linalg.norm(direction, axis=1, keepdims=True)
        return np.asarray(direction / np.maximum(norm, 1e-9), dtype=np.float32)

    def entities(self, ids: Int32) -> Float32:
        """Return the vectors of entities, zeros for -1."""
        used, place = np.unique(ids, return_inverse=True)
        vectors = np.asarray(self._entities[np.maximum(used, 0)], dtype=np.float32)
        vectors[used < 0] = 0
        return vectors[place.reshape(ids.shape)]


class _Scores(NamedTuple):
    best: Int32
    confidence: Float64
    fits: Float32
    linked: Int32

    def rows(self, begin: int, end: int) -> _Scores:
        best, confidence, fits, linked = self
        return _Scores(best[begin:end], confidence[begin:end], fits[begin:end], linked[begin:end])


def _no_scores(n: int) -> _Scores:
    none = np.full(n, -1, dtype=np.int32)
    return _Scores(none, np.zeros(n), np.zeros(n, dtype=np.float32), none)


def _see_document(
    part: Part, found: DocumentNames, scores: _Scores, small: set[str], observer: Observer
) -> Seen:
    least_fit, wanted = observer.least_fit, observer.wanted
    rows = [i for i, is_capital in enumerate(found.is_capital) if is_capital]
    full_by_short = full_names([found.names[i] for i in rows], [found.aliases[i] for i in rows])
    rows_by_name: dict[str, list[int]] = {}
    alias_by_name = {found.names[i]: found.aliases[i] for i in rows}
    for i in rows:
        name = found.names[i]
        full = full_by_short.get(name, name)
        # A short name that fits a known meaning stands for itself: "America" in "Bank of America".
        if full != name and found.aliases[i] >= 0 and float(scores.fits[i]) >= least_fit:
            full = name
        rows_by_name.setdefault(full, []).append(i)
    reader = _DocumentReader(part, found, scores, small, observer.year)
    sightings, explained = [], []
    for name, mentions in rows_by_name.items():
        i, alias = mentions[0], alias_by_name[name]
        if wanted is not None and name not in wanted:
            continue
        if alias >= 0 and found.names[i] != name:
            explained.append(name)
            continue
        is_explained = alias >= 0 and float(scores.fits[i]) >= least_fit
        if is_explained and reader.time_of(i) != LATER:
            explained.append(name)
        else:
            sightings.append(reader.sighting(name, alias, mentions))
    return Seen(part.id, part.document.date or "", sightings, explained)


class _DocumentReader:
    """Makes the sightings of one document."""

    def __init__(
        self,
        part: Part,
        found: DocumentNames,
        scores: _Scores,
        small: set[str],
        year: int | None,
    ) -> None:
        self._part, self._found, self._scores, self._small = part, found, scores, small
        self._years = NamedYears.of(part.document.text, year)
        self._linked = np.flatnonzero(scores.linked >= 0).tolist()

    def time_of(self, i: int) -> int:
        """Return of which time the context of a mention speaks."""
        found = self._found
        return self._years.time_of(found.starts[i] - SIGHT, found.ends[i] + SIGHT)

    def sighting(self, name: str, alias: int, mentions: list[int]) -> Sighting:
        """Return what is kept of a name, at its first mention."""
        part, found, scores, i = self._part, self._found, self._scores, mentions[0]
        start, end = found.starts[i], found.ends[i]
        begin = max(0, start - SIGHT)
        others = {found.names[j] for j in mentions} - {name}
        return Sighting(
            name,
            alias,
            part.id,
            part.document.date or "",
            start + part.offset,
            end + part.offset,
            len(mentions),
            tuple(sorted(others)),
            part.document.text[begin : end + SIGHT],
            start - begin,
            self._companions(i, others | {name}),
            int(scores.best[i]),
            float(scores.confidence[i]) if scores.best[i] >= 0 else 0.0,
            all(word in self._small or word.isdigit() for word in name.lower().split(" ")),
            float(scores.fits[i]),
            self.time_of(i),
        )

    def _companions(self, i: int, names: set[str]) -> tuple[int, ...]:
        """Return the entities that other names near a mention are linked to, the nearest first."""
        place = bisect_left(self._linked, i)
        near = self._linked[max(0, place - N_NEAR_ENTITIES) : place + N_NEAR_ENTITIES + 1]
        near.sort(key=lambda j: abs(j - i))
        linked, texts = self._scores.linked, self._found.names
        used = dict.fromkeys(int(linked[j]) for j in near if texts[j] not in names)
        return tuple(used)[:N_NEAR_ENTITIES]
