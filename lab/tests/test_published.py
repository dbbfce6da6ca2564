"""What the published experiments did otherwise, and the feature that the docs add."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from stamo.features.base import estimate
from stamo.learning.algorithm1 import StamoArgs
from stamo.learning.learn import METHODS, Method
from stamo.models.deeped import DeepED
from stamo.models.store import TrainedModel
from stamo_lab.keyphrase import Keyphrase
from stamo_lab.published import (
    PUBLISHED,
    QUIRKS,
    CrawlRelatedness,
    OddsPrior,
    PublishedDeepED,
    PublishedEmbedding,
    attend_padding,
)
from tests.contracts import FeatureContract
from tests.synthetic import Q, assert_finite, make_labelled_pile


class TestKeyphrase(FeatureContract):
    feature = Keyphrase()


class TestOddsPrior(FeatureContract):
    feature = OddsPrior()


class TestCrawlRelatedness(FeatureContract):
    feature = CrawlRelatedness()


class TestPublishedEmbedding(FeatureContract):
    feature = PublishedEmbedding()


@pytest.fixture(scope="module")
def pile():
    return make_labelled_pile()


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    model = DeepED(Q)
    model.n_attended = 5
    return TrainedModel(model, Q, "0" * 64)


def test_the_published_attention_takes_padding_for_words(trained):
    """Padding stands there with support 0, and the word at the H'-th score itself is left out."""
    model = attend_padding(trained.model)
    assert isinstance(model, PublishedDeepED)
    assert model.phi is trained.model.phi
    model.n_attended = 2
    # The scores are 2, -1, 1 and, for padding, 0: the second is 1, and only 2 lies above it.
    for make in (np.array, torch.tensor):
        alpha = model.attend(make([[2.0, -1.0, 1.0, 5.0]]), make([[True, True, True, False]]))
        assert alpha[0].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_the_published_run_has_a_scale_that_is_never_reset(pile, trained):
    """Its scale of the relatedness is trained from slot to slot; odds stand for the prior."""
    slots = []
    args = replace(PUBLISHED.args, n_slots=2, intra=replace(PUBLISHED.args.intra, n_epochs=5))
    method = replace(PUBLISHED, args=replace(args, first_intra=args.intra))
    learned = method.learn(pile, trained, slots.append)
    assert_finite(learned.theta)
    scale = [float(slot.theta["relatedness scale"][0, 0]) for slot in slots]
    assert scale[0] != 1.0
    assert len(set(scale)) == 3
    assert float(estimate(pile.sample(), [OddsPrior()])["prior"][0, 0]) > 0
    assert trained.model.features == DeepED.own_features


@pytest.mark.parametrize("quirk", QUIRKS)
def test_every_quirk_is_a_switch_of_its_own(pile, trained, quirk):
    """A quirk changes the scores of the method it is switched on over."""
    plain = Method("stamo", METHODS["stamo"].features, StamoArgs(n_slots=2))
    scores = [
        found.model.freeze(pile).scores(found.theta)
        for found in (method.learn(pile, trained) for method in (QUIRKS[quirk](plain), plain))
    ]
    assert not np.array_equal(*scores)
