import numpy as np

from stamo.features.mentions import Surroundings

TEXTS = ("The probe Dawn left Vesta, and Dawn French laughed.", "Dawn")


def places(*spans):
    documents, starts, ends = zip(*spans, strict=True)
    return Surroundings(TEXTS, *(np.array(x, dtype=np.int32) for x in (documents, starts, ends)))


def test_next_to_gives_the_nearest_first():
    """Words and signs on either side, also at the edges of a text."""
    first, second, alone = places((0, 10, 14), (0, 31, 35), (1, 0, 4)).next_to()
    assert first == (("probe", "The"), ("left", "Vesta"))
    assert second == (("and", ","), ("French", "laughed"))
    assert alone == ((), ())


def test_windows_cut_between_words():
    """A window holds whole words and says where the mention stands in it."""
    (window,) = places((0, 10, 14)).windows(3)
    assert window.text == "probe Dawn left"
    assert window.text[window.start : window.end] == "Dawn"


def test_a_text_without_spaces_does_not_grow_a_window_for_ever():
    """Where nothing separates words, a window ends at twice its size."""
    text = "x" * 5000
    one = Surroundings((text,), *(np.array([n], dtype=np.int32) for n in (0, 2000, 2004)))
    (window,) = one.windows(100)
    assert len(window.text) <= 4 * 100 + 4


def test_some_mentions_keep_their_texts():
    """What is taken of many mentions stands where it stood."""
    every = places((0, 10, 14), (0, 31, 35), (1, 0, 4))
    assert every.take(np.array([2])).next_to() == [((), ())]
