"""The loop itself, with steps that are made up for it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from stamo.errors import LearningError, SettingsError
from stamo.features.base import FeatureParams
from stamo.learning.corrected import CorrectedArgs
from stamo.learning.correction import EvidenceArgs
from stamo.learning.loop import (
    ALL_SLOTS,
    NO_CHANGE,
    Estimate,
    Learned,
    LoopArgs,
    Steps,
    self_train,
)
from stamo.learning.paper import StamoArgs
from stamo.models.evidence import BIAS
from stamo_lab.bench.learn import LearnBenchArgs, generate_knowledge_base, generate_task
from stamo_lab.published import READINGS
from tests.synthetic import run_reading

SMALL = LearnBenchArgs(
    n_labelled=8, n_unlabelled=30, n_candidates=3, dimensions=8, n_kb_entities=60, n_words=2000
)


@pytest.fixture(scope="module")
def task():
    return generate_task(SMALL, generate_knowledge_base(SMALL), 0)


@dataclass(frozen=True)
class ScriptArgs(LoopArgs):
    """Pseudo-labels by a script: how many unlabelled mentions are e* in each slot."""

    script: tuple[int, ...] = ()

    def steps(self, task):
        return ScriptSteps(task, self.script)


class ScriptSteps(Steps[Estimate]):
    def __init__(self, task, script):
        self.task, self.script, self.log = task, script, []

    def label(self, now):
        n = self.script[int(now.theta["slot"])]
        labels = self.task.labels.copy()
        labels[np.flatnonzero(~self.task.labelled)[:n]] = 1.0
        return labels

    def estimate(self, sample, before):
        number = 0 if before is None else int(before.theta["slot"]) + 1
        return FeatureParams({"slot": torch.tensor(float(number))})

    def fit(self, theta, sample, before):
        assert sample.counted.sum() == (
            self.task.labelled.sum() if before is None else len(sample.counted)
        )
        return Estimate(theta)

    def finish(self, first, last, t):
        assert float(first.theta["slot"]) == 0.0
        return Learned(last.theta, self.task.model, self.task.labels, t, (0.0,), (0.0,))


@pytest.mark.parametrize(
    ("script", "n_slots", "patience", "n_run", "stopped"),
    [
        ((5, 4, 3, 2, 1), 3, 1, 3, ALL_SLOTS),
        ((5, 4, 4, 2, 1), 5, 1, 3, NO_CHANGE),
        ((5, 4, 4, 4, 4), 5, 2, 4, NO_CHANGE),
        ((5, 4, 4, 4, 4), 5, None, 5, ALL_SLOTS),
        ((5, 4, 4, 1, 1), 5, 2, 5, ALL_SLOTS),
        ((5,), 0, 1, 0, ALL_SLOTS),
    ],
)
def test_the_loop_says_why_it_stopped(task, script, n_slots, patience, n_run, stopped):
    """It runs all slots, or stops after as many without a changed label as it has patience."""
    seen = []
    args = ScriptArgs(n_slots=n_slots, patience=patience, script=script)
    learned = self_train(task, args, on_slot=seen.append)
    assert (learned.stopped, learned.used_slot, len(seen)) == (stopped, n_run, n_run)
    assert float(learned.theta["slot"]) == n_run


def test_flips_are_counted_from_slot_to_slot(task):
    """In the first slot every label is new; then those that changed."""
    seen = []
    self_train(
        task, ScriptArgs(n_slots=4, script=(5, 3, 3, 7)), on_slot=lambda s: seen.append(s.n_flipped)
    )
    assert seen == [len(task.pile), 2, 0, 4]


def test_the_labels_alone_are_slot_0(task):
    """They are shown before any slot, also of a run that goes on, and are no slot themselves."""
    first, slots = [], []
    args = StamoArgs(n_slots=2)
    self_train(task, args, on_first=first.append, on_slot=slots.append)
    self_train(task, args, on_first=first.append, resume=slots[0])
    assert [slot.number for slot in (*first, *slots)] == [0, 0, 1, 2]
    alone = self_train(task, replace(args, n_slots=0))
    for slot in first:
        torch.testing.assert_close(dict(slot.theta.groups), dict(alone.theta.groups))
        np.testing.assert_array_equal(slot.pseudo_labels, alone.posterior)


def test_steps_that_cannot_go_on_say_so(task):
    """The default starts anew instead of going on after a slot."""
    slots = []
    self_train(task, CorrectedArgs(n_slots=1), on_slot=slots.append)
    assert not CorrectedArgs.resumes
    with pytest.raises(LearningError, match="run all of them"):
        self_train(task, CorrectedArgs(), resume=slots[0])


@pytest.mark.parametrize("args", [StamoArgs(n_slots=2), CorrectedArgs(n_slots=2, patience=None)])
def test_every_mention_of_l_keeps_its_label(task, args):
    """Pseudo-labels of U lie in [0, 1]; those of L are the real ones in every slot."""
    seen = []
    learned = self_train(task, args, on_slot=lambda slot: seen.append(slot.pseudo_labels))
    assert len(seen) == 2
    for labels in (*seen, learned.posterior):
        np.testing.assert_array_equal(labels[task.labelled], task.labels[task.labelled])
        assert 0 <= labels.min() <= labels.max() <= 1


def test_estimation_is_the_loop_without_slots(task):
    """A reading without slots gives the estimate on L, and no number of slots changes that."""
    learned = run_reading(task, READINGS["estimation"].with_slots(7))
    assert learned.used_slot == 0
    expected = task.model.features[0].estimate(task.labelled_sample, task.kb)
    torch.testing.assert_close(learned.theta["prior"], expected)


def test_the_labels_alone_are_kept_where_the_pile_did_not_help(task):
    """`choose` decides between slot 0 and the last one; `until` takes the last whatever it gave."""
    learned = self_train(task, CorrectedArgs())
    assert learned.used_slot == (3 if learned.pile_weight else 0) or learned.stopped == NO_CHANGE
    forced = self_train(task, CorrectedArgs().until(2))
    assert forced.used_slot == 2
    alone = self_train(task, CorrectedArgs(n_slots=0))
    assert (alone.used_slot, alone.shifts) == (0, (0.0,))


def test_the_labels_and_the_pile_count_by_their_mentions(task):
    """The result is their weighted mean, or the labels alone where nothing is predicted better."""
    steps = CorrectedArgs().steps(task)
    first = steps.fit(steps.estimate(task.labelled_sample, None), task.labelled_sample, None)
    theta = first.theta.map(lambda values: values + 1.0)
    surer = replace(first, fits=tuple(_surer(fit, task, steps.rows) for fit in first.fits))
    last = replace(surer, theta=theta, odds=first.odds + 1.0)
    sure = np.where(task.labelled, 0.0, 9.0)[:, None]
    many, few = replace(first, odds=sure), replace(first, odds=-sure)
    learned = steps.finish(many, last, 1)
    assert learned.pile_helped
    assert learned.used_slot == 1
    assert learned.pile_weight == pytest.approx(steps._pile_share(many))
    assert 0.5 < learned.pile_weight < 1
    for group in first.theta.groups:
        moved = learned.theta[group] - first.theta[group]
        torch.testing.assert_close(moved, torch.full_like(moved, learned.pile_weight))
    for alone in (
        steps.finish(few, last, 1),
        steps.finish(many, replace(last, fits=first.fits), 1),
    ):
        assert not alone.pile_helped
        assert (alone.pile_weight, alone.used_slot) == (0.0, 0)
        torch.testing.assert_close(alone.theta["prior"], first.theta["prior"])


def test_the_line_stays_where_the_labels_are_unsure_of_the_pile(task):
    """The pile moves it only as far as the labels tell the mentions of the pile apart."""
    steps = CorrectedArgs(own_weight=0.0).steps(task)
    first = steps.fit(steps.estimate(task.labelled_sample, None), task.labelled_sample, None)
    first = replace(first, odds=np.where(task.labelled[:, None], 0.0, 0.1))  # .52 for everything
    tilt = np.linspace(-1.0, 2.0, len(first.odds))[:, None]
    last = replace(first, odds=first.odds + tilt)
    one_each, _, _ = task.pile.votes
    kept = steps._line_kept(first, last, 0.5)
    np.testing.assert_allclose(kept, -0.5 * tilt[one_each].mean(axis=0))
    sure = replace(first, odds=first.odds + 9.0)
    np.testing.assert_array_equal(steps._line_kept(sure, last, 0.5), [0.0])
    half = CorrectedArgs(unsure=0.5, sure=1.0).steps(task)
    between = replace(first, odds=np.full_like(first.odds, np.log(3.0)))  # three in four are right
    moved = half._line_kept(between, replace(between, odds=between.odds + 1.0), 1.0)
    np.testing.assert_allclose(moved, [-0.5], atol=0.01)
    shifted = last.shifted(kept)
    np.testing.assert_allclose(shifted.odds, last.odds + kept)
    torch.testing.assert_close(
        shifted.theta[BIAS] - last.theta[BIAS],
        torch.full_like(last.theta[BIAS], float(kept[0])),
    )


def _surer(fit, task, rows):
    """Move left-out odds towards the labels."""
    return replace(fit, left_out=fit.left_out + np.where(task.labels[rows, 0] > 0.5, 0.1, -0.1))


def test_settings_are_checked():
    """Negative slots and a single fold are refused."""
    with pytest.raises(SettingsError, match="0 or more"):
        StamoArgs(n_slots=-1)
    with pytest.raises(SettingsError, match="2 or more"):
        CorrectedArgs(n_folds=1)
    with pytest.raises(SettingsError, match="smaller one first"):
        CorrectedArgs(unsure=0.9, sure=0.9)


FOUND = {
    "published": {
        "prior": (0.63, 0.3969),
        "relatedness": (14.81409, 4.55094),
        "embedding": (-0.88216, 0.79697),
    },
    "paper": {
        "prior": (0.40545, 0.16439),
        "relatedness": (26.16932, 14.29273),
        "embedding": (-1.01707, 0.99975),
    },
    "default": {
        "prior": (0.37778, 0.14272),
        "relatedness": (34.62719, 20.52318),
        "embedding": (-1.22686, 1.0),
        "evidence words": (-1.3479, 2.08757),
        "evidence context": (-0.88404, 1.65123),
        "evidence entities": (-6.43516, 2.07445),
        "evidence scale": (-0.75574, 0.57114),
        "evidence bias": (-1.1841, 1.40208),
    },
}
"""Sum and sum of squares of each group, as the first implementation of each reading gave them."""


@pytest.mark.parametrize("name", sorted(FOUND))
def test_readings_keep_their_numbers(task, name):
    """The quirks of the published run, the paper and the default give the numbers they gave."""
    reading = READINGS[name]
    if name != "default":
        reading = reading.with_slots(2)
    else:  # as it was: every pseudo-label counts, for features alone, and the line is for F1
        before = {"least_right": 0.0, "pseudo_weight": 0.0, "own_weight": 0.0, "decision": "f1"}
        before |= {"unsure": 0.5, "sure": 0.5001}  # the pile moves the line
        args = replace(reading.args, **before, evidence=EvidenceArgs(rare=0.0))
        reading = replace(reading, args=args)
    theta = run_reading(replace(task, temperature=0.01), reading).theta
    assert set(theta.groups) == set(FOUND[name])
    for group, expected in FOUND[name].items():
        values = theta[group]
        found = (float(values.sum()), float((values**2).sum()))
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-4), group
