"""Entity vectors by max-margin, against literal loops."""

from dataclasses import replace

import numpy as np
import pytest

from stamo.build import max_margin as module
from stamo.build.embeddings import context_windows
from stamo.build.max_margin import MaxMarginArgs, max_margin, max_margin_vectors, negative_words
from stamo.errors import SettingsError, VectorsError
from tests.build.linked_words import N_ENTITIES, WINDOW, Corpus, Q, unit


@pytest.fixture(scope="module")
def corpus():
    return Corpus()


def train(corpus, select=slice(None), **settings):
    initial = corpus.accumulate().finish(corpus.background)
    links = corpus.starts[select], corpus.ends[select], corpus.entities[select]
    return max_margin_vectors(
        initial,
        corpus.word_ids,
        corpus.offsets,
        *links,
        corpus.vectors,
        corpus.weights,
        negative_words(corpus.counts, corpus.weights, size=1000),
        MaxMarginArgs(**settings),
        WINDOW,
    )


def test_max_margin_is_deterministic(corpus):
    """Same seed, same bytes; another seed draws other questions."""
    assert train(corpus, seed=3).tobytes() == train(corpus, seed=3).tobytes()
    assert train(corpus, seed=3).tobytes() != train(corpus, seed=4).tobytes()


@pytest.mark.parametrize("max_contexts", [2, 100])
def test_max_margin_does_not_depend_on_the_company(corpus, max_contexts, monkeypatch):
    """An entity trained alone, in small blocks or with all others gets the same bytes."""
    together = train(corpus, max_contexts=max_contexts)
    monkeypatch.setattr(module, "_BLOCK_CONTEXTS", 1)
    alone = train(corpus, max_contexts=max_contexts)
    assert alone.tobytes() == together.tobytes()
    for entity in range(N_ENTITIES):
        mine = train(corpus, corpus.entities == entity, max_contexts=max_contexts)
        assert mine[entity].tobytes() == together[entity].tobytes()


def test_max_margin_vectors_have_unit_norm(corpus):
    """Trained rows are unit vectors; an entity without links keeps its zeros."""
    norms = np.linalg.norm(train(corpus), axis=1)
    np.testing.assert_allclose(norms[:-1], 1, atol=1e-5)
    assert norms[-1] == 0


def literal_epoch(theta, gaps, weights, args):
    """One step of one entity by loops over contexts, questions and negatives."""
    gradient = np.zeros(Q)
    for context, weight in zip(gaps, weights, strict=True):
        for gap in context:
            if args.margin - gap @ theta > 0:
                gradient -= weight * gap / args.n_questions
    theta = theta - args.learning_rate * gradient / sum(weights)
    return theta / np.linalg.norm(theta)


def test_one_epoch_agrees_with_a_loop(corpus):
    """The step is the gradient of the weighted mean question loss, then unit norm."""
    args = MaxMarginArgs(n_epochs=1, learning_rate=0.5, n_questions=3)
    windows = context_windows(*corpus.links[:4], WINDOW)
    windows = windows[(windows >= 0).any(axis=1)][:3]
    weights = np.array([1.0, 0.2, 0.7], dtype=np.float32)
    initial, keys = corpus.vectors[:1], np.array([42])
    negatives = negative_words(corpus.counts, corpus.weights, size=1000)
    rows = np.zeros(3, dtype=np.int64)
    found = max_margin(initial, keys, windows, rows, weights, corpus.vectors, negatives, args)
    draws = module._hash(args.seed, keys[rows], np.arange(3))
    gaps = module._questions(windows, draws, corpus.vectors, negatives, args)
    np.testing.assert_allclose(found[0], literal_epoch(initial[0], gaps, weights, args), atol=1e-5)


def test_questions_compare_context_words_with_negatives():
    """Every positive is a word of its context, every negative comes from the list."""
    vectors = np.arange(10, dtype=np.float32)[:, None]
    windows = np.array([[-1, 3, -1, 4], [-1, -1, 5, -1]], dtype=np.int32)
    args = MaxMarginArgs(n_questions=50, n_negatives=2)
    draws = np.array([1, 2], dtype=np.uint64)
    gaps = module._questions(windows, draws, vectors, np.array([1, 2], dtype=np.int32), args)
    assert gaps.shape == (2, 100, 1)
    assert set(gaps[0].ravel()) == {1, 2, 3}  # 3 - 2, 3 - 1 or 4 - 2, 4 - 1
    assert set(gaps[1].ravel()) == {3, 4}


def test_max_margin_separates_context_from_random_words():
    """From a bad start, training turns a vector towards the words of its contexts."""
    rng = np.random.default_rng(0)
    vectors = unit(rng.standard_normal((200, 16)))
    topic = np.arange(10, dtype=np.int32)
    vectors[:10] = unit(vectors[10] + 0.1 * rng.standard_normal((10, 16)))
    windows = rng.choice(topic, (30, 20)).astype(np.int32)
    start = unit(rng.standard_normal((1, 16)))
    found = max_margin(
        start,
        np.array([0]),
        windows,
        np.zeros(30, dtype=np.int64),
        np.ones(30, dtype=np.float32),
        vectors,
        negative_words(np.full(200, 5), np.ones(200, dtype=np.float32)),
        replace(MaxMarginArgs(), learning_rate=0.1),
    )
    assert (found @ vectors[topic].T).mean() > 0.6 > (start @ vectors[topic].T).mean() + 0.3


def test_negatives_follow_the_smoothed_counts():
    """Words are listed in proportion to count to the power 0.6; stop words never."""
    counts = np.array([1000, 100, 10, 0])
    weights = np.array([0, 1, 1, 1], dtype=np.float32)
    shares = np.bincount(negative_words(counts, weights, size=100_000), minlength=4) / 100_000
    expected = np.array([0, 100**0.6, 10**0.6, 0])
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=1e-4)
    with pytest.raises(VectorsError, match="no negatives"):
        negative_words(np.zeros(4, dtype=np.int64), weights)


@pytest.mark.parametrize(
    "settings", [{"n_epochs": 0}, {"learning_rate": 0.0}, {"margin": -0.1}, {"max_contexts": 0}]
)
def test_settings_are_checked(settings):
    """Settings out of range are refused."""
    with pytest.raises(SettingsError, match="out of range"):
        MaxMarginArgs(**settings)
