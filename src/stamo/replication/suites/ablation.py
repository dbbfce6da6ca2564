"""What it is to leave out a feature (Table 5): it is zero for every candidate, and stays so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stamo.features.base import Feature
from stamo.features.encoding import EncodedMentions
from stamo.features.pile import Pile, Sample
from stamo.features.slopes import Back, lookup_slope
from stamo.kb.base import KnowledgeBase
from stamo.models.tables import Tables
from stamo.system.arrays import Float32

LEARNED_FEATURES = ("prior", "relatedness", "embedding")


def leave_out_feature(
    mentions: EncodedMentions, tables: Tables, feature: str | None
) -> tuple[EncodedMentions, Tables]:
    """Set one feature of the known candidates to zero everywhere (Table 5)."""
    if feature is None:
        return mentions, tables
    if feature == "embedding":
        nothing = np.broadcast_to(np.zeros((), dtype=np.float32), tables.entities.shape)
        return mentions, Tables(tables.words, nothing)
    return mentions.with_known(feature, np.zeros_like(mentions.known[feature])), tables


@dataclass
class Absent:
    """A feature that is zero for every candidate and stays so."""

    feature: Feature
    name: str

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Any:
        """Return zeros."""
        return np.zeros_like(self.feature.known(mentions, kb))

    def estimate(self, sample: Sample, kb: KnowledgeBase) -> Tensor:
        """Return zeros."""
        return torch.zeros_like(self.feature.estimate(sample, kb))

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return zeros, whatever θ(e*) is."""
        return self.feature.lookup(theta * 0, pile)

    def slope(self, theta: Float32, pile: Pile) -> tuple[Float32, Back]:
        """Return zeros, and that nothing depends on θ(e*)."""
        values, _ = lookup_slope(self.feature)(theta * 0, pile)
        return values, lambda by_value: np.zeros_like(theta)
