"""Entity embedding in the space of the word vectors, and its sampled training (Sec. 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from stamo.errors import Ranged, SettingsError
from stamo.features.about import about_vector
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, Sample
from stamo.kb.base import KnowledgeBase
from stamo.kb.words import entity_directions
from stamo.system.files import Float32, Float64, Int64


@dataclass(frozen=True)
class MaxMargin(Ranged):
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

    ranges: ClassVar = {
        **dict.fromkeys(("n_epochs", "n_questions", "n_negatives", "batch_size"), 1),
        "margin": 0,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learning_rate <= 0:
            raise SettingsError("Max-margin training needs a positive rate.")

    def refine(self, initial: Float32, contexts: Contexts, weights: Float32) -> Float32:
        """Train the vectors of all entities of a pile, one after the other.

        Args:
            initial: Where to start, shape (E, Q).
            contexts: The context words of the pile.
            weights: How far each context counts as each entity, shape (G, E).
        """
        numbered = enumerate(initial)
        return np.stack([self._train(start, contexts, weights[:, e], e) for e, start in numbered])

    def _train(self, start: Float32, contexts: Contexts, weights: Float32, e: int) -> Float32:
        rng = np.random.default_rng([self.seed, e])
        cumulative = np.cumsum(contexts.counts.astype(np.float64) ** self.power)
        size = np.diff(contexts.votes.indptr)
        rows = np.flatnonzero((weights > 0) & (size > 0))
        vector = self._start(start, rng)
        if not len(rows):
            return vector
        gradient = np.zeros_like(start)
        for _ in range(self.n_epochs):
            order = rng.permutation(rows)
            for i in range(0, len(order), self.batch_size):
                batch = order[i : i + self.batch_size]
                step = self._gradient(vector, contexts, batch, weights, cumulative, rng)
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
        contexts: Contexts,
        batch: Int64,
        weights: Float32,
        cumulative: Float64,
        rng: np.random.Generator,
    ) -> Float32:
        """Return the gradient of the mean hinge loss over sampled questions, (Q,)."""
        votes, vectors = contexts.votes, contexts.vectors
        begin = votes.indptr[batch][:, None]
        length = np.diff(votes.indptr)[batch][:, None]
        shape = (len(batch), self.n_questions)
        positive = votes.indices[begin + (rng.random(shape) * length).astype(np.int64)]
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


@dataclass(frozen=True)
class Embedding(Ranged):
    """f₃(e), a unit vector; the group of θ(e*) holds one row for each entity, (E, Q)."""

    name = "embedding"

    n_words: int = 50
    """Context words nearest to the mention that count: the window of the known entities."""
    max_margin: MaxMargin | None = None
    """Refine the closed form by the paper's sampled max-margin training; None keeps the closed
    form, as known entities have it; it measures as well."""

    ranges: ClassVar = {"n_words": 2}

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return the vectors of the known candidates, (M, C, Q).

        Models gather them from the tables instead, so they are not part of the encoding.
        """
        vectors = kb.entity_vectors()
        rows = np.asarray(vectors[np.maximum(mentions.candidates, 0)], dtype=np.float32)
        rows[mentions.candidates < 0] = 0.0
        return rows

    def estimate(self, sample: Sample, kb: KnowledgeBase) -> Tensor:
        """Average the context words of the mentions that count as e*, (E, Q)."""
        contexts = pile_contexts(sample.pile, kb, self.n_words)
        weights, _, _ = sample.vote()  # one vote a document
        mass = np.asarray(contexts.votes.T @ weights.astype(np.float64)).T  # (E, V')
        sums = (mass.astype(np.float32) @ contexts.vectors).astype(np.float64)  # (E, Q)
        vectors = entity_directions(sums, mass.sum(axis=1), contexts.background)
        for e in np.flatnonzero(mass.sum(axis=1) <= 0).tolist():
            if sample.pile.entities[e].line:  # it speaks where no document does
                vectors[e] = about_vector(sample.pile.entities[e], kb)
        if self.max_margin is not None:
            vectors = self.max_margin.refine(vectors, contexts, weights)
        return torch.as_tensor(vectors, dtype=torch.float32)

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return the vector of e* for each mention, (M, E, Q); known ones stay in the tables."""
        return theta[None].expand(len(pile), -1, -1)


@dataclass(frozen=True)
class Contexts:
    """The context words of a pile, gathered once."""

    words: Int64  # (V',) the distinct words
    matrix: sparse.csr_matrix  # (M, V') weight of each distinct word in each context
    votes: sparse.csr_matrix  # (G, V') the contexts that have a vote: one a document and surface
    vectors: Float32  # (V', Q)
    counts: Int64  # (V',) how often each word occurs in the knowledge base's text
    background: Float32  # (Q,)


def pile_contexts(pile: Pile, kb: KnowledgeBase, n_words: int) -> Contexts:
    """Gather the context words of a pile; kept with the pile, since no slot changes them."""
    return pile.keep(f"contexts of {n_words}", lambda: _gather_contexts(pile, kb, n_words))


def _gather_contexts(pile: Pile, kb: KnowledgeBase, n_words: int) -> Contexts:
    mentions = pile.mentions
    middle, half = mentions.words.shape[1] // 2, n_words // 2
    words = mentions.words[:, max(0, middle - half) : middle + half]
    known = words >= 0
    ids, place = np.unique(words[known], return_inverse=True)
    row = np.broadcast_to(np.arange(len(words))[:, None], words.shape)[known]
    weight = kb.word_weights[ids[place]].astype(np.float64)
    matrix = sparse.csr_matrix((weight, (row, place)), shape=(len(words), len(ids)))
    return Contexts(
        words=ids.astype(np.int64),
        matrix=matrix,
        votes=matrix[pile.votes[0]],
        vectors=np.asarray(kb.word_vectors[ids], dtype=np.float32),
        counts=np.asarray(kb.word_counts[ids]),
        background=kb.background,
    )
