"""From what was seen of a stream to ranked proposals.

Frequent, of a later time than the knowledge base, agreeing contexts, fitting no known meaning: the
product of these ranks proposals of one kind; the two kinds take turns, since an editor wants both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest

import numpy as np

from stamo.discovery.clusters import ContextReader, cluster, coherence
from stamo.discovery.describe import describe_found
from stamo.discovery.groups import NameGroup, group_names, is_phrase, is_variant, parts_of
from stamo.discovery.proposal import Proposal, ProposalKind
from stamo.discovery.sightings import Sighting
from stamo.discovery.tally import NameTally, Tally
from stamo.discovery.time import speaks_of_later
from stamo.errors import SettingsError
from stamo.system.arrays import Float32, Float64, Int64

Z = 1.0
"""Standard errors by which a share seen in few documents is lowered."""
PRIOR_LATER = 0.1
"""What a name that no document connects with a later year still counts."""

REPEATED = 0.4
"""A proposal that shares so many of its places with a better one repeats it."""
PROMISING = 5
"""How many names for each wanted proposal are looked at closely."""
TITLED_FIT = 0.65
"""An unknown name whose contexts fit so well what its last words mean is that, with a title."""
COMMON_NAME = 1 / 3
"""Share of the documents that one form of a name has where all forms mean one thing."""
COPIED = 0.93
"""ContextReader at least so alike are copies of one text."""
LEAST_DOUBT = 0.2
"""What mentions still count that the linker is sure of: it knows no meaning but one."""
FULL_NAME = 0.2
"""How much less a known full name, or one with a number, counts as one with a new meaning."""


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


@dataclass(frozen=True)
class Found:
    """A group of contexts that may be a new entity."""

    kind: ProposalKind
    tallies: tuple[NameTally, ...]
    sightings: tuple[Sighting, ...]
    n_documents: int
    n_mentions: int
    later: float
    """Share of the documents that speak of later years, lowered for few documents."""
    coherence: float
    novelty: float
    """By how much the contexts are more alike than like those of the knowledge base's articles."""
    fit: float
    """How well the contexts fit the best known meaning, 0 where nothing is known."""
    confused_with: int
    score: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The name."""
        return self.tallies[0].name


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
        past = self.tally
        n_now = sum(t.n_documents + t.n_explained for t in tallies)
        n_then = sum(past.names[t.name].n_documents for t in tallies if t.name in past.names)
        now = n_now / max(n_stream, 1)
        then = n_then / max(past.n_documents, 1)
        return now / (now + then)


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
        least, kinds = self.settings.least_documents, self.settings.kinds
        if "name" in kinds:
            groups = [
                group
                for group in group_names(self.tally.names)
                if group.n_documents >= least and not is_phrase(group.tallies)
            ]
            for group in self._promising(groups):
                if not is_variant(group.name, self.contexts.kb):
                    yield from self._new_names(group)
        if "meaning" in kinds:
            names = [
                NameGroup((tally,))
                for tally in self.tally.names.values()
                if tally.alias >= 0 and tally.n_documents >= least
            ]
            for group in self._promising(names):
                known = self.contexts.kb.candidates(group.name).ids.tolist()
                sightings = group.tallies[0].sightings
                yield from self._clusters("meaning", group.tallies, sightings, known)

    def _promising(self, groups: Sequence[NameGroup]) -> list[NameGroup]:
        """Return the groups that could rank among the first, by what is cheap to know of them.

        No cluster of a name scores higher than if all its documents of a later time were in it.
        """

        def bound(group: NameGroup) -> float:
            sightings = [s for tally in group.tallies for s in tally.sightings]
            n = self._n_later(sightings)
            time = self._time(lower_bound(n, n) if n else 0.0)
            rise = self.past.rise(group.tallies, self.tally.n_documents)
            return time * math.log2(1 + group.n_documents) * rise

        ranked = sorted(groups, key=lambda group: (-bound(group), group.name))
        return ranked[: PROMISING * self.settings.max_proposals]

    def _n_later(self, sightings: Iterable[Sighting]) -> int:
        return sum(speaks_of_later(s.window, self.past.year) for s in sightings)

    def _time(self, later: float) -> float:
        return PRIOR_LATER + later if self.past.year is not None else 1.0

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
        for rows in clusters:
            fit, best = contexts.fit(vectors[rows], known)
            if fit >= (TITLED_FIT if kind == "name" else self.settings.known_fit):
                continue
            inside = alike[np.ix_(rows, rows)]
            chosen = [sightings[i] for i in rows]
            if not has_common_name(chosen):
                continue
            novelty = surprise(inside, vectors[rows] @ past.T)
            yield self._found(
                kind,
                tallies,
                chosen,
                len(rows) / len(sightings),
                coherence(inside),
                novelty,
                fit,
                best,
            )

    def _found(
        self,
        kind: ProposalKind,
        tallies: tuple[NameTally, ...],
        sightings: Sequence[Sighting],
        share: float,
        agreement: float,
        novelty: float,
        fit: float,
        best: int,
    ) -> Found:
        n_documents = max(len(sightings), round(share * sum(t.n_documents for t in tallies)))
        n_mentions = max(n_documents, round(share * sum(t.n_mentions for t in tallies)))
        later = lower_bound(self._n_later(sightings), len(sightings))
        score = self._time(later) * math.log2(1 + n_documents)
        rise = self.past.rise(tallies, self.tally.n_documents)
        if kind == "meaning":
            fits_none = max(novelty, 0.0) * (1 - max(fit, 0.0))
            sure = sum(s.confidence for s in sightings) / len(sightings)
            # Known things come in new settings; only time tells them from new meanings.
            score *= self._time(later) * fits_none * (1 - sure + LEAST_DOUBT)
            score *= rise * share**0.5 * self._rarity(tallies[0])
        else:
            score *= max(agreement, 0.05) ** 0.5 * rise**2
        return Found(
            kind,
            tallies,
            tuple(sightings),
            n_documents,
            n_mentions,
            later,
            agreement,
            novelty,
            fit,
            best,
            score,
        )

    def _rarity(self, tally: NameTally) -> float:
        """Return how rare a known name was, 0 to 1, and less for one that is a full name already.

        What stood in every article ("September", "Europe") comes with any context, and a name of
        several words that is the title of its meaning hardly gets another one.
        """
        past = self.past.tally
        n_then = past.names[tally.name].n_documents if tally.name in past.names else 0
        rarity = 1 - math.log(1 + n_then) / math.log(2 + past.n_documents)
        is_full = " " in tally.name and self.contexts.kb.entity_ids([tally.name])[0] >= 0
        return rarity * (FULL_NAME if is_full or any(map(str.isdigit, tally.name)) else 1.0)


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


def _without_repeats(ranked: Iterable[Found]) -> Iterator[Found]:
    """Leave out what is mostly seen at the same places as something that ranks higher."""
    taken: set[tuple[str, int]] = set()
    for found in ranked:
        places = {(s.document, s.end) for s in found.sightings}
        places |= {(s.document, s.start) for s in found.sightings}
        if len(places & taken) < REPEATED * len(places):
            taken |= places
            yield found


def lower_bound(k: int, n: int) -> float:
    """Return a share k / n lowered by `Z` standard errors (Wilson)."""
    p, z = k / n, Z
    middle, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, (middle - spread) / (1 + z * z / n))


def _known_parts(name: str, contexts: ContextReader) -> list[int]:
    """Return the entities that the known names at the end of an unknown one may mean."""
    kb = contexts.kb
    found: list[int] = []
    for part in parts_of(name):
        if name.endswith(f" {part}") and kb.alias_id(part) >= 0:
            found += kb.candidates(part).ids.tolist()[:20]
    return list(dict.fromkeys(found))


def _distinct(sightings: Iterable[Sighting]) -> list[Sighting]:
    """Return one sighting a document: of the first name."""
    first: dict[str, Sighting] = {}
    for sighting in sightings:
        first.setdefault(sighting.document, sighting)
    return list(first.values())
