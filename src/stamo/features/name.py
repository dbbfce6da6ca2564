"""Name similarity: how much a mention looks like the title of an entity. An added feature.

Yamada's three surface similarities leave the qualifier of a title out ("Mercury (planet)"). Here it
counts: among entities of one name, the one whose title is the bare name is often what is meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from stamo.features.encoding import EncodedMentions
from stamo.features.pile import Pile, Sample
from stamo.features.surface import compare_all, compare_known
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float32


@dataclass(frozen=True)
class NameSimilarity:
    """Edit similarity of a mention and a whole title, one number in [0, 1], never learned.

    The name of an emerging entity is known from the start, so its group of θ(e*) is empty, (E, 0).
    """

    name = "name"

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return the similarity of the known candidates, (M, C).

        Computed once for each distinct pair of surface and candidate.
        """
        return compare_known(mentions, kb, name_similarities)[..., 0]

    def estimate(self, sample: Sample, kb: KnowledgeBase) -> Tensor:
        """Return an empty group: there is nothing to learn."""
        return torch.zeros(len(sample.pile.entities), 0)

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return the similarity of all candidates, (M, C + E)."""
        return pile.keep(
            f"{self.name} values", lambda: compare_all(pile, self.name, name_similarities)[..., 0]
        )


def name_similarities(surfaces: Sequence[str], titles: Sequence[str]) -> Float32:
    """Return 1 for the same name whatever its case, 0 without a common letter, (n, 1)."""
    pairs = zip(surfaces, titles, strict=True)
    found = [Levenshtein.normalized_similarity(s.casefold(), t.casefold()) for s, t in pairs]
    return np.array(found, dtype=np.float32)[:, None]
