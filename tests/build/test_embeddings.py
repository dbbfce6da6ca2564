"""Entity vectors: closed form, against literal loops."""

import numpy as np
import pytest

from stamo.build import entity_vectors as module
from stamo.build.entity_vectors import closed_form, link_segments, sum_links
from stamo.kb.words import word_weights
from tests.build.linked_words import N_ENTITIES, Corpus, Q


@pytest.fixture(scope="module")
def corpus():
    return Corpus()


def literal_closed_form(corpus):
    result = np.zeros((N_ENTITIES, Q))
    for entity in range(N_ENTITIES):
        words = [
            word
            for link in np.flatnonzero(corpus.entities == entity)
            for word in corpus.context(link)
            if word >= 0
        ]
        mass = sum(float(corpus.weights[word]) for word in words)
        if mass:
            total = sum(float(corpus.weights[w]) * corpus.vectors[w].astype(float) for w in words)
            direction = total / mass - corpus.background
            result[entity] = direction / np.linalg.norm(direction)
    return result


@pytest.mark.parametrize("block", [1, 7, 1 << 15])
def test_closed_form_agrees_with_a_loop(corpus, block, monkeypatch):
    """Mean of context words minus background at unit norm, whatever the block size."""
    monkeypatch.setattr(module, "_BLOCK_WORDS", block)
    found = closed_form(corpus.sums(), corpus.background)
    np.testing.assert_allclose(found, literal_closed_form(corpus), atol=1e-5)
    assert found.dtype == np.float32


def test_entity_without_context_is_zero(corpus):
    """An entity that is never linked has a zero row, not NaN."""
    assert (closed_form(corpus.sums(), corpus.background)[N_ENTITIES - 1] == 0).all()


def test_any_split_and_order_gives_the_same_bytes(corpus):
    """Workers may take any share of the links in any order: integer sums have no order."""
    order = np.random.default_rng(9).permutation(len(corpus.starts))
    merged = sum(corpus.sums(part) for part in (order[::3], order[1::3], order[2::3]))
    whole = closed_form(corpus.sums(), corpus.background)
    assert closed_form(merged, corpus.background).tobytes() == whole.tobytes()


def test_link_without_words_at_a_document_edge_sees_no_other_document():
    """A link such as "!!!" that ends its document takes no context from the next one."""
    starts = ends = np.array([3, 2])
    first, last = link_segments(np.array([0, 3, 6]), starts, ends, window=2)
    assert (last - first).tolist() == [0, 2, 0, 1]


@pytest.mark.parametrize("n_words", [0, 4])
def test_no_links(n_words):
    """Documents without words or links add nothing."""
    nothing = np.zeros(0, dtype=np.int64)
    space = np.eye(4, dtype=np.float32), np.ones(4, np.float32)
    ids = np.arange(n_words, dtype=np.int32)
    links = nothing, nothing, nothing.astype(np.int32)
    assert not sum_links(ids, np.array([0, n_words]), *links, *space).sums.any()


def test_only_empty_stretches():
    """A document that is nothing but one link has no context."""
    space = np.eye(4, dtype=np.float32), np.ones(4, np.float32)
    ids, bounds = np.arange(2, dtype=np.int32), np.array([0, 2])
    links = np.array([0]), np.array([2]), np.array([1], dtype=np.int32)
    assert not sum_links(ids, bounds, *links, *space).sums.any()


def test_weights_fall_with_frequency():
    """A / (a + p), and nothing for stop words."""
    weights = word_weights(np.array([900, 90, 10, 0]), smoothing=0.01, stop_frequency=0.5)
    np.testing.assert_allclose(weights, [0, 0.1, 0.5, 1], rtol=1e-6)
