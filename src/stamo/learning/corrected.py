"""The steps of the default: self-training with calibrated, left-out pseudo-labels.

The structure is Algorithm 1's. What differs, and why (measured in docs/replication.md):

- Every margin that is compared with a label, or becomes one, is made without the document's own
  label: features estimated on a document look too good on it.
- A pseudo-label is a probability. The evidence (bias, scale and a linear correction, fitted on
  the left-out margins of L) turns margins into calibrated ones; errors then weigh what they should.
- Of the pseudo-labels as many count in an estimate as are right in nine of ten, by their own
  probabilities, and sure ones of both kinds are weak labels of the evidence.
- The prior stays at its estimate on L: the loop through the prior is what collapses self-training.
- The result is the mean of the labels alone and the last slot, by the mentions of e* each counts:
  a pile that adds few is not worth its errors. Where the pile predicts left-out labels no better,
  the labels alone are kept.
- The pile moves the line between yes and no only as far as the labels alone are sure of the pile:
  where nothing tells the meanings apart it would make whatever the few labels say more extreme.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self, TypeAlias

import numpy as np
import torch
from scipy.special import expit

from stamo.errors import SettingsError
from stamo.features.base import FeatureParams, estimate, view_mentions
from stamo.features.mentions import OTHER
from stamo.features.pile import Sample
from stamo.learning.correction import (
    Correction,
    EvidenceArgs,
    f1_shift,
    fit_correction,
    with_evidence,
)
from stamo.learning.loop import Estimate, Learned, LoopArgs, Steps, Task
from stamo.models.base import Scorer
from stamo.models.evidence import BIAS, SCALE, agree, log_odds, margins_under
from stamo.system.files import Bools, Float32, Float64, Int64

ScoredPart: TypeAlias = tuple[Bools, Scorer]
"""Mentions that are linked with features estimated on the others: mask and scorer."""


@dataclass(frozen=True)
class CorrectedArgs(LoopArgs):
    """The settings of the default reading."""

    n_slots: int = 3
    """Slots at most; pseudo-labels hardly move after the third."""
    patience: int | None = 1
    evidence: EvidenceArgs = field(default_factory=EvidenceArgs)
    n_folds: int = 10
    """Parts of the pile that are linked with features estimated on the others."""
    decision: str = "even"
    """Where to draw the line: `even` links e* where it is more probable than not, `f1`
    maximises the expected F1 on the pile."""
    least_right: float = 0.9
    """Pseudo-labels count in an estimate, the most probable first and none below one half, as long
    as so many of them are right by their own probabilities: where the entity is rare, hundreds of
    other mentions at a tenth each would outweigh its own. 0 counts all."""
    confident: float = 0.9
    """From this probability on a pseudo-label is sure; below the rest of 1 it surely is not e*."""
    pseudo_weight: float = 0.3
    """How much a sure pseudo-label counts beside a label in the evidence; 0 leaves them out."""
    n_pseudo: int = 400
    """Sure pseudo-labels in the evidence at most, by lot: its cost grows with their cube."""
    keep_prior: bool = True
    """Keep the prior at its estimate on L."""
    choose: bool = True
    """Return the labels alone where the pile does not predict the left-out labels better."""
    own_weight: float = 1.0
    """How much a labelled mention of e* counts beside one that the pile adds, in the mean of the
    labels alone and the last slot: beside twenty labels the few that a rare entity adds do as much
    harm as good. 0 takes the last slot alone."""
    unsure: float = 0.8
    """Where the labels alone are right in no more of the pile, by their own probabilities, the pile
    does not move the line."""
    sure: float = 0.92
    """Where they are right in so much of it, the pile moves the line as it moves all else."""
    seed: int = 0

    ranges: ClassVar = {
        **LoopArgs.ranges,
        "n_folds": 2,
        "least_right": (0.0, 1.0),
        "confident": (0.5, 1.0),
        "pseudo_weight": 0,
        "n_pseudo": 0,
        "own_weight": 0,
        "unsure": (0.5, 1.0),
        "sure": (0.5, 1.0),
    }
    resumes: ClassVar[bool] = False
    """Its few slots take less time than reading the documents: they run again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decision not in {"f1", "even"}:
            raise SettingsError(f"The decision is {self.decision!r}; choose even or f1.")
        if self.unsure >= self.sure:
            raise SettingsError(
                f"unsure is {self.unsure:g} and sure {self.sure:g}; give the smaller one first."
            )

    def steps(self, task: Task) -> CorrectedSteps:
        """Return the steps of a run."""
        return CorrectedSteps(task, self)

    def until(self, slot: int) -> Self:
        """Return the settings of a run that ends with a slot, whatever it gave."""
        return replace(self, n_slots=slot, choose=False)

    def shifts(self, posterior: Float32) -> tuple[float, ...]:
        """Return what the decision on each entity adds to its log odds."""
        return tuple(f1_shift(p) if self.decision == "f1" else 0.0 for p in posterior.T)

    def with_decision(self, decision: str) -> Self:
        """Return settings with another line between the entity and the rest."""
        return replace(self, decision=decision)

    def without_view(self, name: str) -> Self:
        """Return settings with one view of a mention less in the evidence."""
        rest = tuple(view for view in self.evidence.views if view.name != name)
        return replace(self, evidence=replace(self.evidence, views=rest))


@dataclass(frozen=True, kw_only=True)
class Corrected(Estimate):
    """θ(e*) with its evidence, and what it says of each mention without the mention's label."""

    odds: Float64  # (M, E)
    fits: tuple[Correction, ...]  # one for each entity

    def towards(self, other: Corrected, weight: float) -> Corrected:
        """Return the weighted mean of θ and odds of this and another."""
        if weight in (0.0, 1.0):
            return other if weight else self
        pairs = ((name, own, other.theta[name]) for name, own in self.theta.groups.items())
        theta = {name: own * (1.0 - weight) + theirs * weight for name, own, theirs in pairs}
        odds = (1.0 - weight) * self.odds + weight * other.odds
        return replace(self, theta=FeatureParams(theta), odds=odds)

    def shifted(self, shift: Float64) -> Corrected:
        """Return the same with something added to the log odds of each entity, (E,)."""
        bias = self.theta[BIAS] + torch.as_tensor(shift, dtype=torch.float32)[:, None]
        return replace(self, theta=self.theta.replace(**{BIAS: bias}), odds=self.odds + shift)


class CorrectedSteps(Steps[Corrected]):
    """Probabilities as pseudo-labels, made of margins that did not see their own label."""

    def __init__(self, task: Task, args: CorrectedArgs) -> None:
        self.task, self.args = task, args
        self.views = view_mentions(task.pile, task.kb, args.evidence.views)
        self.rows = np.flatnonzero(task.labelled)
        _, vote, size = task.pile.votes
        self.weight = 1.0 / size[vote[self.rows]]

    @cached_property
    def folds(self) -> list[ScoredPart]:
        """The pile, divided at random by documents."""
        pile, rng = self.task.pile, np.random.default_rng(self.args.seed)
        fold = rng.permutation(pile.n_documents)[pile.mentions.documents]
        return self._parts(fold % self.args.n_folds)

    def _parts(self, part: Int64) -> list[ScoredPart]:
        """Divide the mentions by the number of their part; those with -1 are in none."""
        masks = [part == k for k in np.unique(part[part >= 0]).tolist()]
        return [(mask, self.task.scorer.take(np.flatnonzero(mask))) for mask in masks]

    def label(self, now: Corrected) -> Float32:
        """Return the posterior of every mention, (M, E); L keeps its labels.

        Mentions of one name in one document mostly share their sense, so their odds meet half-way.
        """
        pile = self.task.pile
        p = expit(agree(now.odds, pile)) * pile.is_candidate
        p = p / np.maximum(p.sum(axis=1, keepdims=True), 1.0)
        return np.where(self.task.labelled[:, None], self.task.labels, p).astype(np.float32)

    def estimate(self, sample: Sample, before: Corrected | None) -> FeatureParams:
        """Estimate every feature but the prior, which stays as L has it."""
        return self._estimate_on(self._counting(sample, before), before)

    def _counting(self, sample: Sample, before: Corrected | None) -> Sample:
        """Return the sample with the pseudo-labels that count in an estimate."""
        if before is None or not self.args.least_right:
            return sample
        return replace(sample, weights=self._mostly_right(sample.weights))

    def _estimate_on(self, sample: Sample, before: Corrected | None) -> FeatureParams:
        theta = estimate(sample, self.task.model.features, self.task.kb)
        if before is None or not self.args.keep_prior or "prior" not in theta.groups:
            return theta
        return theta.replace(prior=before.theta["prior"])

    def _mostly_right(self, weights: Float32) -> Float32:
        """Return the pseudo-labels that count in an estimate, zero for the others, (M, E)."""
        kept = weights.copy()
        for column in kept.T:
            ranked = np.sort(column[~self.task.labelled])[::-1]
            share_right = np.cumsum(ranked) / np.arange(1, len(ranked) + 1)
            enough = ranked[(share_right >= self.args.least_right) & (ranked >= 0.5)]
            column[column < enough.min(initial=1.0)] = 0.0
        return kept

    def fit(self, theta: FeatureParams, sample: Sample, before: Corrected | None) -> Corrected:
        """Link every part of W without its own labels, and fit the evidence on L and sure ones."""
        task, temperature = self.task, self.task.temperature
        counting = self._counting(sample, before)
        documents = np.where(task.labelled, task.pile.mentions.documents, -1)
        parts = self._parts(documents) if before is None else self.folds
        margin = margins_under(task.scorer, theta, temperature)
        for mask, scorer in parts:
            without = self._estimate_on(counting.without(mask), before)
            margin[mask] = margins_under(scorer, without, temperature)
        scaled = np.ascontiguousarray(margin.T, dtype=np.float64) / temperature
        fits, sure = [], [self._sure(column, before) for column in sample.weights.T]
        for own, column, pseudo in zip(scaled, sample.weights.T, sure, strict=True):
            rows = np.concatenate([self.rows, pseudo])
            weight = np.append(self.weight, np.full(len(pseudo), self.args.pseudo_weight))
            label, evidence = column[rows] > 0.5, self.args.evidence
            fits.append(fit_correction(self.views, rows, own[rows], label, weight, evidence))
        theta = with_evidence(theta, fits)
        odds, n = log_odds(margin, theta, self.views, temperature), len(self.rows)
        for entity, (pseudo, fitted) in enumerate(zip(sure, fits, strict=True)):
            odds[pseudo, entity] = fitted.left_out[n:]  # no pseudo-label speaks for itself
        known = tuple(replace(fitted, left_out=fitted.left_out[:n]) for fitted in fits)
        return Corrected(theta, odds=odds, fits=known)

    def _sure(self, pseudo_labels: Float32, before: Corrected | None) -> Int64:
        """Return the mentions whose pseudo-label is sure, one for a name in a document."""
        first, _, _ = self.task.pile.votes
        if before is None or not self.args.pseudo_weight:
            return first[:0]
        p, least = pseudo_labels[first], self.args.confident
        sure = first[~self.task.labelled[first] & ((p >= least) | (p <= 1 - least))]
        if len(sure) <= self.args.n_pseudo:
            return sure
        rng = np.random.default_rng(self.args.seed)
        return np.sort(rng.choice(sure, self.args.n_pseudo, replace=False))

    def finish(self, first: Corrected, last: Corrected, t: int) -> Learned:
        """Average the labels alone and the last slot, where that predicts better; draw the line."""
        by_label = [self._label_likelihoods(now.fits) for now in (first, last)]
        total = max(float(self.weight.sum()), 1e-9)
        alone, with_pile = (float(each @ self.weight) / total for each in by_label)
        share = self._pile_share(first) if with_pile > alone else 0.0
        weight = share if self.args.choose else 1.0
        line = np.zeros(first.odds.shape[1])
        if self.args.choose and weight:
            line = self._line_kept(first, last, weight)
        chosen = first.towards(last, weight).shifted(line)
        posterior = self.label(chosen)
        shifts = self.args.shifts(posterior)
        return Learned(
            theta=chosen.shifted(np.array(shifts)).theta.replace(**self._none()),
            model=self.task.model,
            posterior=posterior,
            used_slot=t if weight else 0,
            shifts=shifts,
            pile_helped=share > 0,
            pile_weight=weight,
            line=tuple(line.tolist()),
            left_out_likelihood=(alone, with_pile),
        )

    def _pile_share(self, first: Corrected) -> float:
        """Return the pile's share of the mentions of e* that count in an estimate."""
        _, vote, size = self.task.pile.votes
        share = 1.0 / size[vote]  # the mentions of a name in a document are one
        counting = self._mostly_right(self.label(first)) > 0
        added = float(share[counting.any(axis=1) & ~self.task.labelled].sum())
        own = float(share[(self.task.labels > 0.5).any(axis=1) & self.task.labelled].sum())
        return added / max(added + self.args.own_weight * own, 1e-9)

    def _line_kept(self, first: Corrected, last: Corrected, weight: float) -> Float64:
        """Return what takes the line back to that of the labels alone, (E,).

        It goes back as far as they are unsure of the pile.
        """
        one_each, _, _ = self.task.pile.votes
        p = self.label(first)[one_each[~self.task.labelled[one_each]]].max(axis=1, initial=0.0)
        right = float(np.maximum(p, 1 - p).mean()) if len(p) else 1.0
        unsure, sure = self.args.unsure, self.args.sure
        kept = 1 - float(np.clip((right - unsure) / (sure - unsure), 0, 1))
        moved = (last.odds - first.odds)[one_each].mean(axis=0)
        return np.asarray(-weight * kept * moved)

    def _none(self) -> dict[str, torch.Tensor]:
        """Learn what tells "none of these" from known namesakes, on labels that mean no e*.

        Nothing is learned where no label says "none of these".

        Returns:
            The groups by name, (E, ...) each.
        """
        other = self.task.labels[self.rows].max(axis=1) < 0.5
        rows, weight = self.rows[other], self.weight[other]
        is_none = self.task.pile.mentions.gold[rows] == OTHER
        if not is_none.any():
            return {}
        evidence = self.args.evidence
        views = tuple(view for view in evidence.views if not view.mean)
        args = replace(evidence, rare=0.0, views=views)
        fitted = fit_correction(self.views, rows, np.zeros(len(rows)), is_none, weight, args)
        found = with_evidence(FeatureParams({}), [fitted] * self.task.labels.shape[1]).groups
        return {n.replace("evidence", "none", 1): v for n, v in found.items() if n != SCALE}

    def _label_likelihoods(self, fits: tuple[Correction, ...]) -> Float64:
        """Return the mean log likelihood of each left-out label, (n,)."""
        labels = self.task.labels[self.rows] > 0.5
        odds = np.stack([fit.left_out for fit in fits], axis=1).clip(-6, 6)
        return np.asarray(-np.logaddexp(0, np.where(labels, -odds, odds)).mean(axis=1))
