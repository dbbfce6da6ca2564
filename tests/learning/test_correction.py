"""The evidence of an entity: its fit, its left-out odds, and the line for F1."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import optimize, sparse

from stamo.errors import SettingsError
from stamo.features.base import FeatureParams, View
from stamo.features.views import VIEWS
from stamo.learning.correction import (
    EvidenceArgs,
    _newton,
    f1_shift,
    fit_correction,
    with_evidence,
)
from stamo.models.evidence import BIAS, GROUPS, SCALE, log_odds


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def case():
    """Twelve labelled mentions of thirty, whose first columns tell the entity."""
    rng = np.random.default_rng(0)
    views = {
        "words": unit(rng.standard_normal((30, 4))),
        "context": unit(rng.standard_normal((30, 3))),
        "entities": sparse.csr_matrix(
            unit(rng.random((30, 5)) * (rng.random((30, 5)) < 0.6) + 1e-9)
        ),
    }
    rows = np.arange(0, 24, 2)
    margin = rng.standard_normal(12)
    label = views["words"][rows, 0] + 0.5 * rng.standard_normal(12) > 0
    weight = np.where(np.arange(12) % 3 == 0, 0.5, 1.0)
    return views, rows, margin, label, weight


def penalised_loss(weights, case, args):
    """Minus the log posterior of the weights of all columns, scale and bias."""
    views, rows, margin, label, weight = case
    odds, penalty, start = margin.copy(), 0.0, 0
    for view in args.views:
        matrix = views[view.name]
        matrix = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        own = weights[start : start + matrix.shape[1]]
        start += matrix.shape[1]
        centre = matrix.mean(axis=0) if view.is_centred else 0.0
        odds = odds + (matrix[rows] - centre) @ own
        penalty += ((own - view.mean) ** 2).sum() / (2 * view.variance)
    scale, bias = weights[start:]
    odds = odds + scale * margin + bias
    penalty += scale**2 / (2 * args.scale**2) + (bias + args.rare) ** 2 / (2 * args.bias**2)
    return float(weight @ np.logaddexp(0, np.where(label, -odds, odds))) + penalty


def test_without_a_line_an_entity_is_thought_rare_until_labels_speak(case):
    """The bias starts below zero, every label moves it, and a line about the entity replaces it."""
    views, rows, margin, _, weight = case
    args, none = EvidenceArgs(rare=0.5), np.zeros(0, dtype=np.int64)
    nobody = (views, none, np.zeros(0), np.zeros(0, dtype=bool), np.zeros(0))
    assert fit_correction(*nobody, args).groups[BIAS] == pytest.approx([-0.5])
    line = {**views, "about": np.zeros((30, 1))}
    assert fit_correction(line, *nobody[1:], args).groups[BIAS] == pytest.approx([0.0])
    found = fit_correction(views, rows, margin, np.ones(12, dtype=bool), weight, args)
    assert found.groups[BIAS][0] > -0.5


def test_beside_a_line_the_margin_counts_by_the_positive_labels(case):
    """A margin made of one or two documents repeats the line; without positives it says nothing."""
    views, rows, margin, label, weight = case
    args = EvidenceArgs(scale=0.0)
    n = weight[label].sum()

    def scale(given, labels=label):
        return float(fit_correction(given, rows, margin, labels, weight, args).groups[SCALE][0])

    with_line = views | {"about": np.linspace(-0.1, 0.2, 30)[:, None]}
    assert scale(views) == 0.0
    assert scale(with_line) == pytest.approx(n / (n + 0.7) - 1)
    assert scale(with_line, np.zeros_like(label)) == -1.0


@pytest.mark.parametrize("mean", [0.0, 0.7])
def test_the_fit_is_the_most_probable_correction(case, mean):
    """Newton's method among the labels finds what a generic optimiser finds among the weights."""
    views, rows, margin, label, weight = case
    args = EvidenceArgs(views=(*VIEWS[:2], replace(VIEWS[2], mean=mean)))
    fit = fit_correction(views, rows, margin, label, weight, args)
    columns = sum(matrix.shape[1] for matrix in views.values())
    found = optimize.minimize(
        penalised_loss, np.zeros(columns + 2), (case, args), "BFGS", options={"gtol": 1e-8}
    ).x
    ours = np.concatenate([fit.groups[name] for name in (*GROUPS[:3], SCALE)])
    np.testing.assert_allclose(ours, found[:-1], atol=2e-3)
    # The bias that is kept also holds what the centres give.
    centres = [matrix.mean(axis=0) for name, matrix in views.items() if name != "entities"]
    at_centre = np.concatenate(centres) @ ours[:7]
    assert fit.groups[BIAS][0] == pytest.approx(found[-1] - at_centre, abs=2e-3)


def test_a_prior_mean_speaks_where_no_label_does(case):
    """With labels of no weight the weights stay at the prior's mean."""
    views, rows, margin, label, _ = case
    args = EvidenceArgs(views=(replace(VIEWS[2], mean=0.7),), rare=0.0)
    fit = fit_correction(views, rows, margin, label, np.full(12, 1e-9), args)
    np.testing.assert_allclose(fit.groups["evidence entities"], 0.7, atol=1e-6)
    np.testing.assert_allclose(
        fit.left_out,
        margin + 0.7 * np.asarray(views["entities"][rows].sum(axis=1)).ravel(),
        atol=1e-6,
    )


def test_left_out_odds_are_those_of_real_refits(case):
    """The formula gives about what fitting again without the label gives, for every label."""
    views, rows, margin, label, weight = case
    args = EvidenceArgs()
    left_out = fit_correction(views, rows, margin, label, weight, args).left_out
    refits = []
    for i in range(len(rows)):
        rest = np.delete(np.arange(len(rows)), i)
        fit = fit_correction(views, rows[rest], margin[rest], label[rest], weight[rest], args)
        theta = with_evidence(FeatureParams({}), [fit])
        one = {name: matrix[rows[i : i + 1]] for name, matrix in views.items()}
        refits.append(log_odds(margin[i : i + 1, None], theta, one, 1.0)[0, 0])
    np.testing.assert_allclose(left_out, refits, atol=0.25)
    assert np.corrcoef(left_out, refits)[0, 1] > 0.995
    fitted = fit_correction(views, rows, margin, label, weight, args)
    seen = log_odds(
        margin[:, None],
        with_evidence(FeatureParams({}), [fitted]),
        {name: matrix[rows] for name, matrix in views.items()},
        1.0,
    )[:, 0]
    # What saw the label agrees with it more than what did not.
    assert np.all(np.where(label, seen - left_out, left_out - seen) > 0)


def test_newton_by_hand():
    """One label of e* at even odds: α solves α = 1 - σ(k α)."""
    alpha, left_out = _newton(np.array([[2.0]]), np.zeros(1), np.ones(1), np.ones(1))
    assert alpha[0] == pytest.approx(1 / (1 + np.exp(2.0 * alpha[0])), abs=1e-3)
    assert left_out[0] == pytest.approx(0.0, abs=1e-6)  # without its label nothing moves


def test_labels_of_one_kind_move_the_bias_and_stay_finite(case):
    """All labels alike raise the odds of every mention, by no more than the prior allows."""
    views, rows, margin, _, weight = case
    fit = fit_correction(views, rows, margin, np.ones(12, dtype=bool), weight, EvidenceArgs())
    assert 0 < fit.groups[BIAS][0] < 5
    assert all(np.isfinite(values).all() for values in fit.groups.values())


@dataclass(frozen=True)
class Likeness(View):
    """A view of one column that speaks for the entity before any label."""

    name = "likeness"
    part = "likeness"
    is_centred = False
    variance: float = 1.0
    mean: float = 2.0

    def rows(self, pile, kb):
        return np.ones((len(pile), 1))


def test_a_new_view_is_fitted_like_the_others(case):
    """The correction asks a view for nothing but its name, prior and rows."""
    views, rows, margin, label, weight = case
    views = {**views, "likeness": np.linspace(0, 1, 30)[:, None]}
    args = EvidenceArgs(views=(*VIEWS, Likeness()))
    fit = fit_correction(views, rows, margin, label, weight, args)
    assert list(fit.groups) == [*GROUPS[:3], "evidence likeness", SCALE, BIAS]
    assert fit.groups["evidence likeness"].shape == (1,)


def test_negative_variances_are_refused():
    """A variance below 0 is no setting."""
    with pytest.raises(SettingsError, match="0 or more"):
        replace(VIEWS[0], variance=-1.0)
    with pytest.raises(SettingsError, match="0 or more"):
        EvidenceArgs(bias=-1.0)


def test_f1_shift_by_hand():
    """Linking the first k of the ranked mentions gives F1 = 2 Σp / (k + Σp); the best k counts."""
    # k = 2: 2 * 1.2 / (2 + 1.6) = .667; k = 3: 2 * 1.6 / (3 + 1.6) = .696; the line is .4 / 2.
    posterior = np.array([0.7, 0.5, 0.4, 0.0], dtype=np.float32)
    assert f1_shift(posterior) == pytest.approx(np.log(0.8 / 0.2), abs=1e-5)
    # k = 1: 2 * .9 / (1 + 1.4) = .750; k = 2: 2 * 1.3 / (2 + 1.4) = .765; k = 3: .636; the line
    # is between .4 and .1.
    posterior = np.array([0.1, 0.4, 0.9], dtype=np.float32)
    assert f1_shift(posterior) == pytest.approx(np.log(0.75 / 0.25), abs=1e-5)


def test_f1_shift_stays_between_its_bounds():
    """Certain mentions need no shift, nothing to link has none, and the line is never below .2."""
    assert f1_shift(np.array([0.99, 0.98, 0.01, 0.02], dtype=np.float32)) < 0.1
    assert f1_shift(np.array([1.0, 1.0], dtype=np.float32)) == 0.0
    assert f1_shift(np.zeros(3, dtype=np.float32)) == 0.0
    assert f1_shift(np.zeros(0, dtype=np.float32)) == 0.0
    assert f1_shift(np.full(50, 0.05, dtype=np.float32)) == pytest.approx(np.log(4))
