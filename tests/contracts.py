"""What every feature and every model must do; a new one inherits this and names itself."""

import importlib
import inspect
import pkgutil
from dataclasses import replace

import numpy as np
import pytest
from autograd import elementwise_grad

from stamo.corpus.types import Corpus
from stamo.features.base import Feature, encode_features
from stamo.features.pile import Sample
from stamo.learning.learn import encode_pile
from stamo.models.base import MASKED, Frozen, Model, look_up
from stamo.models.store import MODELS
from tests.synthetic import Q, make_synthetic_pile, make_theta


def implementations(package, base):
    """Return the concrete classes over `base` that the modules of a package define."""
    names = [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return {
        kind
        for module in map(importlib.import_module, names)
        for kind in vars(module).values()
        if inspect.isclass(kind)
        and kind.__module__ == module.__name__
        and not inspect.isabstract(kind)
        and issubclass(kind, base)
        and kind is not base
    }


class FeatureContract:
    """Inherit, set `feature`, and the feature is checked on the embedded world."""

    feature: Feature
    learns = True
    """Whether the feature estimates anything on labels."""

    @pytest.fixture(scope="class")
    @classmethod
    def sample(cls, world, world_corpus, world_kb, world_model):
        entity = world.emerging[0]
        about = [d for d in world_corpus if any(m.surface in entity.aliases for m in d.mentions)]
        pile = encode_pile([entity], Corpus(tuple(about[:40])), world_kb, world_model)
        mentions = encode_features(pile.mentions, [cls.feature], world_kb)
        return replace(pile, mentions=mentions, kept={}).sample()

    def test_rows_and_known_values_have_a_row_for_each_mention(self, sample):
        """x(m) and the values of known candidates are finite; a part has the whole's columns."""
        pile = sample.pile
        assert self.feature.name
        known, rows = self.feature.known(pile.mentions, pile.kb), pile.rows(self.feature)
        assert known is None or known.shape[:2] == pile.mentions.candidates.shape
        assert known is None or np.isfinite(known).all()
        dense, chosen = np.asarray(rows @ np.eye(rows.shape[1])), np.array([7, 0, 3])
        assert dense.shape == (len(pile), rows.shape[1])
        assert np.isfinite(dense).all()
        part = pile.take(chosen).rows(self.feature)
        np.testing.assert_array_equal(part @ np.eye(rows.shape[1]), dense[chosen])

    def test_the_estimate_depends_on_the_labels_alone(self, sample):
        """The same labels give the same group of θ(e*), others another; none give finite ones."""
        opposite = Sample(sample.pile, 1 - sample.weights, sample.counted)
        nothing = Sample(sample.pile, 0 * sample.weights, 0 * sample.counted)
        first, second, other, empty = map(
            self.feature.estimate, (sample, sample, opposite, nothing)
        )
        if not self.learns:
            assert first is None
            return
        assert first.shape[0] == len(sample.pile.entities)
        assert np.isfinite(first).all()
        assert np.isfinite(empty).all()
        np.testing.assert_array_equal(first, second)
        assert not np.array_equal(first, other)

    def test_values_of_all_candidates_follow_theta(self, sample):
        """Gradients reach θ(e*), and following them changes no value."""
        if self.feature.name not in sample.pile.mentions.known:
            return  # no score of its own
        group = self.feature.estimate(sample) if self.learns else np.zeros((1, 0), np.float32)
        vector = np.ones((1, sample.pile.kb.dimensions), dtype=np.float32)
        theta = {self.feature.name: group, "embedding": vector}
        values, followed = self.feature.values(theta, sample.pile), []

        def squares(theta):
            followed.append(self.feature.values(theta, sample.pile))
            return followed[0] ** 2

        width = sample.pile.mentions.candidates.shape[1] + 1
        assert values.shape[:2] == (len(sample.pile), width)
        if self.learns:
            assert np.abs(elementwise_grad(squares)(theta)[self.feature.name]).sum() > 0
            np.testing.assert_allclose(values, followed[0]._value, rtol=1e-5, atol=1e-6)


class ModelContract:
    """Inherit, set `kind`, and the model is checked on a random pile."""

    kind: type[Model]

    @pytest.fixture(params=[False, True], ids=["one entity", "a shared alias"])
    def pile(self, request):
        return make_synthetic_pile(np.random.default_rng(1), shared_alias=request.param)

    @pytest.fixture
    def model(self):
        return self.kind(Q)

    def test_scores_every_candidate_and_no_padding(self, model, pile):
        """Scores for linking are those of `psi` and `combine`; padding has its own."""
        batch = look_up(pile.mentions, pile.tables, model.reads_each_word)
        scores, psi = model.score_known(pile.mentions, pile.tables), model.psi(batch)
        np.testing.assert_allclose(
            scores[batch.mask], model.combine(psi)[batch.mask], rtol=1e-4, atol=1e-5
        )
        assert (scores[~batch.mask] == MASKED).all()
        assert (abs(scores[batch.mask]) < 1e6).all()
        assert psi.shape[2] == model.n_scores
        assert len(model.score_names) in (0, model.n_scores)

    def test_the_frozen_form_gives_the_scores_of_the_plain_one(self, model, pile):
        """The same scores, for all mentions and for some."""
        theta, rows = make_theta(np.random.default_rng(3), pile), np.array([5, 0, 2])
        frozen, plain = model.freeze(pile), Frozen(model, pile)
        expected = plain.scores(theta)
        np.testing.assert_allclose(frozen.scores(theta), expected, rtol=1e-4, atol=1e-5)
        part = frozen.take(rows).scores(theta)
        np.testing.assert_allclose(part, expected[rows], rtol=1e-4, atol=1e-5)

    def test_gradients_are_those_of_the_plain_form(self, model, pile):
        """Autograd through the frozen form finds what it finds through the plain one."""
        theta = make_theta(np.random.default_rng(3), pile)
        stands = np.hstack([pile.mentions.mask, pile.is_candidate])
        ours, others = (
            elementwise_grad(lambda theta, form=form: form.scores(theta)[stands])(theta)
            for form in (model.freeze(pile), Frozen(model, pile))
        )
        for name in theta:
            np.testing.assert_allclose(ours[name], others[name], rtol=1e-3, atol=1e-4)
        assert all(np.abs(ours[name]).sum() > 0 for name in ("prior", "embedding"))

    def test_shares_phi_when_features_are_exchanged(self, model):
        """A method's model is the same φ with other estimators."""
        other = model.with_features({"prior": replace(model.features[0], smoothing=9.0)})
        assert other.phi is model.phi
        assert other.features != model.features
        assert model.with_features({}) is model
        assert self.kind.name not in MODELS or MODELS[self.kind.name] is self.kind
