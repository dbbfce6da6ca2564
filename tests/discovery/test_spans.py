"""What looks like a name in a text."""

import pytest

from stamo.discovery.names import capital_spans
from stamo.linking.texts import join_texts

FREQUENT = {"in", "the", "however"}


def names(*texts):
    joined = join_texts(texts)
    found = capital_spans(joined, FREQUENT)
    starts, ends = joined.starts[found.first], joined.ends[found.last - 1]
    return [joined.text[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("we saw Ada Lovelace there", ["Ada Lovelace"]),
        ("they watched Game of Thrones again", ["Game of Thrones"]),
        ("the John F. Kennedy papers", ["John F. Kennedy"]),
        ("a Falcon 9 rocket", ["Falcon 9"]),
        ("won by Ada Lovelace 1843", ["Ada Lovelace"]),
        ("the Mira Gamma-ray Space Telescope saw", ["Mira Gamma-ray Space Telescope"]),
        ("a Mira-led team", ["Mira"]),
        ("at Ilta & Zweb today", ["Ilta & Zweb"]),
        ("by R&D alone", ["R&D"]),
        ("near Mira's house", ["Mira"]),
        ("vitamin C. However it", ["However"]),
        ("the U.S. Senate met", ["U.S. Senate"]),
        ("by O'Brien alone", ["O'Brien"]),
        ("Ada, Grace and Emmy", ["Ada", "Grace", "Emmy"]),
        ("no name at all", []),
        ("in Zürich and Łódź", ["Zürich", "Łódź"]),
        ("東京で会った", []),
        ("", []),
    ],
)
def test_runs_of_capitalised_words(text, expected):
    """A run goes on over small words, initials, hyphens and short numbers, and no further."""
    assert names(text) == expected


def test_a_name_never_reaches_into_the_next_text():
    """Texts of a batch do not touch."""
    assert names("seen by Ada", "Lovelace wrote") == ["Ada", "Lovelace"]


def test_headings_in_capitals_are_no_names():
    """A long run of capitals is left out."""
    assert names("see " + " ".join(["Word"] * 12)) == []


def test_a_run_knows_whether_it_begins_a_sentence():
    """Only then has its first word a capital that says nothing."""
    joined = join_texts(["Ada met Grace. Emmy left."])
    assert capital_spans(joined, FREQUENT).opens.tolist() == [True, False, True]
