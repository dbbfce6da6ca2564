"""Contexts as vectors of the space in which the entities' vectors lie."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float32, Int32


class ContextVectors:
    """Turns context words, and entities, into vectors."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._words = np.asarray(kb.word_vectors, dtype=np.float32)
        self._weights = kb.word_weights
        self._background = kb.background
        self._entities = kb.entity_vectors()

    def of(self, words: Int32, emphasis: Float32 | None = None) -> Float32:
        """Return the directions of contexts of H words, (M, H) with -1 for none, as (M, Q)."""
        weights = np.where(words >= 0, self._weights[words], 0).astype(np.float32)
        if emphasis is not None:
            weights *= emphasis
        mass = weights.sum(axis=1, keepdims=True)
        direction = self._sums(words, weights) - mass * self._background
        norm = np.linalg.norm(direction, axis=1, keepdims=True)
        return np.asarray(direction / np.maximum(norm, 1e-9), dtype=np.float32)

    def _sums(self, words: Int32, weights: Float32) -> Float32:
        """Return the weighted sums of word vectors, (M, Q), without copying the vectors."""
        edges = np.arange(len(words) + 1) * words.shape[1]
        chosen = np.maximum(words, 0).ravel()
        shape = len(words), len(self._words)
        table = sparse.csr_array((weights.ravel(), chosen, edges), shape=shape)
        return np.asarray(table @ self._words, dtype=np.float32)

    def entities(self, ids: Int32) -> Float32:
        """Return the vectors of entities, zeros for -1."""
        used, place = np.unique(ids, return_inverse=True)
        vectors = np.asarray(self._entities[np.maximum(used, 0)], dtype=np.float32)
        vectors[used < 0] = 0
        return vectors[place.reshape(ids.shape)]
