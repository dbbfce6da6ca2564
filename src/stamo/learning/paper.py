"""The steps of the paper: hard pseudo-labels, intra-slot and inter-slot optimisation (Sec. 3)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import torch

from stamo.features.base import FeatureParams, estimate
from stamo.features.pile import Sample
from stamo.learning.inter import InterSlotArgs, Moments, inter_slot
from stamo.learning.intra import IntraSlotArgs, gold_columns, intra_slot
from stamo.learning.loop import Checkpoint, Estimate, Learned, LoopArgs, Steps, Task
from stamo.models.base import Scorer
from stamo.system.arrays import Float32, Int64

NO_INTRA = IntraSlotArgs(n_epochs=0)
"""Leave every estimate as it is."""


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
    """Algorithm 1 as printed."""

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
        width = mentions.candidates.shape[1] + task.labels.shape[1]
        gold = gold_columns(width, mentions.gold_column(), task.labels)
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
        return estimate(sample, self.task.features, self.task.kb)

    def fit(self, theta: FeatureParams, sample: Sample, before: Estimate | None) -> Estimate:
        """Minimise the model's objective on L."""
        return Estimate(self._optimise(theta, self.args.intra))

    def _optimise(self, theta: FeatureParams, args: IntraSlotArgs) -> FeatureParams:
        return intra_slot(theta, *self.labelled_part, args) if args.n_epochs else theta.detach()

    def move(self, before: Estimate, fitted: Estimate, t: int) -> Estimate:
        """Take a step towards θ_intra."""
        if self.args.inter is None:
            return fitted  # Eq. 14
        moments = before.moments or Moments.zero(before.theta)  # 3
        return Estimate(*inter_slot(before.theta, fitted.theta, moments, t, self.args.inter))

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
