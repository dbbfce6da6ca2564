"""From what was seen of a stream to ranked proposals.

Names are grouped, contexts clustered and scored; the two kinds take turns, since an editor wants
both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest

import numpy as np

from stamo.discovery.clusters import ContextReader, cluster, coherence
from stamo.discovery.describe import describe_found
from stamo.discovery.groups import (
    NameGroup,
    completed,
    group_names,
    is_phrase,
    is_piece,
    is_variant,
    longer_documents,
    name_in_full,
    parts_of,
)
from stamo.discovery.proposal import Proposal, ProposalKind
from stamo.discovery.score import (
    PRIOR_LATER,
    Found,
    Past,
    has_common_name,
    is_called,
    lower_bound,
    surprise,
    without_copies,
)
from stamo.discovery.sightings import Sighting
from stamo.discovery.tally import NameTally, Tally
from stamo.discovery.time import TimeWords, speaks_of_later
from stamo.errors import SettingsError

REPEATED = 0.4
"""A proposal that shares so many of its places with a better one repeats it."""
PROMISING = 5
"""How many names for each wanted proposal are looked at closely."""
TITLED_FIT = 0.65
"""An unknown name whose contexts fit so well what its last words mean is that, with a title."""
N_TIME_TEXTS = 50_000
"""Contexts from which it is learned which words speak of a later time."""


@dataclass(frozen=True)
class ProposeSettings:
    """What is proposed."""

    least_documents: int = 3
    """Fewer documents give no proposal."""
    agreement: float = 0.4
    """Mean cosine of contexts that agree; unrelated ones have about 0."""
    known_fit: float = 0.5
    """A cluster whose contexts fit a known meaning at least so well is that meaning."""
    ignored: frozenset[str] = frozenset()
    """Names that are never proposed, in any case."""
    max_proposals: int = 1000
    kinds: tuple[ProposalKind, ...] = ("name", "meaning")

    def __post_init__(self) -> None:
        if self.least_documents < 2 or self.max_proposals < 1:
            raise SettingsError(
                "A proposal needs at least 2 documents and a list at least 1 proposal, not "
                f"{self.least_documents} and {self.max_proposals}."
            )


def propose(
    tally: Tally, past: Past, contexts: ContextReader, settings: ProposeSettings
) -> list[Proposal]:
    """Return the proposals, the best first; the kinds take turns.

    Args:
        tally: What was seen.
        past: What the knowledge base's own articles say.
        contexts: Reads the contexts.
        settings: What is proposed.
    """
    ignored = {name.casefold() for name in settings.ignored}
    ranked: dict[ProposalKind, list[Found]] = {kind: [] for kind in settings.kinds}
    for found in _Search(tally, past, contexts, settings).run():
        names = {t.name.casefold() for t in found.tallies[:1]}
        if found.kind in ranked and not names & ignored:
            ranked[found.kind].append(found)
    for kind in ranked:
        ranked[kind].sort(key=lambda found: (-found.score, found.name, -found.n_documents))
    turns = zip_longest(*ranked.values())
    every = (found for turn in turns for found in turn if found is not None)
    chosen = list(islice(_without_repeats(every), settings.max_proposals))
    return [describe_found(found, contexts) for found in chosen]


@dataclass(frozen=True)
class _Search:
    """One look at all that was seen."""

    tally: Tally
    past: Past
    contexts: ContextReader
    settings: ProposeSettings

    def run(self) -> Iterator[Found]:
        if "name" in self.settings.kinds:
            for group in self._promising(self._groups()):
                if not is_variant(group.name, self.contexts.kb):
                    yield from self._new_names(group)
        if "meaning" in self.settings.kinds:
            names = [
                NameGroup((tally,))
                for tally in self.tally.names.values()
                if tally.alias >= 0 and tally.n_seen >= self.settings.least_documents
            ]
            for group in self._promising(names):
                known = self.contexts.kb.candidates(group.name).ids.tolist()
                sightings = _distinct(group.tallies[0].sightings)
                yield from self._clusters("meaning", group.tallies, sightings, known)

    def _groups(self) -> list[NameGroup]:
        """Return the groups of unknown names that are whole names."""
        least, tallies = self.settings.least_documents, self.tally.names
        unknown = [t for t in tallies.values() if t.alias < 0]
        unknown = [name_in_full(t) if t.n_documents >= least else t for t in unknown]
        longer = longer_documents(tallies.values())
        return [
            group
            for group in group_names(unknown)
            if group.n_documents >= least
            and not is_phrase(group.name, group.tallies[0].sightings)
            and not is_piece(group.name, longer, group.n_documents)
        ]

    def _promising(self, groups: Sequence[NameGroup]) -> list[NameGroup]:
        """Return the groups that could rank among the first, by what is cheap to know of them.

        No cluster of a name scores higher than if all its documents of a later time were in it.
        """

        def bound(group: NameGroup) -> float:
            sightings = [s for tally in group.tallies for s in tally.sightings]
            n = sum(speaks_of_later(s.window, self.past.year) for s in sightings)
            time = PRIOR_LATER + (lower_bound(n, n) if n else 0.0)
            rise = self.past.rise(group.tallies, self.tally.n_documents)
            return time * math.log2(1 + group.n_documents) * rise

        ranked = sorted(groups, key=lambda group: (-bound(group), group.name))
        return ranked[: PROMISING * self.settings.max_proposals]

    @cached_property
    def _time_words(self) -> TimeWords:
        """Learned from an even share of all kept contexts."""
        samples = [tally.sample for tally in self.tally.names.values()]
        step = max(1, sum(map(len, samples)) // N_TIME_TEXTS)
        texts = (s.window for sample in samples for key, s in sample if key % step == 0)
        return TimeWords.learn(texts, self.past.year)

    def _later(self, sightings: Sequence[Sighting]) -> float:
        """Return the share of contexts of a later time, lowered for few; 1 without time."""
        if self.past.year is None:
            return 1.0
        n = sum(self._time_words.later(s.window) for s in sightings)
        return lower_bound(n, len(sightings))

    def _new_names(self, group: NameGroup) -> Iterator[Found]:
        """Yield a name of several words as it is, and each meaning of a single word."""
        sightings = _distinct(s for tally in group.tallies for s in tally.sightings)
        known = _known_parts(group.name, self.contexts)
        yield from self._clusters("name", group.tallies, sightings, known)

    def _clusters(
        self,
        kind: ProposalKind,
        tallies: tuple[NameTally, ...],
        sightings: Sequence[Sighting],
        known: Sequence[int],
    ) -> Iterator[Found]:
        """Yield the clusters of contexts that fit none of the known meanings."""
        least, contexts = self.settings.least_documents, self.contexts
        if len(sightings) < least:
            return
        vectors = contexts.word_vectors(sightings)
        alike = contexts.likeness(sightings, vectors)
        one = kind == "name" and " " in tallies[0].name
        agreement = self.settings.agreement / (2 if kind == "name" else 1)
        clusters = [np.arange(len(sightings))] if one else cluster(alike, agreement)
        clusters = [without_copies(rows, alike) for rows in clusters]
        clusters = [rows for rows in clusters if len(rows) >= least]
        then = self.past.sightings(t.name for t in tallies) if clusters else []
        past = contexts.word_vectors(then) if then else vectors[:0]
        first = tallies[0].name
        for rows in clusters:
            fit, best = contexts.fit(vectors[rows], known)
            if fit >= (TITLED_FIT if kind == "name" else self.settings.known_fit):
                continue
            inside = alike[np.ix_(rows, rows)]
            chosen = [sightings[i] for i in rows]
            if not _is_one(kind, first, chosen):
                continue
            yield Found(
                kind,
                tallies,
                tuple(chosen),
                share=len(rows) / len(sightings),
                later=self._later(chosen),
                coherence=coherence(inside),
                novelty=surprise(inside, vectors[rows] @ past.T),
                fit=fit,
                confused_with=best,
                rise=self.past.rise(tallies, self.tally.n_documents),
                rarity=self.past.rarity(first),
                is_full=self._is_full(first),
            )

    def _is_full(self, name: str) -> bool:
        """Tell whether a name is the title of a known meaning, or holds a number."""
        is_title = " " in name and self.contexts.kb.entity_ids([name])[0] >= 0
        return bool(is_title) or any(map(str.isdigit, name))


def _is_one(kind: ProposalKind, name: str, sightings: list[Sighting]) -> bool:
    """Tell whether contexts that agree can be one thing of that name."""
    if kind == "name":
        return has_common_name(sightings)
    is_whole = completed(sightings) == sightings
    return is_whole and is_called(name, sightings) and not is_phrase(name, sightings)


def _without_repeats(ranked: Iterable[Found]) -> Iterator[Found]:
    """Leave out what is mostly seen at the same places as something that ranks higher."""
    taken: set[tuple[str, int]] = set()
    for found in ranked:
        places = {(s.document, s.end) for s in found.sightings}
        places |= {(s.document, s.start) for s in found.sightings}
        if len(places & taken) < REPEATED * len(places):
            taken |= places
            yield found


def _known_parts(name: str, contexts: ContextReader) -> list[int]:
    """Return the entities that the known names at the end of an unknown one may mean."""
    kb = contexts.kb
    found: list[int] = []
    for part in parts_of(name):
        # "Space Telescope" is a kind of thing, which new things are of; "Obama" is none.
        is_kind = kb.alias_id(part.lower()) >= 0
        if name.endswith(f" {part}") and kb.alias_id(part) >= 0 and not is_kind:
            found += kb.candidates(part).ids.tolist()[:20]
    return list(dict.fromkeys(found))


def _distinct(sightings: Iterable[Sighting]) -> list[Sighting]:
    """Return one sighting a document: of the first name."""
    first: dict[str, Sighting] = {}
    for sighting in sightings:
        first.setdefault(sighting.document, sighting)
    return list(first.values())
