"""Predict the labels without themselves: how good is a pack on what its run has not seen?

Labels are left out document by document, so that no mention is judged by a neighbour with the
same sense. Every fold runs the whole of learning again with the other labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from stamo.evaluation.intervals import Rates, rates
from stamo.features.base import view_mentions
from stamo.features.views import VIEWS
from stamo.learning.loop import LoopArgs, Slot, Task, self_train
from stamo.models.evidence import agree, log_odds, margins_under
from stamo.system.files import Bools, Float64, Int64
from stamo.system.processes import one_thread


@dataclass(frozen=True)
class CrossValidation:
    """Predictions for the labelled mentions after each slot, each without its own label."""

    rows: Int64  # (n,) mentions of the pile
    labels: Bools  # (n,) whether each means e*
    odds: Float64  # (T + 1, n) calibrated log odds after each slot; slot 0 is the labels alone
    shifts: Float64  # (T + 1, n) what the decision adds to them

    def at(self, slot: int, weight: float = 1.0, shift: float = 0.0) -> tuple[Float64, Bools]:
        """Return log odds and decisions after a slot; a run that stopped earlier stays as it is.

        Args:
            slot: The slot.
            weight: What it counts beside the labels alone.
            shift: What is added to the log odds of both together.
        """
        last = min(slot, len(self.odds) - 1)
        odds, shifts = (
            (1 - weight) * values[0] + weight * values[last] for values in (self.odds, self.shifts)
        )
        return odds + shift, odds + shift + shifts > 0

    def rates(self, slot: int) -> Rates | None:
        """Return precision, recall and F1 after a slot; None where nothing was checked."""
        return rates(self.at(slot)[1], self.labels) if len(self.labels) else None


@one_thread()
def cross_validate(
    task: Task,
    args: LoopArgs,
    n_folds: int,
    on_fold: Callable[[int, int], None] = lambda number, n_folds: None,
) -> CrossValidation:
    """Learn once for each part of the labels, without it, and predict it.

    Args:
        task: The pile with all labels.
        args: How to learn.
        n_folds: Parts of the labels; fewer when fewer documents are labelled, 0 for no check.
        on_fold: Called after each fold with its number and that of all folds.
    """
    folds = make_folds(task, n_folds) if n_folds > 1 else []
    _, vote, _ = task.pile.votes
    checked: list[Int64] = []
    runs: list[list[tuple[Float64, float]]] = []
    for number, left_out in enumerate(folds, start=1):
        rest = task.labelled.copy()
        rest[left_out] = False
        if not rest.any():
            continue
        # The first mention of each name in each document is judged: the others share its label.
        checked.append(left_out[np.sort(np.unique(vote[left_out], return_index=True)[1])])
        runs.append(_run_fold(task, args, rest, checked[-1]))
        on_fold(number, len(folds))
    if not checked:
        nothing = np.zeros((1, 0))
        return CrossValidation(np.zeros(0, np.int64), np.zeros(0, bool), nothing, nothing)
    rows = np.concatenate(checked)
    odds, shifts = [], []
    for t in range(max(map(len, runs))):
        last = [slots[min(t, len(slots) - 1)] for slots in runs]  # some may have stopped earlier
        odds.append(np.concatenate([values for values, _ in last]))
        shifts.append(np.concatenate([np.full(len(values), shift) for values, shift in last]))
    return CrossValidation(rows, task.labels[rows, 0] > 0.5, np.stack(odds), np.stack(shifts))


def _run_fold(task: Task, args: LoopArgs, rest: Bools, rows: Int64) -> list[tuple[Float64, float]]:
    """Learn from the rest of the labels; return log odds of the rows and shift after each slot."""
    # As in linking, the mentions of one name in one document meet half-way.
    _, vote, _ = task.pile.votes
    together = np.flatnonzero(np.isin(vote, vote[rows]))
    asked = np.searchsorted(together, rows)
    part = task.scorer.take(together)
    every = view_mentions(task.pile, task.kb, VIEWS)
    views = {name: view[together] for name, view in every.items()}
    slots: list[tuple[Float64, float]] = []

    def predict(slot: Slot) -> None:
        margin = margins_under(part, slot.theta, task.temperature)
        odds = agree(log_odds(margin, slot.theta, views, task.temperature), part.pile)
        slots.append((odds[asked, 0].astype(np.float64), slot.shifts[0]))

    labels = np.where(rest[:, None], task.labels, np.float32(0))
    known = replace(task, labels=labels, labelled=rest)
    self_train(known, args, on_first=predict, on_slot=predict)
    return slots


def make_folds(task: Task, n_folds: int) -> list[Int64]:
    """Deal the labelled documents into folds with about the same share of each kind of label."""
    rows = np.flatnonzero(task.labelled)
    documents = task.pile.mentions.documents[rows]
    is_emerging = task.labels[rows, 0] > 0.5
    kinds = {int(d): bool(is_emerging[documents == d].any()) for d in np.unique(documents)}
    ordered = sorted(kinds, key=lambda d: (kinds[d], hashlib.sha256(b"%d" % d).digest()))
    fold_by_document = {d: i % n_folds for i, d in enumerate(ordered)}
    fold = np.array([fold_by_document[d] for d in documents.tolist()])
    return [rows[fold == k] for k in range(min(n_folds, len(ordered))) if (fold == k).any()]
