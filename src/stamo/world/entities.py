"""The entities of the world and how they belong together."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from stamo.world.lexicon import EntityKind, WorldWords

HOME = ("country", "region", "city")
"""Kinds of which an entity has one; it is mostly this one that its sentences mean."""


@dataclass(slots=True)
class Entity:
    """Something that can be mentioned. Titles are settled only when all names are known."""

    index: int
    kind: EntityKind
    region: int
    base: str
    """The name without its form: a surname, the place in "Battle of …"."""
    name: str
    year: int
    weight: int
    """How often it is mentioned outside its own community."""
    female: bool = False
    ordinal: int = 0
    """Its place among the entities of its kind in its region."""
    title: str = ""
    demonym: str = ""

    @property
    def abbreviation(self) -> str:
        """The initials of the name."""
        return "".join(word[0] for word in self.name.replace("'", " ").split() if word[0].isupper())

    @property
    def short(self) -> str:
        """The shortest name in common use; it is often shared with others."""
        return self.base if self.kind.shortened else self.name


@dataclass
class Catalogue:
    """All entities, by number, by kind and by region."""

    lexicon: WorldWords
    entities: list[Entity] = field(default_factory=list)
    local: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    by_kind: dict[str, list[int]] = field(default_factory=dict)
    country_of_region: dict[int, int] = field(default_factory=dict)
    emerging: list[Entity] = field(default_factory=list)
    """Entities without an article; their numbers follow those of the others."""
    bystanders: list[str] = field(default_factory=list)
    """People without an article, whom the news quotes."""
    _cumulative: dict[str, list[int]] = field(default_factory=dict)

    def add(self, entity: Entity) -> None:
        """Add an entity as the next number."""
        key = (entity.region, entity.kind.name)
        neighbours = self.local.setdefault(key, [])
        entity.ordinal = len(neighbours)
        neighbours.append(entity.index)
        self.entities.append(entity)
        self.by_kind.setdefault(entity.kind.name, []).append(entity.index)

    def get(self, index: int) -> Entity:
        """Return an entity, known or emerging, by its number."""
        n_known = len(self.entities)
        return self.entities[index] if index < n_known else self.emerging[index - n_known]

    def partners(self, entity: Entity, kind: str) -> Sequence[int]:
        """Return the entities of a kind that belong to `entity`: its club, its cast, its province.

        Kinds of one region are dealt out to each other in turn, so that the relation is mutual:
        a player's club is the club that has this player.
        """
        if kind == "country":
            return [self.country_of_region[entity.region]]
        theirs = self.local.get((entity.region, kind), [])
        n_mine = max(1, len(self.local.get((entity.region, entity.kind.name), [])))
        if not theirs:
            return []
        if len(theirs) <= n_mine:
            return [theirs[entity.ordinal % len(theirs)]]
        return [other for i, other in enumerate(theirs) if i % n_mine == entity.ordinal % n_mine]

    def sample(self, kind: str, rng: random.Random) -> int:
        """Draw an entity of a kind, the well-known ones more often."""
        members = self.by_kind[kind]
        if kind not in self._cumulative:
            self._cumulative[kind] = list(accumulate(self.entities[i].weight for i in members))
        cumulative = self._cumulative[kind]
        return members[bisect_right(cumulative, rng.randrange(cumulative[-1]))]

    def related(self, entity: Entity, kind: str, rng: random.Random) -> int:
        """Draw an entity of a kind to mention beside `entity`, from its own circle if possible."""
        draw = rng.random()
        circle = self.partners(entity, kind)
        if circle and draw < (0.93 if kind in HOME else 0.82):
            return rng.choice(circle)
        neighbours = self.local.get((entity.region, kind), [])
        if neighbours and draw < 0.92:
            return rng.choice(neighbours)
        return self.sample(kind, rng)
