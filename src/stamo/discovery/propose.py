"""From what was seen of a stream to ranked proposals.

Names are grouped, contexts clustered and scored; the two kinds take turns, since an editor wants
both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest

import numpy as np

from stamo.discovery import groups
from stamo.discovery.contexts import ContextReader, cluster, coherence
from stamo.discovery.describe import describe_found
from stamo.discovery.doubt import doubt_meaning
from stamo.discovery.groups import NameGroup
from stamo.discovery.proposal import Proposal, ProposalKind
from stamo.discovery.score import Found, Past, surprise, without_copies
from stamo.discovery.sightings import NameTally, Sighting, Tally, draw
from stamo.discovery.time import LATER
from stamo.errors import SettingsError
from stamo.system.arrays import Float32, Int64

REPEATED = 0.4
"""A proposal that shares so many of its places with a better one repeats it."""
NAME_AGREEMENT = 0.75
"""How much less contexts of an unknown word need to agree: it means fewer things."""
PROMISING = 5
"""How many names for each wanted proposal are looked at closely."""
TITLED_FIT = 0.75
"""An unknown name whose contexts fit so well what its last word means is that, with a title."""
TITLED_FULL_FIT = 0.4
"""The same for known names of several words: "President Barack Obama"."""


@dataclass(frozen=True)
class ProposeSettings:
    """What is proposed."""

    least_documents: int = 3
    """Fewer documents give no proposal."""
    agreement: float = 0.4
    """Mean cosine of contexts that agree; unrelated ones have about 0."""
    known_fit: float = 0.7
    """A cluster whose contexts fit a known meaning at least so well is that meaning."""
    ignored: frozenset[str] = frozenset()
    """Names that are never proposed, in any case."""
    types: frozenset[str] = frozenset()
    """Propose only what the text calls by one of these words; empty for anything."""
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
        if found.score > 0 and found.name.casefold() not in ignored:
            ranked[found.kind].append(found)
    for every in ranked.values():
        every.sort(key=lambda found: (-found.score, found.name, -found.n_documents))
    turns = (found for turn in zip_longest(*ranked.values()) for found in turn if found is not None)
    described = (describe_found(found, contexts) for found in _without_repeats(turns))
    wanted = (proposal for proposal in described if proposal.is_one_of(settings.types))
    return list(islice(wanted, settings.max_proposals))


@dataclass(frozen=True)
class _Search:
    """One look at all that was seen."""

    tally: Tally
    past: Past
    contexts: ContextReader
    settings: ProposeSettings

    @cached_property
    def longer(self) -> dict[str, list[NameTally]]:
        """Unknown longer names by the single words at their ends."""
        return groups.longer_names(self.tally.names.values())

    def run(self) -> Iterator[Found]:
        if "name" in self.settings.kinds:
            found = groups.group_names(self.tally.names)
            whole = (group for group in found if not groups.is_piece(group[0], self.longer))
            for group in self._promising(whole):
                yield from self._new_names(group)
        if "meaning" in self.settings.kinds:
            known = (t for t in self.tally.names.values() if t.alias >= 0)
            names = ((tally,) for tally in known if not groups.is_date(tally.name))
            for (tally,) in self._promising(names):
                yield from self._new_meanings(tally)

    def _promising(self, found: Iterable[NameGroup]) -> list[NameGroup]:
        """Return the groups that could rank among the first, by what is cheap to know of them."""
        least, ranked = self.settings.least_documents, []
        for group in found:
            name, n = group[0].name, sum(tally.n_documents for tally in group)
            if group[0].alias >= 0:
                n += sum(t.n_documents for t in self.longer.get(name, ()))
            if n >= least:
                sightings = (s for tally in group for s in tally.sightings)
                n_later = sum(s.time == LATER for s in sightings)
                ranked.append((-n_later, -n, name, group))
        ranked.sort(key=lambda item: item[:3])
        return [group for *_, group in ranked[: PROMISING * self.settings.max_proposals]]

    def _new_names(self, group: NameGroup) -> Iterator[Found]:
        """Yield a name of several words as it is, and each meaning of a single word."""
        head = group[0]
        if groups.opens_sentences(head, self._is_seen) or groups.is_phrase(head):
            return
        sightings = groups.completed(_distinct(s for t in group for s in t.sightings))
        name = next((s.name for s in sightings if s.name.startswith(head.name)), head.name)
        if not groups.is_variant(name, self.contexts.kb):
            yield from self._clusters("name", group, name, sightings, [])

    def _is_seen(self, name: str) -> bool:
        return name in self.tally.names or self.contexts.kb.alias_id(name) >= 0

    def _new_meanings(self, tally: NameTally) -> Iterator[Found]:
        """Yield what a known name means here, alone and inside longer unknown names."""
        inside = (s for t in self.longer.get(tally.name, ()) for s in t.sightings)
        every = _distinct((*tally.sightings, *groups.seen_inside(inside, tally.name, tally.alias)))
        every = sorted(every, key=draw)[: self.tally.sample_size]
        known = self.contexts.kb.candidates(tally.name).ids.tolist()
        yield from self._clusters("meaning", (tally,), tally.name, every, known)

    def _clusters(
        self,
        kind: ProposalKind,
        tallies: tuple[NameTally, ...],
        name: str,
        sightings: Sequence[Sighting],
        known: Sequence[int],
    ) -> Iterator[Found]:
        """Yield the clusters of contexts that fit none of the known meanings."""
        if len(sightings) < self.settings.least_documents:
            return
        vectors = self.contexts.word_vectors(sightings)
        plain = (vectors @ vectors.T).astype(np.float64)
        is_one = kind == "name" and " " in name
        clusters = [np.arange(len(sightings))] if is_one else self._cut(kind, sightings, vectors)
        clusters = [without_copies(rows, plain) for rows in clusters]
        clusters = [rows for rows in clusters if len(rows) >= self.settings.least_documents]
        then = self.past.sightings(t.name for t in tallies) if clusters else []
        past = self.contexts.word_vectors(then) if then else vectors[:0]
        for rows in clusters:
            chosen, share = tuple(sightings[i] for i in rows), len(rows) / len(sightings)
            kb, doubt = self.contexts.kb, 1.0
            if kind == "meaning":
                doubt = doubt_meaning(name, chosen, share, known, kb, self.past)
            fit, best = self.contexts.fit(vectors[rows], known)
            if doubt == 0 or fit >= self.settings.known_fit or self._is_titled(name, vectors[rows]):
                continue
            inside = plain[np.ix_(rows, rows)]
            evidence, agreement = self.past.evidence(chosen), coherence(inside)
            new = surprise(inside, vectors[rows] @ past.T)
            rise = self.past.rise(tallies, self.tally.n_documents)
            yield Found(
                kind, tallies, name, chosen, share, evidence, agreement, new, fit, best, rise, doubt
            )

    def _cut(
        self, kind: ProposalKind, sightings: Sequence[Sighting], vectors: Float32
    ) -> list[Int64]:
        agreement = self.settings.agreement * (NAME_AGREEMENT if kind == "name" else 1)
        return cluster(self.contexts.likeness(sightings, vectors), agreement)

    def _is_titled(self, name: str, vectors: Float32) -> bool:
        """Tell whether a name is a known one with a title in front, by what its contexts fit."""
        kb = self.contexts.kb
        for part in groups.parts_of(name):
            # "Space Telescope" is a kind of thing, which new things are of; "Obama" is none.
            if not name.endswith(f" {part}") or kb.alias_id(part.lower()) >= 0:
                continue
            if kb.alias_id(part) >= 0:
                fit, _ = self.contexts.fit(vectors, kb.candidates(part).ids.tolist()[:20])
                if fit >= (TITLED_FULL_FIT if " " in part else TITLED_FIT):
                    return True
        return False


def _without_repeats(ranked: Iterable[Found]) -> Iterator[Found]:
    """Leave out what is mostly seen at the same places as something that ranks higher."""
    taken: set[tuple[str, int]] = set()
    for found in ranked:
        places = {(s.document, s.end) for s in found.sightings}
        places |= {(s.document, s.start) for s in found.sightings}
        if len(places & taken) < REPEATED * len(places):
            taken |= places
            yield found


def _distinct(sightings: Iterable[Sighting]) -> list[Sighting]:
    """Return one sighting a document: of the first name."""
    first: dict[str, Sighting] = {}
    for sighting in sightings:
        first.setdefault(sighting.document, sighting)
    return list(first.values())
