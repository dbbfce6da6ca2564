"""Word vectors learned from the corpus' own text."""

import os
import subprocess
import sys

import numpy as np
import pytest

from stamo.build import word_vectors as module
from stamo.build.word_vectors import (
    WINDOW,
    associate,
    count_pairs,
    leading_directions,
    learn_word_vectors,
    symmetric_eigen,
)


def test_pairs_agree_with_a_loop():
    """Each pair within the window counts window + 1 - distance, both ways."""
    rng = np.random.default_rng(0)
    ids = rng.integers(-1, 6, 200).astype(np.int32)
    window = WINDOW
    expected = np.zeros((6, 6), dtype=np.int64)
    for i in range(len(ids)):
        for d in range(1, window + 1):
            if i + d < len(ids) and min(ids[i], ids[i + d]) >= 0:
                expected[ids[i], ids[i + d]] += window + 1 - d
                expected[ids[i + d], ids[i]] += window + 1 - d
    assert (count_pairs([ids], 6).toarray() == expected).all()


def test_association_by_hand(monkeypatch):
    """Only pairs more frequent than chance stay, with the log of how much more."""
    monkeypatch.setattr(module, "WINDOW", 1)
    monkeypatch.setattr(module, "CONTEXT_SMOOTHING", 1.0)
    pairs = count_pairs([np.array([0, 1, -1, 0, 1, -1, 2, 2, -1, 0, 2], dtype=np.int32)], 3)
    found = associate(pairs).toarray()
    counts = np.array([[0, 2, 1], [2, 0, 0], [1, 0, 2]])
    assert (pairs.toarray() == counts).all()
    assert found[0, 1] == pytest.approx(np.log(2 * 8 / (3 * 2)))
    assert found[0, 2] == 0  # 1 * 8 / (3 * 3) is below chance
    assert found[2, 2] == pytest.approx(np.log(2 * 8 / (3 * 3)))


@pytest.mark.parametrize("size", [1, 2, 7, 20])
def test_eigen_decomposition_equals_lapack(size):
    """Jacobi rotations find the same eigenvalues and a basis that rebuilds the matrix."""
    half = np.random.default_rng(size).standard_normal((size, size))
    matrix = half + half.T
    values, vectors = symmetric_eigen(matrix)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1], atol=1e-12)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-12)


def test_reduction_equals_dense_svd():
    """Subspace iteration spans what a dense SVD spans: U Σ Uᵀ agrees."""
    ids = np.random.default_rng(5).zipf(1.5, 5000).clip(max=40).astype(np.int32) - 1
    matrix = associate(count_pairs([ids], 40))
    left, values, _ = np.linalg.svd(matrix.toarray())
    expected = (left[:, :8] * values[:8]) @ left[:, :8].T
    found = leading_directions(matrix, 8, 60)
    np.testing.assert_allclose(found @ found.T, expected, atol=1e-6)


def test_most_frequent_words_come_first(monkeypatch):
    """Words come by falling count, rare ones are left out, the cap holds."""
    texts = ["b b b a a c c d", "b e a e e c"]
    learned = learn_word_vectors(texts, dimensions=2, min_count=2)
    assert learned.words == ["b", "a", "c", "e"]
    assert learned.vectors.shape == (4, 2)
    monkeypatch.setattr(module, "MAX_WORDS", 3)
    assert learn_word_vectors(texts, 2, min_count=2).words == ["b", "a", "c"]


def test_same_bytes_for_any_number_of_threads():
    """The number of BLAS threads does not change a bit; BLAS itself differs at this size."""
    code = (
        "import hashlib, numpy, scipy.sparse\n"
        "from stamo.build.word_vectors import leading_directions\n"
        "rng = numpy.random.default_rng(0)\n"
        "matrix = scipy.sparse.random_array((500, 500), density=0.05, rng=rng, format='csr')\n"
        "vectors = leading_directions(matrix, 100, 1)\n"
        "print(hashlib.sha256(vectors.tobytes()).hexdigest())"
    )
    digests = set()
    for threads in ("1", "2"):
        env = dict(os.environ, OMP_NUM_THREADS=threads, OPENBLAS_NUM_THREADS=threads)
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("texts", [[], [""], ["one two three"], ["... !"]])
def test_too_little_text_gives_no_vectors(texts):
    """Without enough words there is nothing to learn."""
    assert learn_word_vectors(texts, 5, min_count=5) is None
