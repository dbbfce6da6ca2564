"""Words, their places and their ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stamo.corpus.tokenizer import capital, encode_words, lower, tokenize


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat sat.", ["the", "cat", "sat"]),
        ("L'homme d’État", ["l", "homme", "d", "état"]),
        ("well-known snake_case", ["well", "known", "snake", "case"]),
        ("F-16s in 1990–95", ["f", "16s", "in", "1990", "95"]),
        ("Москва, Ελλάδα", ["москва", "ελλάδα"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("東京タワーです", ["東", "京", "タワー", "で", "す"]),
        ("IBM東京", ["ibm", "東", "京"]),
        ("東京IBM", ["東", "京", "ibm"]),
        ("กำไร", ["ก", "ำ", "ไ", "ร"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("한국어 위키", ["한국어", "위키"]),
        ("", []),
        ("... -- !?", []),
        ("\ud800 lone", ["lone"]),
        ("a\x00b", ["a", "b"]),
    ],
)
def test_words_of_many_scripts(text, words):
    """Runs of letters, digits and marks are words; scripts without spaces go one by one."""
    assert tokenize(text)[0] == words


def test_capital_i_with_dot_keeps_offsets():
    """The one character that lower-cases to two does not shift the words behind it."""
    text = "İİ İstanbul"
    words, starts, ends = tokenize(text)
    assert words == ["ii", "istanbul"]
    assert text[starts[1] : ends[1]] == "İstanbul"


def test_no_other_character_changes_length():
    """Offsets in the lower-cased text are offsets in the text, whatever the character."""
    everything = "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, 0x110000)))
    assert len(lower(everything)) == len(everything)


@given(st.text())
def test_spans_are_ordered_and_hold_their_words(text):
    """Spans do not overlap, are not empty, and cut exactly the words out of the text."""
    words, starts, ends = tokenize(text)
    assert [lower(text)[i:j] for i, j in zip(starts, ends, strict=True)] == words
    assert (starts < ends).all()
    assert (ends[:-1] <= starts[1:]).all()


@given(st.text())
def test_every_letter_and_digit_is_in_a_word(text):
    """No letter or digit of any script gets lost between the words."""
    _, starts, ends = tokenize(text)
    covered = np.zeros(len(text), dtype=bool)
    for i, j in zip(starts, ends, strict=True):
        covered[i:j] = True
    # Numbers inside circles and the like count as letters or digits for Python and for us.
    assert all(covered[i] for i, sign in enumerate(text) if sign.isalpha() or sign.isdecimal())


def test_encoding_gives_ids_and_places():
    """Known words get their ids, unknown ones -1, both with their characters."""
    words = encode_words("The dog saw the CAT", {"the": 0, "cat": 7})
    assert words.ids.tolist() == [0, -1, -1, 0, 7]
    assert words.starts.tolist() == [0, 4, 8, 12, 16]
    assert words.ends.tolist() == [3, 7, 11, 15, 19]
    assert words.ids.dtype == words.starts.dtype == words.ends.dtype == np.int32


@given(st.text(st.characters(max_codepoint=0x2FFF)))
def test_words_are_the_same_whatever_script_stands_behind_them(text):
    """The table of the first scripts says what that of all scripts says."""
    words, starts, ends = tokenize(text)
    more, more_starts, more_ends = tokenize(f"{text} 語")
    assert more == [*words, "語"]
    assert (more_starts[:-1].tolist(), more_ends[:-1].tolist()) == (starts.tolist(), ends.tolist())


@pytest.mark.parametrize(
    ("word", "raised"),
    [("paris", "Paris"), ("თბილისი", "თბილისი"), ("ßen", "ßen"), ("όλυμπος", "Όλυμπος"), ("", "")],
)
def test_a_word_gets_the_capital_that_its_script_begins_names_with(word: str, raised: str):
    assert capital(word) == raised
