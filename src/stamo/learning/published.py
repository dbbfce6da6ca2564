"""What the experiments of the paper are known to have done otherwise than it prints."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stamo.features.encoding import EncodedMentions, FloatArray
from stamo.models.base import MASKED, LinkingModel, Tables
from stamo.models.deeped.model import DeepED


class PublishedDeepED(DeepED):
    """DeepED whose attention takes padding for words with support 0.

    It also keeps only the words strictly above the H'-th score.
    """

    @classmethod
    def of(cls, model: DeepED) -> PublishedDeepED:
        """Return a model that shares φ and the features of another one."""
        published = cls.__new__(cls)
        published.__dict__.update(model.__dict__)
        return published

    def select(self, support: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Select the words above the H'-th score, padding among them; only words count."""
        if self.n_attended >= support.shape[1]:
            return super().select(support, mask)
        support = support.masked_fill(~mask, 0.0)
        edge = support.topk(self.n_attended, dim=1).values[:, -1:]
        return support.masked_fill(support <= edge, MASKED), mask

    def select_array(
        self, support: FloatArray, mask: NDArray[np.bool_]
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Select as `select` does."""
        selected, counted = self.select(torch.from_numpy(support), torch.from_numpy(mask))
        return selected.numpy(), counted.numpy()

    def score_known(self, mentions: EncodedMentions, tables: Tables) -> FloatArray:
        """Score by `forward`; the faster way selects for itself."""
        return LinkingModel.score_known(self, mentions, tables)
