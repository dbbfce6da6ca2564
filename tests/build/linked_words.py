"""Random documents with links, as arrays: what the tests of entity vectors share."""

import numpy as np

from stamo.build.entity_vectors import sum_links
from stamo.kb.words import background_vector, word_weights

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
        partial = sum_links(self.word_ids, self.offsets, *links, *space, window=WINDOW)
        sums = np.zeros((N_ENTITIES, Q + 1), dtype=np.int64)
        sums[partial.entities] += partial.sums
        return sums
