"""Learn word vectors from the corpus' own text: PPMI and a truncated SVD.

For a wiki in a language or on a subject that no published vectors cover. Words that occur near
each other more often than chance are counted, and the matrix of these associations is reduced to
a few dimensions by subspace iteration.

Everything is added up in a fixed order without BLAS, whose results change with its number of
threads: same text, same bytes.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import IO

import numpy as np
from scipy.sparse import csr_array

from stamo.build.vector_files import WordVectors
from stamo.corpus.tokenizer import UNKNOWN_WORD, tokenize
from stamo.system.files import Float64, Int32, Int64

WINDOW = 5
"""Words on either side that count as near; a word d away counts WINDOW + 1 - d times."""
CONTEXT_SMOOTHING = 0.75
"""Power of the context word counts; below 1 it keeps rare contexts from looking decisive."""
MIN_COUNT = 5
"""Words of a dump that occur less often get no vector."""
MAX_WORDS = 50_000
"""At most this many words get a vector, the most frequent ones."""
N_ITERATIONS = 4
"""Rounds of subspace iteration; neighbours are at rest by then."""
_BLOCK_WORDS = 1 << 20
_MAX_PAIRS = 1 << 25
_MAX_DISTINCT = 1 << 22


def learn_word_vectors(texts: Iterable[str], dimensions: int, min_count: int) -> WordVectors | None:
    """Learn word vectors from running text.

    The text is read once, so an iterator will do; its words wait in a temporary file of four bytes
    each. Memory stays below about 2 GB: beyond 4 million distinct words new ones are ignored, and
    beyond 33 million distinct pairs the rarest are dropped.

    Args:
        texts: The texts; pairs of words never reach from one into the next.
        dimensions: Length of the vectors; less when there are fewer words.
        min_count: Words that occur less often get no vector.

    Returns:
        Words, most frequent first, and their vectors, neither centred nor normalised; None where
        fewer than three words are left.
    """
    with tempfile.TemporaryFile() as spool:
        first_come = _store_words(texts, spool)
        counts = np.zeros(len(first_come), dtype=np.int64)
        for block in _stored(spool):
            counts += np.bincount(block[block != UNKNOWN_WORD], minlength=len(counts))
        words = list(first_come)
        frequent = np.flatnonzero(counts >= min_count).tolist()
        # Ties by the word itself, so that the order of the texts does not matter.
        kept = sorted(frequent, key=lambda i: (-counts[i], words[i]))[:MAX_WORDS]
        if len(kept) < 3:
            return None
        # The last one is for an unknown word.
        final_ids = np.full(len(words) + 1, UNKNOWN_WORD, dtype=np.int32)
        final_ids[kept] = np.arange(len(kept))
        pairs = count_pairs((final_ids[block] for block in _stored(spool)), len(kept))
    rank = min(dimensions, len(kept) - 1)
    vectors = leading_directions(associate(pairs), rank, N_ITERATIONS)
    return WordVectors([words[i] for i in kept], vectors.astype(np.float32), Counter())


def _store_words(texts: Iterable[str], spool: IO[bytes]) -> dict[str, int]:
    """Store the words of all texts under first-come ids, and return these."""
    ids: defaultdict[str, int] = defaultdict()
    ids.default_factory = ids.__len__
    # A gap as wide as the window keeps the words of two texts apart.
    gap = np.full(WINDOW, UNKNOWN_WORD, dtype=np.int32).tobytes()
    for text in texts:
        words, _, _ = tokenize(text)
        is_full = len(ids) > _MAX_DISTINCT
        known = map(ids.get, words, repeat(UNKNOWN_WORD))
        found = known if is_full else map(ids.__getitem__, words)
        spool.write(np.fromiter(found, np.int32, len(words)).tobytes() + gap)
    return ids


def _stored(spool: IO[bytes]) -> Iterator[Int32]:
    spool.seek(0)
    while data := spool.read(4 * _BLOCK_WORDS):
        yield np.frombuffer(data, dtype=np.int32)


def count_pairs(blocks: Iterable[Int32], n_words: int) -> csr_array:
    """Count how often each word stands near each other word, nearer ones counting more.

    Args:
        blocks: Running text as word ids, -1 for words left out; pairs across blocks are not seen.
        n_words: Size of the vocabulary V.

    Returns:
        Symmetric counts of type int64, shape (V, V).
    """
    keys: Int64 = np.zeros(0, dtype=np.int64)
    counts: Int64 = np.zeros(0, dtype=np.int64)
    for ids in blocks:
        near = [_pairs_at(ids, d, n_words) for d in range(1, WINDOW + 1)]
        keys, counts = _add_up([(keys, counts), *near])
        floor = 1
        while len(keys) > _MAX_PAIRS:
            keys, counts = keys[counts > floor], counts[counts > floor]
            floor *= 2
    rows, columns = np.divmod(keys, n_words)
    upper = csr_array((counts, (rows, columns)), shape=(n_words, n_words))
    return csr_array(upper + upper.T)


def _pairs_at(ids: Int32, distance: int, n_words: int) -> tuple[Int64, Int64]:
    left, right = ids[:-distance], ids[distance:]
    both = (left != UNKNOWN_WORD) & (right != UNKNOWN_WORD)
    low = np.minimum(left[both], right[both]).astype(np.int64)
    keys = np.sort(low * n_words + np.maximum(left[both], right[both]))
    first = _first_of_each(keys)
    return keys[first], (WINDOW + 1 - distance) * np.diff(first, append=len(keys))


def _add_up(runs: list[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    keys = np.concatenate([run[0] for run in runs])
    counts = np.concatenate([run[1] for run in runs])
    # The runs are sorted already, which a stable sort makes use of.
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = _first_of_each(keys)
    return keys[first], np.add.reduceat(counts, first) if len(first) else counts


def _first_of_each(sorted_keys: Int64) -> Int64:
    is_first = np.ones(len(sorted_keys), dtype=np.bool_)
    is_first[1:] = sorted_keys[1:] != sorted_keys[:-1]
    return np.flatnonzero(is_first)


def associate(pairs: csr_array) -> csr_array:
    """Weigh pairs by their positive pointwise mutual information.

    PPMI(w, c) = max(0, log(n(w, c) / (n(w) p(c)))) with p(c) proportional to n(c) to the power
    `CONTEXT_SMOOTHING`.

    Returns:
        Positive associations, words by contexts, float64, shape (V, V).
    """
    totals = np.asarray(pairs.sum(axis=1), dtype=np.float64).ravel()
    smoothed = totals**CONTEXT_SMOOTHING
    smoothed /= smoothed.sum()
    found = pairs.tocoo()
    expected = totals[found.row] * smoothed[found.col]
    strength = np.log(found.data / expected)
    positive = strength > 0
    places = found.row[positive], found.col[positive]
    return csr_array((strength[positive], places), shape=pairs.shape)


def leading_directions(matrix: csr_array, rank: int, n_iterations: int) -> Float64:
    """Find the word side of a truncated SVD, U sqrt(Σ), by subspace iteration.

    Args:
        matrix: Associations, shape (V, V).
        rank: Dimensions wanted, at most V.
        n_iterations: Rounds.

    Returns:
        Vectors by falling singular value, shape (V, rank).
    """
    width = min(rank + 20, matrix.shape[0])
    transposed = csr_array(matrix.T)
    basis = np.random.default_rng(0).standard_normal((matrix.shape[1], width))
    for _ in range(n_iterations):
        basis = orthonormalise(matrix @ basis)
        basis = orthonormalise(transposed @ basis)
    image = matrix @ basis
    values, rotation = symmetric_eigen(_gram(image))
    top = np.maximum(values[:rank], np.finfo(np.float64).tiny)
    # image rotated has columns of length σ; dividing by sqrt(σ) leaves U sqrt(Σ).
    vectors = _times(image, rotation[:, :rank] / top**0.25)
    peak = vectors[np.abs(vectors).argmax(axis=0), np.arange(rank)]
    return np.asarray(vectors * np.where(peak < 0, -1.0, 1.0))


def orthonormalise(columns: Float64) -> Float64:
    """Return an orthonormal basis of the columns' space; columns beyond its rank are zeros.

    Args:
        columns: Shape (n, k).
    """
    values, rotation = symmetric_eigen(_gram(columns))
    # Directions this short are rounding, as when the vocabulary is smaller than the width.
    floor = max(float(values[0]), 0.0) * 1e-12
    scale = np.where(values > floor, 1 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
    return _times(columns, rotation * scale)


def symmetric_eigen(matrix: Float64) -> tuple[Float64, Float64]:
    """Decompose a symmetric matrix by Jacobi rotations, half of the axes at a time.

    LAPACK is faster, but its last bits depend on the number of threads.

    Args:
        matrix: Shape (k, k).

    Returns:
        Eigenvalues, falling, shape (k,), and eigenvectors as columns, shape (k, k).
    """
    work, vectors = matrix.copy(), np.eye(len(matrix))
    enough = 1e-15 * np.sqrt((matrix * matrix).sum())
    for _ in range(30):
        if np.abs(work - np.diag(work.diagonal())).max(initial=0.0) <= enough:
            break
        for left, right in _tournament(len(matrix)):
            _rotate(work, vectors, left, right)
    order = np.argsort(-work.diagonal(), kind="stable")
    return work.diagonal()[order], vectors[:, order]


def _tournament(n: int) -> Iterator[tuple[Int64, Int64]]:
    """Pair all axes with each other in rounds, each axis once a round; an odd one sits out."""
    axes = list(range(n)) + ([-1] if n % 2 else [])
    half = len(axes) // 2
    for _ in range(len(axes) - 1):
        pairs = zip(axes[:half], axes[: half - 1 : -1], strict=True)
        met = np.array([pair for pair in pairs if -1 not in pair], dtype=np.int64).reshape(-1, 2)
        yield met[:, 0], met[:, 1]
        axes = [axes[0], axes[-1], *axes[1:-1]]


def _rotate(work: Float64, vectors: Float64, left: Int64, right: Int64) -> None:
    across = work[left, right]
    is_zero = across == 0
    slope = (work[right, right] - work[left, left]) / (2 * np.where(is_zero, 1.0, across))
    tangent = np.where(slope < 0, -1.0, 1.0) / (np.abs(slope) + np.hypot(slope, 1.0))
    tangent[is_zero] = 0.0
    cosine = 1 / np.hypot(tangent, 1.0)
    sine = tangent * cosine
    for table in (work.T, work, vectors.T):
        one, other = table[left], table[right]
        table[left] = cosine[:, None] * one - sine[:, None] * other
        table[right] = sine[:, None] * one + cosine[:, None] * other


def _gram(columns: Float64) -> Float64:
    # einsum without `optimize` never calls BLAS.
    return np.asarray(np.einsum("ni,nj->ij", columns, columns))


def _times(columns: Float64, small: Float64) -> Float64:
    return np.asarray(np.einsum("nk,kj->nj", columns, small))
