"""Intra-slot optimisation: fit θ(e*) to the real labels, starting from the estimate (Eq. 13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch

from stamo.errors import SettingsError
from stamo.features.base import FeatureParams
from stamo.models.base import Scorer
from stamo.models.training import max_margin_gradient
from stamo.system.arrays import Float32, Int64

Arrays: TypeAlias = dict[str, Float32]


@dataclass(frozen=True)
class IntraSlotArgs:
    """How θ(e*) is optimised inside a slot; `n_epochs` 0 leaves the estimate as it is."""

    n_epochs: int = 50
    learning_rate: Mapping[str, float] = field(default_factory=dict)
    """Rate of single groups; the others use `default_rate`."""
    default_rate: float = 1e-4
    batch_size: int = 32
    margin: float = 0.01
    """μ of the objective (Eq. 12)."""
    mean_over_candidates: int | None = None
    """Divide the loss by this number of candidates."""
    dropout: bool = False
    """Leave the model's dropout on."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_epochs < 0 or self.batch_size < 1:
            raise SettingsError("Intra-slot optimisation needs 0 or more epochs and a batch of 1.")
        if min([self.default_rate, *self.learning_rate.values()]) < 0:
            raise SettingsError("The learning rates cannot be negative.")


def intra_slot(
    theta: FeatureParams,
    scorer: Scorer,
    gold: Int64,
    args: IntraSlotArgs,
) -> FeatureParams:
    """Minimise the model's own objective on L with respect to θ(e*) (Eq. 13).

    Args:
        theta: The initial guess: what was estimated on real and pseudo-labels.
        scorer: Scores the mentions of L.
        gold: The column of each mention's gold entity.
        args: Epochs, rates, batch size.

    Returns:
        θ_intra, which shares nothing with `theta`.
    """
    trained = frozenset(
        name
        for name, values in theta.groups.items()
        if values.numel() and args.learning_rate.get(name, args.default_rate) > 0
    )
    if not args.n_epochs or not len(gold) or not trained:
        return theta.detach()
    values = {name: group.detach().numpy().copy() for name, group in theta.groups.items()}
    moving = {name: values[name] for name in sorted(trained)}
    rates = {name: args.learning_rate.get(name, args.default_rate) for name in moving}
    rng = np.random.default_rng(args.seed)
    batches = _batches(scorer, gold, args.batch_size, rng)
    torch.manual_seed(args.seed)
    dropping = np.random.default_rng([args.seed, 1]) if args.dropout else None
    with np.errstate(all="ignore"):  # a θ(e*) that diverges is reported by whoever runs the slots
        for _ in range(args.n_epochs):
            moved = False
            for i in rng.permutation(len(batches)):
                part, target = batches[i]
                scores, back = part.slope(values, dropping)
                by_score = max_margin_gradient(scores, target, args.margin)
                if not by_score.any():
                    continue  # without a gradient nothing moves
                if args.mean_over_candidates is not None:
                    by_score /= len(target) * args.mean_over_candidates
                _descend(moving, rates, back(by_score))
                moved = True
            if not moved and dropping is None:
                break  # every mention keeps its margin, and will in every later epoch
    return FeatureParams({name: torch.from_numpy(group) for name, group in values.items()})


def _descend(moving: Arrays, rates: Mapping[str, float], gradients: Arrays) -> None:
    for name, group in moving.items():
        if name in gradients:
            group -= np.float32(rates[name]) * gradients[name]


def _batches(
    scorer: Scorer, gold: Int64, size: int, rng: np.random.Generator
) -> list[tuple[Scorer, Int64]]:
    """Divide L at random once: preparing a batch costs more than a step on it."""
    if len(gold) <= size:
        return [(scorer, gold)]
    order = rng.permutation(len(gold))
    parts = [order[i : i + size] for i in range(0, len(order), size)]
    return [(scorer.take(rows), gold[rows]) for rows in parts]


def gold_columns(scores_width: int, known_gold: Int64, weights: Float32) -> Int64:
    """Return each labelled mention's gold column: an emerging entity's, or a known candidate's.

    Args:
        scores_width: C + E.
        known_gold: Column of the gold entity among the known candidates, -1 if not there, (M,).
        weights: 1 where a mention is labelled as an emerging entity, (M, E).

    Returns:
        Columns, -1 where the gold entity is no candidate at all.
    """
    first = scores_width - weights.shape[1]
    emerging = weights.max(axis=1) > 0.5
    return np.where(emerging, first + weights.argmax(axis=1), known_gold)
