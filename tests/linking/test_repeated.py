"""Names that a document repeats in short, and names as news, tweets and posts write them."""

import pytest

from stamo.linking.detect import DetectionSettings, MentionDetector
from stamo.linking.linker import Linker
from stamo.linking.names import last_word_and_initials, spelled_alike
from stamo.linking.texts import join_texts
from tests.linking.genres import GENRES, genre_kb, measure


def found(text, **settings):
    """Find the names of texts of the small wiki: each mention and the alias behind it."""
    joined = join_texts([text])
    mentions = MentionDetector(genre_kb(), DetectionSettings(**settings)).detect(joined)
    spans = zip(mentions.starts.tolist(), mentions.ends.tolist(), strict=True)
    return [
        (joined.text[a:b], genre_kb().alias(alias))
        for (a, b), alias in zip(spans, mentions.aliases.tolist(), strict=True)
    ]


@pytest.mark.parametrize("genre", GENRES)
def test_names_of_every_genre_are_found_and_common_words_are_not(genre: str):
    """Short forms, possessives, capitals, tags and small letters; the entity is the right one."""
    n_found, n_right, n_taken, faults = measure(Linker(genre_kb()), GENRES[genre])
    assert (n_found, n_right, n_taken) == (1.0, 1.0, 0.0), faults


def test_a_last_word_is_a_name_only_after_the_full_one():
    """Before it, and without it, nobody is meant."""
    federer = ("Roger Federer", "Roger Federer")
    assert found("Today Federer won. Roger Federer is old.") == [federer]
    assert found("Federer won.") == []
    assert found("Roger Federer won. So Federer is glad.") == [federer, ("Federer", federer[1])]
    assert found("Roger Federer won. So Federer is glad.", repeated=False) == [federer]


def test_a_short_form_belongs_to_its_own_document():
    texts = ["Roger Federer won.", "So Federer is glad."]
    mentions = MentionDetector(genre_kb()).detect(joined := join_texts(texts))
    assert joined.document_of(mentions.starts).tolist() == [0]


@pytest.mark.parametrize(
    "text",
    [
        "Maria Federer won.",
        "The Federer Cup is new.",
        "Anti-Federer songs.",
        "Some federer or other.",
        "FEDERER!",
    ],
)
def test_part_of_another_name_is_no_short_form(text: str):
    """Neither beside another word with a capital nor in other case."""
    assert [name for name, _ in found(f"Roger Federer won. {text}")] == ["Roger Federer"]


@pytest.mark.parametrize(
    "text", ["Mr. Federer won.", "Who Federer met is open.", "(Federer)", "Federer's"]
)
def test_titles_and_common_words_before_a_short_form_do_no_harm(text: str):
    assert found(f"Roger Federer won. {text}")[1:] == [("Federer", "Roger Federer")]


def test_the_nearest_full_name_counts():
    """Of two people of one last word the one who was named last is meant."""
    text = "George W. Bush came. So Bush left."
    assert found(text)[-1] == ("Bush", "George W. Bush")


def test_initials_need_a_link_that_shows_them():
    """The letters GM are linked for General Motors, nobody writes BA for British Airways here."""
    assert found("General Motors fell. Then GM rose.")[-1] == ("GM", "GM")
    assert set(last_word_and_initials("General Motors")) == {"Motors", "GM"}
    assert set(last_word_and_initials("Bank of England")) == set()
    assert found("British Airways fell. Then BA rose.") == [("British Airways", "British Airways")]


def test_a_possessive_is_no_part_of_a_name():
    assert found("Microsoft's lawyers") == [("Microsoft", "Microsoft")]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Jean Luc Godard", "Jean-Luc Godard"),
        ("MPEG4", "MPEG-4"),
        ("Pink Panther", "The Pink Panther"),
        ("US Virgin Islands", "U.S. Virgin Islands"),
        ("AO Scott", "A. O. Scott"),
        ("Tulsa Oklahoma", "Tulsa, Oklahoma"),
        ("Fortune magazine", "Fortune (magazine)"),
        ("Bachelor of Arts (Honours)", "Bachelor of Arts"),
        ("Geneva University", "University of Geneva"),
        ("St. Patricks Day", "St. Patrick's Day"),
        ("Radio Shack", "RadioShack"),
    ],
)
def test_given_names_are_looked_for_in_other_parts_and_order(written: str, name: str):
    assert name in set(spelled_alike(written))
