"""Which pseudo-labels count, in the estimates and in the evidence."""

from dataclasses import replace

import numpy as np
import pytest

from stamo.errors import SettingsError
from stamo.features.pile import Sample
from stamo.learning.corrected import CorrectedArgs, CorrectedSteps
from stamo_lab.bench.learn import LearnBenchArgs, generate_knowledge_base, generate_task

SMALL = LearnBenchArgs(
    n_labelled=8, n_unlabelled=30, n_candidates=3, dimensions=8, n_kb_entities=60, n_words=2000
)


@pytest.fixture(scope="module")
def task():
    return generate_task(SMALL, generate_knowledge_base(SMALL), 0)


def pseudo_labels(task, probabilities):
    """Pseudo-labels of the first mentions without a label; the others are at 0."""
    weights = np.where(task.labelled[:, None], task.labels, np.float32(0))
    rows = np.flatnonzero(~task.labelled)[: len(probabilities)]
    weights[rows, 0] = probabilities
    return weights.astype(np.float32), rows


@pytest.mark.parametrize(
    ("probabilities", "kept"),
    [
        ([0.99, 0.98, 0.75, 0.6], 3),  # .99, .985, .907, then .83
        ([0.95, 0.95, 0.95, 0.55], 3),  # .95 thrice, then .85
        ([0.89, 0.6, 0.2, 0.1], 0),  # the best one is below nine of ten
        ([0.99, 0.99, 0.99, 0.49], 3),  # none below one half, however sure the others
    ],
)
def test_pseudo_labels_count_while_nine_of_ten_are_right(task, probabilities, kept):
    """The most probable ones count first, as long as their mean probability is nine tenths."""
    weights, rows = pseudo_labels(task, probabilities)
    found = CorrectedSteps(task, CorrectedArgs())._mostly_right(weights)
    expected = np.array(probabilities, dtype=np.float32)
    expected[kept:] = 0
    np.testing.assert_array_equal(found[rows, 0], expected)
    np.testing.assert_array_equal(found[task.labelled], weights[task.labelled])


def slot(task, args):
    """The first slot of a run: its steps, pseudo-labels, and what they fit."""
    steps = CorrectedSteps(task, args)
    first = steps.fit(steps.estimate(task.labelled_sample, None), task.labelled_sample, None)
    weights, _ = pseudo_labels(task, [0.97] * 6 + [0.5] * 6 + [0.03] * 6)
    sample = Sample(task.pile, weights, np.ones(len(task.pile), dtype=np.float32))
    return steps, weights, steps.fit(steps.estimate(sample, first), sample, first)


def test_sure_pseudo_labels_of_both_kinds_move_the_evidence(task):
    """They are weak labels; those in doubt are none, and without any weight nothing moves."""
    args = CorrectedArgs()
    steps, weights, fitted = slot(task, args)
    sure = steps._sure(weights[:, 0], fitted)
    assert len(sure)
    assert ((weights[sure, 0] >= 0.9) | (weights[sure, 0] <= 0.1)).all()
    assert not task.labelled[sure].any()
    alone = slot(task, replace(args, pseudo_weight=0.0))[2]
    assert not np.allclose(
        fitted.fits[0].groups["evidence bias"], alone.fits[0].groups["evidence bias"]
    )
    assert len(fitted.fits[0].left_out) == len(alone.fits[0].left_out) == int(task.labelled.sum())


@pytest.mark.parametrize("weight", [0.3, 3.0])
def test_no_pseudo_label_speaks_for_itself(task, weight):
    """Its odds are those it would have in doubt, however much it counts for the others."""
    steps, weights, fitted = slot(task, CorrectedArgs(least_right=0.0, pseudo_weight=weight))
    row, everything = int(steps._sure(weights[:, 0], fitted)[0]), np.ones(len(task.pile))

    def odds(p):
        changed = weights.copy()
        changed[row, 0] = p
        sample = Sample(task.pile, changed, everything.astype(np.float32))
        return float(steps.fit(fitted.theta, sample, fitted).odds[row, 0])

    assert odds(0.91) == pytest.approx(odds(0.89), abs=0.05)


def test_many_sure_pseudo_labels_are_drawn_by_lot(task):
    """No more than asked for, the same ones each time."""
    steps = CorrectedSteps(task, CorrectedArgs(n_pseudo=4))
    weights, _ = pseudo_labels(task, [0.97] * 10)
    found = steps._sure(weights[:, 0], object())
    assert len(found) == 4
    np.testing.assert_array_equal(found, steps._sure(weights[:, 0], object()))


@pytest.mark.parametrize(
    "setting",
    [
        {"least_right": 1.1},
        {"confident": 0.4},
        {"pseudo_weight": -0.1},
        {"n_pseudo": -1},
        {"own_weight": float("nan")},
    ],
)
def test_settings_of_pseudo_labels_have_ranges(setting):
    """What is outside is refused by name, and what it should be is said."""
    with pytest.raises(SettingsError, match=f"{next(iter(setting))} is .*; give"):
        CorrectedArgs(**setting)


def test_which_pseudo_labels_count_is_settled_once_for_all_folds(task, monkeypatch):
    """Neither the estimate of a slot nor its parts of the pile rank the pseudo-labels anew."""
    ranked = []
    mostly_right = CorrectedSteps._mostly_right
    monkeypatch.setattr(
        CorrectedSteps, "_mostly_right", lambda *a: ranked.append(1) or mostly_right(*a)
    )
    slot(task, CorrectedArgs())
    assert len(ranked) == 2  # for the whole pile, and for the parts together


@pytest.mark.parametrize("own_weight", [0.0, 1.0, 3.0])
def test_the_pile_has_its_share_of_what_counts_in_an_estimate(task, monkeypatch, own_weight):
    """A doubtful mention is added where surer ones make up for it; labelled ones are the rest."""
    steps = CorrectedSteps(task, CorrectedArgs(own_weight=own_weight))
    weights, rows = pseudo_labels(task, [0.99, 0.99, 0.99, 0.75, 0.2])
    monkeypatch.setattr(steps, "label", lambda now: weights)
    _, vote, size = task.pile.votes
    labelled = float((task.labels[:, 0] / size[vote])[task.labelled].sum())
    added = float((1 / size[vote[rows[:4]]]).sum())
    assert steps._pile_share(None) == pytest.approx(added / (added + own_weight * labelled))
