"""Names in headlines: of packs, and Greek ones, whose capitals have no accents."""

import pytest

from stamo.linking.detect import MentionDetector
from stamo.linking.forms import CapitalNames, find_alias_forms
from stamo.linking.texts import join_texts
from tests.linking.languages import build_wiki
from tests.linking.small import small_kb


def meant(alias: str, text: str, kb=None) -> str:
    """Return the name that the capitals of an alias in a text are read as."""
    surface = alias.upper()
    start = text.index(surface)
    names = CapitalNames([alias], kb or small_kb())
    return names.name_of(surface, text, start, start + len(surface))


@pytest.mark.parametrize(
    "text",
    [
        "KEPLER TELESCOPE FINDS PLANET",
        "NASA: NEW KEPLER PLANET",
        "News today\nTHE KEPLER'S BIG DAY\nmore",
    ],
)
def test_a_name_in_a_headline_is_the_name(text):
    assert meant("Kepler", text) == "Kepler"


@pytest.mark.parametrize(
    "text",
    [
        "the KEPLER experiment at NASA",
        "KEPLER",
        "FEA, MENA, KEPLER, SEA, NASA",
        "Operation NEW KEPLER in Iraq",
        "SEVERAL WORDS ABOVE\nKEPLER, as it is called",
    ],
)
def test_a_word_in_capitals_inside_of_other_text_is_an_abbreviation(text):
    assert meant("Kepler", text) == "KEPLER"


def test_a_name_of_several_words_is_told_anywhere():
    assert meant("New Kepler", "Operation NEW KEPLER in Iraq") == "New Kepler"


def test_common_words_and_names_in_capitals_are_left_alone(tmp_path):
    """A name that is linked in small letters is a word; "WHO" is another name."""
    pages = {"Dawn": "The [[Dawn|dawn]] comes. [[WHO]] and [[Kepler]].", "WHO": "[[Kepler]]"}
    kb = build_wiki(tmp_path, "en", pages)
    headline = "DAWN AND WHO AND KEPLER FOUND"
    assert meant("Dawn", headline, kb) == "DAWN"
    assert meant("Who", headline, kb) == "WHO"
    assert meant("Kepler", headline, kb) == "Kepler"


def test_greek_names_of_several_words_lose_their_accents(tmp_path):
    """Known and new ones; the span is as it stands."""
    pages = {
        "Νέα Υόρκη": "Η [[Νέα Υόρκη]] και η [[Αθήνα]].",
        "Αθήνα": "Η [[Αθήνα]] και η [[Νέα Υόρκη]].",
    }
    kb = build_wiki(tmp_path, "el", pages)
    joined = join_texts(["Η ΝΕΑ ΥΟΡΚΗ ΚΑΙ ΤΟ ΑΣΠΡΟ ΠΛΟΙΟ"])
    found = MentionDetector(kb, extra_aliases=["Άσπρο Πλοίο"]).detect(joined)
    spans = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    assert [joined.text[i:j] for i, j in spans] == ["ΝΕΑ ΥΟΡΚΗ", "ΑΣΠΡΟ ΠΛΟΙΟ"]
    forms = find_alias_forms(["Άσπρο Πλοίο"], kb)
    assert forms.name_of("ΑΣΠΡΟ ΠΛΟΙΟ") == "Άσπρο Πλοίο"
