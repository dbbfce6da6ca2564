"""Looked-up features with their slope in θ(e*), in NumPy.

Fifty steps in every slot read a few dozen mentions; they spend their time in the number of
operations, not in their size. A feature that has a `slope` answers in a few array operations; for
any other one autograd answers through its `lookup`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from stamo.features.base import Feature
from stamo.features.pile import Pile
from stamo.system.arrays import Float32

Back: TypeAlias = Callable[[Float32], Float32]
"""From the gradient of the values to the gradient of the feature's group of θ(e*)."""


@runtime_checkable
class HasSlope(Protocol):
    """A feature that has a faster way to its values and their gradient than autograd."""

    def slope(self, theta: Float32, pile: Pile) -> tuple[Float32, Back]:
        """Return what `lookup` returns, and the way back from its gradient."""
        ...


Lookup: TypeAlias = Callable[[Float32, Pile], tuple[Float32, Back]]


def lookup_slope(feature: Feature) -> Lookup:
    """Return how a feature is looked up together with the way back to its group of θ(e*)."""
    return feature.slope if isinstance(feature, HasSlope) else partial(_by_autograd, feature)


def _by_autograd(feature: Feature, theta: Float32, pile: Pile) -> tuple[Float32, Back]:
    import torch  # here, so that linking loads without it

    leaf = torch.from_numpy(theta).clone().requires_grad_()
    values = feature.lookup(leaf, pile)

    def back(by_value: Float32) -> Float32:
        if not values.requires_grad:
            return np.zeros_like(theta)
        by_theta = torch.autograd.grad(values, leaf, torch.from_numpy(by_value))[0]
        return np.asarray(by_theta)

    return values.detach().numpy(), back
