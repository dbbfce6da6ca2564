"""Names that practically always mean one entity: exact gold labels without an annotator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import daachorse
import numpy as np
from numpy.typing import NDArray

from stamo.corpus.tokenizer import lower, tokenize
from stamo.errors import SettingsError
from stamo.kb.base import KnowledgeBase

IntArray = NDArray[np.int32]


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
    entities: IntArray

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
    candidates, priors = kb.candidate_batch(chosen, 1)
    chosen = chosen[(priors[:, 0] >= settings.least_prior) & (candidates[:, 0] >= 0)]
    candidates, _ = kb.candidate_batch(chosen, 1)
    surfaces = kb.aliases(chosen)
    keep = [
        len(s) >= settings.least_length and not s[0].islower() and not s[0].isdigit()
        for s in surfaces
    ]
    rows = np.flatnonzero(keep)
    return Names(tuple(surfaces[i] for i in rows), candidates[rows, 0].astype(np.int32))


class NameFinder:
    """Finds names in text: longest match at word boundaries."""

    def __init__(self, names: Names) -> None:
        self._entities = names.entities
        self._automaton = daachorse.CharwiseDoubleArrayAhoCorasick(
            list(names.surfaces), daachorse.MATCH_KIND_LEFTMOST_LONGEST
        )

    def find(self, text: str) -> tuple[IntArray, IntArray, IntArray]:
        """Return start, end and entity of every name in a text, in order."""
        matches = np.array(self._automaton.find(text), dtype=np.int32).reshape(-1, 3)
        _, starts, ends = tokenize(text)
        whole = np.isin(matches[:, 0], starts) & np.isin(matches[:, 1], ends)
        starts, ends, place = matches[whole].T
        return starts, ends, self._entities[place]


def words_of_names(names: Iterator[str] | list[str]) -> set[str]:
    """Return all words of some names, lower-cased: what must be masked in contexts."""
    return {word for name in names for word in tokenize(lower(name))[0]}
