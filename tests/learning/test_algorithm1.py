"""Algorithm 1: its steps by hand, against torch's optimisers, and its variants."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from stamo.errors import DivergenceError
from stamo.features.base import estimate
from stamo.learning.algorithm1 import (
    ALL_SLOTS,
    NO_CHANGE,
    NO_INTRA,
    InterSlotArgs,
    IntraSlotArgs,
    StamoArgs,
    inter_slot,
    intra_slot,
    labelled_part,
    stamo,
)
from stamo.models.base import Frozen
from stamo.models.deeped import DeepED
from stamo.models.train import max_margin_loss
from tests.synthetic import (
    Q,
    assert_finite,
    assert_same,
    make_labelled_pile,
    make_synthetic_pile,
    make_theta,
)

ETA = {"prior": 0.05, "embedding": 0.001}
GROUPS = ("prior", "relatedness", "embedding")


@pytest.fixture(scope="module")
def pile():
    return make_labelled_pile()


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return DeepED(Q)


def random_theta(seed):
    rng = np.random.default_rng(seed)
    return {
        "prior": rng.random((1, 3)).astype(np.float32),
        "embedding": rng.standard_normal((1, 5)).astype(np.float32),
    }


def step(start, target, t, args):
    zeros = {name: np.zeros_like(group) for name, group in start.items()}
    return inter_slot(start, target, zeros, zeros, t, args)[0]


def test_inter_slot_step_equals_adam():
    """Feeding δ as the gradient gives torch.optim.Adam's update with learning rate ηᵗ."""
    args, theta = InterSlotArgs(eta=ETA, gamma=4), random_theta(0)
    s = v = {name: np.zeros_like(group) for name, group in theta.items()}
    reference = {name: torch.tensor(g, requires_grad=True) for name, g in theta.items()}
    adam = torch.optim.Adam(
        [{"params": [reference[n]], "lr": ETA[n], "name": n} for n in ETA], eps=1e-8
    )
    for t in range(1, 11):
        theta_intra = random_theta(t)
        for group in adam.param_groups:
            name = group["name"]
            group["lr"] = min(ETA[name], ETA[name] * t / 4)
            reference[name].grad = reference[name].detach() - torch.from_numpy(theta_intra[name])
        adam.step()
        theta, s, v = inter_slot(theta, theta_intra, s, v, t, args)
        for name, values in reference.items():
            np.testing.assert_allclose(theta[name], values.detach(), rtol=1e-5, atol=1e-7)


def test_inter_slot_steps_by_hand():
    """η = 1 along δ is vanilla self-training; warm-up grows; unnamed groups have a rate."""
    start, target = random_theta(0), random_theta(1)
    raw = InterSlotArgs(eta={}, default_eta=1.0, adaptive=False, gamma=1)
    for name, values in step(start, target, 1, raw).items():
        np.testing.assert_allclose(values, target[name], rtol=1e-5)  # Eq. 14
    slow = step(start, target, 2, replace(raw, gamma=5))["prior"]
    np.testing.assert_allclose(
        slow - start["prior"], 0.4 * (target["prior"] - start["prior"]), rtol=1e-4
    )
    half = step(start, target, 1, replace(raw, eta={"prior": 1.0}, default_eta=0.5))["embedding"]
    np.testing.assert_allclose(half, (start["embedding"] + target["embedding"]) / 2, rtol=1e-5)


def problem(*, plain=False):
    rng = np.random.default_rng(1)
    pile = make_synthetic_pile(rng)
    model = DeepED(Q)
    frozen = Frozen(model, pile) if plain else model.freeze(pile)
    return make_theta(rng, pile), frozen, np.zeros(len(pile), dtype=np.int64)


def objective(theta, frozen, gold, margin):
    """O(θ(e*); L) (Eq. 12 and 13)."""
    return float(max_margin_loss(frozen.scores(theta), gold, margin).sum())


def test_intra_slot_steps_go_down_the_slope():
    """A step is the rate times the slope, which small changes of θ(e*) measure."""
    theta, frozen, gold = problem()
    _, plain, _ = problem(plain=True)
    args = IntraSlotArgs(n_epochs=1, default_rate=1.0, batch_size=100)
    ours, small = intra_slot(theta, frozen, gold, args), 1e-3
    for name in GROUPS:
        for place in [np.unravel_index(i, theta[name].shape) for i in range(theta[name].size)][:6]:
            ends = []
            for change in (small, -small):
                moved = {**theta, name: theta[name].copy()}
                moved[name][place] += change
                ends.append(objective(moved, plain, gold, 0.01))
            slope = (ends[0] - ends[1]) / (2 * small)
            step = float(theta[name][place] - ours[name][place])
            assert step == pytest.approx(slope, rel=0.05, abs=0.02), (name, place)
        assert not np.array_equal(ours[name], theta[name]), name


def test_batches_lower_the_objective_and_rates_of_zero_keep_a_group():
    """Shuffled batches move θ(e*) downhill, but for a group whose rate is 0."""
    theta, frozen, gold = problem()
    args = IntraSlotArgs(20, {"prior": 0.0}, default_rate=0.02, batch_size=8)
    found = intra_slot(theta, frozen, gold, args)
    assert objective(found, frozen, gold, 0.01) < objective(theta, frozen, gold, 0.01)
    np.testing.assert_array_equal(found["prior"], theta["prior"])


@pytest.mark.parametrize("dropout", [False, True])
def test_labels_that_keep_their_margin_move_nothing(dropout):
    """Without a violated margin θ(e*) stays where it is, and what is returned is a copy."""
    theta, frozen, gold = problem()
    args = IntraSlotArgs(3, default_rate=0.1, margin=-1e6, dropout=dropout)
    for kept in (intra_slot(theta, frozen, gold, args), intra_slot(theta, frozen, gold, NO_INTRA)):
        assert_same(kept, theta)
        assert not any(np.shares_memory(kept[name], theta[name]) for name in theta)


def test_without_slots_it_is_the_estimate_on_l(pile, model):
    """The labels alone are slot 0 and all there is."""
    slots = []
    learned = stamo(pile, model, {}, StamoArgs(n_slots=0, intra=NO_INTRA), slots.append)
    assert [slot.number for slot in slots] == [0]
    assert (learned.used_slot, learned.stopped) == (0, ALL_SLOTS)
    assert_same(learned.theta, estimate(pile.sample(), model.features))
    np.testing.assert_array_equal(slots[0].pseudo_labels, learned.posterior)


VARIANTS = {
    "as printed": StamoArgs(n_slots=3),
    "no intra": StamoArgs(n_slots=3, intra=NO_INTRA),
    "no inter": StamoArgs(n_slots=3, inter=None),
    "raw delta": StamoArgs(n_slots=3, inter=InterSlotArgs(adaptive=False)),
    "first longer": StamoArgs(n_slots=3, first_intra=IntraSlotArgs(n_epochs=200)),
    "prior kept": StamoArgs(n_slots=3, intra=NO_INTRA, kept=("prior",)),
}


@pytest.fixture(scope="module")
def found(pile, model):
    """What every variant gives, and what its slots did."""
    result = {}
    for name, args in VARIANTS.items():
        slots = []
        learned = stamo(pile, model, {}, replace(args, patience=None), slots.append)
        result[name] = learned, slots
    return result


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_runs_its_slots_and_keeps_the_labels(pile, model, found, name):
    """θ̂(e*) stays finite, and each mention of L carries its gold label in every slot."""
    args, (learned, slots) = VARIANTS[name], found[name]
    assert [slot.number for slot in slots] == [0, 1, 2, 3]
    assert slots[1].n_flipped == len(pile)
    assert_finite(learned.theta)
    assert_same(learned.theta, slots[-1].theta)
    for slot in slots:
        np.testing.assert_array_equal(slot.pseudo_labels[pile.labelled], pile.labels[pile.labelled])
    if args.kept:  # estimated on the labels alone, and moved by no optimisation
        alone = estimate(pile.sample(), model.features)
        np.testing.assert_allclose(learned.theta["prior"], alone["prior"], atol=1e-6)
    others = (theirs for other, (theirs, _) in found.items() if other != name)
    assert all(
        any(not np.array_equal(learned.theta[g], other.theta[g]) for g in GROUPS)
        for other in others
    )


@pytest.mark.parametrize(("patience", "stopped"), [(2, NO_CHANGE), (None, ALL_SLOTS)])
def test_it_says_why_it_stopped(pile, model, patience, stopped):
    """After as many slots without a changed label as it has patience, or after all."""
    slots = []
    args = StamoArgs(20, patience, NO_INTRA, InterSlotArgs(eta={}, default_eta=1e-9))
    learned = stamo(pile, model, {}, args, slots.append)
    flips = [slot.n_flipped for slot in slots[1:]]
    assert learned.stopped == stopped
    assert learned.used_slot == len(flips)
    assert flips == [len(pile), *[0] * (19 if patience is None else 2)]


def test_mentions_whose_entity_is_no_candidate_are_no_part_of_l(pile, model):
    """Inside a slot they teach nothing."""
    gold = np.where(pile.labels[:, 0] > 0.5, -2, 50).astype(np.int32)  # 50 is nobody's candidate
    changed = replace(pile, mentions=replace(pile.mentions, gold=gold), kept={})
    part, columns = labelled_part(model.freeze(changed))
    assert len(part.pile) == int(pile.labels.sum())
    assert set(columns.tolist()) == {3}


def test_a_diverging_setting_is_reported_with_slot_and_group(pile, model):
    """No NaN or infinity leaves a slot; the error names where it happened."""
    wild = StamoArgs(
        n_slots=3,
        intra=IntraSlotArgs(n_epochs=3, default_rate=1e38),
        inter=InterSlotArgs(adaptive=False, eta={}, default_eta=1e30),
    )
    with (
        pytest.raises(DivergenceError, match=r"Slot \d+: the '.+' group"),
        np.errstate(all="ignore"),
    ):
        stamo(pile, model, {}, wild)
