"""Many texts as one: places, words and composed characters."""

import unicodedata

import numpy as np
import pytest

from stamo.linking.texts import code_points, compose, is_composed, join_texts

MARKED = ["cafe\u0301", "\u212b", "\u1100\u1161", "\u0958", "क\u093c", "\u2000"]


@pytest.mark.parametrize("text", [*MARKED, "plain", "“café” — 東京", "Ångström", "서울"])
def test_what_is_called_composed_is(text):
    """No text that Unicode's composed form changes passes for composed."""
    if is_composed(code_points(text)):
        assert unicodedata.is_normalized("NFC", text)
    else:
        assert text in MARKED


def test_texts_without_marks_are_told_without_composing():
    """Quotes, dashes and letters of any script with capitals need no second look."""
    assert is_composed(code_points("“Élan” – Ärzte, Москва, Αθήνα, 日本"))


def test_places_are_those_of_the_original_text():
    """A text that is composed, and one with a sign of ours, keep the places of their words."""
    texts = ["cafe\u0301 Paris", "a\x03b Rome", "plain"]
    joined = join_texts(texts)
    for document, (text, word) in enumerate(zip(texts, ["Paris", "Rome", "plain"], strict=True)):
        place = np.array([joined.text.index(word)])
        assert joined.document_of(place).tolist() == [document]
        (start,) = joined.local(np.array([document]), place)
        assert text[start : start + len(word)] == word
    assert compose("e\u0301")[0] == "é"


@pytest.mark.parametrize("text", ["কোচ", "கொச்சி", "ಕೋಟೆ", "ශෝ", "ဦး", "Hà Nội", "서울", "й", "ড়"])
def test_whatever_unicode_composes_is_composed(text):
    """Also vowel signs that are two characters, of which neither is a combining one."""
    whole = unicodedata.normalize("NFC", text)
    composed, places = compose(unicodedata.normalize("NFD", text))
    assert composed == whole
    assert len(places) == len(whole) + 1


def test_words_know_their_text_and_their_capital():
    """Each word's document and first letter are found in bulk."""
    joined = join_texts(["Ada met bob", "", "Émile"])
    assert joined.word_documents.tolist() == [0, 0, 0, 2]
    assert joined.is_raised.tolist() == [True, False, False, True]
