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
from stamo.features.pile import Pile
from stamo.learning.algorithm1 import Slot
from stamo.learning.learn import Method
from stamo.models.correction import agree, log_odds, margins
from stamo.models.store import TrainedModel
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
    pile: Pile,
    trained: TrainedModel,
    method: Method,
    n_folds: int,
    on_fold: Callable[[int, int], None] = lambda number, n_folds: None,
) -> CrossValidation:
    """Learn once for each part of the labels, without it, and predict it.

    Args:
        pile: The candidate mentions with all labels.
        trained: The linking model.
        method: How to learn.
        n_folds: Parts of the labels; fewer when fewer documents are labelled, 0 for no check.
        on_fold: Called after each fold with its number and that of all folds.
    """
    folds = make_folds(pile, n_folds) if n_folds > 1 else []
    _, vote, _ = pile.votes
    checked: list[Int64] = []
    runs: list[list[tuple[Float64, float]]] = []
    for number, left_out in enumerate(folds, start=1):
        rest = pile.labelled.copy()
        rest[left_out] = False
        if not rest.any():
            continue
        # The first mention of each name in each document is judged: the others share its label.
        checked.append(left_out[np.sort(np.unique(vote[left_out], return_index=True)[1])])
        runs.append(_run_fold(pile, trained, method, rest, checked[-1]))
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
    return CrossValidation(rows, pile.labels[rows, 0] > 0.5, np.stack(odds), np.stack(shifts))


def _run_fold(
    pile: Pile, trained: TrainedModel, method: Method, rest: Bools, rows: Int64
) -> list[tuple[Float64, float]]:
    """Learn from the rest of the labels; return log odds of the rows and shift after each slot."""
    # As in linking, the mentions of one name in one document meet half-way.
    _, vote, _ = pile.votes
    together = np.flatnonzero(np.isin(vote, vote[rows]))
    asked = np.searchsorted(together, rows)
    part = trained.model.with_features(method.features).freeze(pile).take(together)
    temperature = trained.calibration.temperature
    slots: list[tuple[Float64, float]] = []

    def predict(slot: Slot) -> None:
        margin = margins(part, slot.theta, temperature)
        odds, _ = log_odds(margin, part.pile, slot.theta, temperature)
        slots.append((agree(odds, part.pile)[asked, 0], slot.shifts[0]))

    labels = np.where(rest[:, None], pile.labels, np.float32(0))
    method.learn(replace(pile, labels=labels, labelled=rest), trained, predict)
    return slots


def make_folds(pile: Pile, n_folds: int) -> list[Int64]:
    """Deal the labelled documents into folds with about the same share of each kind of label."""
    rows = np.flatnonzero(pile.labelled)
    documents = pile.mentions.documents[rows]
    is_emerging = pile.labels[rows, 0] > 0.5
    kinds = {int(d): bool(is_emerging[documents == d].any()) for d in np.unique(documents)}
    ordered = sorted(kinds, key=lambda d: (kinds[d], hashlib.sha256(b"%d" % d).digest()))
    fold_by_document = {d: i % n_folds for i, d in enumerate(ordered)}
    fold = np.array([fold_by_document[d] for d in documents.tolist()])
    return [rows[fold == k] for k in range(min(n_folds, len(ordered))) if (fold == k).any()]
