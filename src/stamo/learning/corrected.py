"""The default reading: self-training with calibrated, left-out pseudo-labels.

The structure is Algorithm 1's. What differs, and why (measured in docs/replication.md):

- Every margin that is compared with a label, or becomes one, is made without the document's own
  label: features estimated on a document look too good on it.
- A pseudo-label is a probability. The evidence (bias, scale and a linear correction, fitted on
  the left-out margins of L) turns margins into calibrated ones; errors then weigh what they should.
- The prior stays at its estimate on L: the loop through the prior is what collapses self-training.
- The run compares the pile with the labels alone by the left-out likelihood of L, and keeps the
  labels alone where the pile did not help.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from stamo.errors import SettingsError
from stamo.features.base import estimate
from stamo.features.encoding import FloatArray
from stamo.features.params import FeatureParams
from stamo.features.pile import Sample
from stamo.learning.algorithm import OnSlot, Slot, Task
from stamo.learning.correction import Correction, EvidenceArgs, fit_correction, with_evidence
from stamo.models.base import Scorer
from stamo.models.evidence import BIAS, log_odds, margins_under, mention_views


@dataclass(frozen=True)
class CorrectedArgs:
    """The settings of the default reading."""

    n_slots: int = 3
    """Slots at most; pseudo-labels hardly move after the third."""
    evidence: EvidenceArgs = field(default_factory=EvidenceArgs)
    n_folds: int = 10
    """Parts of the pile that are linked with features estimated on the others."""
    decision: str = "f1"
    """Where to draw the line: `f1` maximises the expected F1 on the pile, `accuracy` links e*
    where it is more probable than not."""
    keep_prior: bool = True
    """Keep the prior at its estimate on L."""
    choose: bool = True
    """Return the labels alone where the pile predicts the left-out labels worse."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_slots < 0 or self.n_folds < 2:
            raise SettingsError("Give 0 or more slots and at least 2 folds.")
        if self.decision not in {"f1", "accuracy"}:
            raise SettingsError(f"The decision is {self.decision!r}; choose f1 or accuracy.")


@dataclass(frozen=True)
class Learned:
    """What learning returns: θ̂(e*), and whether the unlabelled pile helped."""

    theta: FeatureParams
    pile_helped: bool
    left_out_likelihood: tuple[float, float]
    """Mean log likelihood of the left-out labels: with the labels alone, and with the pile."""
    posterior: FloatArray  # (M, E) of every mention of W


def learn_corrected(
    task: Task,
    temperature: float,
    args: CorrectedArgs = CorrectedArgs(),
    *,
    on_slot: OnSlot = lambda slot: None,
) -> Learned:
    """Learn θ̂(e*) with evidence; `temperature` is the model's, fitted on known entities."""
    run = _Run(task, temperature, args)
    on_l = Sample(task.pile, task.labels, task.labelled.astype(np.float32))
    theta, odds, fits = run.slot(on_l, run.labelled_folds, None)  # 1, 2
    first, best = (theta, odds, fits), (theta, odds, fits)
    prior = theta["prior"] if args.keep_prior and "prior" in theta.groups else None
    before = None
    for t in range(1, args.n_slots + 1):  # 4
        start = time.perf_counter()
        weights = run.pseudo_label(best[1])  # 5
        everything = Sample(task.pile, weights, np.ones(len(task.pile), dtype=np.float32))
        best = run.slot(everything, run.folds, prior)  # 6, 7
        best[0].check_finite(f"Slot {t}")
        hard = weights > 0.5
        n_flipped = len(hard) if before is None else int((before != hard).any(axis=1).sum())
        before = hard
        seconds = {"slot": time.perf_counter() - start}
        on_slot(Slot(t, best[0], weights, n_flipped, seconds))
        if not n_flipped:
            break
    likelihood = (run.likelihood(first[2]), run.likelihood(best[2]))
    helped = likelihood[1] >= likelihood[0] - run.tolerance(first[2], best[2])
    theta, odds, _ = best if helped or not args.choose else first
    posterior = run.pseudo_label(odds)
    if args.decision == "f1":
        theta = _shift(theta, posterior)
    return Learned(theta, helped, likelihood, posterior)


Step = tuple[FeatureParams, NDArray[np.float64], list[Correction]]


class _Run:
    """The parts of one run that do not change from slot to slot."""

    def __init__(self, task: Task, temperature: float, args: CorrectedArgs) -> None:
        self.task, self.args, self.temperature = task, args, temperature
        self.scorer = task.model.prepare(task.pile, task.tables)
        self.views = mention_views(task.pile, task.kb)
        self.rows = np.flatnonzero(task.labelled)
        _, vote, size = task.pile.votes
        self.weight = 1.0 / size[vote[self.rows]]
        documents = task.pile.mentions.documents
        rng = np.random.default_rng(args.seed)
        fold = rng.permutation(task.pile.n_documents)[documents] % args.n_folds
        self.folds = self._parts([fold == k for k in range(args.n_folds)])
        labelled = np.unique(documents[self.rows])
        self.labelled_folds = self._parts(
            [task.labelled & (documents == d) for d in labelled.tolist()]
        )

    def _parts(
        self, masks: list[NDArray[np.bool_]]
    ) -> list[tuple[NDArray[np.int64], NDArray[np.bool_], Scorer]]:
        parts = [(np.flatnonzero(mask), mask) for mask in masks if mask.any()]
        return [(rows, mask, self.scorer.take(rows)) for rows, mask in parts]

    def slot(
        self,
        sample: Sample,
        folds: list[tuple[NDArray[np.int64], NDArray[np.bool_], Scorer]],
        prior: torch.Tensor | None,
    ) -> Step:
        """Estimate θ, link every part without its own labels, and fit the evidence on L."""
        task = self.task
        theta = self._estimate(sample, prior)
        margin = self._margin(self.scorer, theta)
        for rows, mask, scorer in folds:
            margin[rows] = self._margin(scorer, self._estimate(sample.without(mask), prior))
        scaled = margin.astype(np.float64) / self.temperature
        fits = [
            fit_correction(
                self.views,
                self.rows,
                scaled[self.rows, e],
                task.labels[self.rows, e] > 0.5,
                self.weight,
                self.args.evidence,
            )
            for e in range(task.labels.shape[1])
        ]
        theta = with_evidence(theta, fits)
        return theta, log_odds(margin, theta, self.views, self.temperature), fits

    def _estimate(self, sample: Sample, prior: torch.Tensor | None) -> FeatureParams:
        theta = estimate(sample, self.task.features, self.task.kb)
        return theta if prior is None else theta.replace(prior=prior)

    def _margin(self, scorer: Scorer, theta: FeatureParams) -> NDArray[np.float32]:
        return margins_under(scorer, theta, self.temperature)

    def pseudo_label(self, odds: NDArray[np.float64]) -> FloatArray:
        """Return the posterior of every mention, (M, E); L keeps its labels.

        Mentions of one name in one document share their sense, so their odds are averaged.
        """
        pile = self.task.pile
        _, vote, size = pile.votes
        columns = [np.bincount(vote, weights=column) / size for column in odds.T]
        p = expit(np.stack(columns, axis=1)[vote]) * pile.is_candidate
        p = p / np.maximum(p.sum(axis=1, keepdims=True), 1.0)
        return np.where(self.task.labelled[:, None], self.task.labels, p).astype(np.float32)

    def _label_likelihoods(self, fits: list[Correction]) -> NDArray[np.float64]:
        labels = self.task.labels[self.rows] > 0.5
        odds = np.stack([fit.left_out for fit in fits], axis=1).clip(-6, 6)
        return np.asarray(-np.logaddexp(0, np.where(labels, -odds, odds)).mean(axis=1))

    def likelihood(self, fits: list[Correction]) -> float:
        """Return the mean log likelihood of the left-out labels."""
        return float(np.average(self._label_likelihoods(fits), weights=self.weight))

    def tolerance(self, first: list[Correction], second: list[Correction]) -> float:
        """Return one standard error of the difference: less than that says nothing."""
        gap = self._label_likelihoods(second) - self._label_likelihoods(first)
        return float(gap.std() / np.sqrt(max(len(gap), 1)))


def _shift(theta: FeatureParams, posterior: FloatArray) -> FeatureParams:
    """Move the bias so that linking where f > 0 maximises the expected F1 on the pile."""
    shifts = [f1_shift(column) for column in posterior.T]
    bias = theta[BIAS] + torch.as_tensor(shifts, dtype=torch.float32)[:, None]
    return theta.replace(**{BIAS: bias})


def f1_shift(posterior: NDArray[np.float32]) -> float:
    """Return the log odds to add so that the best threshold for expected F1 becomes 0.

    The threshold stays within [0.2, 0.5]: the optimum for F1 is never above one half.
    """
    ranked = np.sort(posterior.astype(np.float64))[::-1]
    if not len(ranked) or ranked.sum() <= 0:
        return 0.0
    n = np.arange(1, len(ranked) + 1)
    best = int((2 * np.cumsum(ranked) / (n + ranked.sum())).argmax())
    threshold = (ranked[best] + ranked[min(best + 1, len(ranked) - 1)]) / 2
    threshold = float(np.clip(threshold, 0.2, 0.5))
    return float(np.log((1 - threshold) / threshold))
