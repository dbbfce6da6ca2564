"""What a person wants to read about a knowledge base: its sizes, a name, an entity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stamo.errors import UnknownEntityError
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float32

AMBIGUITY_CLASSES = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, np.inf))
_MAX_CHOICES = 50_000
MIN_SIMILARITY = 60


@dataclass(frozen=True, slots=True)
class AmbiguityClass:
    """The aliases with a certain number of candidate entities."""

    label: str
    n_aliases: int
    n_links: int


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One meaning of a name."""

    entity: str
    prior: float
    count: int
    document_frequency: int
    has_article: bool


@dataclass(frozen=True, slots=True)
class AliasView:
    """A name and what it may mean."""

    alias: str
    n_candidates: int
    n_links: int
    link_probability: float
    candidates: list[CandidateRow]


@dataclass(frozen=True, slots=True)
class EntityView:
    """An entity, its names and its neighbours."""

    entity: str
    n_links: int
    document_frequency: int
    has_article: bool
    n_aliases: int
    aliases: list[tuple[str, int]]
    related: list[tuple[str, float]]
    nearest: list[tuple[str, float]]


def ambiguity(kb: KnowledgeBase) -> list[AmbiguityClass]:
    """Count the aliases, and the links that use them, by how many entities they may mean."""
    n_candidates = kb.by_alias.n_candidates
    return [
        AmbiguityClass(
            label=_label(low, high),
            n_aliases=int(np.count_nonzero(chosen)),
            n_links=int(np.asarray(kb.alias_counts[chosen], dtype=np.int64).sum()),
        )
        for low, high in AMBIGUITY_CLASSES
        for chosen in [(n_candidates >= low) & (n_candidates <= high)]
    ]


def _label(low: int, high: float) -> str:
    if high == np.inf:
        return f"{low} or more"
    return str(low) if low == high else f"{low}-{high}"


def view_alias(kb: KnowledgeBase, surface: str, n: int) -> AliasView:
    """Tell what a name that is an alias may mean."""
    alias = kb.alias_id(surface)
    found = kb.candidates(surface)
    ids = found.ids[:n]
    rows = zip(
        kb.titles(ids),
        found.priors[:n].tolist(),
        found.counts[:n].tolist(),
        kb.document_frequency[ids].tolist(),
        kb.has_article[ids].tolist(),
        strict=True,
    )
    return AliasView(
        alias=kb.alias(alias),
        n_candidates=len(found),
        n_links=int(kb.alias_counts[alias]),
        link_probability=round(float(kb.link_probability[alias]), 4),
        candidates=[CandidateRow(t, round(p, 4), *rest) for t, p, *rest in rows],
    )


def entity_of(kb: KnowledgeBase, name: str) -> int:
    """Return the entity with a title, else the likeliest of the name, else the first of its words.

    Raises:
        UnknownEntityError: No name has these words.
    """
    entity = int(kb.entity_ids([name])[0])
    if entity >= 0:
        return entity
    for found in (kb.candidates(name).ids, kb.search(name, 1)):
        if len(found):
            return int(found[0])
    hint = _did_you_mean(kb, name)
    raise UnknownEntityError(f"There is no entity or name {name!r} in {kb.name}{hint}")


def view_found(kb: KnowledgeBase, name: str, n: int) -> list[tuple[str, int]]:
    """Return the titles and links of the entities with the words of a name."""
    found = kb.search(name, n)
    return list(zip(kb.titles(found), kb.entity_counts[found].tolist(), strict=True))


def view_entity(kb: KnowledgeBase, entity: int, n: int) -> EntityView:
    """Tell the names and the neighbours of an entity."""
    aliases = kb.aliases_of(entity)
    return EntityView(
        entity=kb.title(entity),
        n_links=int(kb.entity_counts[entity]),
        document_frequency=int(kb.document_frequency[entity]),
        has_article=bool(kb.has_article[entity]),
        n_aliases=len(aliases),
        aliases=aliases[:n],
        related=_scored(kb, *kb.related(entity, n)),
        nearest=_scored(kb, *kb.nearest(entity, n)) if kb.dimensions else [],
    )


def _scored(kb: KnowledgeBase, ids: Any, scores: Float32) -> list[tuple[str, float]]:
    rounded = [round(score, 4) for score in scores.tolist()]
    return list(zip(kb.titles(ids), rounded, strict=True))


def _did_you_mean(kb: KnowledgeBase, name: str) -> str:
    """Name the aliases most like a name, among those that begin like it."""
    from rapidfuzz import fuzz, process

    for length in (3, 2, 1):
        start = name[:length]
        prefixes = dict.fromkeys((start, start.lower(), start.capitalize(), start.upper()))
        choices = [c for start in prefixes for c in kb.names_with_prefix(start, _MAX_CHOICES)]
        found = process.extract(
            name, choices, scorer=fuzz.ratio, limit=5, score_cutoff=MIN_SIMILARITY
        )
        if found:
            return f"; did you mean {', '.join(repr(choice) for choice, _, _ in found)}?"
    return ", and nothing like it; check the spelling."
