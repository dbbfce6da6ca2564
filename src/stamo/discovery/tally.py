"""What is kept of a stream: for each name its counts and a bounded sample of its contexts.

The sample does not depend on the order of the documents: see `stamo.discovery.sightings`. Memory is
bounded: when there are more names than allowed, those of the fewest documents that were seen
longest ago are forgotten, which is lossy counting: a name that comes up again and again stays.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from stamo.discovery.sightings import PackedSighting, Seen, Sighting, unpack
from stamo.errors import SettingsError

KEPT_SHARE = 0.75
"""How much of the allowed names is left after some were forgotten."""


@dataclass(frozen=True)
class TallySettings:
    """How much of a stream is kept."""

    sample_size: int = 40
    """Documents whose context of a name is kept."""
    max_names: int = 300_000
    """Names that are kept at most."""

    def __post_init__(self) -> None:
        if self.sample_size < 2 or self.max_names < 100:
            raise SettingsError(
                "Discovery keeps at least 2 contexts of a name and 100 names, not "
                f"{self.sample_size} and {self.max_names}."
            )


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

    settings: TallySettings = TallySettings()
    names: dict[str, NameTally] = field(default_factory=dict)
    n_documents: int = 0
    n_forgotten: int = 0
    """Names that were dropped to bound memory."""
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
            tally.add(sighting, seen.document, self.settings.sample_size)
        for name in seen.explained:
            if name in self.names:  # else nothing is unexplained yet
                self.names[name].n_explained += 1
        if len(self.names) > self.settings.max_names:
            self._forget()

    def _forget(self) -> None:
        """Forget the rarest names that were seen longest ago."""
        n_kept = int(KEPT_SHARE * self.settings.max_names)
        ranked = sorted(self.names.values(), key=lambda t: (-t.n_documents, -t.last_seen, t.name))
        kept = {tally.name for tally in ranked[:n_kept]}
        self.n_forgotten += len(self.names) - len(kept)
        self.names = {name: tally for name, tally in self.names.items() if name in kept}
