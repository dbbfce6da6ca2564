"""Random piles and vectors, small enough to score by loops."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from stamo.corpus.types import EmergingEntity
from stamo.features.embedding import Tables
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import make_pile
from stamo.kb.base import background_vector, word_weights

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
    """A pile that features can be estimated on: half of its documents mean the new entity.

    Their words and links are partly its own; the first ones are labelled.
    """
    rng = np.random.default_rng(0)
    n, n_entities, n_words = n_labelled + n_unlabelled, 60, 2000
    counts = (1e6 / np.arange(10, n_words + 10)).astype(np.int64)
    words, vectors = (rng.standard_normal((k, Q)).astype(np.float32) for k in (n_words, n_entities))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    kb = SimpleNamespace(
        n_documents=1000,
        document_frequency=rng.integers(1, 200, n_entities).astype(np.int32),
        word_vectors=words,
        word_counts=counts,
        word_weights=word_weights(counts),
        background=background_vector(words, word_weights(counts), counts),
        entity_vectors=lambda: vectors,
    )
    means_it = rng.random(n) < 0.5
    own = (rng.random((n, 20)) < 0.3) & means_it[:, None]
    around = np.where(own, rng.integers(50, 60, (n, 20)), rng.integers(0, n_words, (n, 20)))
    near = (rng.random((n, 5)) < 0.4) & means_it[:, None]
    context = np.where(near, rng.integers(0, 6, (n, 5)), rng.integers(0, n_entities, (n, 5)))
    candidates = np.broadcast_to(np.array([3, 30, 40], dtype=np.int32), (n, 3))
    mentions = EncodedMentions(
        documents=np.arange(n, dtype=np.int32),
        surfaces=np.zeros(n, dtype=np.int32),
        gold=np.where(means_it, -2, 30).astype(np.int32),
        words=around.astype(np.int32),
        context=context.astype(np.int32),
        candidates=candidates,
        known={
            "prior": np.full((n, 3), 1 / 3, dtype=np.float32),
            "relatedness": (rng.random((n, 3)) * 0.2).astype(np.float32),
        },
        surface_table=("Name",),
    )
    pairs = np.unique(np.stack([np.repeat(np.arange(n), 5), context.ravel()], axis=1), axis=0)
    tables = Tables(words, vectors)
    pile = make_pile([EmergingEntity("New", ("Name",))], mentions, pairs, n, kb, tables)
    labelled = np.arange(n) < n_labelled
    labels = (means_it & labelled)[:, None].astype(np.float32)
    return replace(pile, labels=labels, labelled=labelled)


def assert_finite(theta):
    """Every value of θ(e*) is a number."""
    assert all(np.isfinite(values).all() for values in theta.values())


def assert_same(theta, other):
    """Every value of θ(e*) is that of another, to the last bit."""
    assert theta.keys() == other.keys()
    for name, values in theta.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)
