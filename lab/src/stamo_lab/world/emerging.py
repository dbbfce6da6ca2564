"""Choose the emerging entities and the known ones that share their names."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from stamo_lab.world.articles import Titles
from stamo_lab.world.catalogue import STYLES, Catalogue, Entity, NamePools
from stamo_lab.world.lexicon import EntityKind, read_words

EMERGING_YEAR = 2021
MOST_CITATIONS = 44
FEWEST_CITATIONS = 7


@dataclass(frozen=True)
class Blueprint:
    """A kind of emerging entity and how hard it is to tell from its rivals."""

    kind: str
    rivals: Sequence[str]
    """Kinds of the known entities with the same name; the first shares the topic."""
    share: float
    """How often the name means the emerging entity."""
    forms: Sequence[str]
    """Aliases; `{x}` is the shared name."""
    focused: float = 0.82
    """Share of documents that are about what they mention."""
    thin: float = 0.08
    """Share of documents that give hardly any context."""
    neighbour: bool = False
    """Whether the first rival lives in the same province."""
    twin: bool = False
    """Whether the first rival shares the full name as well."""


BLUEPRINTS = [Blueprint(**entry) for entry in read_words("emerging")["blueprints"]]


@dataclass(frozen=True)
class Emergence:
    """An emerging entity together with its rivals."""

    entity: Entity
    aliases: tuple[str, ...]
    rivals: tuple[int, ...]
    blueprint: Blueprint


def add_emerging(
    catalogue: Catalogue, pools: NamePools, n_emerging: int, rng: random.Random
) -> list[Emergence]:
    """Invent the emerging entities and rename known ones after them. Call before titles are set."""
    renamed: set[int] = set()
    return [
        _emerge(catalogue, pools, BLUEPRINTS[i % len(BLUEPRINTS)], renamed, rng)
        for i in range(n_emerging)
    ]


def _emerge(
    catalogue: Catalogue,
    pools: NamePools,
    blueprint: Blueprint,
    renamed: set[int],
    rng: random.Random,
) -> Emergence:
    region = rng.randrange(len(catalogue.country_of_region))
    base = pools.maker.coin("places", rng.randrange(len(STYLES)))
    given, surname = rng.choice(pools.given), rng.choice(pools.surnames)
    aliases = tuple(form.format(x=base, given=given, surname=surname) for form in blueprint.forms)
    kind = catalogue.lexicon.kinds[blueprint.kind]
    entity = Entity(
        index=len(catalogue.entities) + len(catalogue.emerging),
        kind=kind,
        region=region,
        base=base,
        name=aliases[-1],
        year=EMERGING_YEAR - (24 if kind.person else 0),
        weight=1,
        female=rng.random() < 0.5,
        ordinal=rng.randrange(3),
    )
    catalogue.emerging.append(entity)
    others = [name for name in pools.given if name != given]
    rivals = []
    for i, rival_kind in enumerate(blueprint.rivals):
        near = blueprint.neighbour and i == 0
        rival = _choose_rival(catalogue, rival_kind, region, near, renamed, rng)
        twin = aliases[-1] if blueprint.twin and i == 0 else None
        rival.base = base
        rival.name = twin or _other_form(rival.kind, base, rng.choice(others), aliases, rng)
        rivals.append(rival.index)
    return Emergence(entity, aliases, tuple(rivals), blueprint)


def _choose_rival(
    catalogue: Catalogue, kind: str, region: int, near: bool, renamed: set[int], rng: random.Random
) -> Entity:
    """Draw a known entity of a kind that is not a rival yet, from the region or from others."""
    free = [i for i in catalogue.by_kind[kind] if i not in renamed]
    preferred = [i for i in free if (catalogue.entities[i].region == region) == near]
    index = rng.choice(preferred or free)
    renamed.add(index)
    return catalogue.entities[index]


def _other_form(
    kind: EntityKind, base: str, given: str, aliases: tuple[str, ...], rng: random.Random
) -> str:
    """Return a full name that is not by chance a longer alias of the emerging entity."""
    names = [form.format(x=base, given=given) for form in kind.forms]
    return rng.choice([name for name in names if name == base or name not in aliases])


def title_emerging(emergences: list[Emergence], catalogue: Catalogue, titles: Titles) -> None:
    """Give the emerging entities titles that no page of the dump has."""
    for entity in (emergence.entity for emergence in emergences):
        titles.give(entity, catalogue, bare=entity.name not in titles.taken)


def plan_citations(
    emergences: list[Emergence], catalogue: Catalogue, rng: random.Random
) -> dict[int, list[int]]:
    """Choose the articles that cite each rival, so that its shared name is in use in the dump.

    The priors of the dump are skewed, and not in the way of the pile.
    """
    hosts_of_topic: defaultdict[str, list[int]] = defaultdict(list)
    for entity in catalogue.entities:
        hosts_of_topic[entity.kind.topic].append(entity.index)
    citations: defaultdict[int, list[int]] = defaultdict(list)
    for emergence in emergences:
        ranked = list(emergence.rivals)
        rng.shuffle(ranked)
        for rank, rival in enumerate(ranked):
            hosts = hosts_of_topic[catalogue.entities[rival].kind.topic]
            for _ in range(max(FEWEST_CITATIONS, MOST_CITATIONS // (rank + 1))):
                at_home = rng.random() < 0.7
                host = rng.choice(hosts) if at_home else rng.randrange(len(catalogue.entities))
                if host != rival:
                    citations[host].append(rival)
    return citations
