"""Which words say how much."""

import numpy as np
import pytest

from stamo.errors import SettingsError
from stamo.kb.word_weights import stop_words


def test_stop_words_follow_the_counts():
    """Words above the given share of the text are stop words, in any language."""
    counts = np.array([500, 300, 150, 49, 1])
    assert stop_words(counts, 0.2).tolist() == [True, True, False, False, False]
    assert not stop_words(np.zeros(3, dtype=np.int64)).any()
    assert stop_words(np.array([11, 10, 3])).tolist() == [True, False, False]


@pytest.mark.parametrize("frequency", [0.0, -1.0, 1.5])
def test_stop_word_frequency_is_a_share(frequency):
    """A frequency outside 0..1 is refused."""
    with pytest.raises(SettingsError, match="share"):
        stop_words(np.array([1, 2]), frequency)
