"""Linking without training: prior, relatedness and the words around decide.

A wiki may be too small to train on, and a table of entities has no links at all. The weights and
the calibration were fitted once, on the held-out articles of an English encyclopaedia.
"""

from __future__ import annotations

import numpy as np

from stamo.features.base import Array, library, unit
from stamo.features.embedding import Embedding
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.models.base import Batch, Calibration, Dropout, Model

WITHOUT_WORDS = (0.88, 7.1, 1e-3, 0.0)
WITH_WORDS = (0.91, 4.3, 1e-3, 3.2)
"""Weights of log prior and relatedness, what is added to every prior so that a candidate without a
link is not impossible, and the weight of the words, of which a base without vectors has none."""
FITTED = Calibration(temperature=1.0, slope=0.22, intercept=1.01)
"""Fitted on the mentions that the weights were fitted on."""


class Untrained(Model):
    """g(e; m) = a log P(e | m) + b · the mean relatedness of e to the entity context + c · cos.

    The cosine is that of the words around the mention and the vector of e.
    """

    name = "counts"
    own_features = (Prior(), Relatedness(), Embedding())
    score_names = ("log prior", "context words", "relatedness")
    n_scores = 3

    def __init__(self, dimensions: int) -> None:
        """Create the model of a knowledge base; without dimensions it looks at no vector."""
        weights = WITH_WORDS if dimensions else WITHOUT_WORDS
        phi = {"weights": np.array(weights, dtype=np.float32)}
        super().__init__(dimensions, phi=phi)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of the four weights."""
        return {"weights": (4,)}

    def psi(self, batch: Batch) -> Array:
        """Return the three scores, (B, C, 3)."""
        prior, related = batch.features["prior"], batch.features["relatedness"]
        fit = (batch.vectors @ unit(batch.words)[..., None])[..., 0]
        xp = library(prior, related, fit)
        likely = xp.log(xp.maximum(prior, 0) + self.phi["weights"][2])
        return xp.stack([likely, fit, related], -1)

    def combine(self, psi: Array, *, dropout: Dropout = None) -> Array:
        """Return the weighted sum."""
        a, b, _, c = self.phi["weights"]
        return a * psi[..., 0] + b * psi[..., 2] + c * psi[..., 1]
