"""Sees the names of a batch of documents.

    texts ─▶ detected names + capitalised runs ─▶ ranked by the linker ─▶ short names to full names
          ─▶ one sighting a name and document

A sighting of a known name says how well its context fits the best of its known meanings; only
those that fit badly, or that speak of a later time than the knowledge base, keep their context.
All steps but the last run over whole batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stamo.corpus.reading import Chunk, ReadChunk
from stamo.discovery.meanings import ContextVectors
from stamo.discovery.names import (
    EXPLAINED_FIT,
    LATER,
    DocumentNames,
    FoundNames,
    FrequentWords,
    NamedYears,
    PackedSighting,
    Seen,
    Sighting,
    companions,
    find_names,
    full_names,
    pack,
    small_words,
)
from stamo.features.mentions import FlatCorpus, context_words
from stamo.linking.linker import Linker
from stamo.linking.rank import N_SHOWN, Ranking
from stamo.linking.texts import join_texts
from stamo.system.files import Bools, Float64, Int32, Int64

SIGHT = 200
"""Characters on each side of a name that are kept."""
N_CONTEXT_WORDS = 50
"""Content words around a name that its fit is measured on."""
LINKED_SHARE = 0.5
"""Other mentions linked with at least this share count as what a name comes with."""


@dataclass(frozen=True)
class Observer:
    """Sees the names of documents, batch by batch."""

    linker: Linker
    wanted: frozenset[str] | None = None
    """See only these names, whatever they mean: no context is measured; None sees all."""
    year: int | None = None
    """The last year that the knowledge base speaks of, where it is known."""

    @cached_property
    def contexts(self) -> ContextVectors:
        """Turns context words into vectors."""
        return ContextVectors(self.linker.kb)

    @cached_property
    def frequent(self) -> FrequentWords:
        """Knows which words begin sentences without being names."""
        return FrequentWords.of(self.linker.kb)

    @cached_property
    def _is_ambiguous(self) -> Bools:
        """Whether the linker leaves out candidates of each name, and -1 has none."""
        many = self.linker.kb.by_alias.n_candidates > N_SHOWN
        return np.append(many, False)

    def warm_up(self) -> None:
        """Make everything that is made on first use."""
        self.linker.warm_up()
        _ = self.contexts, self.frequent

    def see(self, sources: Sequence[ReadChunk]) -> list[Seen]:
        """See the names of a batch of documents; one that cannot be read gives its error."""
        parts = [source for source in sources if isinstance(source, Chunk)]
        seen = iter(self._see(parts) if parts else [])
        return [
            next(seen) if isinstance(s, Chunk) else Seen(s.id, [], [], s.error) for s in sources
        ]

    def _see(self, parts: Sequence[Chunk]) -> list[Seen]:
        joined = join_texts([part.document.text for part in parts])
        small = small_words(joined)
        found = find_names(joined, self.linker, self.frequent, set().union(*small))
        names, scores = self._bring_together(found)
        first, is_known = names.rows, found.aliases[names.names] >= 0
        years = NamedYears.of(joined, self.year)
        begins, ends = found.located.starts[first] - SIGHT, found.located.ends[first] + SIGHT
        times = years.times_of(names.documents, begins, ends)
        fits_known = (scores.fits[first] >= EXPLAINED_FIT) & (times != LATER)
        is_explained = is_known & (fits_known | (found.numbers[first] != names.names))
        wanted = [self.wanted is None or name in self.wanted for name in found.names]
        is_wanted = np.array(wanted, dtype=np.bool_)[names.names]
        explained = np.flatnonzero(is_explained & is_wanted)
        chosen = np.flatnonzero(~is_explained & is_wanted)
        near = companions(names, chosen, scores.linked, found.numbers, found.documents)
        seen = [Seen(part.id, [], []) for part in parts]
        where, which = names.documents[explained].tolist(), names.names[explained].tolist()
        for document, name in zip(where, which, strict=True):
            seen[document].explained.append(found.names[name])
        for document, sighting in _sightings(
            parts, found, names, chosen, scores.fits, times, near, small
        ):
            seen[document].sightings.append(sighting)
        return seen

    def _bring_together(self, found: FoundNames) -> tuple[DocumentNames, _Scores]:
        """Bring the mentions of each name together, short names with full names."""
        rows = np.flatnonzero(found.is_capital)
        documents, own = found.documents[rows], found.numbers[rows]
        full = full_names(documents, own, found.names, found.aliases)
        n = len(found.numbers)
        scores = _Scores(np.zeros(n), np.full(n, -1, dtype=np.int32))
        if self.wanted is None:
            keys = documents.astype(np.int64) * len(found.names) + own
            matters = own != full
            matters[np.unique(keys, return_index=True)[1]] = True  # the first of its name
            scores = self._scores(found, rows[matters])
        # A short name that fits a known meaning stands for itself: "America" in "Bank of America".
        is_itself = (found.aliases[own] >= 0) & (scores.fits[rows] >= EXPLAINED_FIT)
        full = np.where(is_itself, own, full)
        return DocumentNames.of(documents, rows, own, full), scores

    def _scores(self, found: FoundNames, rows: Int64) -> _Scores:
        """Link all mentions, and measure how well the contexts of some fit."""
        # Where all candidates are kept, what fits best does not depend on their order.
        is_scored = found.is_detected.copy()
        is_scored[rows] |= self._is_ambiguous[found.aliases[found.numbers[rows]]]
        ranking = self.linker.rank(found.located, is_scored)
        is_linked = found.is_detected & (ranking.shares[:, 0] >= LINKED_SHARE)
        linked = np.where(is_linked, ranking.candidates[:, 0], -1).astype(np.int32)
        return _Scores(self._fits(found.located.corpus, ranking, rows), linked)

    def _fits(self, corpus: FlatCorpus, ranking: Ranking, rows: Int64) -> Float64:
        """Return how well the contexts of mentions fit the best of their known meanings."""
        fits = np.ones(corpus.n_mentions, dtype=np.float64)
        rows = rows[ranking.candidates[rows, 0] >= 0]
        if not len(rows):
            return fits
        contexts = self.contexts.of(context_words(corpus, rows, N_CONTEXT_WORDS))
        candidates = ranking.candidates[rows]
        cosines = np.einsum("md,mcd->mc", contexts, self.contexts.entities(candidates))
        cosines[candidates < 0] = -1
        fits[rows] = cosines.max(axis=1)
        return fits


class _Scores(NamedTuple):
    fits: Float64
    """How well the context of a mention fits a known meaning, 1 where none is known, (M,)."""
    linked: Int32
    """What each mention is linked to, -1 for nothing, (M,)."""


def _sightings(
    parts: Sequence[Chunk],
    found: FoundNames,
    names: DocumentNames,
    chosen: Int64,
    fits: Float64,
    times: Int64,
    near: Sequence[tuple[int, ...]],
    small: Sequence[set[str]],
) -> Iterator[tuple[int, PackedSighting]]:
    """Yield the chosen names of documents, each with the number of its document."""
    heads = [(part.id, part.document.date or "", part.offset, part.document.text) for part in parts]
    shorts = names.short_by_name(found.names)
    aliases, located, rows = found.aliases[names.names], found.located, names.rows[chosen]
    columns = names.documents, names.names, aliases, names.n_mentions, times
    values = [column[chosen].tolist() for column in columns]
    values += [column[rows].tolist() for column in (located.starts, located.ends, fits)]
    for group, entities, i, number, alias, n, time, start, end, fit in zip(
        chosen.tolist(), near, *values, strict=True
    ):
        document, date, offset, text = heads[i]
        begin, name = max(0, start - SIGHT), found.names[number]
        where = document, date, start + offset, end + offset
        window = text[begin : end + SIGHT], start - begin
        said = entities, _is_common(name, small[i]), fit, time
        yield i, pack(Sighting(name, alias, *where, n, shorts.get(group, ()), *window, *said))


def _is_common(name: str, small: set[str]) -> bool:
    """Tell whether a document writes all words of a name small too; numbers are always small."""
    words = name.lower().split(" ")
    return small.issuperset(words) or all([word in small or word.isdigit() for word in words])
