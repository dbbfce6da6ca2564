"""Names as they are seen in documents: each name once a document, with its context.

A sighting is packed where it is made and unpacked where it is read: most are only kept. Which ones
are kept is drawn by a hash of name and document, so it is the same in whatever order or number of
processes the documents were read; contexts of a later time, and those that fit no known meaning,
are drawn more often (weighted sampling after Efraimidis and Spirakis).

For each name its counts are kept and a bounded sample of its contexts. When there are more names
than allowed, those of the fewest documents that were seen longest ago are forgotten, which is lossy
counting: a name that comes up again and again stays.
"""

from __future__ import annotations

import marshal
import re
from bisect import insort
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from stamo.discovery.time import EARLIER, LATER, NO_YEAR

TIME_WEIGHTS = {EARLIER: 0.25, NO_YEAR: 1.0, LATER: 4.0}
"""How much more often contexts of a later time are kept."""
EXPLAINED_WEIGHT = 0.3
"""How much less often a context is kept that fits a known meaning."""
EXPLAINED_FIT = 0.45
"""A known name whose context fits a known meaning at least so well is explained by it."""
KEPT_SHARE = 0.75
"""How much of the allowed names is left after some were forgotten."""
_FORMAT = 2
"""The last format of marshal that does not look for repeated objects, which takes half the time."""

_OWN_YEAR = re.compile(r"[\"”’'»*]{0,2},? ?\((?:[^()\d]{0,30} )?((?:19|20)\d\d)\b")


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
    is_common: bool
    """Whether the document writes all words of the name small too."""
    fit: float
    """Cosine of the context with the vector of the known meaning that fits best; 1 where nothing
    is known of the name."""
    time: int
    """Which years the context names: see `stamo.discovery.time`."""
    form: str = ""
    """The longer name that a known name was seen in; empty where it stands alone."""

    @property
    def stop(self) -> int:
        """Where the name ends in the window."""
        return self.at + self.end - self.start

    @property
    def own_year(self) -> int | None:
        """The year in brackets right after a name, as titles have it: "Gravity" (2013)."""
        match = _OWN_YEAR.match(self.window, self.stop)
        return int(match[1]) if match else None


class PackedSighting(NamedTuple):
    """A sighting as it is kept, with what is counted of it."""

    name: str
    alias: int
    n_mentions: int
    drawn_by: float
    """The sightings with the smallest are kept."""
    packed: bytes


def pack(sighting: Sighting) -> PackedSighting:
    """Pack a sighting: there are too many of them to keep each as an object."""
    name, alias, n_mentions = sighting.name, sighting.alias, sighting.n_mentions
    packed = marshal.dumps(tuple(sighting), _FORMAT)
    return PackedSighting(name, alias, n_mentions, draw(sighting), packed)


def unpack(packed: bytes) -> Sighting:
    """Return the sighting that was packed."""
    return Sighting(*marshal.loads(packed))


def draw(sighting: Sighting) -> float:
    """Return by what a context is drawn: the smallest are kept."""
    text = f"{sighting.name}\0{sighting.document}".encode("utf-8", "surrogatepass")
    number = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
    weight = TIME_WEIGHTS[sighting.time]
    if sighting.alias >= 0 and sighting.fit >= EXPLAINED_FIT:
        weight *= EXPLAINED_WEIGHT
    return float(-(((number + 1) / 2**64) ** (1 / weight)))


class Seen(NamedTuple):
    """What a document, or a part of a long one, holds."""

    document: str
    sightings: list[PackedSighting]
    explained: list[str]
    """Known names whose context fits a known meaning."""
    error: str | None = None


@dataclass(slots=True)
class NameTally:
    """What was seen of one name, where no known meaning explains it."""

    name: str
    alias: int
    n_documents: int = 0
    n_mentions: int = 0
    n_explained: int = 0
    """Documents in which a known meaning fits."""
    last_seen: int = 0
    last_document: str = ""
    sample: list[tuple[float, bytes]] = field(default_factory=list)
    """Packed contexts with what they were drawn by."""

    @property
    def sightings(self) -> list[Sighting]:
        """The kept contexts, in a fixed order."""
        return [unpack(packed) for _, packed in self.sample]

    def add(self, sighting: PackedSighting, document: str, size: int) -> None:
        """Count a sighting, and keep it if it is drawn."""
        _, _, n_mentions, key, packed = sighting
        self.n_mentions += n_mentions
        if document == self.last_document:  # a further part of a long document
            return
        self.last_document = document
        self.n_documents += 1
        if not self.sample:
            self.sample.append((key, packed))
        elif len(self.sample) < size or key <= self.sample[-1][0]:
            insort(self.sample, (key, packed))
            del self.sample[size:]


@dataclass
class Tally:
    """Counts names over a stream."""

    sample_size: int = 40
    """Documents whose context of a name is kept."""
    max_names: int = 300_000
    """Names that are kept at most."""
    names: dict[str, NameTally] = field(default_factory=dict)
    n_documents: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    """What could not be read, by its reason."""
    _last_document: str = ""

    def add(self, seen: Seen) -> None:
        """Count what a document holds."""
        if seen.error is not None:
            self.errors[seen.error] = self.errors.get(seen.error, 0) + 1
            return
        if seen.document != self._last_document:
            self.n_documents += 1
            self._last_document = seen.document
        for sighting in seen.sightings:
            tally = self.names.get(sighting.name)
            if tally is None:
                tally = self.names[sighting.name] = NameTally(sighting.name, sighting.alias)
            tally.last_seen = self.n_documents
            tally.add(sighting, seen.document, self.sample_size)
        for name in seen.explained:
            if name in self.names:  # else nothing is unexplained yet
                self.names[name].n_explained += 1
        if len(self.names) > self.max_names:
            self._forget()

    def _forget(self) -> None:
        """Forget the rarest names that were seen longest ago."""
        n_kept = int(KEPT_SHARE * self.max_names)
        ranked = sorted(self.names.values(), key=lambda t: (-t.n_documents, -t.last_seen, t.name))
        kept = {tally.name for tally in ranked[:n_kept]}
        self.names = {name: tally for name, tally in self.names.items() if name in kept}
