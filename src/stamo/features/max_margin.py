"""The paper's sampled max-margin training of an entity vector (Sec. 2.2, Training Details)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from stamo.errors import SettingsError
from stamo.system.arrays import Float32, Float64, Int64


@dataclass(frozen=True)
class MaxMargin:
    """Words of the entity's contexts must score higher than random words, by a margin.

    Each context asks `n_questions` of one positive and `n_negatives` negative words; the vector
    moves by plain gradient descent and returns to unit norm after each step.
    """

    n_epochs: int = 35
    learning_rate: float = 1e-2
    margin: float = 0.1
    n_questions: int = 20
    n_negatives: int = 4
    power: float = 0.6
    """Negative words are drawn by their frequency to this power."""
    batch_size: int = 1024
    """Contexts in one step."""
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.n_epochs, self.n_questions, self.n_negatives, self.batch_size) < 1:
            raise SettingsError(
                "Max-margin training needs at least one epoch, question, negative and context."
            )
        if self.learning_rate <= 0 or self.margin < 0:
            raise SettingsError("Max-margin training needs a positive rate and a margin from 0 on.")

    def refine(
        self,
        initial: Float32,
        contexts: sparse.csr_matrix,
        weights: Float32,
        word_vectors: Float32,
        word_counts: Int64,
    ) -> Float32:
        """Train the vectors of all entities of a pile, one after the other.

        Args:
            initial: Where to start, shape (E, Q).
            contexts: Words of each context, shape (G, V').
            weights: How far each context counts as each entity, shape (G, E).
            word_vectors: Vectors of the distinct words, shape (V', Q).
            word_counts: How often each occurs in running text, shape (V',).
        """
        cumulative = np.cumsum(word_counts.astype(np.float64) ** self.power)
        return np.stack(
            [
                self._train(start, contexts, weights[:, e], word_vectors, cumulative, e)
                for e, start in enumerate(initial)
            ]
        )

    def _train(
        self,
        start: Float32,
        contexts: sparse.csr_matrix,
        weights: Float32,
        vectors: Float32,
        cumulative: Float64,
        entity: int,
    ) -> Float32:
        rng = np.random.default_rng([self.seed, entity])
        size = np.diff(contexts.indptr)
        rows = np.flatnonzero((weights > 0) & (size > 0))
        vector = self._start(start, rng)
        if not len(rows):
            return vector
        gradient = np.zeros_like(start)
        for _ in range(self.n_epochs):
            order = rng.permutation(rows)
            for i in range(0, len(order), self.batch_size):
                batch = order[i : i + self.batch_size]
                step = self._gradient(vector, contexts, batch, weights, vectors, cumulative, rng)
                vector, gradient = self._descend(vector, step, gradient)
        return vector

    def _start(self, closed_form: Float32, rng: np.random.Generator) -> Float32:
        """Return where training starts."""
        return closed_form

    def _descend(self, vector: Float32, step: Float32, before: Float32) -> tuple[Float32, Float32]:
        """Return the vector after a step, at unit norm, and the gradient that was followed."""
        moved: Float32 = vector - self.learning_rate * step
        moved /= max(float(np.linalg.norm(moved)), 1e-12)
        return moved, step

    def _gradient(
        self,
        vector: Float32,
        contexts: sparse.csr_matrix,
        batch: Int64,
        weights: Float32,
        vectors: Float32,
        cumulative: Float64,
        rng: np.random.Generator,
    ) -> Float32:
        """Return the gradient of the mean hinge loss over sampled questions, (Q,)."""
        begin = contexts.indptr[batch][:, None]
        length = np.diff(contexts.indptr)[batch][:, None]
        shape = (len(batch), self.n_questions)
        positive = contexts.indices[begin + (rng.random(shape) * length).astype(np.int64)]
        drawn = rng.random((*shape, self.n_negatives)) * cumulative[-1]
        negative = np.searchsorted(cumulative, drawn).clip(max=len(cumulative) - 1)
        # Every word is scored once; sampled words gather their scores and return their counts.
        score = vectors @ vector  # (V',)
        violated = self.margin - score[positive][..., None] + score[negative] > 0
        weight = violated * weights[batch][:, None, None]
        pull = np.bincount(positive.ravel(), weight.sum(axis=2).ravel(), len(vectors))
        push = np.bincount(negative.ravel(), weight.ravel(), len(vectors))
        total = weights[batch].sum() * self.n_questions * self.n_negatives
        step: Float32 = ((push - pull) / max(total, 1e-12)).astype(np.float32) @ vectors
        return step
