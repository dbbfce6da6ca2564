"""How much a mention looks like a name: Yamada's Ψ₄ to Ψ₆ (Sec. 2.3.1), and an added feature."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from stamo.features.base import append_emerging
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, Sample
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
class Surface:
    """Edit distance, equality or containment, common start or end: three numbers, never learned.

    The name of an emerging entity is known from the start, so its group of θ(e*) is empty, (E, 0).
    """

    name = "surface"
    compare = staticmethod(surface_similarities)

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
        found = self.compare([mentions.surface_table[i] for i in distinct[rows, 0]], titles)
        values = np.zeros((len(distinct), found.shape[1]), dtype=np.float32)
        values[rows] = found
        return values[place.reshape(-1)].reshape(*mentions.candidates.shape, found.shape[1])

    def estimate(self, sample: Sample, kb: KnowledgeBase) -> Tensor:
        """Return an empty group: there is nothing to learn."""
        return torch.zeros(len(sample.pile.entities), 0)

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return the three similarities of all candidates, (M, C + E, 3)."""
        return pile.keep(f"{self.name} values", lambda: self._compare_all(pile))

    def _compare_all(self, pile: Pile) -> Tensor:
        """Put what the emerging entities' names give behind the known values."""
        aliases, known = pile.aliases, pile.mentions.known[self.name]
        table = [self.compare(aliases, [e.id] * len(aliases)) for e in pile.entities]
        known = known if known.ndim == 3 else known[..., None]
        emerging = np.stack(table, axis=1)[pile.alias]  # (M, E, n)
        return append_emerging(known, torch.from_numpy(emerging))


@dataclass(frozen=True)
class NameSimilarity(Surface):
    """Edit similarity of a mention and a whole title, one number in [0, 1], never learned.

    Yamada's three leave the qualifier of a title out ("Mercury (planet)"). Here it counts: among
    entities of one name, the one whose title is the bare name is often what is meant.
    """

    name = "name"

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return the similarity of the known candidates, (M, C)."""
        return super().known(mentions, kb)[..., 0]

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return the similarity of all candidates, (M, C + E)."""
        return super().lookup(theta, pile)[..., 0]

    @staticmethod
    def compare(surfaces: Sequence[str], titles: Sequence[str]) -> Float32:
        """Return 1 for the same name whatever its case, 0 without a common letter, (n, 1)."""
        pairs = zip(surfaces, titles, strict=True)
        found = [Levenshtein.normalized_similarity(s.casefold(), t.casefold()) for s, t in pairs]
        return np.array(found, dtype=np.float32)[:, None]
