"""Linking without training: prior, relatedness and the words around decide.

A wiki may be too small to train on, and a table of entities has no links at all. The weights and
the calibration were fitted once, on the held-out articles of an English encyclopaedia.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stamo.errors import ModelError
from stamo.features.base import Feature
from stamo.features.mentions import EncodedMentions
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.kb.base import KnowledgeBase
from stamo.models.calibration import Calibration
from stamo.models.tables import (
    MASKED,
    LocalVectors,
    Tables,
    blocks,
    mean_rows,
    model_tables,
)
from stamo.system.files import Float32

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stamo.models.base import LinkingModel

FITTED = Calibration(temperature=1.0, slope=0.22, intercept=1.01)
"""Fitted on the mentions whose candidates the weights were fitted on."""


@dataclass(frozen=True)
class CountedScores:
    """g(e; m) = a log P(e | m) + b · the mean relatedness of e to the entity context + c · cos.

    The cosine is that of the words around the mention and the vector of e.
    """

    prior_weight: float = 0.88
    relatedness_weight: float = 7.1
    least_prior: float = 1e-3
    """Added to every prior, so that a candidate without a link is not impossible."""
    words_weight: float = 0.0
    """c; 0 looks at no vector."""

    name = "counts"
    extra: tuple[str, ...] = ()
    encoded_features: ClassVar[tuple[Feature, ...]] = (Prior(), Relatedness())
    """The features that are looked up once, when mentions are encoded."""

    @property
    def state(self) -> Mapping[str, Float32]:
        """The weights by name."""
        weights = [self.prior_weight, self.relatedness_weight, self.least_prior, self.words_weight]
        return {"weights": np.array(weights, dtype=np.float32)}

    def tables(self, kb: KnowledgeBase) -> Tables:
        """Return the vectors that are looked at; without a weight for words a base needs none."""
        if self.words_weight:
            return model_tables(kb, "weighted")
        return Tables(np.zeros((0, 0), np.float32), np.zeros((0, 0), np.float32))

    def score_known(self, mentions: EncodedMentions, tables: Tables) -> Float32:
        """Return g(e; m) of mentions whose candidates are all known, (M, C)."""
        prior, relatedness = mentions.known[Prior.name], mentions.known[Relatedness.name]
        scores = self.prior_weight * np.log(prior + self.least_prior)
        scores += self.relatedness_weight * relatedness
        if self.words_weight:
            scores += self.words_weight * _cosines(mentions, tables)
        return np.where(mentions.mask, scores, MASKED).astype(np.float32)

    def to_model(self) -> LinkingModel:
        """Return the same scores in torch, which also explain and learn.

        Raises:
            ModelError: There are no vectors to learn one in.
        """
        if not self.words_weight:
            raise ModelError(
                "Explanations, packs and learning need vectors, and the knowledge base has none; "
                "build it without --dimensions 0."
            )
        from stamo.models.counted_model import Counted

        return Counted(self.state["weights"]).eval()


WITH_WORDS = CountedScores(prior_weight=0.91, relatedness_weight=4.3, words_weight=3.2)
"""In a knowledge base with vectors the words speak too."""


def _cosines(mentions: EncodedMentions, tables: Tables) -> Float32:
    """Return the cosine of each candidate's vector and the words around the mention, (M, C)."""
    if not mentions.words.size:
        return np.zeros(mentions.candidates.shape, dtype=np.float32)
    means = mean_rows(LocalVectors.of(tables.words, mentions.words), mentions.words)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    entities = LocalVectors.of(tables.entities, mentions.candidates)
    cosines = np.zeros(mentions.candidates.shape, dtype=np.float32)
    width = mentions.mask.sum(axis=1)
    for rows in blocks(width):
        here = slice(int(width[rows[-1]]))
        vectors = entities[mentions.candidates[rows, here]]  # (b, c, Q)
        cosines[rows, here] = (vectors @ means[rows, :, None])[..., 0]
    return cosines
