"""Algorithm 1 as printed: hard pseudo-labels, intra-slot and inter-slot optimisation (Sec. 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import torch

from stamo.errors import Ranged, SettingsError
from stamo.features.base import FeatureParams, estimate
from stamo.features.pile import Sample
from stamo.learning.loop import (
    Checkpoint,
    Estimate,
    Learned,
    LoopArgs,
    Moments,
    Steps,
    Task,
)
from stamo.models.base import Scorer
from stamo.models.train import max_margin_gradient
from stamo.system.files import Float32, Int64


@dataclass(frozen=True)
class IntraSlotArgs(Ranged):
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

    ranges: ClassVar = {"n_epochs": 0, "batch_size": 1, "default_rate": 0}

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.learning_rate.values(), default=0.0) < 0:
            raise SettingsError("The learning rates cannot be negative.")


NO_INTRA = IntraSlotArgs(n_epochs=0)
"""Leave every estimate as it is."""


@dataclass(frozen=True)
class InterSlotArgs(Ranged):
    """How far θ̂(e*) follows the newest θ_intra."""

    eta: Mapping[str, float] = field(
        default_factory=lambda: {"prior": 5e-2, "relatedness": 5e-2, "embedding": 1e-3}
    )
    """Learning rate η of each group (Training Details)."""
    default_eta: float = 5e-2
    """Learning rate of a group that `eta` does not name (an added feature)."""
    adaptive: bool = True
    """Use the moments of δ (Eq. 15 and 16); False steps along δ itself."""
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    gamma: int = 5
    """Warm-up period γ in slots; 1 is no warm-up."""

    ranges: ClassVar = {"gamma": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise SettingsError(f"β₁ and β₂ lie in [0, 1), not {self.beta1} and {self.beta2}.")
        if min([*self.eta.values(), self.default_eta, self.epsilon]) <= 0:
            raise SettingsError("Learning rates η and ε must be greater than 0.")


@dataclass(frozen=True)
class StamoArgs(LoopArgs):
    """The settings of Algorithm 1; the defaults are the paper's."""

    intra: IntraSlotArgs = field(default_factory=IntraSlotArgs)
    inter: InterSlotArgs | None = field(default_factory=InterSlotArgs)
    """Inter-slot optimisation; None takes θ_intra as it is (vanilla Self-Training)."""

    resumes: ClassVar[bool] = True

    def steps(self, task: Task) -> StamoSteps:
        """Return the steps of a run."""
        return StamoSteps(task, self)

    def at_most(self, n_slots: int) -> Self:
        """Return settings with no more slots than these."""
        return replace(self, n_slots=min(self.n_slots, n_slots))

    def without(self, feature: str) -> Self:
        """Return settings that do not optimise a feature inside a slot."""
        frozen = {**self.intra.learning_rate, feature: 0.0}
        return replace(self, intra=replace(self.intra, learning_rate=frozen))


class StamoSteps(Steps[Estimate]):
    """The steps of a slot as the paper has them."""

    def __init__(self, task: Task, args: StamoArgs) -> None:
        self.task, self.args = task, args

    @cached_property
    def scorer(self) -> Scorer:
        """Scores the whole pile."""
        return self.task.scorer

    @cached_property
    def labelled_part(self) -> tuple[Scorer, Int64]:
        """A scorer of L and the gold column of each of its mentions.

        Mentions whose gold entity is no candidate at all teach nothing inside a slot and are left
        out.
        """
        task, mentions = self.task, self.task.pile.mentions
        emerging = mentions.candidates.shape[1] + task.labels.argmax(axis=1)
        gold = np.where(task.labels.max(axis=1) > 0.5, emerging, mentions.gold_column())
        rows = np.flatnonzero(task.labelled & (gold >= 0))
        return self.scorer.take(rows), gold[rows]

    def label(self, now: Estimate) -> Float32:
        """Label U by the model under θ̂(e*)."""
        with torch.no_grad():
            scores = self.scorer(now.theta)
        n_columns = scores.shape[1]
        emerging = torch.arange(n_columns - self.task.labels.shape[1], n_columns)
        predicted = (scores.argmax(dim=1, keepdim=True) == emerging).numpy().astype(np.float32)
        return np.where(self.task.labelled[:, None], self.task.labels, predicted)

    def estimate(self, sample: Sample, before: Estimate | None) -> FeatureParams:
        """Estimate every feature."""
        return estimate(sample, self.task.model.features, self.task.kb)

    def fit(self, theta: FeatureParams, sample: Sample, before: Estimate | None) -> Estimate:
        """Minimise the model's objective on L."""
        return self._optimise(theta, self.args.intra)

    def _optimise(self, theta: FeatureParams, args: IntraSlotArgs) -> Estimate:
        if not args.n_epochs:
            return Estimate(theta.detach())
        return Estimate(intra_slot(theta, *self.labelled_part, args))

    def move(self, before: Estimate, fitted: Estimate, t: int) -> Estimate:
        """Take a step towards θ_intra."""
        if self.args.inter is None:
            return fitted  # Eq. 14
        return inter_slot(before, fitted.theta, t, self.args.inter)

    def take_up(self, checkpoint: Checkpoint) -> Estimate:
        """Go on with θ̂(e*) and the moments of a slot."""
        return Estimate(checkpoint.theta_hat, checkpoint.moments)

    def finish(self, first: Estimate, last: Estimate, t: int) -> Learned:
        """Take the last slot."""
        return Learned(
            theta=self.looked_up(last),
            model=self.task.model,
            posterior=self.label(last),
            used_slot=t,
            shifts=(0.0,) * self.task.labels.shape[1],
            line=(0.0,) * self.task.labels.shape[1],
        )


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
    values = {name: group.detach().numpy().copy() for name, group in theta.groups.items()}
    rates = {name: args.learning_rate.get(name, args.default_rate) for name in sorted(values)}
    rates = {name: rate for name, rate in rates.items() if rate > 0 and values[name].size}
    if not args.n_epochs or not len(gold) or not rates:
        return theta.detach()
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
                for name, gradient in back(by_score).items():
                    if name in rates:
                        values[name] -= np.float32(rates[name]) * gradient
                moved = True
            if not moved and dropping is None:
                break  # every mention keeps its margin, and will in every later epoch
    return FeatureParams({name: torch.from_numpy(group) for name, group in values.items()})


def _batches(
    scorer: Scorer, gold: Int64, size: int, rng: np.random.Generator
) -> list[tuple[Scorer, Int64]]:
    """Divide L at random once: preparing a batch costs more than a step on it."""
    if len(gold) <= size:
        return [(scorer, gold)]
    order = rng.permutation(len(gold))
    parts = [order[i : i + size] for i in range(0, len(order), size)]
    return [(scorer.take(rows), gold[rows]) for rows in parts]


def inter_slot(
    before: Estimate, theta_intra: FeatureParams, t: int, args: InterSlotArgs
) -> Estimate:
    """Take one step from θ̂ᵗ⁻¹ towards θ_intra (Eq. 17); feeding δ to Adam gives the same."""
    theta_hat, b1, b2 = before.theta, args.beta1, args.beta2
    moments = before.moments or Moments(theta_hat.zeros(), theta_hat.zeros())  # 3
    delta = theta_hat - theta_intra  # 8   δᵗ
    s = moments.s * b1 + delta * (1 - b1)  # 9   Eq. 15
    v = moments.v * b2 + delta**2 * (1 - b2)
    s_hat, v_hat = s / (1 - b1**t), v / (1 - b2**t)  # 10  Eq. 16
    delta_hat = s_hat / (v_hat**0.5 + args.epsilon) if args.adaptive else delta  # 11
    etas = {name: args.eta.get(name, args.default_eta) for name in theta_hat.groups}
    eta_t = {name: min(eta, eta * t / args.gamma) for name, eta in etas.items()}  # 12
    return Estimate(theta_hat - delta_hat * eta_t, Moments(s, v))  # 13  Eq. 17
