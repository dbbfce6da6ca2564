"""Entity vectors: closed form and max-margin, against literal loops."""

from dataclasses import replace

import numpy as np
import pytest

from stamo.errors import SettingsError, VectorsError
from stamo.kb import embeddings as module
from stamo.kb.embeddings import (
    ClosedFormAccumulator,
    background_vector,
    closed_form,
    context_windows,
    link_segments,
    word_weights,
)
from stamo.kb.max_margin import (
    MaxMarginArgs,
    max_margin,
    max_margin_vectors,
    negative_words,
)

N_WORDS, Q, N_ENTITIES, WINDOW = 60, 8, 12, 5


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


class Corpus:
    """Random documents with links of zero to three words, many at the edges."""

    def __init__(self, seed=0, n_documents=20):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(0, 60, n_documents)
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])
        self.word_ids = rng.integers(-1, N_WORDS, self.offsets[-1]).astype(np.int32)
        links = []
        for begin, end in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            for _ in range(4 if end > begin else 0):
                start = rng.choice([begin, end - 1, rng.integers(begin, end)])
                links.append((start, min(start + rng.integers(1, 4), end)))
        self.starts, self.ends = np.array(sorted(links)).T
        self.entities = rng.integers(0, N_ENTITIES - 1, len(links)).astype(np.int32)
        self.vectors = unit(rng.standard_normal((N_WORDS, Q)))
        self.counts = np.bincount(self.word_ids[self.word_ids >= 0], minlength=N_WORDS)
        self.weights = word_weights(self.counts, smoothing=0.01, stop_frequency=0.03)
        self.background = background_vector(self.vectors, self.weights, self.counts)

    @property
    def links(self):
        return self.word_ids, self.offsets, self.starts, self.ends, self.entities

    def context(self, link):
        """The words around a link, by a loop."""
        document = next(i for i, end in enumerate(self.offsets[1:]) if self.starts[link] < end)
        left = range(max(self.offsets[document], self.starts[link] - WINDOW), self.starts[link])
        right = range(self.ends[link], min(self.offsets[document + 1], self.ends[link] + WINDOW))
        return [int(self.word_ids[i]) for i in (*left, *right)]

    def accumulate(self, select=slice(None)):
        accumulator = ClosedFormAccumulator(N_ENTITIES, self.vectors, self.weights, WINDOW)
        accumulator.add(
            self.word_ids,
            self.offsets,
            self.starts[select],
            self.ends[select],
            self.entities[select],
        )
        return accumulator


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
