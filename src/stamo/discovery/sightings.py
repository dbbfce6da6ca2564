"""Names as they are seen in one batch of documents: each name once a document, with its context.

    texts ─▶ detected names + capitalised runs ─▶ ranked by the linker ─▶ short names to full names
          ─▶ one sighting a name and document

A sighting of a known name says how well its context fits the best of its known meanings; only
those that fit badly, or that speak of a later time than the knowledge base, keep their context.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, pairwise
from typing import NamedTuple

import numpy as np

from stamo.corpus.parts import Part, ReadPart
from stamo.corpus.tokenizer import STOP_WORD_FREQUENCY
from stamo.discovery.spans import SMALL_WORDS, CapitalSpans, capital_spans
from stamo.discovery.time import LATER, NamedYears
from stamo.features.encoding import FlatCorpus, context_words
from stamo.kb.base import KnowledgeBase
from stamo.kb.names import normalise_surface
from stamo.linking.batches import Located, flatten_joined
from stamo.linking.linker import Linker
from stamo.linking.rank import Ranking
from stamo.linking.texts import JoinedTexts, join_texts
from stamo.system.arrays import Bools, Float32, Float64, Int32, Int64

SIGHT = 200
"""Characters on each side of a name that are kept."""
N_CONTEXT_WORDS = 50
"""Content words around a name that its fit is measured on."""
N_NEAR_ENTITIES = 8
"""Linked entities near a name that are kept."""
FREQUENT_WORD = 1e-4
"""A word above this share of the text that begins a sentence is hardly part of a name."""
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


class FrequentWords(dict[str, bool]):
    """Whether a word is so frequent that a capital at a sentence's start says nothing."""

    def __init__(self, kb: KnowledgeBase) -> None:
        super().__init__()
        self._kb = kb
        self._total = float(kb.word_counts.sum())
        self._stop_words: dict[str, bool] = {}

    def __missing__(self, word: str) -> bool:
        self[word] = self._share(word) > FREQUENT_WORD
        return self[word]

    def is_stop_word(self, word: str) -> bool:
        """Tell whether a word is so frequent that it says nothing."""
        found = self._stop_words.get(word)
        if found is None:
            found = self._stop_words[word] = self._share(word) > STOP_WORD_FREQUENCY
        return found

    def _share(self, word: str) -> float:
        number = int(self._kb.word_ids([word])[0])
        return float(self._kb.word_counts[number]) / self._total if number >= 0 else 0.0


class ContextVectors:
    """ContextReader as vectors of the space in which the entities' vectors lie."""

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


@dataclass(frozen=True)
class FoundNames:
    """The names of a batch in order."""

    located: Located
    names: list[str]
    aliases: Int32  # (M,) number in the knowledge base, -1 where unknown
    is_capital: Bools  # (M,) is a capitalised run of its own
    is_detected: Bools  # (M,) found by the linker's own detection

    def rows(self, begin: int, end: int) -> _DocumentNames:
        """Return the names of one document."""
        located = self.located
        return _DocumentNames(
            self.names[begin:end],
            self.aliases[begin:end].tolist(),
            located.starts[begin:end].tolist(),
            located.ends[begin:end].tolist(),
            self.is_capital[begin:end].tolist(),
        )


class _DocumentNames(NamedTuple):
    names: list[str]
    aliases: list[int]
    starts: list[int]
    ends: list[int]
    is_capital: list[bool]


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


def find_names(
    joined: JoinedTexts, linker: Linker, frequent: FrequentWords, small: Set[str]
) -> FoundNames:
    """Find the names that the linker knows and the capitalised runs that it does not cover.

    Args:
        joined: The texts.
        linker: Knows names.
        frequent: Which words are frequent.
        small: The words that the texts write without a capital.
    """
    detected = linker.detector.detect(joined)
    runs = _trim(joined, capital_spans(joined, frequent), linker.kb, frequent, small)
    starts = joined.starts[runs.first].astype(np.int64)
    ends = joined.ends[runs.last - 1].astype(np.int64)
    # A detected name that holds a run stands for it; inside a longer run it is part of that name.
    place = np.searchsorted(detected.starts, starts, side="right") - 1
    inside = place >= 0
    inside[inside] = detected.ends[place[inside]] >= ends[inside]
    is_capital = np.zeros(len(detected), dtype=np.bool_)
    is_capital[place[inside]] = True
    starts, ends = starts[~inside], ends[~inside]
    free = _outside(detected.starts, detected.ends, starts, ends)
    names = [normalise_surface(joined.text[s:e]) for s, e in zip(starts, ends, strict=True)]
    all_starts = np.concatenate([detected.starts[free], starts])
    all_ends = np.concatenate([detected.ends[free], ends])
    aliases = np.concatenate([detected.aliases[free], linker.kb.alias_ids(names)])
    texts = linker.kb.aliases(detected.aliases[free]) + names
    order = np.argsort(all_starts, kind="stable")
    texts = [texts[i] for i in order.tolist()]
    index: dict[str, int] = {}
    numbers = np.array([index.setdefault(name, len(index)) for name in texts], dtype=np.int32)
    corpus = flatten_joined(
        joined, all_starts[order], all_ends[order], numbers, tuple(index), linker.words
    )
    located = Located(
        corpus.documents,
        joined.local(corpus.documents, all_starts[order]),
        joined.local(corpus.documents, all_ends[order]),
        corpus,
    )
    new = np.ones(len(starts), dtype=np.bool_)
    return FoundNames(
        located,
        texts,
        aliases[order].astype(np.int32),
        np.concatenate([is_capital[free], new])[order],
        np.concatenate([np.ones(int(free.sum()), np.bool_), ~new])[order],
    )


def _outside(starts: Int64, ends: Int64, run_starts: Int64, run_ends: Int64) -> Bools:
    """Tell which spans overlap none of the runs; both are in order and free of overlaps."""
    first = np.searchsorted(run_ends, starts, side="right")
    last = np.searchsorted(run_starts, ends, side="left")
    return np.asarray(first >= last)


def _trim(
    joined: JoinedTexts,
    runs: CapitalSpans,
    kb: KnowledgeBase,
    frequent: FrequentWords,
    small: Set[str],
) -> CapitalSpans:
    """Take words from the front of a run that have their capital from the sentence alone.

    So do stop words anywhere ("The", "If"). A single word that begins a sentence is no name that
    could be trusted. What the knowledge base knows as it stands is left alone.
    """
    first, keep = runs.first.copy(), np.ones(len(runs), dtype=np.bool_)
    for i, (begin, end, opens) in enumerate(
        zip(runs.first.tolist(), runs.last.tolist(), runs.opens.tolist(), strict=True)
    ):
        # "(Friday) Does Mira": a bracket may end what stands before a sentence.
        opens = opens or (joined.words[begin] in small and _follows_bracket(joined, begin))
        if end - begin == 1:
            is_stop = frequent.is_stop_word(joined.words[begin])
            keep[i] = not opens and (not is_stop or _is_known(joined, begin, end, kb))
            continue
        word, place = joined.words[begin], begin
        # "Users of Mira": what begins a sentence before a small word is hardly part of the name.
        if opens and (frequent[word] or word in small or not _has_capital(joined, begin + 1)):
            place += 1
        while place < end and (
            not _has_capital(joined, place) or _is_loose(joined, place, end, kb, frequent)
        ):
            place += 1
        if place == begin or _is_known(joined, begin, end, kb):
            continue
        first[i] = place
        keep[i] = place < end
    return CapitalSpans(first[keep], runs.last[keep], runs.opens[keep])


def _is_loose(
    joined: JoinedTexts, word: int, end: int, kb: KnowledgeBase, frequent: FrequentWords
) -> bool:
    """Tell whether a word in front of a name is a stop word that belongs to no known name.

    "The Colbert Report" loses its first word, "New York Comic Con" does not.
    """
    if not frequent.is_stop_word(joined.words[word]) or _is_known(joined, word, end, kb):
        return False
    is_article = joined.words[word] in ("the", "a", "an")
    return is_article or word + 2 > end or not _is_known(joined, word, word + 2, kb)


def _is_known(joined: JoinedTexts, first: int, last: int, kb: KnowledgeBase) -> bool:
    return kb.alias_id(joined.text[joined.starts[first] : joined.ends[last - 1]]) >= 0


def _follows_bracket(joined: JoinedTexts, word: int) -> bool:
    start = int(joined.starts[word])
    return joined.text[max(0, start - 2) : start] == ") "


def _has_capital(joined: JoinedTexts, word: int) -> bool:
    place = joined.starts[word]
    return bool(joined.codes[place] != joined.lowered[place])


def small_words(joined: JoinedTexts) -> list[set[str]]:
    """Return the words that each text writes without a capital."""
    is_small = (joined.codes[joined.starts] == joined.lowered[joined.starts]).tolist()
    edges = np.searchsorted(joined.starts, joined.offsets).tolist()
    return [
        set(compress(joined.words[begin:end], is_small[begin:end]))
        for begin, end in pairwise(edges)
    ]


def full_names(names: Sequence[str], aliases: Sequence[int]) -> dict[str, str]:
    """Map short names of a document to the full names that it uses too.

    "Snowden" is short for "Edward Snowden", "Falcon" for "Falcon 9": the last words of a longer
    name, or the first ones of a name that is unknown ("Planck" is not short for "Planck Length").
    Of several the most frequent one counts, then the first.

    Args:
        names: The names of all mentions, in the order of the text.
        aliases: Their numbers in the knowledge base, -1 for unknown ones.
    """
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    alias_by_name = dict(zip(names, aliases, strict=True))
    longer: dict[str, str] = {}
    for name in counts:
        words = name.split(" ")
        if any(word[:1].islower() and word not in SMALL_WORDS for word in words):
            continue
        for i in range(1, len(words)):
            ends = [" ".join(words[i:])]
            ends += [" ".join(words[:i])] if alias_by_name[name] < 0 else []
            for part in ends:
                if part in counts and (part not in longer or counts[name] > counts[longer[part]]):
                    longer[part] = name
    resolved = {}
    for short in longer:
        full = short
        while full in longer:
            full = longer[full]
        resolved[short] = full
    return resolved


def _see_document(
    part: Part, found: _DocumentNames, scores: _Scores, small: set[str], observer: Observer
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
        found: _DocumentNames,
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
