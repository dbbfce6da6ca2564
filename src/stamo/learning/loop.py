"""Algorithm 1: the loop of self-training (Sec. 3).

The loop is the same for every way of learning. What it does inside a slot is exchangeable: `Steps`
label U, estimate θ(e*) on L and U, fit it to L, and move θ̂(e*). Those of the paper are in
`stamo.learning.paper`, ours in `stamo.learning.corrected`. Without any slot the loop is the
estimate on L.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from stamo.errors import DivergenceError, LearningError, Ranged, SettingsError
from stamo.features.base import Feature, FeatureParams
from stamo.features.pile import Pile, Sample
from stamo.kb.base import KnowledgeBase
from stamo.models.base import LinkingModel, Scorer
from stamo.models.tables import Tables
from stamo.system.files import Bools, Float32
from stamo.system.processes import one_thread

ALL_SLOTS = "max slots"
"""The loop stopped after the last slot that it was given."""
NO_CHANGE = "no change"
"""The loop stopped since no pseudo-label changed for as many slots as its patience."""


@dataclass(frozen=True)
class Task:
    """What learning works on: the encoded W, the labels of L, and the frozen rest."""

    pile: Pile
    labels: Float32  # (M, E) 1 where a mention of L is the entity
    labelled: Bools  # (M,) which mentions belong to L
    model: LinkingModel
    tables: Tables
    kb: KnowledgeBase
    temperature: float = 1.0
    """The model's, fitted on known entities: margins divided by it are log odds."""

    @property
    def labelled_sample(self) -> Sample:
        """L, to estimate features on."""
        return Sample(self.pile, self.labels, self.labelled.astype(np.float32))

    @cached_property
    def scorer(self) -> Scorer:
        """Scores the whole pile; prepared once for all that learns on the task."""
        return self.model.prepare(self.pile, self.tables)


@dataclass(frozen=True)
class Moments:
    """s and v: the moving averages of δ and δ² (Eq. 15)."""

    s: FeatureParams
    v: FeatureParams


@dataclass(frozen=True)
class Estimate:
    """θ(e*), and what the steps that made it need in the next slot."""

    theta: FeatureParams
    moments: Moments | None = None


E = TypeVar("E", bound=Estimate)


class Steps(ABC, Generic[E]):
    """What happens inside a slot; `before` is None where there is no slot yet, on L alone."""

    task: Task

    @abstractmethod
    def label(self, now: E) -> Float32:
        """Label U under θ̂(e*), (M, E) in [0, 1]; the mentions of L keep their real labels."""

    @abstractmethod
    def estimate(self, sample: Sample, before: E | None) -> FeatureParams:
        """Estimate θ(e*) on labels and pseudo-labels."""

    @abstractmethod
    def fit(self, theta: FeatureParams, sample: Sample, before: E | None) -> E:
        """Fit the estimate to the real labels."""

    def move(self, before: E, fitted: E, t: int) -> E:
        """Move θ̂(e*) from the slot before towards what this one fitted: by default all the way."""
        return fitted

    def looked_up(self, now: E) -> FeatureParams:
        """Return θ̂(e*) as the model looks it up."""
        return now.theta

    def take_up(self, checkpoint: Checkpoint) -> E:
        """Return what a slot ended with, to go on after it."""
        raise LearningError("This way of learning cannot go on after a slot; run all of them.")

    @abstractmethod
    def finish(self, first: E, last: E, t: int) -> Learned:
        """Choose between the labels alone and the last slot."""


@dataclass(frozen=True)
class LoopArgs(Ranged, ABC):
    """How long the loop runs, and by which steps."""

    n_slots: int = 100
    """T, the most slots to run; none estimate on L alone."""
    patience: int | None = 5
    """Stop when no pseudo-label changed for this many slots; None always runs all slots."""

    resumes: ClassVar[bool] = False
    """Whether a run can go on after a slot that an interrupted one finished."""

    ranges: ClassVar = {"n_slots": 0}

    @abstractmethod
    def steps(self, task: Task) -> Steps[Any]:
        """Return the steps of a run."""

    def until(self, slot: int) -> Self:
        """Return the settings of a run that ends with a slot, whatever it gave."""
        return replace(self, n_slots=slot)

    def at_most(self, n_slots: int) -> Self:
        """Return settings with no more slots than these, where slots are what takes time."""
        return self

    def without(self, feature: str) -> Self:
        """Return settings that leave a feature as it is."""
        return self

    def with_decision(self, decision: str) -> Self:
        """Return settings with another line between the entity and the rest."""
        raise SettingsError("This reading has no decision to choose.")

    def without_view(self, name: str) -> Self:
        """Return settings with one view of a mention less in the evidence."""
        raise SettingsError("This reading has no views to leave out.")

    def shifts(self, posterior: Float32) -> tuple[float, ...]:
        """Return what the decision on each entity adds to its log odds."""
        return (0.0,) * int(posterior.shape[1])


@dataclass(frozen=True)
class Reading:
    """How to learn: which features estimate θ(e*), and which steps follow."""

    name: str
    features: Mapping[str, Feature]
    """Features that replace the model's own of the same name."""
    args: LoopArgs
    """The loop and its steps."""
    adapt_model: Callable[[LinkingModel], LinkingModel] | None = field(default=None, repr=False)
    """Changes how the model scores, φ being shared and unchanged; None leaves it as it is."""

    def task(self, task: Task) -> Task:
        """Return a task with the model as this reading uses it; φ is shared and unchanged."""
        features = tuple(self.features.get(f.name, f) for f in task.model.features)
        model = task.model.with_features(features)
        if self.adapt_model is not None:
            model = self.adapt_model(model)
        return replace(task, model=model)

    def with_decision(self, decision: str) -> Reading:
        """Return the reading with another line between the entity and the rest.

        Raises:
            SettingsError: It draws no line of its own, or there is no such one.
        """
        return replace(self, args=self.args.with_decision(decision))

    def with_slots(self, n_slots: int) -> Reading:
        """Return the reading with another number of slots; one without any stays so."""
        if not self.args.n_slots:
            return self
        return replace(self, args=replace(self.args, n_slots=n_slots))


@dataclass(frozen=True)
class Checkpoint:
    """What the loop needs to go on after a slot."""

    number: int
    theta_hat: FeatureParams
    pseudo_labels: Float32  # (M, E) of all mentions; those of L carry their labels
    moments: Moments | None = None
    n_unchanged: int = 0
    """Slots since a pseudo-label changed."""


@dataclass(frozen=True, kw_only=True)
class Slot(Checkpoint):
    """What one slot did; a run can go on after it."""

    theta: FeatureParams
    """θ̂(e*) at its end, as the model looks it up."""
    n_flipped: int = 0
    """Mentions whose entity changed since the slot before."""
    shifts: tuple[float, ...] = ()
    """What the decision on each entity adds to its log odds."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Learned:
    """What a run gave: θ̂(e*) of all entities of a pile, and how it came to it."""

    theta: FeatureParams
    """As the model looks it up."""
    model: LinkingModel
    posterior: Float32
    """How far each mention of W is each entity by θ̂(e*), (M, E); L keeps its labels."""
    used_slot: int
    """The slot that θ̂(e*) is of; 0 for the labels alone."""
    shifts: tuple[float, ...]
    """What the decision added to the log odds of each entity; confidences leave it out."""
    line: tuple[float, ...]
    """What was added to the log odds of each entity after labels and pile were put together."""
    pile_helped: bool | None = None
    """Whether the unlabelled documents helped; None where the steps do not ask."""
    pile_weight: float = 1.0
    """How much of θ̂(e*) is of `used_slot`; the rest is of the labels alone."""
    left_out_likelihood: tuple[float, float] | None = None
    """Mean log likelihood of the left-out labels: with the labels alone, and with the pile."""
    stopped: str = ALL_SLOTS
    """Why the loop ended: `max slots` or `no change`."""


OnSlot = Callable[[Slot], None]


@one_thread()
def self_train(
    task: Task,
    args: LoopArgs,
    *,
    on_slot: OnSlot = lambda slot: None,
    on_first: OnSlot | None = None,
    resume: Checkpoint | None = None,
) -> Learned:
    """Learn θ̂(e*) by self-training as multiple optimisations (Algorithm 1).

    A run that stopped after any slot goes on from its checkpoint, and ends with the same θ̂(e*) as
    if it had never stopped. `on_first` sees the labels alone as slot 0, `on_slot` all that follow.

    Raises:
        LearningError: There is nothing to learn from: neither a label nor a line about an entity.
    """
    if not task.labelled.any() and not any(entity.line for entity in task.pile.entities):
        raise LearningError(
            "None of the candidate mentions is labelled; label about twenty documents first, or "
            "write a line about the entity."
        )
    steps, labelled = args.steps(task), task.labelled_sample
    everything = np.ones(len(task.pile), dtype=np.float32)
    theta = steps.estimate(labelled, None)  # 1   θ⁰
    theta_hat = first = steps.fit(theta, labelled, None)  # 2   θ̂⁰, Eq. 13
    if on_first is not None:
        alone, weights = steps.looked_up(theta_hat), steps.label(theta_hat)
        on_first(Slot(0, theta_hat.theta, weights, theta=alone, shifts=args.shifts(weights)))
    t, before, unchanged = 0, None, 0
    if resume is not None:
        theta_hat = steps.take_up(resume)
        t, before, unchanged = resume.number, resume.pseudo_labels > 0.5, resume.n_unchanged
    while t < args.n_slots and (args.patience is None or unchanged < args.patience):  # 4
        t, start = t + 1, time.perf_counter()
        weights = steps.label(theta_hat)  # 5   ê, m ∈ U
        sample = Sample(task.pile, weights, everything)
        theta = steps.estimate(sample, theta_hat)  # 6   θᵗ
        theta_intra = steps.fit(theta, sample, theta_hat)  # 7   Eq. 13
        theta_hat = steps.move(theta_hat, theta_intra, t)  # 8 to 13, Eq. 17
        _check_finite(theta_hat.theta, t)
        seconds, hard = time.perf_counter() - start, weights > 0.5
        n_flipped = len(hard) if before is None else int((before != hard).any(axis=1).sum())
        before, unchanged = hard, 0 if n_flipped else unchanged + 1
        now = Slot(
            number=t,
            theta_hat=theta_hat.theta,
            pseudo_labels=weights,
            moments=theta_hat.moments,
            n_unchanged=unchanged,
            theta=steps.looked_up(theta_hat),
            n_flipped=n_flipped,
            shifts=args.shifts(weights),
            seconds=seconds,
        )
        on_slot(now)  # 14
    stopped = ALL_SLOTS if t >= args.n_slots else NO_CHANGE
    return replace(steps.finish(first, theta_hat, t), stopped=stopped)  # 15  θ̂ᵀ


def _check_finite(theta: FeatureParams, t: int) -> None:
    """Say in which group of θ(e*) a value stopped being a finite number."""
    for name, values in theta.groups.items():
        if not bool(values.isfinite().all()):
            raise DivergenceError(
                f"Slot {t}: the {name!r} group of θ(e*) holds a value that is not finite; "
                f"lower the learning rate of this group."
            )
