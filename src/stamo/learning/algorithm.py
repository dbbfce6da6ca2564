"""Algorithm 1: self-training as multiple optimisations (Sec. 3)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from stamo.errors import LearningError, SettingsError
from stamo.features.base import Feature, estimate
from stamo.features.encoding import FloatArray
from stamo.features.params import FeatureParams
from stamo.features.pile import Evidence, Pile
from stamo.kb.base import KnowledgeBase
from stamo.learning.inter import InterSlotArgs, Moments, inter_slot
from stamo.learning.intra import IntraSlotArgs, gold_columns, intra_slot
from stamo.models.base import LinkingModel, Scorer, Tables, Theta, ThetaBack


@dataclass(frozen=True)
class StamoArgs:
    """The settings of Algorithm 1; the defaults are the paper's."""

    n_slots: int = 100
    """T, the most slots to run (PAPER-NOTES 9)."""
    intra: IntraSlotArgs = field(default_factory=IntraSlotArgs)
    first_intra: IntraSlotArgs | None = None
    """Intra-slot optimisation on L alone, before the first slot; None uses `intra`."""
    inter: InterSlotArgs | None = field(default_factory=InterSlotArgs)
    """Inter-slot optimisation; None takes θ_intra as it is (vanilla Self-Training)."""
    first_features: tuple[Feature, ...] | None = None
    """Features that estimate θ⁰ on L; None uses the task's."""
    relatedness_scale: bool = False
    """Learn one number that multiplies the relatedness row, never reset between slots, as the
    published experiments did."""
    patience: int | None = 5
    """Stop when no pseudo-label changed for this many slots; None always runs all slots."""

    def __post_init__(self) -> None:
        if self.n_slots < 0:
            raise SettingsError(f"The number of slots is {self.n_slots}; give 0 or more.")


@dataclass(frozen=True)
class Task:
    """What learning works on: the encoded W, the labels of L, and the frozen rest."""

    pile: Pile
    labels: FloatArray  # (M, E) 1 where a mention of L is the entity
    labelled: NDArray[np.bool_]  # (M,) which mentions belong to L
    model: LinkingModel
    tables: Tables
    features: tuple[Feature, ...]
    kb: KnowledgeBase

    def __post_init__(self) -> None:
        if not self.labelled.any():
            raise LearningError(
                "None of the candidate mentions is labelled; label about twenty documents first."
            )


@dataclass(frozen=True)
class Slot:
    """What one slot did."""

    number: int
    theta_hat: FeatureParams
    pseudo_labels: FloatArray  # (M, E) of all mentions; those of L carry their labels
    n_flipped: int  # unlabelled mentions whose entity changed since the slot before
    seconds: Mapping[str, float]
    moments: Moments | None = None
    n_unchanged: int = 0  # slots since a pseudo-label changed


OnSlot = Callable[[Slot], None]


def pseudo_label(scores: torch.Tensor, n_entities: int) -> FloatArray:
    """Return 1 for the emerging entity that scores highest of all candidates, (M, E)."""
    best = scores.argmax(dim=1, keepdim=True)
    first = scores.shape[1] - n_entities
    return (best == torch.arange(first, scores.shape[1])).numpy().astype(np.float32)


def stamo(
    task: Task,
    args: StamoArgs = StamoArgs(),
    *,
    on_slot: OnSlot = lambda slot: None,
    resume: Slot | None = None,
) -> FeatureParams:
    """Learn θ̂(e*) by self-training as multiple optimisations (Algorithm 1).

    A run that stopped after any slot goes on from what `on_slot` saw of it, and ends with the same
    θ̂(e*) as if it had never stopped.
    """
    pile, features, kb = task.pile, task.features, task.kb
    scorer = task.model.prepare(pile, task.tables)
    if args.relatedness_scale:
        scorer = _ScaledScorer(scorer)
    labelled_scorer, gold = labelled_part(task, scorer)
    everything = np.ones(len(pile), dtype=np.float32)
    clock = _Clock()

    if resume is None:
        on_l = Evidence(pile, task.labels, task.labelled.astype(np.float32))
        theta = _estimate(on_l, args.first_features or features, kb, args)  # 1   θ⁰
        first = args.first_intra or args.intra
        theta_hat = intra_slot(theta, labelled_scorer, gold, first)  # 2   θ̂⁰, Eq. 13
        moments = Moments(theta_hat.zeros(), theta_hat.zeros())  # 3
        start, before, unchanged = 0, None, 0
    else:
        start, theta_hat, before = resume.number, resume.theta_hat, resume.pseudo_labels
        moments = resume.moments or Moments(theta_hat.zeros(), theta_hat.zeros())
        unchanged = resume.n_unchanged
    for t in range(start + 1, args.n_slots + 1):  # 4
        if args.patience is not None and unchanged >= args.patience:
            break
        with clock("link"):
            weights = link(task, scorer, theta_hat)  # 5   ê, m ∈ U
        with clock("estimate"):
            evidence = Evidence(pile, weights, everything)
            theta = _estimate(evidence, features, kb, args, theta_hat)  # 6   θᵗ
        with clock("intra"):
            theta_intra = intra_slot(theta, labelled_scorer, gold, args.intra)  # 7   Eq. 13
        with clock("inter"):
            if args.inter is None:
                theta_hat = theta_intra  # Eq. 14
            else:
                theta_hat, moments = inter_slot(theta_hat, theta_intra, moments, t, args.inter)
        theta_hat.check_finite(f"Slot {t}")
        n_flipped = len(pile) if before is None else int((before != weights).any(axis=1).sum())
        before, unchanged = weights, unchanged + 1 if not n_flipped else 0
        on_slot(Slot(t, theta_hat, weights, n_flipped, clock.lap(), moments, unchanged))
    return _folded(theta_hat)  # 15  θ̂ᵀ


RELATEDNESS_SCALE = "relatedness scale"


def _estimate(
    evidence: Evidence,
    features: tuple[Feature, ...],
    kb: KnowledgeBase,
    args: StamoArgs,
    previous: FeatureParams | None = None,
) -> FeatureParams:
    theta = estimate(evidence, features, kb)
    if not args.relatedness_scale:
        return theta
    one = torch.ones(len(evidence.pile.entities), 1)
    return theta.replace(
        **{RELATEDNESS_SCALE: one if previous is None else previous[RELATEDNESS_SCALE]}
    )


def _folded(theta: FeatureParams) -> FeatureParams:
    """Multiply the relatedness row by its scale, if one was learned."""
    if RELATEDNESS_SCALE not in theta.groups:
        return theta
    scaled = theta.replace(relatedness=theta["relatedness"] * theta[RELATEDNESS_SCALE])
    return FeatureParams({n: v for n, v in scaled.groups.items() if n != RELATEDNESS_SCALE})


@dataclass(frozen=True)
class _ScaledScorer:
    """A scorer under a θ(e*) whose relatedness row has a scale of its own."""

    scorer: Scorer

    @property
    def model(self) -> LinkingModel:
        return self.scorer.model

    @property
    def pile(self) -> Pile:
        return self.scorer.pile

    def __call__(self, theta: FeatureParams) -> torch.Tensor:
        return self.scorer(_folded(theta))

    def take(self, rows: NDArray[np.int64]) -> _ScaledScorer:
        return _ScaledScorer(self.scorer.take(rows))

    def slope(self, theta: Theta, rng: np.random.Generator | None) -> tuple[FloatArray, ThetaBack]:
        row, scale = theta["relatedness"], theta[RELATEDNESS_SCALE]
        scores, unscaled = self.scorer.slope({**theta, "relatedness": row * scale}, rng)

        def back(by_score: FloatArray) -> dict[str, FloatArray]:
            gradients = unscaled(by_score)
            by_row = gradients["relatedness"]
            by_scale = (by_row * row).sum(axis=1, keepdims=True)
            return {**gradients, "relatedness": by_row * scale, RELATEDNESS_SCALE: by_scale}

        return scores, back


def link(task: Task, scorer: Scorer, theta: FeatureParams) -> FloatArray:
    """Label U by the model under θ(e*); the mentions of L keep their real labels."""
    with torch.no_grad():
        predicted = pseudo_label(scorer(theta), task.labels.shape[1])
    return np.where(task.labelled[:, None], task.labels, predicted)


def labelled_part(task: Task, scorer: Scorer) -> tuple[Scorer, NDArray[np.int64]]:
    """Return a scorer of L and the gold column of each of its mentions.

    Mentions whose gold entity is no candidate at all teach nothing inside a slot and are left out.
    """
    mentions = task.pile.mentions
    width = mentions.candidates.shape[1] + task.labels.shape[1]
    gold = gold_columns(width, mentions.gold_column(), task.labels)
    rows = np.flatnonzero(task.labelled & (gold >= 0))
    return scorer.take(rows), gold[rows]


class _Clock:
    """Seconds spent in each phase of a slot."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._phase, self._start = "", 0.0

    def __call__(self, phase: str) -> _Clock:
        self._phase = phase
        return self

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        spent = time.perf_counter() - self._start
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + spent

    def lap(self) -> Mapping[str, float]:
        """Return the seconds since the last lap."""
        seconds, self._seconds = self._seconds, {}
        return seconds
