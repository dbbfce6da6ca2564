"""Names in running text."""

import random

import numpy as np
import pytest

from stamo.corpus.tokenizer import tokenize
from stamo.kb import matching
from stamo.kb.matching import PLAIN_SIGNS, HashedTokens, NameMatcher


def found(names, text):
    """Return the texts that a matcher of `names` finds."""
    occurrences = NameMatcher.build(names).find(text)
    spans = zip(occurrences.starts.tolist(), occurrences.ends.tolist(), strict=True)
    surfaces = [text[start:end] for start, end in spans]
    assert surfaces == [names[i] for i in occurrences.names.tolist()]
    return surfaces


def test_longest_name_wins():
    """Of names that begin together the longest is taken, and nothing inside it."""
    names = ["New York", "York", "New York City", "City"]
    assert found(names, "In New York City, not New York or York.") == [
        "New York City",
        "New York",
        "York",
    ]


def test_names_match_whole_words_only():
    """A name inside a word is none, and half a word never hides the name behind it."""
    assert found(["Java", "art", "Part", "anese coffee"], "Javanese coffee art, Parts") == ["art"]
    assert found(["in Fr", "France"], "made in France") == ["France"]


def test_signs_belong_to_names():
    """Names may begin and end with signs."""
    assert found(
        ["C++", "C", "(I Can't Get No)", "'s-Hertogenbosch"], "C++, C: 's-Hertogenbosch."
    ) == [
        "C++",
        "C",
        "'s-Hertogenbosch",
    ]


def test_offsets_are_right_behind_letters_of_any_script():
    """Offsets count characters of the text, not bytes."""
    assert found(["Zürich", "東京", "Москва"], "𝒳 é Zürich ü 東京都 Москва") == [
        "Zürich",
        "東京",
        "Москва",
    ]


def test_matcher_is_saved_and_loaded(tmp_path):
    """A loaded matcher finds what the saved one found."""
    numbers = np.array([7, 9], dtype=np.int32)
    NameMatcher.build(["Brig", "Corm"], numbers).save(tmp_path, "m")
    loaded = NameMatcher.open(tmp_path, "m")
    assert loaded.find("Corm near Brig near Corm").names.tolist() == [9, 7, 9]


def test_no_names_find_nothing():
    """A matcher of nothing finds nothing."""
    assert found([], "Brig \x01 \x02") == []


@pytest.mark.parametrize("names_per_batch", [3, 1 << 14])
def test_matches_equal_a_loop_over_all_places(monkeypatch, names_per_batch):
    """On random words the result is that of trying every name at every word, longest first."""
    monkeypatch.setattr(matching, "NAMES_PER_BATCH", names_per_batch)
    rng = random.Random(5)
    names = sorted({" ".join(rng.choices("abcd", k=rng.randint(1, 4))) for _ in range(60)})
    text = " ".join(rng.choices("abcde", k=3000))
    expected = []
    words, starts, ends = tokenize(text)
    place = 0
    while place < len(words):
        for n in range(4, 0, -1):
            name = " ".join(words[place : place + n])
            if name in names and place + n <= len(words):
                expected.append((int(starts[place]), int(ends[place + n - 1]), names.index(name)))
                place += n
                break
        else:
            place += 1
    got = NameMatcher.build(names).find(text)
    rows = zip(got.starts.tolist(), got.ends.tolist(), got.names.tolist(), strict=True)
    assert list(rows) == expected
    assert len(expected) > 1000


def test_names_do_not_reach_over_line_breaks():
    """A line break ends a paragraph, and names stay inside it; odd spaces are spaces."""
    assert found(["New York"], "New\nYork New York") == ["New York"]
    got = NameMatcher.build(["New York"]).find("New\u00a0York")
    assert (got.starts.tolist(), got.ends.tolist()) == ([0], [8])


def test_empty_text_holds_no_names():
    """An empty text is no special case."""
    assert len(NameMatcher.build(["Brig"]).find("")) == 0


def found_all(names, text, wanted):
    """Return every name that a matcher finds in the plain form of a text, with its number."""
    plain = text.translate(PLAIN_SIGNS)
    got = NameMatcher.build(names).find_all(HashedTokens.of(plain), np.array(wanted))
    spans = zip(got.starts.tolist(), got.ends.tolist(), got.names.tolist(), strict=True)
    return [(text[start:end], name) for start, end, name in spans]


def test_all_names_are_found_where_they_overlap():
    """Names inside and across others are found too, the shortest first; unwanted ones are not."""
    names = ["New York", "York", "York City", "New", "City"]
    assert found_all(names, "New York City", [True, True, True, False, False]) == [
        ("York", 1),
        ("New York", 0),
        ("York City", 2),
    ]


def test_typographic_signs_are_one_with_plain_ones_in_folded_text_only():
    """Names that differ in quotes or dashes alone are all found; as written, each only itself."""
    names = ["O\u2019Neill", "Austria\u2013Hungary", "O'Neill", "Oslo"]
    text = "O\u2018Neill of Austria-Hungary"
    assert found_all(names, text, [True] * 4) == [
        ("O\u2018Neill", 0),
        ("O\u2018Neill", 2),
        ("Austria-Hungary", 1),
    ]
    assert found(names, "O'Neill, O\u2019Neill, Austria-Hungary") == ["O'Neill", "O\u2019Neill"]


def test_unwanted_names_do_not_hide_wanted_ones():
    """The longest name is the longest of those that are wanted."""
    matcher = NameMatcher.build(["New York", "New York City"])
    got = matcher.find("New York City", np.array([True, False]))
    assert (got.starts.tolist(), got.ends.tolist(), got.names.tolist()) == ([0], [8], [0])
