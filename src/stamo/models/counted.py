"""Linking without training: what the knowledge base has counted, prior and relatedness, decides.

A wiki may be too small to train on. The two weights and the calibration do not depend on its words
or vectors; they were fitted once, on the held-out articles of an English encyclopaedia.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stamo.errors import ModelError
from stamo.features.base import Feature
from stamo.features.encoding import EncodedMentions
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.kb.base import KnowledgeBase
from stamo.models.calibration import Calibration
from stamo.models.tables import MASKED, Tables
from stamo.system.arrays import Float32

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stamo.models.base import LinkingModel

FITTED = Calibration(temperature=1.0, slope=0.22, intercept=1.01)
"""Fitted on the mentions whose candidates the weights were fitted on."""


@dataclass(frozen=True)
class CountedScores:
    """g(e; m) = a log P(e | m) + b · the mean relatedness of e to the entity context."""

    prior_weight: float = 0.88
    relatedness_weight: float = 7.1
    least_prior: float = 1e-3
    """Added to every prior, so that a candidate without a link is not impossible."""

    name = "counts"
    extra: tuple[str, ...] = ()

    @property
    def encoded_features(self) -> tuple[Feature, ...]:
        """Return the features that are looked up once, when mentions are encoded."""
        return Prior(), Relatedness()

    @property
    def state(self) -> Mapping[str, Float32]:
        """The weights by name."""
        weights = [self.prior_weight, self.relatedness_weight, self.least_prior]
        return {"weights": np.array(weights, dtype=np.float32)}

    def tables(self, kb: KnowledgeBase) -> Tables:
        """Return no vectors: none are looked at, so a knowledge base without them will do."""
        return Tables(np.zeros((0, 0), np.float32), np.zeros((0, 0), np.float32))

    def score_known(self, mentions: EncodedMentions, tables: Tables) -> Float32:
        """Return g(e; m) of mentions whose candidates are all known, (M, C)."""
        prior, relatedness = mentions.known[Prior.name], mentions.known[Relatedness.name]
        scores = self.prior_weight * np.log(prior + self.least_prior)
        scores += self.relatedness_weight * relatedness
        return np.where(mentions.mask, scores, MASKED).astype(np.float32)

    def to_model(self) -> LinkingModel:
        """Refuse: nothing here is trained.

        Raises:
            ModelError: Always.
        """
        raise ModelError(
            "Explanations, packs and learning need a trained model, and none was given; make one "
            "with `stamo train`."
        )
