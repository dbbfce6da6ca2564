"""Names that practically always mean one entity: exact gold labels without an annotator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stamo.corpus.tokenizer import lower, tokenize, word_spans
from stamo.errors import SettingsError
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Bools, Int32, Int64


@dataclass(frozen=True)
class NameSettings:
    """When a name counts as practically unambiguous."""

    least_prior: float = 0.97
    """P(e | m) on the dump's anchors."""
    least_link_probability: float = 0.2
    """Share of the articles with the name that link it."""
    least_linked_articles: int = 2
    least_length: int = 3

    def __post_init__(self) -> None:
        if not 0.5 < self.least_prior <= 1:
            raise SettingsError(f"The least prior is {self.least_prior}; it lies in (0.5, 1].")


@dataclass(frozen=True)
class Names:
    """Unambiguous names with the entity each one means."""

    surfaces: tuple[str, ...]
    aliases: Int32
    entities: Int32

    def by_entity(self) -> dict[int, list[str]]:
        """Return the names of each entity."""
        names: dict[int, list[str]] = {}
        for surface, entity in zip(self.surfaces, self.entities.tolist(), strict=True):
            names.setdefault(entity, []).append(surface)
        return names


def unambiguous_names(kb: KnowledgeBase, settings: NameSettings = NameSettings()) -> Names:
    """Choose the names that practically always mean one entity.

    Only capitalised names are taken: without that a common word that is rarely linked could pass.
    Scripts without capitals pass as they are.
    """
    everything = np.arange(kb.n_aliases)
    linked_articles = kb.link_probability * kb.alias_documents
    often = kb.link_probability >= settings.least_link_probability
    often &= linked_articles >= settings.least_linked_articles
    chosen = everything[often]
    candidates, priors = kb.by_alias.batch(chosen, 1)
    chosen = chosen[(priors[:, 0] >= settings.least_prior) & (candidates[:, 0] >= 0)]
    candidates, _ = kb.by_alias.batch(chosen, 1)
    surfaces = kb.aliases(chosen)
    keep = [
        len(s) >= settings.least_length and not s[0].islower() and not s[0].isdigit()
        for s in surfaces
    ]
    rows = np.flatnonzero(keep)
    kept = tuple(surfaces[i] for i in rows)
    return Names(kept, chosen[rows].astype(np.int32), candidates[rows, 0].astype(np.int32))


class NameFinder:
    """Finds names in text: longest match at word boundaries."""

    def __init__(self, kb: KnowledgeBase, names: Names) -> None:
        self._matcher = kb.matcher
        self._entities = np.full(kb.n_aliases, -1, dtype=np.int32)
        self._wanted = np.zeros(kb.n_aliases, dtype=np.bool_)
        self._wanted[names.aliases] = True
        # A name such as "Yahoo!" hides what stands inside it, but is no mention itself.
        self._entities[names.aliases] = np.where(_is_word(names.surfaces), names.entities, -1)

    def find(self, text: str) -> tuple[Int32, Int32, Int32]:
        """Return start, end and entity of every name in a text, in order."""
        found = self._matcher.find(text, self._wanted)
        entities = self._entities[found.names]
        whole = entities >= 0
        return found.starts[whole], found.ends[whole], entities[whole]


def _is_word(names: Sequence[str]) -> Bools:
    """Tell which names begin and end with a word."""
    starts, ends = word_spans(lower("\n".join(names)))
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    last = np.cumsum(lengths + 1) - 1
    return np.isin(last - lengths, starts) & np.isin(last, ends)


def words_of_names(names: Iterator[str] | list[str]) -> set[str]:
    """Return all words of some names, lower-cased: what must be masked in contexts."""
    return {word for name in names for word in tokenize(lower(name))[0]}


_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_NO_ENTITY = re.compile(
    rf"""
    (?:{_MONTH})(?:\ \d+)?(?:,?\ \d+)?   # January, January 1, January 2004
    | \d+(?:st|nd|rd|th)?\ (?:{_MONTH}).*  # 1 January
    | [\d.,\ –-]+(?:s|st|nd|rd|th)?(?:\ (?:century|millennium|BCE?|AD))*  # 1987, 19th century
    | (?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)
    | (?:(?:List|Lists|Index|Outline|Timeline|Table|Glossary)\ of|Comparison\ of)\ .*
    | .*\((?:number|disambiguation|year)\)
    """,
    re.VERBOSE | re.IGNORECASE,
)
MOST_LOWER = 0.5
"""Share of the dump's links to a title in lower case from which on it is a common noun."""


def is_entity_title(title: str) -> bool:
    """Return whether a title is no date, number or list."""
    return _NO_ENTITY.fullmatch(title) is None


def name_entities(kb: KnowledgeBase, entities: Int64) -> Bools:
    """Return which entities bear a name.

    Dates, numbers and lists do not, nor what the dump mostly links in lower case ("cuisine"); in a
    script without capitals nothing is in lower case.
    """
    titles = zip(entities.tolist(), kb.titles(entities), strict=True)
    return np.array([is_entity_title(t) and not _is_common_noun(kb, e) for e, t in titles], bool)


def _is_common_noun(kb: KnowledgeBase, entity: int) -> bool:
    names = kb.aliases_of(entity)
    lower = sum(count for name, count in names if name[:1].islower())
    return lower > MOST_LOWER * sum(count for _, count in names)
