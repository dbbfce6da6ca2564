"""What every feature and every model must do; a new one inherits this and names itself."""

import importlib
import inspect
import pkgutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from stamo.corpus.types import Corpus
from stamo.features.base import Feature, encode_features, lookup_slope
from stamo.features.pile import Sample
from stamo.learning.learn import encode_pile
from stamo.models.base import LinkingModel, PlainScorer, make_batch
from stamo.models.kinds import MODELS
from stamo.models.tables import MASKED
from tests.synthetic import Q, make_synthetic_pile, make_tables, make_theta


def implementations(package, is_one):
    """Return the concrete classes that the modules of a package define, whatever their file."""
    names = [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return {
        kind
        for module in map(importlib.import_module, names)
        for kind in vars(module).values()
        if inspect.isclass(kind)
        and kind.__module__ == module.__name__
        and not inspect.isabstract(kind)
        and not getattr(kind, "_is_protocol", False)
        and is_one(kind)
    }


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
        pile = replace(encoded.pile, mentions=mentions, extra={})
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


class ModelContract:
    """Inherit, set `kind`, and the model is checked on a random pile."""

    kind: type[LinkingModel]

    @pytest.fixture(params=[False, True], ids=["one entity", "a shared alias"])
    def pile(self, request):
        return make_synthetic_pile(np.random.default_rng(1), shared_alias=request.param)

    @pytest.fixture
    def tables(self):
        return make_tables(np.random.default_rng(2))

    @pytest.fixture
    def model(self):
        torch.manual_seed(0)
        return self.kind(Q).eval()

    def test_can_be_named_and_saved(self):
        """The command line and saved files know it by its name."""
        assert MODELS[self.kind.name] is self.kind

    def test_scores_every_candidate_and_no_padding(self, model, pile, tables):
        """Each candidate has a finite score; padding has the one that no candidate reaches."""
        batch = make_batch(pile.mentions, tables)
        scores = model(batch)
        assert scores.shape == batch.mask.shape
        assert bool((scores[~batch.mask] == MASKED).all())
        assert bool((scores[batch.mask].abs() < 1e6).all())

    def test_gives_the_scores_that_it_combines(self, model, pile, tables):
        """`combine` turns what `scores` gives into what `forward` gives."""
        batch = make_batch(pile.mentions, tables)
        combined = model.combine(model.scores(batch)).squeeze(-1)
        torch.testing.assert_close(combined[batch.mask], model(batch)[batch.mask])

    def test_scores_known_mentions_as_forward_does(self, model, pile, tables):
        """However it gets at them, the scores for linking are those of `forward`."""
        with torch.no_grad():
            expected = model(make_batch(pile.mentions, tables)).numpy()
        np.testing.assert_allclose(model.score_known(pile.mentions, tables), expected, atol=1e-5)

    def test_prepared_scores_are_those_of_forward(self, model, pile, tables):
        """The prepared scorer and a part of it score under θ(e*) as the plain one does."""
        theta = make_theta(np.random.default_rng(3), pile)
        rows = np.array([5, 0, 2])
        prepared, plain = model.prepare(pile, tables), PlainScorer(model, pile, tables)
        with torch.no_grad():
            expected = plain(theta).numpy()
            np.testing.assert_allclose(prepared(theta).numpy(), expected, atol=1e-5)
            np.testing.assert_allclose(
                prepared.take(rows)(theta).numpy(), expected[rows], atol=1e-5
            )

    def test_the_slope_is_that_of_autograd(self, model, pile, tables):
        """Scores and gradient of a step are those of `forward` and autograd."""
        groups = make_theta(np.random.default_rng(3), pile).groups
        theta = {name: group.numpy() for name, group in groups.items()}
        prepared, plain = model.prepare(pile, tables), PlainScorer(model, pile, tables)
        scores, back = prepared.slope(theta, None)
        expected, recorded = plain.slope(theta, None)
        np.testing.assert_allclose(scores, expected, atol=1e-5)
        by_score = np.where(expected > MASKED / 2, np.float32(1), np.float32(0))
        found = back(by_score)
        for name, gradient in recorded(by_score).items():
            np.testing.assert_allclose(found[name], gradient, rtol=1e-3, atol=1e-4, err_msg=name)

    def test_shares_phi_when_features_are_exchanged(self, model):
        """A reading's model is the same φ with other estimators."""
        other = model.with_features(model.features)
        assert all(a is b for a, b in zip(other.parameters(), model.parameters(), strict=True))
