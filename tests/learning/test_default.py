"""Our default: which pseudo-labels count, how the correction is fitted, and what is returned."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import optimize, sparse

from stamo.features.base import View, estimate
from stamo.features.mentions import OTHER
from stamo.learning.default import (
    DefaultArgs,
    fit,
    fit_correction,
    learn_default,
    left_out_margins,
    mostly_right,
    pile_share,
    put_together,
    shifts,
    threshold_kept,
)
from stamo.learning.learn import CLOSED_FORM
from stamo.models.correction import BIAS, NONE_BIAS, SCALE, log_odds, margins, none_odds
from stamo.models.deeped import DeepED
from stamo.models.weights import Weights
from tests.synthetic import Q, assert_finite, assert_same, make_labelled_pile

TEMPERATURE = 0.01


@pytest.fixture(scope="module")
def pile():
    return make_labelled_pile()


@pytest.fixture(scope="module")
def model():
    return DeepED(Q)


@pytest.fixture(scope="module")
def first(pile, model):
    """What the labels alone give: θ with its correction, log odds, and those of the labels."""
    theta = estimate(pile.sample(), model.features)
    documents = np.where(pile.labelled, pile.mentions.documents, -1)
    sample, frozen = pile.sample(), model.freeze(pile)
    margin = left_out_margins(frozen, theta, sample, documents, {}, TEMPERATURE)
    return fit(pile, theta, margin, pile.labels, False, DefaultArgs(), TEMPERATURE), margin


def pseudo_labels(pile, probabilities):
    """Pseudo-labels of the first mentions without a label; the others are at 0."""
    weights = np.where(pile.labelled[:, None], pile.labels, np.float32(0))
    rows = np.flatnonzero(~pile.labelled)[: len(probabilities)]
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
def test_pseudo_labels_count_while_nine_of_ten_are_right(pile, probabilities, kept):
    """The most probable ones count first, as long as their mean probability is nine tenths."""
    weights, rows = pseudo_labels(pile, probabilities)
    found = mostly_right(weights, pile)
    expected = np.array(probabilities, dtype=np.float32)
    expected[kept:] = 0
    np.testing.assert_array_equal(found[rows, 0], expected)
    np.testing.assert_array_equal(found[pile.labelled], weights[pile.labelled])


def test_margins_of_labels_are_made_without_their_documents(pile, model, first):
    """A labelled mention is scored by what the other labels estimate; all others by all labels."""
    _, margin = first
    row = int(np.flatnonzero(pile.labelled)[2])
    sample = pile.sample()
    others = np.where(np.arange(len(pile)) == row, np.float32(0), sample.counted)
    sample = replace(sample, counted=others)
    frozen = model.freeze(pile)
    without, whole = (
        margins(frozen, estimate(s, model.features), TEMPERATURE) for s in (sample, pile.sample())
    )
    np.testing.assert_allclose(margin[row], without[row], rtol=1e-4, atol=1e-6)
    assert margin[row] != pytest.approx(whole[row], abs=1e-5)
    np.testing.assert_allclose(margin[~pile.labelled], whole[~pile.labelled], rtol=1e-5)


def test_sure_pseudo_labels_of_both_kinds_move_the_correction(pile, first):
    """They are weak labels; those in doubt are none, and none speaks for itself."""
    (theta, _, left_out), margin = first
    given = (DefaultArgs(), TEMPERATURE)
    weights, rows = pseudo_labels(pile, [0.97] * 6 + [0.5] * 6 + [0.03] * 6)
    moved, odds, known = fit(pile, theta, margin, weights, True, *given)
    assert not np.allclose(moved[BIAS], theta[BIAS])
    assert known.shape == left_out.shape == (8, 1)
    doubt, _ = pseudo_labels(pile, [0.89] + [0.97] * 5 + [0.5] * 6 + [0.03] * 6)
    unsure = fit(pile, theta, margin, doubt, True, *given)[1]
    assert odds[rows[0], 0] == pytest.approx(unsure[rows[0], 0], abs=0.05)


def test_the_labels_and_the_pile_count_by_their_mentions(pile, model, first):
    """The result is their weighted mean, or the labels alone where nothing is predicted better."""
    (theta, _, left_out), _ = first
    alone = {name: values + 1 for name, values in theta.items()}
    better = left_out + np.where(pile.labels[pile.labelled] > 0.5, 0.1, -0.1)
    sure = np.where(pile.labelled, 0.0, 9.0)[:, None]
    last, args = (alone, sure, better), DefaultArgs()
    learned = put_together(pile, model, (theta, sure, left_out), last, 1, "", args)
    assert (learned.pile_helped, learned.used_slot) == (True, 1)
    assert learned.pile_weight == pytest.approx(30 / (30 + pile.labels.sum()))
    for name in theta:
        np.testing.assert_allclose(
            learned.theta[name] - theta[name], learned.pile_weight, rtol=1e-4, err_msg=name
        )
    few, worse = (theta, -sure, left_out), (alone, sure, left_out)
    for before, after in ((few, last), ((theta, sure, left_out), worse)):
        kept = put_together(pile, model, before, after, 1, "", args)
        assert (kept.pile_helped, kept.pile_weight, kept.used_slot) == (False, 0.0, 0)
        np.testing.assert_array_equal(kept.theta["prior"], theta["prior"])
    forced = put_together(pile, model, few, last, 1, "", DefaultArgs(choose=False))
    assert (forced.pile_weight, forced.used_slot) == (1.0, 1)


def test_the_pile_has_its_share_of_what_counts_in_an_estimate(pile):
    """A doubtful mention is added where surer ones make up for it; labelled ones are the rest."""
    weights, _ = pseudo_labels(pile, [0.99, 0.99, 0.99, 0.75, 0.2])
    assert pile_share(weights, pile) == pytest.approx(4 / (4 + pile.labels.sum()))


def test_the_threshold_stays_where_the_labels_are_unsure_of_the_pile(pile):
    """The pile moves it only as far as the labels tell the mentions of the pile apart."""
    unsure = np.where(pile.labelled[:, None], 0.0, 0.1)  # .52 for everything
    tilt = np.linspace(-1.0, 2.0, len(pile))[:, None]
    one_each, _, _ = pile.votes
    kept = threshold_kept(unsure, unsure + tilt, 0.5, pile)
    np.testing.assert_allclose(kept, -0.5 * tilt[one_each].mean(axis=0))
    assert threshold_kept(unsure + 9.0, unsure + 9.0 + tilt, 0.5, pile).tolist() == [0.0]
    between = np.full_like(unsure, np.log(0.86 / 0.14))  # 86 % are right: half of .8 to .92
    np.testing.assert_allclose(threshold_kept(between, between + 1, 1.0, pile), [-0.5], atol=0.01)


def learn(pile, model, args=DefaultArgs(), **given):
    return learn_default(pile, model, CLOSED_FORM, args, temperature=TEMPERATURE, **given)


def test_a_run_keeps_the_labels_and_the_prior(pile, model):
    """Pseudo-labels lie in [0, 1]; L keeps its labels, and the prior its estimate on L."""
    slots = []
    learned = learn(pile, model, on_slot=slots.append)
    assert [slot.number for slot in slots] == list(range(len(slots)))
    assert 2 <= len(slots) <= 4
    prior = estimate(pile.sample(), model.features)["prior"]
    for slot in slots:
        labels = slot.pseudo_labels
        np.testing.assert_array_equal(labels[pile.labelled], pile.labels[pile.labelled])
        assert 0 <= labels.min() <= labels.max() <= 1
        np.testing.assert_array_equal(slot.theta["prior"], prior)
    assert_finite(learned.theta)
    assert_same(learned.theta, learn(pile, model).theta)
    alone = learn(pile, model, DefaultArgs(n_slots=0))
    assert (alone.used_slot, alone.pile_weight) == (0, 0.0)
    assert_same(alone.theta, slots[0].theta)


def test_f1_moves_the_bias_and_nothing_else(pile, model):
    """The decision is a shift that confidences leave out."""
    even, f1 = (learn(pile, model, DefaultArgs(decision=d)) for d in ("even", "f1"))
    assert even.shifts == (0.0,)
    moved = f1.theta[BIAS] - even.theta[BIAS]
    assert float(moved[0, 0]) == pytest.approx(f1.shifts[0], abs=1e-5)
    np.testing.assert_array_equal(f1.posterior, even.posterior)


def test_none_of_these_is_learned_where_a_label_says_so(pile, model):
    """Labels that mean neither e* nor anything known teach a second set of weights."""
    assert none_odds(pile, learn(pile, model).theta) is None
    others = np.flatnonzero(pile.labelled & (pile.labels[:, 0] < 0.5))
    gold = pile.mentions.gold.copy()
    gold[others[:2]] = OTHER
    changed = replace(pile, mentions=replace(pile.mentions, gold=gold))
    theta = learn(changed, model).theta
    assert theta[NONE_BIAS].shape == (1, 1)
    odds = none_odds(changed, theta)[others, 0]
    assert odds[:2].mean() > odds[2:].mean()


@dataclass(frozen=True)
class Given(View):
    """A view whose rows are what a pile of the test keeps."""

    name: str = ""
    part: str = ""
    is_centred: bool = False

    def rows(self, pile):
        return pile.given[self.name]


PRIOR = Weights(
    bias=-0.5,
    bias_deviation=1.5,
    half_trust=0.0,
    scale=0.3,
    mean={},
    variance={"words": (2.0,), "context": (1.0, 2.0, 3.0), "entities": (2.0,)},
)


class Case:
    """Twelve labelled mentions of thirty, whose first columns tell the entity."""

    def __init__(self, **more):
        rng = np.random.default_rng(0)
        unit = [r / np.linalg.norm(r, axis=1, keepdims=True) for r in _random(rng)]
        self.given = {
            "words": unit[0],
            "context": unit[1],
            "entities": sparse.csr_matrix(unit[2]),
            **more,
        }
        self.rows_of_labels = np.arange(0, 24, 2)
        self.margin = rng.standard_normal(12)
        signal = unit[0][self.rows_of_labels, 0] + 0.5 * rng.standard_normal(12)
        self.label, self.weight = signal > 0, np.where(np.arange(12) % 3 == 0, 0.5, 1.0)

    def rows(self, feature):
        return feature.rows(self)

    def fit(self, prior=PRIOR, chosen=slice(None), **changed):
        parts = {"margin": self.margin, "label": self.label, "weight": self.weight} | changed
        given = (parts[name][chosen] for name in ("margin", "label", "weight"))
        return fit_correction(self, self.rows_of_labels[chosen], *given, THREE, prior)


def _random(rng):
    entities = rng.random((30, 5)) * (rng.random((30, 5)) < 0.6) + 1e-9
    return rng.standard_normal((30, 4)), rng.standard_normal((30, 3)), entities


THREE = (Given("words", "", True), Given("context", "", True), Given("entities"))


def penalised_loss(weights, case, prior):
    """Minus the log posterior of the weights of all columns, scale and bias."""
    rows = case.rows_of_labels
    odds, penalty, start = case.margin.copy(), 0.0, 0
    for own_view in THREE:
        matrix = case.rows(own_view) @ np.eye(case.rows(own_view).shape[1])
        own = weights[start : start + matrix.shape[1]]
        start += matrix.shape[1]
        centre = matrix.mean(axis=0) if own_view.is_centred else 0.0
        odds = odds + (matrix[rows] - centre) @ own
        mean = np.array(prior.mean.get(own_view.name, 0.0))
        penalty += ((own - mean) ** 2 / (2 * np.array(prior.variance[own_view.name]))).sum()
    scale, bias = weights[start:]
    odds = odds + scale * case.margin + bias
    penalty += scale**2 / (2 * 0.3**2) + (bias + 0.5) ** 2 / (2 * 1.5**2)
    losses = np.logaddexp(0, np.where(case.label, -odds, odds))
    return float(case.weight @ losses) + penalty


@pytest.mark.parametrize("mean", [0.0, 0.7])
def test_the_fit_is_the_most_probable_correction(mean):
    """Newton's method among the labels finds what a generic optimiser finds among the weights."""
    case, prior = Case(), replace(PRIOR, mean={"entities": (mean,) * 5})
    groups, _ = case.fit(prior)
    found = optimize.minimize(
        penalised_loss, np.zeros(14), (case, prior), "BFGS", options={"gtol": 1e-8}
    ).x
    names = [f"correction {v.name}" for v in THREE]
    ours = np.concatenate([groups[name] for name in (*names, SCALE)])
    np.testing.assert_allclose(ours, found[:-1], atol=2e-3)
    # The bias that is kept also holds what the centres give.
    centres = np.concatenate([case.given[name].mean(axis=0) for name in ("words", "context")])
    assert groups[BIAS][0] == pytest.approx(found[-1] - centres @ ours[:7], abs=2e-3)


def test_left_out_odds_are_those_of_real_refits():
    """The formula gives about what fitting again without the label gives, for every label."""
    case, rows = Case(), Case().rows_of_labels
    groups, left_out = case.fit()

    def odds(found, i):
        linear = sum(
            (case.given[v.name][rows[i]] @ found[f"correction {v.name}"]).item() for v in THREE
        )
        return case.margin[i] * (1 + found[SCALE][0]) + linear + found[BIAS][0]

    refits = [odds(case.fit(PRIOR, np.delete(np.arange(12), i))[0], i) for i in range(12)]
    np.testing.assert_allclose(left_out, refits, atol=0.25)
    assert np.corrcoef(left_out, refits)[0, 1] > 0.995
    seen = np.array([odds(groups, i) for i in range(12)])
    # What saw the label agrees with it more than what did not.
    assert np.all(np.where(case.label, seen - left_out, left_out - seen) > 0)


def test_an_entity_is_thought_rare_until_labels_speak():
    """The bias starts where the prior says, and labels of one kind move it."""
    nobody = np.zeros(0, dtype=np.int64)
    assert Case().fit(PRIOR, nobody)[0][BIAS] == pytest.approx([-0.5])
    groups, _ = Case().fit(label=np.ones(12, dtype=bool))
    assert 0 < groups[BIAS][0] < 5
    assert_finite(groups)


def test_the_margin_counts_by_the_positive_labels():
    """A margin of one or two documents repeats the description; without positives it is silent."""
    case, prior = Case(), replace(PRIOR, half_trust=0.7, scale=0.0)
    n = case.weight[case.label].sum()
    assert case.fit(replace(prior, half_trust=0.0))[0][SCALE] == [0.0]
    assert case.fit(prior)[0][SCALE] == pytest.approx([n / (n + 0.7) - 1])
    assert case.fit(prior, label=np.zeros(12, dtype=bool))[0][SCALE] == [-1.0]


def test_log_odds_add_up_their_parts(pile, first):
    """Their sum is f; without a correction the margin speaks alone."""
    (theta, _, _), margin = first
    odds, parts = log_odds(margin, pile, theta, TEMPERATURE)
    np.testing.assert_allclose(parts.sum(axis=2), odds)
    scaled = margin.astype(float) / TEMPERATURE * (1 + theta[SCALE].astype(float)[:, 0])
    np.testing.assert_allclose(parts[..., 0], scaled)
    assert (parts[..., -1] == theta[BIAS][:, 0]).all()
    bare = {name: theta[name] for name in ("prior", "relatedness", "embedding")}
    plain, _ = log_odds(margin, pile, bare, TEMPERATURE)
    np.testing.assert_allclose(plain, margin.astype(float) / TEMPERATURE)


@pytest.mark.parametrize(
    ("posterior", "odds"),
    [
        # k = 2: 2 * 1.2 / (2 + 1.6) = .667; k = 3: 2 * 1.6 / (3 + 1.6) = .696; between .4 and 0.
        ([0.7, 0.5, 0.4, 0.0], np.log(0.8 / 0.2)),
        # k = 1: .750; k = 2: 2 * 1.3 / (2 + 1.4) = .765; k = 3: .636; between .4 and .1.
        ([0.1, 0.4, 0.9], np.log(0.75 / 0.25)),
        ([1.0, 1.0], 0.0),  # certain mentions need no shift
        ([0.0, 0.0, 0.0], 0.0),  # nothing to link has none
        ([], 0.0),
        ([0.05] * 50, np.log(4)),  # the threshold is never below .2
    ],
)
def test_the_threshold_for_f1_by_hand(posterior, odds):
    """Linking the first k of the ranked mentions gives F1 = 2 Σp / (k + Σp); the best k counts."""
    column = np.array(posterior, dtype=np.float32)[:, None]
    assert shifts(column, DefaultArgs(decision="f1")) == (pytest.approx(odds, abs=1e-5),)
    assert shifts(column, DefaultArgs()) == (0.0,)
