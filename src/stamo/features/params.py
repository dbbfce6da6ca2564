"""θ(e*): the feature parameters of one emerging entity, a small value with named groups."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from stamo.errors import DivergenceError

if TYPE_CHECKING:
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

    def check_finite(self, where: str) -> FeatureParams:
        """Return self, or say in which group a value stopped being a finite number."""
        for name, values in self.groups.items():
            if not bool(values.isfinite().all()):
                raise DivergenceError(
                    f"{where}: the {name!r} group of θ(e*) holds a value that is not finite; "
                    f"lower the learning rate of this group."
                )
        return self

    def _with(self, other: Operand, function: Callable[[Any, Any], Tensor]) -> FeatureParams:
        def operand(name: str) -> Tensor | float:
            if isinstance(other, FeatureParams):
                return other.groups[name]
            return other[name] if isinstance(other, Mapping) else other

        return FeatureParams({n: function(v, operand(n)) for n, v in self.groups.items()})

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
