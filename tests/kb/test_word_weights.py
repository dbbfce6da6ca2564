"""Which words say how much."""

import numpy as np

from stamo.kb.words import stop_words


def test_stop_words_follow_the_counts():
    """Words above the given share of the text are stop words, in any language."""
    counts = np.array([500, 300, 150, 49, 1])
    assert stop_words(counts, 0.2).tolist() == [True, True, False, False, False]
    assert not stop_words(np.zeros(3, dtype=np.int64)).any()
    assert stop_words(np.array([11, 10, 3])).tolist() == [True, False, False]
