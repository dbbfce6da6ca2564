"""What an entity-linking feature is: any number that can be counted for an entity (Sec. 2.2)."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from stamo.errors import Ranged
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, Sample
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float32, Float64

if TYPE_CHECKING:
    from scipy import sparse
    from torch import Tensor


@dataclass(frozen=True)
class FeatureParams:
    """θ(e*) by group name; `+ - * / **` run group by group.

    The second operand is another `FeatureParams`, a number, or a number for each group (the paper
    gives each group its own learning rate η).
    """

    groups: Mapping[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.groups[name]

    def map(self, function: Callable[[Tensor], Tensor]) -> FeatureParams:
        """Apply `function` to each group."""
        return FeatureParams({name: function(values) for name, values in self.groups.items()})

    def zeros(self) -> FeatureParams:
        """Return a θ of the same shape that is zero everywhere."""
        return self.map(lambda values: values.new_zeros(values.shape))

    def detach(self) -> FeatureParams:
        """Return a copy that shares nothing with this one and needs no gradient."""
        return self.map(lambda values: values.detach().clone())

    def replace(self, **groups: Tensor) -> FeatureParams:
        """Return a θ in which the named groups have other values."""
        return FeatureParams({**self.groups, **groups})

    def _with(self, other: Operand, function: Callable[[Any, Any], Tensor]) -> FeatureParams:
        given = other.groups if isinstance(other, FeatureParams) else other
        by_name = given if isinstance(given, Mapping) else dict.fromkeys(self.groups, given)
        return FeatureParams({n: function(v, by_name[n]) for n, v in self.groups.items()})

    def __add__(self, other: Operand) -> FeatureParams:
        return self._with(other, operator.add)

    def __sub__(self, other: Operand) -> FeatureParams:
        return self._with(other, operator.sub)

    def __mul__(self, other: Operand) -> FeatureParams:
        return self._with(other, operator.mul)

    def __truediv__(self, other: Operand) -> FeatureParams:
        return self._with(other, operator.truediv)

    def __pow__(self, other: Operand) -> FeatureParams:
        return self._with(other, operator.pow)


Operand: TypeAlias = FeatureParams | Mapping[str, float] | float


@runtime_checkable
class Feature(Protocol):
    """A feature f, parameterised by θ; one file implements one feature.

    A feature gives each pair of mention and candidate one number or one vector of numbers. For the
    non-emerging candidates the numbers come from the knowledge base and never change; for e* they
    are looked up in its group of θ(e*), differentiably.
    """

    name: str
    """The name of the feature and of its group in θ(e*)."""

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return the values of the known candidates, (M, C) or (M, C, n)."""
        ...

    def estimate(self, sample: Sample, kb: KnowledgeBase) -> Tensor:
        """Estimate this feature's group of θ(e*) on labelled documents, first axis E."""
        ...

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return the values of all candidates, the emerging ones last, (M, C + E) or (M, C + E, n).

        Differentiable in `theta`, the feature's own group.
        """
        ...


def encode_features(
    mentions: EncodedMentions, features: Iterable[Feature], kb: KnowledgeBase
) -> EncodedMentions:
    """Look up every feature of the known candidates once; nothing of it changes any more."""
    missing = [feature for feature in features if feature.name not in mentions.known]
    found = {feature.name: feature.known(mentions, kb) for feature in missing}
    return replace(mentions, known={**mentions.known, **found})


def estimate(sample: Sample, features: Sequence[Feature], kb: KnowledgeBase) -> FeatureParams:
    """Estimate θ(e*) on labelled documents, feature by feature (Sec. 2.2)."""
    return FeatureParams({feature.name: feature.estimate(sample, kb) for feature in features})


def append_emerging(known: Float32, emerging: Tensor) -> Tensor:
    """Put the columns of the emerging entities behind those of the known candidates."""
    import torch  # here, so that linking loads without it

    return torch.cat([torch.as_tensor(known), emerging], dim=1)


Back: TypeAlias = Callable[[Float32], Float32]
"""From the gradient of the values to the gradient of the feature's group of θ(e*)."""


Lookup: TypeAlias = Callable[[Float32, Pile], tuple[Float32, Back]]


def lookup_slope(feature: Feature) -> Lookup:
    """Return how a feature is looked up together with the way back to its group of θ(e*).

    Fifty steps in every slot read a few dozen mentions; they spend their time in the number of
    operations, not in their size. A feature's own `slope`, if it has one, answers in a few array
    operations what autograd finds in many.
    """
    return getattr(feature, "slope", partial(_by_autograd, feature))


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


Rows: TypeAlias = "Float64 | sparse.csr_matrix"
"""One row for each mention, (M, n), at unit norm or zero."""
ViewRows: TypeAlias = Mapping[str, Rows]
"""The views of a pile's mentions, by name."""


Term: TypeAlias = tuple[str, Float64]
"""Something that people can read, with its part of a mention's row, (n,)."""


@dataclass(frozen=True)
class View(Ranged, ABC):
    """A view of a mention.

    The correction of e* (see `stamo.models.evidence`) weighs the columns of every view. What the
    columns stand for is the same in every pile that one θ(e*) is looked up on: dimensions of a
    vector space, or what the pile carries, such as its neighbours.
    """

    name: ClassVar[str]
    """The name of the view; its group of θ(e*) is `evidence NAME`."""
    part: ClassVar[str]
    """What explanations call its share of the log odds."""
    is_centred: ClassVar[bool] = False
    """Whether the mean row of the pile is taken off, so that only differences count."""
    has_vocabulary: ClassVar[bool] = False
    """Whether the columns are words that the pile names (`Pile.vocabulary`)."""
    reads_text: ClassVar[bool] = False
    """Whether it reads the text with the pile's encoder."""

    variance: float = 2.0
    """The prior variance of the weights in log odds; 0 leaves the view out."""
    mean: float = 0.0
    """The weight of every column before any label speaks; mostly 0."""

    ranges: ClassVar = {"variance": 0}

    @abstractmethod
    def rows(self, pile: Pile, kb: KnowledgeBase) -> Rows:
        """Return the rows of all mentions of a pile."""

    def terms(self, pile: Pile, kb: KnowledgeBase, row: int) -> list[Term] | None:
        """Return terms that add up to a mention's row; None where nobody could read them."""
        return None


def view_mentions(pile: Pile, kb: KnowledgeBase, views: Iterable[View]) -> ViewRows:
    """Compute views of a pile; each is kept with the pile, since no slot changes it."""
    return {v.name: pile.keep(f"view {v!r}", lambda v=v: v.rows(pile, kb)) for v in views}  # type: ignore[misc]


def named_columns(names: Sequence[str], row: sparse.csr_matrix) -> list[Term]:
    """Return a sparse row as terms, one for each of its entries."""
    terms = np.zeros((len(names), row.shape[1]))
    terms[np.arange(len(names)), row.indices] = row.data
    return list(zip(names, terms, strict=True))


def unit_rows(rows: Float64) -> Float64:
    """Divide each row by its norm."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))
