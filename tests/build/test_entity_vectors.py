"""Entity vectors: sums of the words around links, against literal loops."""

import numpy as np
import pytest

from stamo.build import entity_vectors as module
from stamo.build.entity_vectors import sum_links
from stamo.kb.base import background_vector, entity_directions, word_weights

N_WORDS, Q, N_ENTITIES, WINDOW = 60, 8, 12, 5


def unit(rows):
    """Bring rows to unit norm."""
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

    def context(self, link):
        """The words around a link, by a loop."""
        document = next(i for i, end in enumerate(self.offsets[1:]) if self.starts[link] < end)
        left = range(max(self.offsets[document], self.starts[link] - WINDOW), self.starts[link])
        right = range(self.ends[link], min(self.offsets[document + 1], self.ends[link] + WINDOW))
        return [int(self.word_ids[i]) for i in (*left, *right)]

    def sums(self, select=slice(None)):
        """The sums of contexts of all entities, shape (entities, Q + 1)."""
        links = self.starts[select], self.ends[select], self.entities[select]
        space = self.vectors, self.weights
        entities, found = sum_links(self.word_ids, self.offsets, *links, *space)
        sums = np.zeros((N_ENTITIES, Q + 1), dtype=np.int64)
        sums[entities] += found
        return sums


@pytest.fixture(autouse=True)
def narrow_window(monkeypatch):
    monkeypatch.setattr(module, "CONTEXT_WINDOW", WINDOW)


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
    sums = corpus.sums()
    found = entity_directions(
        sums[:, :-1] / module._SCALE, sums[:, -1] / module._SCALE, corpus.background
    )
    np.testing.assert_allclose(found, literal_closed_form(corpus), atol=1e-5)
    assert (found[N_ENTITIES - 1] == 0).all()  # never linked: zero, not NaN


def test_link_without_words_at_a_document_edge_sees_no_other_document():
    """A link such as "!!!" that ends its document takes no context from the next one."""
    edges = np.array([3, 2])
    space = np.eye(6, dtype=np.float32), np.ones(6, np.float32)
    ids, entities = np.arange(6, dtype=np.int32), np.array([0, 1], dtype=np.int32)
    met, sums = sum_links(ids, np.array([0, 3, 6]), edges, edges, entities, *space)
    assert met.tolist() == [0, 1]
    assert (sums[:, :-1] > 0).tolist() == [[False] * 6, [True] * 3 + [False] * 3]
