"""Names in running text."""

import random

import numpy as np
import pytest

from stamo.corpus.tokenizer import tokenize
from stamo.kb import matching
from stamo.kb.matching import PLAIN_SIGNS, HashedTokens, NameMatcher

NEW_YORK = ["New York", "York", "New York City", "City"]


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        (NEW_YORK, "New York City, not New York", ["New York City", "New York"]),
        (["Java", "art", "Part", "anese coffee"], "Javanese coffee art, Parts", ["art"]),
        (["in Fr", "France"], "made in France", ["France"]),
        (["C++", "C", "(I Can't", "'s-Hert"], "C++, C: 's-Hert.", ["C++", "C", "'s-Hert"]),
        (["Zürich", "東京", "Москва"], "𝒳 é Zürich ü 東京都 Москва", ["Zürich", "東京", "Москва"]),
        (["New York"], "New\nYork New York, New\xa0York", ["New York", "New\xa0York"]),
        (["O'Neill", "O\u2019Neill"], "O'Neill, O\u2019Neill", ["O'Neill", "O\u2019Neill"]),
        ([], "Brig \x01 \x02", []),
        (["Brig"], "", []),
    ],
)
def test_names_are_found(names, text, expected):
    """The longest whole words win, with their signs, in any script, and not over a line break."""
    got = NameMatcher.build(names).find(text)
    spans = zip(got.starts.tolist(), got.ends.tolist(), strict=True)
    assert [text[start:end] for start, end in spans] == expected
    plain = [surface.replace("\xa0", " ") for surface in expected]
    assert [names[i] for i in got.names.tolist()] == plain


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
