"""Every feature passes the shared contract."""

import inspect

import torch

from stamo.features import embedding, keyphrase, name, prior, relatedness, surface
from stamo.features.embedding import Embedding
from stamo.features.keyphrase import Keyphrase
from stamo.features.max_margin import MaxMargin
from stamo.features.name import Name
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.features.surface import Surface
from tests.contracts import FeatureContract


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
    feature = Name()
    learns = False


class TestKeyphrase(FeatureContract):
    feature = Keyphrase()


def test_every_feature_has_a_contract_test():
    """A feature without a contract test is found here."""
    modules = (embedding, keyphrase, name, prior, relatedness, surface)
    features = {
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and hasattr(kind, "known")
    }
    tested = {type(test.feature) for test in FeatureContract.__subclasses__()}
    assert features <= tested


def test_prior_by_hand(world, world_corpus, world_kb, world_model):
    """Without smoothing the prior is the share of the votes, one a document and surface."""
    import numpy as np

    from stamo.corpus.types import Corpus
    from stamo.features.pile import Sample
    from stamo.learning.learn import encode_pile

    entity = world.emerging[0]
    about = [d for d in world_corpus if any(m.surface in entity.aliases for m in d.mentions)]
    encoded = encode_pile([entity], Corpus(tuple(about[:30])), world_kb, world_model)
    sample = Sample(encoded.pile, encoded.labels, encoded.labelled.astype(np.float32))
    votes = {}
    for document in about[:30]:
        for mention in document.mentions:
            if mention.surface in entity.aliases:
                key = (document.id, mention.surface)
                votes.setdefault(key, []).append(mention.entity == entity.id)
    expected = []
    for alias in encoded.pile.aliases:
        shares = [np.mean(v) for (_, surface_form), v in votes.items() if surface_form == alias]
        expected.append(np.mean(shares) if shares else 0.0)
    theta = Prior(smoothing=0.0).estimate(sample, world_kb)
    torch.testing.assert_close(theta[0], torch.tensor(expected, dtype=torch.float32))
