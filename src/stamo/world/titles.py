"""Titles of articles, redirects to them, and disambiguation pages."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass, field

from stamo.world.catalogue import Catalogue, Entity
from stamo.world.names import variant

PRIMARY_SHARE = 0.6
AMBIGUOUS = 3


@dataclass
class Titles:
    """Who has which title."""

    taken: dict[str, int | None] = field(default_factory=dict)
    """Every title; the entity of an article, None for any other page."""
    redirects: list[tuple[str, str, int]] = field(default_factory=list)
    """Title, the title it points to, and the entity that is reached in the end."""
    disambiguations: list[tuple[str, list[int]]] = field(default_factory=list)
    redirects_of: dict[int, list[str]] = field(default_factory=dict)

    def give(self, entity: Entity, catalogue: Catalogue, *, bare: bool) -> None:
        """Give an entity its name as title, or with what tells it from others."""
        entity.title = entity.name if bare else _distinct_title(entity, catalogue, self.taken)
        self.taken[entity.title] = entity.index


def settle_titles(catalogue: Catalogue, rng: random.Random) -> Titles:
    """Give each entity its title, then add disambiguation pages and redirects."""
    titles = Titles(taken={title: None for title in catalogue.lexicon.concepts})
    by_name: defaultdict[str, list[Entity]] = defaultdict(list)
    for entity in catalogue.entities:
        by_name[entity.name].append(entity)
    for name, namesakes in by_name.items():
        namesakes.sort(key=lambda entity: (-entity.weight, entity.index))
        has_primary = len(namesakes) == 1 or rng.random() < PRIMARY_SHARE
        for i, entity in enumerate(namesakes):
            bare = i == 0 and has_primary and name not in titles.taken
            titles.give(entity, catalogue, bare=bare)
    add_disambiguations(catalogue, titles)
    add_redirects(catalogue, titles, rng)
    return titles


def _distinct_title(entity: Entity, catalogue: Catalogue, taken: Container[str]) -> str:
    """Return a title with the shortest qualifier that is free."""
    label = entity.kind.label
    regions = catalogue.local[entity.region, "region"]
    region = catalogue.entities[regions[0]].name if regions else "abroad"
    when = f"born {entity.year}" if entity.kind.person else f"{entity.year}"
    more = (when, region, f"{region}, {when}", f"{region}, {entity.index}")
    qualifiers = [label, *(f"{label}, {one}" for one in more)]
    candidates = (f"{entity.name} ({qualifier})" for qualifier in qualifiers)
    return next(title for title in candidates if title not in taken)


def add_disambiguations(catalogue: Catalogue, titles: Titles) -> None:
    """Add a page for each name that several entities share."""
    by_base: defaultdict[str, list[int]] = defaultdict(list)
    for entity in catalogue.entities:
        if entity.kind.shortened:
            by_base[entity.base].append(entity.index)
    for base, members in by_base.items():
        if len(members) >= AMBIGUOUS:
            title = base if base not in titles.taken else f"{base} (disambiguation)"
            titles.taken[title] = None
            titles.disambiguations.append((title, members))


def add_redirects(catalogue: Catalogue, titles: Titles, rng: random.Random) -> None:
    """Add the other names by which a reader may look for an entity."""
    for entity in catalogue.entities:
        wanted = []
        if entity.short != entity.name:
            wanted.append(entity.short)
        if entity.kind.abbreviated:
            wanted.append(entity.abbreviation)
        if entity.kind.person and rng.random() < 0.12:
            given = entity.name.removesuffix(f" {entity.base}")
            wanted.append(f"{entity.base}, {given}")
        if rng.random() < 0.12:
            wanted.append(variant(entity.name, rng))
        target = entity.title
        for title in wanted:
            if title in titles.taken:
                continue
            titles.taken[title] = None
            titles.redirects.append((title, target, entity.index))
            titles.redirects_of.setdefault(entity.index, []).append(title)
            # Now and then a redirect points to a redirect, as in real wikis.
            target = title if rng.random() < 0.35 else entity.title
