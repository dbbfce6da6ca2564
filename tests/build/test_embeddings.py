"""Entity vectors: closed form, against literal loops."""

import numpy as np
import pytest

from stamo.build import embeddings as module
from stamo.build.embeddings import (
    ClosedFormAccumulator,
    closed_form,
    context_windows,
    link_segments,
    word_weights,
)
from stamo.errors import SettingsError, VectorsError
from tests.build.linked_words import N_ENTITIES, WINDOW, Corpus, Q


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
    found = corpus.accumulate().finish(corpus.background)
    np.testing.assert_allclose(found, literal_closed_form(corpus), atol=1e-5)
    assert found.dtype == np.float32


def test_entity_without_context_is_zero(corpus):
    """An entity that is never linked has a zero row, not NaN."""
    assert (corpus.accumulate().finish(corpus.background)[N_ENTITIES - 1] == 0).all()


def test_any_split_and_order_gives_the_same_bytes(corpus):
    """Workers may take any share of the links in any order: integer sums have no order."""
    whole = corpus.accumulate()
    order = np.random.default_rng(9).permutation(len(corpus.starts))
    merged = corpus.accumulate(order[::3])
    merged.merge(corpus.accumulate(order[1::3]))
    rest = order[2::3]
    links = corpus.starts[rest], corpus.ends[rest], corpus.entities[rest]
    merged.add_partial(whole.partial(corpus.word_ids, corpus.offsets, *links))
    assert merged.finish(corpus.background).tobytes() == whole.finish(corpus.background).tobytes()


def test_one_entity_equals_its_row(corpus):
    """The estimate for one emerging entity is what the build gives for the same contexts."""
    rows = corpus.accumulate().finish(corpus.background)
    windows = context_windows(*corpus.links[:4], WINDOW)
    for entity in range(N_ENTITIES - 1):
        mine = windows[corpus.entities == entity]
        even = np.full(len(mine), 0.5)
        found = closed_form(mine, even, corpus.vectors, corpus.weights, corpus.background)
        np.testing.assert_allclose(found, rows[entity], atol=1e-5)


def test_context_weights_are_soft_labels(corpus):
    """Weight 2 counts a context twice, weight 0 leaves it out."""
    windows = context_windows(*corpus.links[:4], WINDOW)[:4]
    space = corpus.vectors, corpus.weights, corpus.background
    soft = closed_form(windows, np.array([2.0, 1.0, 0.0, 1.0]), *space)
    hard = closed_form(windows[[0, 0, 1, 3]], np.ones(4), *space)
    np.testing.assert_allclose(soft, hard, atol=1e-6)
    assert (closed_form(windows, np.zeros(4), *space) == 0).all()
    assert (closed_form(windows[:0], np.zeros(0), *space) == 0).all()


def test_windows_leave_out_the_link_and_other_documents(corpus):
    """A context holds the words before and after the link, in order, of its own document."""
    windows = context_windows(*corpus.links[:4], WINDOW)
    assert windows.shape == (len(corpus.starts), 2 * WINDOW)
    for link, row in enumerate(windows.tolist()):
        expected = [word for word in corpus.context(link) if word >= 0]
        assert [word for word in row if word >= 0] == expected


def test_link_without_words_at_a_document_edge_sees_no_other_document():
    """A link such as "!!!" that ends its document takes no context from the next one."""
    starts = ends = np.array([3, 2])
    first, last = link_segments(np.array([0, 3, 6]), starts, ends, window=2)
    assert (last - first).tolist() == [0, 2, 0, 1]


@pytest.mark.parametrize("n_words", [0, 4])
def test_no_links(n_words):
    """Documents without words or links add nothing."""
    nothing = np.zeros(0, dtype=np.int64)
    accumulator = ClosedFormAccumulator(3, np.eye(4, dtype=np.float32), np.ones(4, np.float32))
    ids = np.arange(n_words, dtype=np.int32)
    accumulator.add(ids, np.array([0, n_words]), nothing, nothing, nothing.astype(np.int32))
    assert not accumulator.sums.any()


def test_only_empty_stretches():
    """A document that is nothing but one link has no context."""
    accumulator = ClosedFormAccumulator(3, np.eye(4, dtype=np.float32), np.ones(4, np.float32))
    ids, bounds = np.arange(2, dtype=np.int32), np.array([0, 2])
    accumulator.add(ids, bounds, np.array([0]), np.array([2]), np.array([1], dtype=np.int32))
    assert not accumulator.sums.any()


def test_articles_are_one_more_context(corpus):
    """The first words of an entity's own article count like the words around a link."""
    accumulator = ClosedFormAccumulator(N_ENTITIES, corpus.vectors, corpus.weights)
    entities = np.array([4, 2, 4], dtype=np.int32)
    ids, offsets = corpus.word_ids[:25], np.array([0, 10, 13, 25])
    accumulator.add_partial(accumulator.article_partial(ids, offsets, entities, n_words=6))
    first_words = np.stack([ids[:6], np.r_[ids[10:13], -1, -1, -1], ids[13:19]]).astype(np.int32)
    space = corpus.vectors, corpus.weights, corpus.background
    rows = accumulator.finish(corpus.background)
    for entity in (2, 4):
        mine = first_words[entities == entity]
        expected = closed_form(mine, np.ones(len(mine)), *space)
        np.testing.assert_allclose(rows[entity], expected, atol=1e-5)


def test_weights_fall_with_frequency():
    """A / (a + p), and nothing for stop words."""
    weights = word_weights(np.array([900, 90, 10, 0]), smoothing=0.01, stop_frequency=0.5)
    np.testing.assert_allclose(weights, [0, 0.1, 0.5, 1], rtol=1e-6)
    with pytest.raises(SettingsError, match="above 0"):
        word_weights(np.array([1]), smoothing=0)


def test_parts_that_do_not_fit_are_refused(corpus):
    """Weights of another vocabulary and sums of other entities are named."""
    with pytest.raises(VectorsError, match="one weight for each word"):
        ClosedFormAccumulator(3, corpus.vectors, corpus.weights[:-1])
    other = ClosedFormAccumulator(N_ENTITIES + 1, corpus.vectors, corpus.weights)
    with pytest.raises(VectorsError, match="cannot be added"):
        corpus.accumulate().merge(other)
