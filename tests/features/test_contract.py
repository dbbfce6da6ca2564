"""Every feature passes the shared contract."""

import stamo.features
from stamo.features.embedding import Embedding, MaxMargin
from stamo.features.keyphrase import Keyphrase
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.features.surface import NameSimilarity, Surface
from tests.contracts import FeatureContract, implementations


class TestPrior(FeatureContract):
    feature = Prior()


class TestPriorAsPrinted(FeatureContract):
    feature = Prior(smoothing=0.0, renormalise=False)


class TestRelatedness(FeatureContract):
    feature = Relatedness()


class TestEmbedding(FeatureContract):
    feature = Embedding()


class TestMaxMarginEmbedding(FeatureContract):
    feature = Embedding(max_margin=MaxMargin(n_epochs=3))


class TestSurface(FeatureContract):
    feature = Surface()
    learns = False


class TestName(FeatureContract):
    feature = NameSimilarity()
    learns = False


class TestKeyphrase(FeatureContract):
    feature = Keyphrase()


def test_every_feature_has_a_contract_test():
    """A feature in any file of `stamo.features` without a contract test is found here."""
    features = implementations(
        stamo.features,
        lambda kind: all(hasattr(kind, name) for name in ("known", "estimate", "lookup")),
    )
    assert features == {type(test.feature) for test in FeatureContract.__subclasses__()}
