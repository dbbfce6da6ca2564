"""Names in tweets and posts: without capitals, and run together behind # and @."""

import pytest

from stamo.linking.detect import DetectionSettings, MentionDetector
from tests.linking.small import small_kb
from tests.linking.test_detection import ALL, found


@pytest.fixture(scope="module")
def detector():
    return MentionDetector(small_kb(), ALL)


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("going 2 indonesia, i love sumatra", ["indonesia", "sumatra"]),
        ("so back in são paulo lol", ["são paulo"]),
        ("the united states of america and java!!", ["united states of america", "java"]),
        ("I am in sun microsystems now", ["sun microsystems"]),
    ],
)
def test_a_text_without_capitals_is_read_with_them(detector, text, mentions):
    """Names are found in small letters where no other word has a capital."""
    assert found(detector, text) == mentions


def test_beside_words_with_capitals_small_letters_mean_what_they_say(detector):
    """Whoever writes capitals means no name by a small letter."""
    assert found(detector, "We drank java in Indonesia.") == ["Indonesia"]
    texts = "We drank java in Indonesia.", "she lives on java"
    assert found(detector, *texts) == ["Indonesia", "java"]


def test_a_name_that_is_linked_in_small_letters_too_stays_a_word(detector):
    """As "monetary policy" is: the small form is a name of its own, with its own probability."""
    strict = MentionDetector(small_kb(), DetectionSettings(least_link_probability_small=1.0))
    assert found(detector, "about monetary policy") == ["monetary policy"]
    assert found(strict, "about monetary policy and java") == ["java"]


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("Watching #NewYorkCity with @SunMicrosystems!", ["NewYorkCity", "SunMicrosystems"]),
        ("Rain in #java, says @sumatra.", ["java", "sumatra"]),
        ("Such a nice view #LoveNewYork", ["NewYork"]),
        ("#UnitedStatesOfAmerica Day", ["UnitedStatesOfAmerica"]),
        ("No tag: NewYorkCity, a@b, # Java", ["Java"]),
    ],
)
def test_tags_are_read_word_by_word(detector, text, mentions):
    """Words that a tag runs together are told by their capitals; the sign is not in the span."""
    assert found(detector, text) == mentions


def test_a_single_letter_ends_or_begins_a_tag(detector):
    """Cutting single letters off leaves the places of the others right."""
    assert found(detector, "#XNewYorkY #YorkA #A") == ["NewYork", "York"]
