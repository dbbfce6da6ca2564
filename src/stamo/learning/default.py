"""Our default: Algorithm 1 with calibrated, left-out pseudo-labels.

The structure is Algorithm 1's. What differs, and why (measured in docs/wild.md):

- What margin and views are worth before any label, and how far labels move it, is learned from
  other entities (`stamo.models.weights`).
- Beside a description the pile adds nothing and is left alone; without one:


- Every margin that is compared with a label, or becomes one, is made without the document's own
  label: features estimated on a document look too good on it.
- A pseudo-label is a probability. The correction (bias, scale and weights of the views, fitted on
  the left-out margins of L) turns margins into calibrated ones; errors then weigh what they should.
- Of the pseudo-labels as many count in an estimate as are right in nine of ten, by their own
  probabilities, and sure ones of both kinds are weak labels of the correction.
- The prior stays at its estimate on L: the loop through the prior is what collapses self-training.
- The result is the mean of the labels alone and the last slot, by the mentions of e* each counts:
  a pile that adds few is not worth its errors. Where the pile predicts left-out labels no better,
  the labels alone are kept.
- The pile moves the threshold only as far as the labels alone are sure of the pile: where nothing
  tells the meanings apart it would make whatever the few labels say more extreme.
- Beside a description the pile adds nothing and is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from stamo.errors import Ranged, SettingsError
from stamo.features.base import Feature, Rows, Theta, View, estimate
from stamo.features.mentions import OTHER
from stamo.features.pile import Pile, Sample
from stamo.learning.algorithm1 import (
    ALL_SLOTS,
    NO_CHANGE,
    Learned,
    OnSlot,
    Slot,
    check_finite,
    check_labels,
    ignore,
)
from stamo.models.base import Frozen, Model
from stamo.models.correction import BIAS, SCALE, VIEWS, agree, log_odds, margins
from stamo.models.weights import Weights, situation_of, weights_for
from stamo.system.files import Bools, Float32, Float64, Int64
from stamo.system.processes import one_thread

N_FOLDS = 10
"""Parts of the pile that are linked with features estimated on the others."""
LEAST_RIGHT = 0.9
"""Pseudo-labels count in an estimate, the most probable first and none below one half, as long as
this share of them is right by their own probabilities: where the entity is rare, hundreds of other
mentions at a tenth each would outweigh its own."""
CONFIDENT = 0.9
"""From this probability on a pseudo-label is sure; below the rest of 1 it surely is not e*."""
PSEUDO_WEIGHT = 0.3
"""How much a sure pseudo-label counts beside a label in the correction."""
N_PSEUDO = 400
"""Sure pseudo-labels in the correction at most, by lot: its cost grows with their cube."""
UNSURE, SURE = 0.8, 0.92
"""Where the labels alone are right in no more of the pile than the first, by their own
probabilities, the pile does not move the threshold; from the second on it moves it fully."""


@dataclass(frozen=True)
class DefaultArgs(Ranged):
    """The settings of the default."""

    n_slots: int = 3
    """Slots at most; pseudo-labels hardly move after the third."""
    decision: str = "even"
    """The threshold: `even` links e* where it is more probable than not, `f1` maximises the
    expected F1 on the pile."""
    views: tuple[View, ...] = VIEWS
    """What the correction may weigh."""
    weights: Mapping[str, Any] | None = None
    """What everything is worth before any label speaks, by situation; None: the package's own."""
    choose: bool = True
    """Return the labels alone where the pile does not predict the left-out labels better."""

    ranges: ClassVar = {"n_slots": 0}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decision not in {"f1", "even"}:
            raise SettingsError(f"The decision is {self.decision!r}; choose even or f1.")


@one_thread()
def learn_default(
    pile: Pile,
    model: Model,
    features: Mapping[str, Feature],
    args: DefaultArgs = DefaultArgs(),
    on_slot: OnSlot = ignore,
    *,
    temperature: float = 1.0,
) -> Learned:
    """Learn θ̂(e*) by self-training with probabilities as pseudo-labels.

    Args:
        pile: W, with the labels of L.
        model: g with its frozen φ.
        features: The estimators, in place of the model's own of the same names.
        args: Slots, threshold, views.
        on_slot: Sees the labels alone as slot 0, then every slot.
        temperature: The model's: margins divided by it are log odds of known entities.

    Raises:
        LearningError: There is neither a label nor a description of an entity.
    """
    check_labels(pile)
    model = model.with_features(features)
    frozen, features_read = model.freeze(pile), model.features
    labelled = pile.sample()
    # Each document of L is left out once while θ is estimated on the others.
    theta = estimate(labelled, features_read)  # 1   θ⁰
    documents = np.where(pile.labelled, pile.mentions.documents, -1)
    margin = left_out_margins(frozen, theta, labelled, documents, {}, temperature)
    first = last = fit(pile, theta, margin, pile.labels, False, args, temperature)  # 2   θ̂⁰
    prior = {name: theta[name] for name in ("prior",) if name in theta}
    folds = np.random.default_rng(0).permutation(pile.n_documents)[pile.mentions.documents]
    # Beside a description the pile adds nothing (docs/wild.md).
    most = 0 if any(entity.description for entity in pile.entities) else args.n_slots
    t, is_still, before = 0, False, np.zeros(0, dtype=bool)
    pseudo = posterior(first[1], pile)
    on_slot(Slot(0, first[0], pseudo, shifts=shifts(pseudo, args)))
    while t < most and not is_still:  # 4
        t, start = t + 1, time.perf_counter()
        pseudo = posterior(last[1], pile)  # 5   p(e*|m), m ∈ U
        counting = pile.sample(mostly_right(pseudo, pile))
        theta = {**estimate(counting, features_read), **prior}  # 6   θᵗ
        margin = left_out_margins(frozen, theta, counting, folds % N_FOLDS, prior, temperature)
        last = fit(pile, theta, margin, pseudo, True, args, temperature)  # 7 to 13   θ̂ᵗ
        check_finite(last[0], t)
        hard = pseudo > 0.5
        n_flipped = len(pile) if t == 1 else int((before != hard).any(axis=1).sum())
        before, is_still = hard, not n_flipped
        seconds = time.perf_counter() - start
        on_slot(Slot(t, last[0], pseudo, n_flipped, shifts(pseudo, args), seconds))  # 14
    stopped = ALL_SLOTS if t >= most else NO_CHANGE
    return put_together(pile, model, first, last, t, stopped, args)  # 15


Fit = tuple[dict[str, Float32], Float64, Float64]
"""θ(e*) with its correction; the log odds of every mention made without its own label, (M, E); and
those of the labels, (n, E)."""


def left_out_margins(
    frozen: Frozen,
    theta: Theta,
    sample: Sample,
    part: Int64,
    prior: Theta,
    temperature: float,
) -> Float32:
    """Return the margin of every mention under features estimated without its part, (M, E).

    Args:
        frozen: Scores the pile.
        theta: θ(e*) of the whole sample, for mentions that are in no part.
        sample: Labels and pseudo-labels.
        part: The number of each mention's part, -1 for those in none, (M,).
        prior: What replaces the estimate of the prior.
        temperature: The model's.
    """
    margin = margins(frozen, theta, temperature)
    for k in np.unique(part[part >= 0]).tolist():
        mask = part == k
        others = replace(sample, counted=np.where(mask, np.float32(0), sample.counted))
        without = {**estimate(others, frozen.model.features), **prior}
        margin[mask] = margins(frozen.take(np.flatnonzero(mask)), without, temperature)
    return margin


def posterior(odds: Float64, pile: Pile) -> Float32:
    """Return the probability that each mention means each entity, (M, E); L keeps its labels.

    Mentions of one name in one document mostly share their sense, so their odds meet half-way.
    """
    p = expit(agree(odds, pile)) * pile.is_candidate
    p = p / np.maximum(p.sum(axis=1, keepdims=True), 1.0)
    return np.where(pile.labelled[:, None], pile.labels, p).astype(np.float32)


def mostly_right(pseudo_labels: Float32, pile: Pile) -> Float32:
    """Return the pseudo-labels that count in an estimate, zero for the others, (M, E)."""
    kept = pseudo_labels.copy()
    for column in kept.T:
        ranked = np.sort(column[~pile.labelled])[::-1]
        share_right = np.cumsum(ranked) / np.arange(1, len(ranked) + 1)
        enough = ranked[(share_right >= LEAST_RIGHT) & (ranked >= 0.5)]
        column[column < enough.min(initial=1.0)] = 0.0
    return kept


def fit(
    pile: Pile,
    theta: Theta,
    margin: Float32,
    pseudo_labels: Float32,
    with_sure: bool,
    args: DefaultArgs,
    temperature: float,
) -> Fit:
    """Fit the correction of each entity on L and, with `with_sure`, on sure pseudo-labels."""
    labelled, weight = np.flatnonzero(pile.labelled), label_weights(pile)
    first, _, _ = pile.votes
    worth = weights_for(situation_of(pile), args.weights)
    groups: list[Mapping[str, Float64]] = []
    left_out, sure_odds = [], []
    for e, pseudo in enumerate(pseudo_labels.T):
        p = pseudo[first]
        is_sure = ~pile.labelled[first] & ((p >= CONFIDENT) | (p <= 1 - CONFIDENT))
        sure = first[is_sure & with_sure]  # one for a name in a document
        if len(sure) > N_PSEUDO:
            sure = np.sort(np.random.default_rng(0).choice(sure, N_PSEUDO, replace=False))
        rows = np.concatenate([labelled, sure])
        weights = np.append(weight, np.full(len(sure), PSEUDO_WEIGHT))
        own = np.ascontiguousarray(margin[rows, e], dtype=np.float64) / temperature
        is_e = pseudo[rows] > 0.5
        found, odds = fit_correction(pile, rows, own, is_e, weights, args.views, worth)
        groups.append(found)
        left_out.append(odds[: len(labelled)])
        sure_odds.append((sure, odds[len(labelled) :]))
    stacked = {n: np.stack([own[n] for own in groups]).astype(np.float32) for n in groups[0]}
    theta = {**theta, **stacked}
    every, _ = log_odds(margin, pile, theta, temperature)
    for e, (sure, odds) in enumerate(sure_odds):
        every[sure, e] = odds  # no pseudo-label speaks for itself
    return theta, every, np.stack(left_out, axis=1)


def label_weights(pile: Pile) -> Float64:
    """Return what each labelled mention counts: those of a name in a document share a vote."""
    _, vote, size = pile.votes
    return np.asarray(1.0 / size[vote[np.flatnonzero(pile.labelled)]])


def fit_correction(
    pile: Pile,
    rows: Int64,
    margin: Float64,
    label: Bools,
    weight: Float64,
    views: Sequence[View],
    prior: Weights,
) -> tuple[dict[str, Float64], Float64]:
    """Fit the correction of one entity (`stamo.models.correction`) on its labels.

    With twenty labels and thousands of words and neighbours this is a Gaussian process: the
    corrections of two mentions are alike where their views are alike, and the prior variances say
    how far the labels may move bias, scale and weights away from the model's own margin. It is
    linear, so it can be written as weights again.

    Args:
        pile: The mean row of all its mentions centres a view.
        rows: The labelled mentions.
        margin: margin / τ of each, made without its own label, (n,).
        label: Whether each means the entity, (n,).
        weight: How much each counts, (n,).
        views: What may be weighed.
        prior: What everything is worth before the labels speak.

    Returns:
        The groups of θ(e*), and the log odds of each label, fitted without it, (n,).
    """
    seen = []  # each view, its rows at the labels, and the pile's mean where it is taken off
    for view in views:
        everyone = pile.rows(view)
        if everyone.shape[1]:
            centre = everyone.mean(axis=0) if view.is_centred else None
            own = everyone[rows] if centre is None else everyone[rows] - centre
            mean = np.array(prior.mean.get(view.name, (0.0,)))
            seen.append((view, own, centre, mean, np.array(prior.variance.get(view.name, (1.0,)))))
    # What share of the margin counts before the labels judge it: without any positive label nothing
    # was estimated that a margin could speak of.
    n_positive = float(weight[label].sum())
    trust = n_positive / max(n_positive + prior.half_trust, 1e-9)
    kernel, expected = np.zeros((len(rows), len(rows))), trust * margin + prior.bias
    for _, own, _, mean, variance in seen:
        kernel += products(own, own, variance)  # how alike the corrections of the labels are
        if mean.any():
            expected = expected + np.asarray(own @ mean)
    kernel += prior.bias_deviation**2 + prior.scale**2 * np.outer(margin, margin)
    alpha, left_out = newton(kernel, expected, label.astype(np.float64), weight)
    bias = prior.bias + prior.bias_deviation**2 * alpha.sum()
    groups = {}
    for view, own, centre, mean, variance in seen:
        weights = mean + variance * np.asarray(own.T @ alpha).ravel()
        groups[f"correction {view.name}"] = weights
        bias -= 0.0 if centre is None else float(weights @ centre)
    groups[SCALE] = np.array([trust - 1 + prior.scale**2 * float(margin @ alpha)])
    groups[BIAS] = np.array([bias])
    return groups, left_out


def products(a: Rows, b: Rows, variance: Float64 | float = 1.0) -> Float64:
    """Return the products of all rows of `a` with all rows of `b`, (n, m).

    Args:
        a: (n, d).
        b: (m, d).
        variance: What each column counts, or all of them.
    """
    if isinstance(a, np.ndarray):
        return np.asarray((a * variance) @ b.T)
    return np.asarray((a @ b.T).todense()) * variance


def newton(
    kernel: Float64, margin: Float64, label: Float64, weight: Float64
) -> tuple[Float64, Float64]:
    """Return the dual weights of the most probable correction, and each label's left-out odds."""
    alpha, left_out = np.zeros(len(label)), margin
    for _ in range(30):
        odds = margin + kernel @ alpha
        p = expit(odds)
        curvature = np.maximum(weight * p * (1 - p), 1e-4 * weight + 1e-9)
        target = odds - margin + weight * (label - p) / curvature
        inverse = np.linalg.inv(kernel + np.diag(1.0 / curvature))
        proposed = inverse @ target
        left_out = margin + target - proposed / np.diag(inverse)
        step = float(np.abs(kernel @ (proposed - alpha)).max(initial=0.0))
        alpha = alpha + (proposed - alpha) * min(1.0, 3.0 / max(step, 1e-9))
        if step < 1e-3:
            break
    return alpha, left_out


def put_together(
    pile: Pile, model: Model, first: Fit, last: Fit, t: int, stopped: str, args: DefaultArgs
) -> Learned:
    """Average the labels alone and the last slot, where that predicts better; set the threshold."""
    # The mean log likelihood of the labels by their left-out odds.
    labels, weight = pile.labels[pile.labelled] > 0.5, label_weights(pile)
    likelihoods = []
    for _, _, left_out in (first, last):
        odds = left_out.clip(-6, 6)
        by_label = -np.logaddexp(0, np.where(labels, -odds, odds)).mean(axis=1)
        likelihoods.append(float(by_label @ weight) / max(float(weight.sum()), 1e-9))
    alone, with_pile = likelihoods
    share = pile_share(posterior(first[1], pile), pile) if with_pile > alone else 0.0
    part = share if args.choose else 1.0
    threshold = np.zeros(len(pile.entities))
    if args.choose and part:
        threshold = threshold_kept(first[1], last[1], part, pile)
    theta, odds, _ = last if part == 1.0 else first
    if 0.0 < part < 1.0:
        theta = {n: own * (1.0 - part) + last[0][n] * part for n, own in first[0].items()}
        odds = (1.0 - part) * first[1] + part * last[1]
    probability = posterior(odds + threshold, pile)
    added = shifts(probability, args)
    # One after the other: the numbers of a pack are of single precision.
    bias = theta[BIAS] + threshold.astype(np.float32)[:, None]
    bias = bias + np.array(added, dtype=np.float32)[:, None]
    return Learned(
        theta={**theta, BIAS: bias, **fit_none(pile, args)},
        pile=pile,
        model=model,
        posterior=probability,
        used_slot=t if part else 0,
        stopped=stopped,
        shifts=added,
        threshold=tuple(threshold.tolist()),
        pile_helped=share > 0 if t else None,
        pile_weight=part,
        left_out_likelihood=(alone, with_pile) if t else None,
    )


def pile_share(pseudo_labels: Float32, pile: Pile) -> float:
    """Return the pile's share of the mentions of e* that count in an estimate.

    A labelled mention counts as one that the pile adds: beside twenty labels the few that a rare
    entity adds do as much harm as good.
    """
    _, vote, size = pile.votes
    share = 1.0 / size[vote]  # the mentions of a name in a document are one
    counting = mostly_right(pseudo_labels, pile) > 0
    added = float(share[counting.any(axis=1) & ~pile.labelled].sum())
    own = float(share[(pile.labels > 0.5).any(axis=1) & pile.labelled].sum())
    return added / max(added + own, 1e-9)


def threshold_kept(first: Float64, last: Float64, weight: float, pile: Pile) -> Float64:
    """Return what takes the threshold back to that of the labels alone, (E,).

    It goes back as far as they are unsure of the pile. `first` and `last` are the log odds by the
    labels alone and by the last slot, (M, E).
    """
    one_each, _, _ = pile.votes
    unlabelled = one_each[~pile.labelled[one_each]]
    p = posterior(first, pile)[unlabelled].max(axis=1, initial=0.0)
    right = float(np.maximum(p, 1 - p).mean()) if len(p) else 1.0
    kept = 1 - float(np.clip((right - UNSURE) / (SURE - UNSURE), 0, 1))
    return np.asarray(-weight * kept * (last - first)[one_each].mean(axis=0))


def shifts(pseudo_labels: Float32, args: DefaultArgs) -> tuple[float, ...]:
    """Return what the decision on each entity adds to its log odds.

    For F1 the best threshold for expected F1 becomes 0. It stays within [0.2, 0.5]: the optimum is
    never above one half.
    """
    added = []
    for p in pseudo_labels.T:
        ranked = np.sort(p.astype(np.float64))[::-1]
        if args.decision == "even" or not len(ranked) or ranked.sum() <= 0:
            added.append(0.0)
            continue
        n = np.arange(1, len(ranked) + 1)
        best = int((2 * np.cumsum(ranked) / (n + ranked.sum())).argmax())
        threshold = (ranked[best] + ranked[min(best + 1, len(ranked) - 1)]) / 2
        threshold = float(np.clip(threshold, 0.2, 0.5))
        added.append(float(np.log((1 - threshold) / threshold)))
    return tuple(added)


def fit_none(pile: Pile, args: DefaultArgs) -> dict[str, Float32]:
    """Learn what tells "none of these" from known namesakes, on labels that mean no e*.

    Returns:
        The groups by name, (E, n) each; nothing where no label says "none of these".
    """
    rows, weight = np.flatnonzero(pile.labelled), label_weights(pile)
    other = pile.labels[rows].max(axis=1) < 0.5
    rows, weight = rows[other], weight[other]
    is_none = pile.mentions.gold[rows] == OTHER
    if not is_none.any():
        return {}
    worth = weights_for(situation_of(pile), args.weights)
    views = [view for view in args.views if view.name not in worth.mean]
    zeros = np.zeros(len(rows))
    found, _ = fit_correction(pile, rows, zeros, is_none, weight, views, worth.without_means())
    every = (len(pile.entities), 1)
    groups = {n: np.tile(own, every).astype(np.float32) for n, own in found.items() if n != SCALE}
    return {n.replace("correction", "none", 1): own for n, own in groups.items()}
