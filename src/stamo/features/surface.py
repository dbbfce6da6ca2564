"""How much a mention looks like the name of an entity: Ψ₄ to Ψ₆ of Yamada (Sec. 2.3.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein

from stamo.features.base import Array, Feature, Theta, append, like
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float32

_QUALIFIER = re.compile(r"\s*\([^()]*\)$")


def surface_similarities(surfaces: Sequence[str], titles: Sequence[str]) -> Float32:
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


@dataclass(frozen=True)
class Surface(Feature):
    """Edit distance, equality or containment, common start or end: three numbers, never learned.

    The name of an emerging entity is known from the start, so θ(e*) has no group for it.
    """

    name = "surface"

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return the three similarities of the known candidates, (M, C, 3).

        Computed once for each distinct pair of surface and candidate.
        """
        width = mentions.candidates.shape[1]
        surfaces = np.repeat(mentions.surfaces.astype(np.int64), width)
        pairs = np.stack([surfaces, mentions.candidates.ravel()], axis=1)
        distinct, place = np.unique(pairs, axis=0, return_inverse=True)
        rows = np.flatnonzero(distinct[:, 1] >= 0)
        titles = kb.titles(distinct[rows, 1].astype(np.int32))
        found = surface_similarities([mentions.surface_table[i] for i in distinct[rows, 0]], titles)
        values = np.zeros((len(distinct), 3), dtype=np.float32)
        values[rows] = found
        return values[place.reshape(-1)].reshape(*mentions.candidates.shape, 3)

    def values(self, theta: Theta, pile: Pile) -> Array:
        """Return the three similarities of all candidates, (M, C + E, 3); θ(e*) has no part."""
        aliases, known = pile.aliases, pile.mentions.known[self.name]
        table = [surface_similarities(aliases, [e.id] * len(aliases)) for e in pile.entities]
        emerging = np.stack(table, axis=1)[pile.alias]  # (M, E, 3)
        return append(known, like(emerging, theta["embedding"]))
