"""The prior of an emerging entity, counted by hand (Eq. 2)."""

import numpy as np
import pytest
import torch

from stamo.corpus.types import EmergingEntity
from stamo.errors import SettingsError
from stamo.features.prior import Prior
from tests.features.by_hand import FiveDocuments, label, pile_of, star

KB = FiveDocuments()
AS_PRINTED = Prior(smoothing=0.0, renormalise=False)


def estimate(prior, weights, counted=None):
    """Estimate on four documents that say "Star"; none says "The Star"."""
    pile = pile_of([star(d) for d in range(4)])
    return prior.estimate(label(pile, weights, counted), KB)[0].tolist()


def test_without_smoothing_it_is_the_share_of_the_documents():
    """Three of four documents mean e*; an alias that no document says has no prior."""
    assert estimate(AS_PRINTED, [1, 1, 1, 0]) == pytest.approx([3 / 4, 0.0])


def test_smoothing_adds_a_vote_at_the_overall_share():
    """The overall share is (3 + 1) / (4 + 2) by Laplace's rule, and every alias gets it once."""
    expected = [(3 + 2 / 3) / 5, 2 / 3]
    assert estimate(Prior(), [1, 1, 1, 0]) == pytest.approx(expected)
    assert estimate(Prior(smoothing=2.0), [1, 1, 1, 0])[0] == pytest.approx((3 + 4 / 3) / 6)


@pytest.mark.parametrize(("value", "smoothed"), [(1, (4 + 5 / 6) / 5), (0, (1 / 6) / 5)])
def test_labels_of_one_kind_reach_the_border_only_without_smoothing(value, smoothed):
    """As printed the prior becomes 0 or 1; smoothed it stays inside."""
    assert estimate(AS_PRINTED, [value] * 4)[0] == value
    assert estimate(Prior(), [value] * 4)[0] == pytest.approx(smoothed)


def test_only_counted_mentions_vote():
    """A mention outside of S_web changes nothing."""
    assert estimate(AS_PRINTED, [1, 0, 0, 0], [1, 1, 0, 0])[0] == pytest.approx(1 / 2)


def test_pseudo_labels_count_by_their_probability():
    """A document that means e* with probability one half is half a vote."""
    assert estimate(AS_PRINTED, [1, 0.5, 0, 0])[0] == pytest.approx(1.5 / 4)


def test_a_document_that_repeats_the_name_has_one_vote():
    """Three mentions in document 0 are one vote against that of document 1."""
    pile = pile_of([star(0), star(0), star(0), star(1)])
    theta = AS_PRINTED.estimate(label(pile, [1, 1, 1, 0]), KB)
    assert theta[0, 0].item() == pytest.approx(1 / 2)


def lookup(prior, *rows, entities=None):
    pile = pile_of([star(0)], **({} if entities is None else {"entities": entities}))
    return prior.lookup(torch.tensor(rows), pile)[0].tolist()


def test_known_candidates_share_what_is_left():
    """With P(e*) = 1/4 the others have three quarters of 0.6 and 0.4; padding stays 0."""
    assert lookup(Prior(), [0.25, 0.9]) == pytest.approx([0.45, 0.3, 0.0, 0.25])


def test_as_printed_known_candidates_keep_their_share():
    """Eq. 2 does not touch what was counted on Wikipedia."""
    assert lookup(AS_PRINTED, [0.25, 0.9]) == pytest.approx([0.6, 0.4, 0.0, 0.25])


@pytest.mark.parametrize(
    ("theta", "expected"),
    [
        (0.0, [0.6, 0.4, 0.0, 0.0]),
        (1.0, [0.0, 0.0, 0.0, 1.0]),
        (1.7, [0.0, 0.0, 0.0, 1.0]),
        (-0.3, [0.6, 0.4, 0.0, 0.0]),
    ],
)
def test_a_prior_that_left_the_interval_is_read_within(theta, expected):
    """Steps may carry θ beyond 0 and 1; a probability it stays."""
    assert lookup(Prior(), [theta, 0.5]) == pytest.approx(expected)


def test_entities_of_one_alias_share_one_mention():
    """Two that claim 0.8 and 0.7 get 8/15 and 7/15; one that does not have the alias nothing."""
    first, second, other = (
        EmergingEntity(i, (a,)) for i, a in (("1", "Star"), ("2", "Star"), ("3", "Moon"))
    )
    found = lookup(Prior(), [0.8], [0.7], entities=(first, second))
    assert found[3:] == pytest.approx([8 / 15, 7 / 15])
    found = lookup(Prior(), [0.5, 0.0], [0.9, 0.5], entities=(first, other))
    assert found[3:] == pytest.approx([0.5, 0.0])


def test_the_gradient_stops_at_the_border():
    """Beyond 1 a step changes nothing; inside, raising P(e*) lowers the others."""
    pile = pile_of([star(0)])
    for theta, expected in ((0.5, 1.0 - 0.6), (1.5, 0.0)):
        _, back = Prior().slope(np.array([[theta, 0.0]], dtype=np.float32), pile)
        by_value = np.array([[1.0, 0.0, 0.0, 1.0]], dtype=np.float32)
        assert back(by_value)[0] == pytest.approx([expected, 0.0])


def test_a_negative_smoothing_is_refused():
    """Fewer votes than none cannot be."""
    with pytest.raises(SettingsError, match="0 or more"):
        Prior(smoothing=-1)
