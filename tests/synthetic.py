"""Random piles and vectors, small enough to score by loops."""

import numpy as np

from stamo.corpus.types import EmergingEntity
from stamo.features.embedding import Tables
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import make_pile
from stamo_lab.bench.learn import LearnBenchArgs, generate_knowledge_base, generate_pile

N_WORDS, N_ENTITIES, Q = 60, 30, 8


def make_tables(rng):
    words = rng.standard_normal((N_WORDS, Q)).astype(np.float32)
    entities = rng.standard_normal((N_ENTITIES, Q)).astype(np.float32)
    return Tables(
        words / np.linalg.norm(words, axis=1, keepdims=True),
        entities / np.linalg.norm(entities, axis=1, keepdims=True),
    )


def make_synthetic_pile(rng, n_mentions=25, n_words=12, n_context=4, shared_alias=False):
    """Mentions of two surfaces with different candidates, some words and contexts missing."""
    entities = (EmergingEntity("Star", ("Star", "The Star")),)
    if shared_alias:
        entities += (EmergingEntity("Second Star", ("Star",)),)
    aliases = ("Star", "The Star")
    table = np.array([[1, 4, 7, -1], [2, 3, 5, 9]], dtype=np.int32)
    prior_table = np.array([[0.6, 0.3, 0.1, 0.0], [0.4, 0.3, 0.2, 0.1]], dtype=np.float32)
    alias = rng.integers(0, 2, n_mentions).astype(np.int32)
    words = rng.integers(-1, N_WORDS, (n_mentions, n_words)).astype(np.int32)
    words[0] = -1  # a mention without any known word
    context = rng.integers(-1, N_ENTITIES, (n_mentions, n_context)).astype(np.int32)
    context[1] = -1  # a mention without any linked neighbour
    documents = np.sort(rng.integers(0, n_mentions, n_mentions)).astype(np.int32)
    candidates = table[alias]
    shape = candidates.shape
    known = {
        "prior": prior_table[alias],
        "relatedness": (rng.random(shape) * (candidates >= 0)).astype(np.float32),
        "surface": rng.random((*shape, 3)).astype(np.float32),
    }
    mentions = EncodedMentions(
        documents=documents,
        surfaces=alias,
        gold=np.full(n_mentions, -1, dtype=np.int32),
        words=words,
        context=context,
        candidates=candidates,
        known=known,
        surface_table=aliases,
    )
    neighbours = np.unique(context[context >= 0])[::2].astype(np.int32)
    tables, nothing = make_tables(np.random.default_rng(2)), np.zeros((0, 2), dtype=np.int32)
    return make_pile(entities, mentions, nothing, n_mentions, None, tables, neighbours)


def make_theta(rng, pile):
    n = len(pile.entities)
    vectors = rng.standard_normal((n, Q))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    groups = {
        "prior": rng.random((n, len(pile.aliases))) * 0.4,
        "relatedness": rng.random((n, len(pile.neighbours))),
        "embedding": vectors,
    }
    return {name: values.astype(np.float32) for name, values in groups.items()}


def make_labelled_pile(n_labelled=8, n_unlabelled=30):
    """A pile that features can be estimated on: half of its documents mean the new entity."""
    args = LearnBenchArgs(
        n_labelled=n_labelled,
        n_unlabelled=n_unlabelled,
        n_candidates=3,
        dimensions=Q,
        n_kb_entities=60,
        n_words=2000,
    )
    return generate_pile(args, generate_knowledge_base(args), 0)


def assert_finite(theta):
    """Every value of θ(e*) is a number."""
    assert all(np.isfinite(values).all() for values in theta.values())


def assert_same(theta, other):
    """Every value of θ(e*) is that of another, to the last bit."""
    assert theta.keys() == other.keys()
    for name, values in theta.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)
