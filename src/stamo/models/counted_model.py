"""The scores of linking without training as a model, so that explaining and learning work too."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from stamo.features.embedding import Embedding
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.models.base import Batch, LinkingModel, masked_mean
from stamo.system.files import Float32


class Counted(LinkingModel):
    """g(e; m) = w · (log prior, context words, relatedness); no parameter is ever trained."""

    name: ClassVar[str] = "counts"

    def __init__(self, weights: Float32) -> None:
        """Create the model.

        Args:
            weights: Of prior, relatedness, what is added to every prior, and words, as
                `CountedScores.state` has them.
        """
        super().__init__(0)
        self.features = (Prior(), Relatedness(), Embedding())
        self.least_prior = float(weights[2])
        linear = nn.Linear(3, 1, bias=False).requires_grad_(False)
        linear.weight.copy_(torch.from_numpy(weights[None, [0, 3, 1]]))
        self.combine = linear

    def scores(self, batch: Batch) -> Tensor:
        """Return the three scores, (B, C, 3)."""
        words = masked_mean(batch.words, batch.word_mask)
        fit = cosine_similarity(batch.vectors, words[:, None], dim=-1)
        prior = torch.log(batch.features["prior"].clamp_min(0) + self.least_prior)
        return torch.stack([prior, fit, batch.features["relatedness"]], dim=-1)
