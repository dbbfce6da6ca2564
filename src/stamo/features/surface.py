"""Surface similarity of a mention and an entity's name (Yamada's Ψ₄ to Ψ₆, Sec. 2.3.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from stamo.features.base import append_emerging
from stamo.features.encoding import EncodedMentions, FloatArray
from stamo.features.pile import Evidence, Pile
from stamo.kb.base import KnowledgeBase

_QUALIFIER = re.compile(r"\s*\([^()]*\)$")


@dataclass(frozen=True)
class Surface:
    """Edit distance, equality or containment, common start or end: three numbers, never learned.

    The name of an emerging entity is known from the start, so its group of θ(e*) is empty, (E, 0).
    """

    name = "surface"

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> FloatArray:
        """Return the three similarities of the known candidates, (M, C, 3).

        Computed once for each distinct pair of surface and candidate.
        """
        width = mentions.candidates.shape[1]
        surfaces = np.repeat(mentions.surfaces.astype(np.int64), width)
        pairs = np.stack([surfaces, mentions.candidates.ravel()], axis=1)
        distinct, place = np.unique(pairs, axis=0, return_inverse=True)
        values = np.zeros((len(distinct), 3), dtype=np.float32)
        rows = np.flatnonzero(distinct[:, 1] >= 0)
        titles = kb.titles(distinct[rows, 1].astype(np.int32))
        names = [mentions.surface_table[i] for i in distinct[rows, 0]]
        values[rows] = similarities(names, titles)
        return values[place.reshape(-1)].reshape(*mentions.candidates.shape, 3)

    def estimate(self, evidence: Evidence, kb: KnowledgeBase) -> Tensor:
        """Return an empty group: there is nothing to learn."""
        return torch.zeros(len(evidence.pile.entities), 0)

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return the three similarities of all candidates, (M, C + E, 3)."""
        table = np.stack(
            [similarities(pile.aliases, [e.id] * len(pile.aliases)) for e in pile.entities], axis=1
        )  # (A, E, 3)
        return append_emerging(pile.mentions.known[self.name], torch.from_numpy(table[pile.alias]))


def similarities(surfaces: Sequence[str], titles: Sequence[str]) -> FloatArray:
    """Return edit similarity, equal or contained, starts or ends with: shape (n, 3).

    A title's qualifier in brackets names the type, not the entity, and is left out.
    """
    rows = np.zeros((len(surfaces), 3), dtype=np.float32)
    for i, (surface, title) in enumerate(zip(surfaces, titles, strict=True)):
        mention, name = surface.casefold(), _QUALIFIER.sub("", title).casefold()
        rows[i] = (
            Levenshtein.normalized_similarity(mention, name),
            mention in name,
            name.startswith(mention) or name.endswith(mention),
        )
    return rows
