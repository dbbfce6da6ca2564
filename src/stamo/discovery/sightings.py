"""Names as they are seen in documents: each name once a document, with its context.

A sighting is packed where it is made and unpacked where it is read: most are only kept. Which ones
are kept is drawn by a hash of name and document, so it is the same in whatever order or number of
processes the documents were read; contexts of a later time, and those that fit no known meaning,
are drawn more often (weighted sampling after Efraimidis and Spirakis).
"""

from __future__ import annotations

import marshal
import re
from hashlib import blake2b
from typing import NamedTuple

from stamo.discovery.time import EARLIER, LATER, NO_YEAR

TIME_WEIGHTS = {EARLIER: 0.25, NO_YEAR: 1.0, LATER: 4.0}
"""How much more often contexts of a later time are kept."""
EXPLAINED_WEIGHT = 0.3
"""How much less often a context is kept that fits a known meaning."""
EXPLAINED_FIT = 0.45
"""A known name whose context fits a known meaning at least so well is explained by it."""
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
