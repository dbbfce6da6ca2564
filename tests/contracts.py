"""What every feature must do; a new feature inherits this and names itself."""

import numpy as np
import pytest
import torch

from stamo.corpus.types import Corpus
from stamo.features.base import Feature, encode_features
from stamo.features.pile import Sample
from stamo.features.slopes import lookup_slope
from stamo.learning.learn import encode_pile


class FeatureContract:
    """Inherit, set `feature`, and the feature is checked on the embedded world."""

    feature: Feature
    learns = True
    """Whether the feature has anything to learn."""

    @pytest.fixture(scope="class")
    @classmethod
    def sample(cls, world, world_corpus, world_kb, world_model):
        entity = world.emerging[0]
        about = [d for d in world_corpus if any(m.surface in entity.aliases for m in d.mentions)]
        encoded = encode_pile([entity], Corpus(tuple(about[:40])), world_kb, world_model)
        mentions = encode_features(encoded.pile.mentions, [cls.feature], world_kb)
        pile = type(encoded.pile)(**{**vars(encoded.pile), "mentions": mentions, "extra": {}})
        return Sample(pile, encoded.labels, encoded.labelled.astype(np.float32))

    def test_is_a_feature(self):
        """It has a name and the three functions."""
        assert isinstance(self.feature, Feature)
        assert self.feature.name

    def test_known_values_have_a_row_for_each_mention_and_candidate(self, sample, world_kb):
        """Known candidates have finite values, one or several for each."""
        mentions = sample.pile.mentions
        values = self.feature.known(mentions, world_kb)
        assert values.shape[:2] == mentions.candidates.shape
        assert np.isfinite(values).all()

    def test_estimate_is_finite_and_repeatable(self, sample, world_kb):
        """The same labels give the same group of θ(e*), one row for each entity."""
        first, second = (self.feature.estimate(sample, world_kb) for _ in range(2))
        assert first.shape[0] == len(sample.pile.entities)
        assert bool(torch.isfinite(first).all())
        assert torch.equal(first, second)

    def test_estimate_without_any_label_is_finite(self, sample, world_kb):
        """Nothing counted, nothing broken."""
        nothing = Sample(sample.pile, np.zeros_like(sample.weights), np.zeros_like(sample.counted))
        assert bool(torch.isfinite(self.feature.estimate(nothing, world_kb)).all())

    def test_estimate_depends_on_the_labels(self, sample, world_kb):
        """Other labels, other parameters (unless there is nothing to learn)."""
        opposite = Sample(sample.pile, 1 - sample.weights, sample.counted)
        a, b = (self.feature.estimate(e, world_kb) for e in (sample, opposite))
        assert torch.equal(a, b) != self.learns

    def test_lookup_is_differentiable_in_theta(self, sample, world_kb):
        """Gradients of the emerging entity's values reach θ(e*)."""
        theta = self.feature.estimate(sample, world_kb).clone().requires_grad_(self.learns)
        values = self.feature.lookup(theta, sample.pile)
        assert values.shape[0] == len(sample.pile)
        assert bool(torch.isfinite(values).all())
        if self.learns:
            (values**2).sum().backward()
            assert theta.grad is not None
            assert float(theta.grad.abs().sum()) > 0

    def test_the_slope_is_that_of_lookup(self, sample, world_kb):
        """Values and gradient of a step are those of `lookup` and autograd, however they come."""
        theta = self.feature.estimate(sample, world_kb).clone().requires_grad_(self.learns)
        values = self.feature.lookup(theta, sample.pile)
        same, back = lookup_slope(self.feature)(theta.detach().numpy(), sample.pile)
        np.testing.assert_allclose(same, values.detach().numpy(), rtol=1e-5, atol=1e-6)
        if self.learns:
            (values**2).sum().backward()
            np.testing.assert_allclose(back(2 * same), theta.grad.numpy(), rtol=1e-4, atol=1e-5)
