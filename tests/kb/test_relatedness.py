"""WLM by hand, and against a loop over sets."""

import numpy as np
import pytest

from stamo.kb import relatedness
from stamo.kb.relatedness import joint_documents, wlm
from stamo.kb.storage import Csr


def lists_of(sets, n_numbers):
    """Return D(e) as lists and as keys."""
    rows = [sorted(documents) for documents in sets]
    values = np.array([d for row in rows for d in row], dtype=np.int32)
    indptr = np.cumsum([0, *map(len, rows)])
    keys = [e * n_numbers + d for e, row in enumerate(rows) for d in row]
    return Csr(indptr, values), np.array(keys, dtype=np.int64)


def test_wlm_by_hand_on_five_documents():
    """Of five documents a is in four, b in two, both in one; c is in three of those with a."""
    a, b = {0, 1, 2, 3}, {3, 4}
    expected = 1 - (np.log(4) - np.log(1)) / (np.log(5) - np.log(2))
    got = wlm(np.array([len(a)]), np.array([len(b)]), np.array([len(a & b)]), 5)
    assert expected < 0
    assert got[0] == 0
    c = {1, 2, 3}
    expected = 1 - (np.log(4) - np.log(3)) / (np.log(5) - np.log(3))
    got = wlm(np.array([len(a)]), np.array([len(c)]), np.array([len(a & c)]), 5)
    assert got[0] == pytest.approx(expected)


def test_wlm_at_its_borders():
    """Nothing shared is 0, the same documents are 1, also when they are all there are."""
    n_a = np.array([3, 2, 5, 0])
    n_b = np.array([2, 2, 5, 0])
    joint = np.array([0, 2, 5, 0])
    assert wlm(n_a, n_b, joint, 5).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("probes_per_block", [3, 1 << 22])
def test_joint_documents_equal_set_intersections(monkeypatch, probes_per_block):
    """Counts equal those of Python sets, for any block size, order and repetition of pairs."""
    monkeypatch.setattr(relatedness, "PROBES_PER_BLOCK", probes_per_block)
    rng = np.random.default_rng(7)
    sets = [set(rng.integers(0, 40, size=rng.integers(0, 25)).tolist()) for _ in range(30)]
    documents, keys = lists_of(sets, 40)
    a, b = rng.integers(0, 30, 500), rng.integers(0, 30, 500)
    got = joint_documents(documents, keys, 40, a, b)
    assert got.tolist() == [len(sets[i] & sets[j]) for i, j in zip(a, b, strict=True)]


def test_no_pairs_and_no_documents():
    """Empty input gives empty output, and entities without documents share none."""
    documents, keys = lists_of([set(), set()], 1)
    none = np.empty(0, dtype=np.int64)
    assert joint_documents(documents, keys, 1, none, none).tolist() == []
    assert joint_documents(documents, keys, 1, np.array([0]), np.array([1])).tolist() == [0]
