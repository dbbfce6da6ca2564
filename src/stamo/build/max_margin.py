"""Entity vectors by the paper's sampled max-margin training, for all entities of a dump.

It starts from the closed form and makes words of the entity's contexts score higher than random
words. Every random choice is a hash of seed, entity and place, so that an entity's vector does not
depend on which entities are trained beside it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stamo.build.embeddings import CONTEXT_WINDOW, context_windows
from stamo.corpus.tokenizer import UNKNOWN_WORD
from stamo.errors import SettingsError, VectorsError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]

NEGATIVE_POWER = 0.6
"""Negatives are drawn by word count to this power, as in DeepED."""

_BLOCK_CONTEXTS = 48


@dataclass(frozen=True)
class MaxMarginArgs:
    """Settings of the max-margin estimator (Section 2.2 (3) and Training Details)."""

    n_epochs: int = 35
    """Gradient steps, each over all contexts of an entity."""
    learning_rate: float = 1e-2
    """Length of a step along the gradient of the mean loss of a question."""
    margin: float = 0.1
    """How much higher a context word shall score than a random word."""
    n_questions: int = 20
    """Context words drawn from each context."""
    n_negatives: int = 4
    """Random words that each of them is compared with."""
    max_contexts: int = 100
    """Contexts drawn for an entity that has more."""
    seed: int = 0
    """Decides every draw, together with the entity's id."""

    def __post_init__(self) -> None:
        counts = (self.n_epochs, self.n_questions, self.n_negatives, self.max_contexts)
        if min(counts) < 1 or self.learning_rate <= 0 or self.margin < 0:
            raise SettingsError(
                f"{self} is out of range; counts are at least 1, the learning rate is above 0 and "
                "the margin is not negative."
            )


def negative_words(
    word_counts: Int64, weights: Float32, power: float = NEGATIVE_POWER, size: int = 1 << 20
) -> Int32:
    """List words as often as they shall be drawn as negatives: unigram to the power 0.6.

    Returns:
        Word ids, shape (size,): a uniform draw from it follows the distribution.
    """
    mass = np.where(weights > 0, word_counts.astype(np.float64) ** power, 0.0)
    if not mass.any():
        raise VectorsError("No word has both a count and a weight, so no negatives can be drawn.")
    shares = (np.arange(size) + 0.5) / size * mass.sum()
    return np.asarray(np.searchsorted(np.cumsum(mass), shares), dtype=np.int32)


def max_margin(
    initial: Float32,
    keys: NDArray[np.integer],
    word_ids: Int32,
    rows: NDArray[np.integer],
    context_weights: Float32,
    word_vectors: Float32,
    negatives: Int32,
    args: MaxMarginArgs,
) -> Float32:
    """Train entity vectors so that their context words beat random words (Section 2.2 (3)).

    The loss of a question is the sum over its negatives of max(0, margin - e (w⁺ - w⁻)); each epoch
    takes one step along its weighted mean over an entity's contexts and returns to unit norm.
    Questions are drawn once, which lets all epochs of a block run on data in the cache.

    Args:
        initial: Unit vectors to start from, usually the closed form, shape (n, Q).
        keys: A number for each entity, part of its random seed, shape (n,).
        word_ids: Context words that may be positives, -1 elsewhere, shape (M, H).
        rows: The entity of each context, ascending, shape (M,).
        context_weights: How surely each context belongs to its entity, shape (M,).
        word_vectors: Word vectors, shape (V, Q).
        negatives: What `negative_words` returned.
        args: Settings.

    Returns:
        Unit vectors, shape (n, Q); entities without a usable context keep their initial vector.
    """
    vectors = initial.copy()
    if len(rows) == 0:
        return vectors
    trained, first, n_contexts = np.unique(rows, return_index=True, return_counts=True)
    rank = np.arange(len(rows)) - np.repeat(first, n_contexts)
    usable = (word_ids != UNKNOWN_WORD).any(axis=1) & (context_weights > 0)
    mass = np.where(usable, context_weights, 0.0).astype(np.float32)
    total = np.add.reduceat(mass, first)
    share = mass / np.repeat(np.where(total > 0, total, 1.0), n_contexts) / args.n_questions
    draws = _hash(args.seed, keys[rows], rank)
    gaps = _questions(word_ids, draws, word_vectors, negatives, args)  # (M, K, Q)
    slot = np.repeat(np.arange(len(trained)), n_contexts)
    theta = vectors[trained]
    for _ in range(args.n_epochs):
        scores = np.einsum("mkq,mq->mk", gaps, theta[slot])
        pull = (scores < args.margin) * share[:, None]
        step = np.add.reduceat(np.einsum("mk,mkq->mq", pull, gaps), first, axis=0)
        theta += np.float32(args.learning_rate) * step
        norms = np.sqrt((theta * theta).sum(axis=1, keepdims=True))
        theta /= np.where(norms > 0, norms, 1.0)
    vectors[trained[total > 0]] = theta[total > 0]
    return vectors


def max_margin_vectors(
    initial: Float32,
    word_ids: Int32,
    offsets: Int64,
    starts: Int64,
    ends: Int64,
    entities: Int32,
    word_vectors: Float32,
    weights: Float32,
    negatives: Int32,
    args: MaxMarginArgs,
    window: int = CONTEXT_WINDOW,
) -> Float32:
    """Train the vectors of all linked entities, a block of contexts at a time.

    `word_ids` may be memory-mapped. Workers may each take the links of some of the entities: the
    vectors come out the same.

    Args:
        initial: Unit vectors to start from, shape (n_entities, Q).
        word_ids: Words of the documents, one after the other, -1 for unknown, shape (N,).
        offsets: First word of each document and, last, N; shape (n + 1,).
        starts: First word of each link in document order, shape (m,).
        ends: One past its last word, shape (m,).
        entities: The linked entities, shape (m,).
        word_vectors: Word vectors, shape (V, Q).
        weights: Word weights, shape (V,); words without weight are never positives.
        negatives: What `negative_words` returned.
        args: Settings.
        window: Words to take on either side of a link.

    Returns:
        Unit vectors, shape (n_entities, Q).
    """
    vectors = initial.copy()
    chosen = _draw_contexts(entities, args)
    rows = entities[chosen]
    for first, last in _entity_blocks(rows):
        here = chosen[first:last]
        words = context_windows(word_ids, offsets, starts[here], ends[here], window)
        words[(words != UNKNOWN_WORD) & (weights[words] == 0)] = UNKNOWN_WORD
        keys, local = np.unique(rows[first:last], return_inverse=True)
        even = np.ones(last - first, dtype=np.float32)
        vectors[keys] = max_margin(
            initial[keys], keys, words, local, even, word_vectors, negatives, args
        )
    return vectors


def _draw_contexts(entities: Int32, args: MaxMarginArgs) -> Int64:
    order = np.argsort(entities, kind="stable")
    grouped = entities[order]
    rank = _rank_in_group(grouped)
    shuffled = np.lexsort((_hash(args.seed + 1, grouped, rank), grouped))
    # Sorted again so that contexts of one entity stay in document order.
    return order[np.sort(shuffled[rank < args.max_contexts])]


def _rank_in_group(sorted_groups: Int32) -> Int64:
    _, first, sizes = np.unique(sorted_groups, return_index=True, return_counts=True)
    return np.arange(len(sorted_groups)) - np.repeat(first, sizes)


def _entity_blocks(rows: Int32) -> list[tuple[int, int]]:
    first = np.unique(rows, return_index=True)[1]
    block_starts = first[np.unique(first // _BLOCK_CONTEXTS, return_index=True)[1]].tolist()
    return list(itertools.pairwise([*block_starts, len(rows)]))


def _questions(
    word_ids: Int32, draws: UInt64, word_vectors: Float32, negatives: Int32, args: MaxMarginArgs
) -> Float32:
    n, k = args.n_questions, args.n_negatives
    known = word_ids != UNKNOWN_WORD
    to_the_left = np.argsort(~known, axis=1, kind="stable")
    positive_draw = _hash(2, draws[:, None], np.arange(n))
    choice = positive_draw % np.maximum(known.sum(axis=1), 1).astype(np.uint64)[:, None]
    place = np.take_along_axis(to_the_left, choice.astype(np.int64), axis=1)
    positives = np.take_along_axis(word_ids, place, axis=1)  # (M, n)
    negative_draw = _hash(3, draws[:, None], np.arange(n * k)) % np.uint64(len(negatives))
    against = negatives[negative_draw.astype(np.int64)]  # (M, n k)
    return word_vectors[np.repeat(positives, k, axis=1)] - word_vectors[against]


def _hash(seed: int, left: NDArray[np.integer], right: NDArray[np.integer]) -> UInt64:
    """Mix two numbers into 64 random-looking bits (the finaliser of SplitMix64)."""
    odd = 0x9E3779B97F4A7C15
    mixed = np.asarray(left).astype(np.uint64) + np.uint64(seed * odd % (1 << 64))
    for number in (right, np.zeros(1, dtype=np.int64)):
        mixed = (mixed + np.uint64(odd)) ^ (np.asarray(number).astype(np.uint64) * np.uint64(odd))
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed
