"""WLM by hand."""

import numpy as np
import pytest

from stamo.kb.relatedness import wlm


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
