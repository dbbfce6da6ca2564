"""Name similarity: how much a mention looks like the title of an entity. An added feature.

Yamada's three surface similarities leave the qualifier of a title out ("Mercury (planet)"). Here it
counts: among entities of one name, the one whose title is the bare name is often what is meant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from stamo.features.base import append_emerging
from stamo.features.encoding import EncodedMentions, FloatArray
from stamo.features.pile import Evidence, Pile
from stamo.kb.base import KnowledgeBase


@dataclass(frozen=True)
class Name:
    """Edit similarity of a mention and a whole title, one number in [0, 1], never learned.

    The name of an emerging entity is known from the start, so its group of θ(e*) is empty, (E, 0).
    """

    name = "name"

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> FloatArray:
        """Return the similarity of the known candidates, (M, C).

        Computed once for each distinct pair of surface and candidate.
        """
        row, column = np.nonzero(mentions.mask)
        entities = mentions.candidates[row, column].astype(np.int64)
        keys = mentions.surfaces[row].astype(np.int64) * kb.n_entities + entities
        distinct, place = np.unique(keys, return_inverse=True)
        titles = kb.titles((distinct % kb.n_entities).astype(np.int32))
        surfaces = [mentions.surface_table[i] for i in (distinct // kb.n_entities).tolist()]
        similar = np.array(
            [similarity(s, t) for s, t in zip(surfaces, titles, strict=True)], dtype=np.float32
        )
        values = np.zeros(mentions.candidates.shape, dtype=np.float32)
        values[row, column] = similar[place.reshape(-1)]
        return values

    def estimate(self, evidence: Evidence, kb: KnowledgeBase) -> Tensor:
        """Return an empty group: there is nothing to learn."""
        return torch.zeros(len(evidence.pile.entities), 0)

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return the similarity of all candidates, (M, C + E)."""
        table = np.array(
            [[similarity(alias, e.id) for e in pile.entities] for alias in pile.aliases],
            dtype=np.float32,
        )  # (A, E)
        return append_emerging(pile.mentions.known[self.name], torch.from_numpy(table[pile.alias]))


def similarity(surface: str, title: str) -> float:
    """Return 1 for the same name whatever its case, 0 for names without a common letter."""
    return Levenshtein.normalized_similarity(surface.casefold(), title.casefold())
