"""What margin and views are worth before any label of an entity speaks, and how far labels move it.

None of these numbers is set by hand. They are learned from entities whose mentions are all judged:
of each some mentions play the labels, and the numbers are those under which the others are the
most likely (`stamo.learning.rehearsal`). `weights.json` holds what was learned from real new
entities; `stamo train` adapts them to a knowledge base and keeps them with the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from stamo.features.pile import Pile

SHIPPED = "weights.json"


@dataclass(frozen=True)
class Weights:
    """The prior of the correction of one entity, in log odds (see `stamo.learning.default`)."""

    bias: float
    """Of a mention of which nothing is known."""
    bias_deviation: float
    half_trust: float
    """This many positive labels make the margin half trusted."""
    scale: float
    """Standard deviation of the scale of the margin."""
    mean: Mapping[str, tuple[float, ...]]
    """The weight of each column, by view; a view that is not named has none."""
    variance: Mapping[str, tuple[float, ...]]
    """How far labels may move the weight of each column, or of all of them."""

    def __post_init__(self) -> None:
        numbers = [self.bias, self.bias_deviation, self.half_trust, self.scale]
        for columns in (*self.mean.values(), *self.variance.values()):
            numbers += columns
        if not np.isfinite(np.array(numbers, dtype=np.float64)).all():
            raise ValueError("a weight is no finite number")

    def without_means(self) -> Weights:
        """Return the weights with nothing said before the labels speak."""
        return Weights(0.0, self.bias_deviation, 0.0, self.scale, {}, self.variance)


def situation_of(pile: Pile) -> str:
    """Name what there is to learn from: a description or only a name, with or without encoder."""
    said = "description" if any(e.description for e in pile.entities) else "name"
    return said if pile.encoder is None else f"{said} and encoder"


def weights_for(situation: str, learned: Mapping[str, Any] | None = None) -> Weights:
    """Return the weights for a situation: those learned with the model, else the package's."""
    return Weights(**{**shipped_weights(), **(learned or {})}[situation])


@cache
def shipped_weights() -> dict[str, Any]:
    """Return what was learned from real new entities, by situation; plain values."""
    text = (resources.files("stamo.models") / SHIPPED).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def to_record(weights: Mapping[str, Weights]) -> dict[str, Any]:
    """Return weights by situation as plain values."""
    return {situation: asdict(own) for situation, own in sorted(weights.items())}
