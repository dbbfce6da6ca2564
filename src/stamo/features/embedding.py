"""Embeddings: vectors of words f₄(w) and entities f₃(e) by id, and that of e* (Sec. 2.2).

The known vectors are frozen. That of e* is made like theirs, from the words around its mentions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast

import numpy as np

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import EmergingEntity
from stamo.errors import Ranged
from stamo.features.base import Feature
from stamo.features.pile import Pile, Sample
from stamo.kb.base import KnowledgeBase, entity_directions
from stamo.system.files import Float32, Float64, Int32, Int64

if TYPE_CHECKING:
    from scipy import sparse  # takes .1 s to load, and a short text needs none

WordKind = Literal["plain", "weighted"]
"""`plain`: the vectors of the knowledge base. `weighted`: less the background, times the weight of
the word, so that a mean over a context is made as the vector of an entity is."""


class Vectors(Protocol):
    """Vectors by id: an array, or a table on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of vectors and Q."""
        ...

    def __getitem__(self, ids: Any, /) -> Float32: ...


@dataclass(frozen=True)
class WeightedWords:
    """f₄(w) = weight(w) (v(w) - background), looked up by id.

    An entity's vector is the weighted mean of the words around its links less the background. The
    mean of these f₄ over a context points the same way, so the two can be compared; the mean of
    plain vectors mostly points to what all texts have in common.
    """

    vectors: Vectors  # (V, Q)
    weights: Float32  # (V,)
    background: Float32  # (Q,)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of words and Q."""
        return self.vectors.shape

    def __getitem__(self, ids: Any, /) -> Float32:
        rows = np.asarray(self.vectors[ids], dtype=np.float32) - self.background
        rows *= self.weights[ids][..., None]
        return rows


@dataclass(frozen=True)
class Tables:
    """The frozen vectors of words and known entities, looked up by id."""

    words: Vectors  # (V, Q)
    entities: Vectors  # (n, Q)


def local_vectors(table: Vectors, *ids: Int32) -> tuple[Float32, list[Int32]]:
    """Gather the distinct vectors of some ids, which are padded with -1, without searching.

    Returns:
        The vectors, (n + 1, Q), the last one the zero of padding, and for each array of ids the
        rows of its vectors.
    """
    seen = np.zeros(max(int(part.max(initial=-1)) for part in ids) + 2, dtype=np.bool_)
    for part in ids:
        seen[part] = True  # padding, -1, marks the last cell
    distinct = np.flatnonzero(seen[:-1])
    place = np.empty(len(seen), dtype=np.int32)  # read only where an id was seen
    place[distinct] = np.arange(len(distinct), dtype=np.int32)
    place[-1] = len(distinct)
    found = table[distinct]
    rows = np.zeros((len(distinct) + 1, found.shape[1]), dtype=np.float32)
    rows[:-1] = found
    return rows, [place[part] for part in ids]


FEW_IDS = 8192
"""Up to so many, means are added up column by column: a text of a page needs no sparse matrices,
which take .1 s to load. Both ways add in the same order and give the same bits."""


def mean_rows(vectors: Float32, places: Int32) -> Float32:
    """Return the mean of some of the vectors for each row of places, (M, Q).

    The last vector is padding and left out; see `local_vectors`.
    """
    is_real = places < len(vectors) - 1
    sizes = is_real.sum(axis=1)
    shares = (1 / np.maximum(sizes, 1)).astype(np.float32)
    if places.size <= FEW_IDS:
        means = np.zeros((len(places), vectors.shape[1]), dtype=np.float32)
        for column in places.T:  # padding adds its zeros
            means += shares[:, None] * vectors[column]
        return means
    from scipy import sparse

    indptr = np.concatenate([[0], np.cumsum(sizes)])
    shape = (len(places), len(vectors))
    cells = (np.repeat(shares, sizes), places[is_real], indptr)
    return np.asarray(sparse.csr_matrix(cells, shape=shape) @ vectors)


def model_tables(kb: KnowledgeBase, kind: WordKind) -> Tables:
    """Return the vectors of a knowledge base as a model looks them up."""
    if not kb.dimensions:  # vectors of no dimension, for any word and entity
        return Tables(np.zeros((2**31, 0), np.float32), np.zeros((2**31, 0), np.float32))
    if kind == "plain":
        return Tables(kb.word_vectors, kb.entity_vectors())
    words = WeightedWords(kb.word_vectors, kb.word_weights, kb.background)
    return Tables(words, kb.entity_vectors())


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
        **{"learning_rate": 0, "margin": 0},
    }

    def refine(self, initial: Float32, contexts: Contexts, weights: Float32) -> Float32:
        """Train the vectors of all entities of a pile, one after the other.

        Args:
            initial: Where to start, shape (E, Q).
            contexts: The context words of the pile.
            weights: How far each context counts as each entity, shape (G, E).
        """
        cumulative = np.cumsum(contexts.counts.astype(np.float64) ** self.power)
        size, found = np.diff(contexts.votes.indptr), []
        for e, closed_form in enumerate(initial):
            rng, own = np.random.default_rng([self.seed, e]), weights[:, e]
            rows = np.flatnonzero((own > 0) & (size > 0))
            vector, gradient = self.start(closed_form, rng), np.zeros_like(closed_form)
            for _ in range(self.n_epochs if len(rows) else 0):
                order = rng.permutation(rows)
                for i in range(0, len(order), self.batch_size):
                    batch = order[i : i + self.batch_size]
                    step = self._gradient(vector, contexts, batch, own, cumulative, rng)
                    vector, gradient = self.descend(vector, step, gradient)
            found.append(vector)
        return np.stack(found)

    def start(self, closed_form: Float32, rng: np.random.Generator) -> Float32:
        """Return where training starts."""
        return closed_form

    def descend(self, vector: Float32, step: Float32, before: Float32) -> tuple[Float32, Float32]:
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
class Embedding(Ranged, Feature):
    """f₃(e), a unit vector; the group of θ(e*) holds one for each entity, (E, Q).

    It is not linear: models compare it with words and entities in their own ways, and gather the
    vectors of known candidates themselves.
    """

    name = "embedding"

    n_words: int = 50
    """Context words nearest to the mention that count: the window of the known entities."""
    max_margin: MaxMargin | None = None
    """Refine the closed form by the paper's sampled max-margin training; None keeps the closed
    form, as known entities have it; it measures as well."""

    ranges: ClassVar = {"n_words": 2}

    def estimate(self, sample: Sample) -> Float32:
        """Average the context words of the mentions that count as e*, (E, Q)."""
        pile = sample.pile
        contexts = pile_contexts(pile, self.n_words)
        weights, _, _ = sample.vote()  # one vote a document
        mass = np.asarray(contexts.votes.T @ weights.astype(np.float64)).T  # (E, V')
        sums = (mass.astype(np.float32) @ contexts.vectors).astype(np.float64)  # (E, Q)
        vectors = entity_directions(sums, mass.sum(axis=1), contexts.background)
        for e in np.flatnonzero(mass.sum(axis=1) <= 0).tolist():
            if pile.entities[e].line:  # it speaks where no document does
                vectors[e] = description_vector(pile.entities[e], pile.kb)
        if self.max_margin is not None:
            vectors = self.max_margin.refine(vectors, contexts, weights)
        return np.asarray(vectors, dtype=np.float32)


def description_vector(entity: EmergingEntity, kb: KnowledgeBase) -> Float64:
    """Return the mean of the description's words less the background, at unit norm, (Q,).

    It is 0 where none of them is known.
    """
    ids = kb.words.find_many(tokenize(entity.line)[0])
    ids = ids[ids >= 0]
    weights = kb.word_weights[ids].astype(np.float64)
    if weights.sum() <= 0:
        return np.zeros(kb.dimensions)
    mean = weights @ np.asarray(kb.word_vectors[ids], dtype=np.float64) / weights.sum()
    direction = mean - kb.background
    return np.asarray(direction / max(float(np.linalg.norm(direction)), 1e-9))


@dataclass(frozen=True)
class Contexts:
    """The context words of a pile, gathered once."""

    words: Int64  # (V',) the distinct words
    matrix: sparse.csr_matrix  # (M, V') weight of each distinct word in each context
    votes: sparse.csr_matrix  # (G, V') the contexts that have a vote: one a document and surface
    vectors: Float32  # (V', Q)
    counts: Int64  # (V',) how often each word occurs in the knowledge base's text
    background: Float32  # (Q,)


def pile_contexts(pile: Pile, n_words: int) -> Contexts:
    """Gather the context words of a pile; kept with the pile, since no slot changes them."""
    from scipy import sparse

    key = f"contexts of {n_words}"
    if key in pile.kept:
        return cast("Contexts", pile.kept[key])
    kb, all_words = pile.kb, pile.mentions.words
    middle, half = all_words.shape[1] // 2, n_words // 2
    words = all_words[:, max(0, middle - half) : middle + half]
    known = words >= 0
    ids, place = np.unique(words[known], return_inverse=True)
    row = np.broadcast_to(np.arange(len(words))[:, None], words.shape)[known]
    weight = kb.word_weights[ids[place]].astype(np.float64)
    matrix = sparse.csr_matrix((weight, (row, place)), shape=(len(words), len(ids)))
    contexts = Contexts(
        words=ids.astype(np.int64),
        matrix=matrix,
        votes=matrix[pile.votes[0]],
        vectors=np.asarray(kb.word_vectors[ids], dtype=np.float32),
        counts=np.asarray(kb.word_counts[ids]),
        background=kb.background,
    )
    pile.kept[key] = contexts
    return contexts
