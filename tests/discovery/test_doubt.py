"""What speaks against a new meaning: templates, pieces of longer names, titles that are known."""

import numpy as np
import pytest

from stamo.discovery.meanings import ContextReader
from stamo.discovery.names import EARLIER, LATER, NO_YEAR, Tally
from stamo.discovery.propose import (
    NEW_TITLE,
    OLD_TITLE,
    Past,
    doubt_meaning,
    follows_place_word,
    repeated_frame,
)
from tests.discovery.test_tally import sighting


def contexts(*windows, name="Zweb", **more):
    return [sighting(name, str(i), window=w, **more) for i, w in enumerate(windows)]


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        # a template: the same four words and signs on one side
        (["Twin towns of it, Zweb cities, one", "Twin towns of it, Zweb places of"], 1.0),
        # a piece of a longer name
        (["by the Forum on Zweb today", "The Forum on Zweb said", "they like Zweb"], 2 / 3),
        (["Zweb and World Cities", "an odd Zweb and World view"], 1.0),
        # brackets after the full name say what it means
        (["Zero Web Union (Zweb) said", "Zero Web Union (Zweb) came"], 0.0),
        (["they saw Zweb there", "we went with Zweb home"], 0.0),
        (['in "Zweb" (2013) he', 'then "Zweb" (2013) she'], 0.0),
    ],
)
def test_the_same_words_around_a_name_are_told(windows, expected):
    """The share of the contexts that have them."""
    assert repeated_frame(contexts(*windows)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("window", "year"),
    [
        ('her film "Zweb" (2013) and', 2013),
        ("Zweb (2011 film)", 2011),
        ("Zweb (a film of 1999)", 1999),
        ("Zweb in 2013 (again)", None),
        ("Zweb (20130 copies)", None),
    ],
)
def test_the_year_of_a_title_stands_in_brackets_after_it(window, year):
    """Whatever else the text around it names."""
    assert [s.own_year for s in contexts(window)] == [year]


def test_the_year_of_a_title_outweighs_those_around_it():
    """An old title is no new thing, even where the text speaks of later years."""
    past = Past(Tally(), 2006)
    new, old, plain = contexts('"Zweb" (2013)', '"Zweb" (1990), shown', "Zweb came", time=LATER)
    assert past.evidence([new]) == NEW_TITLE
    assert past.evidence([old]) == OLD_TITLE < 0 < past.evidence([plain])


def test_places_stand_after_small_words():
    """In, at and near; not "of"."""
    near, of = contexts("a house in Zweb", "the king of Zweb")
    assert follows_place_word(near)
    assert not follows_place_word(of)


@pytest.fixture
def known(world_kb):
    """A known name of one word with other titles among its meanings."""
    for name in world_kb.aliases(range(300)):
        ids = world_kb.candidates(name).ids.tolist()
        if name.isalpha() and name.istitle() and len(name) > 3:
            titles = [t for t in world_kb.titles(ids) if t.partition(" (")[0] != name]
            if titles:
                return name, ids, titles[0].partition(" (")[0]
    raise AssertionError("the world has no such name")


def test_what_the_text_says_itself_is_hardly_a_new_meaning(known, world_kb):
    """A context that says the title of a known meaning means it; a template means nothing."""
    name, ids, title = known
    past = Past(Tally(), None)

    def doubt(*windows):
        return doubt_meaning(name, contexts(*windows, name=name), 0.5, ids, world_kb, past)

    free = doubt(f"so {name} won again", f"we like {name} now", f"they sold {name} to us")
    said = doubt(f"{title} came. So {name} won", f"we like {name} of {title}")
    piece = doubt(f"the Forum on {name} now", f"our Forum on {name} said")
    assert 0 < piece < free
    assert 0 < said < free


def test_places_and_titles_are_hardly_new_meanings(known, world_kb):
    """What stands after "in" keeps less of its score than what does not."""
    name, ids, _ = known
    past = Past(Tally(), None)
    place = contexts(f"he lives in {name} today", f"born in {name} long ago", name=name)
    thing = contexts(f"he sold {name} today", f"built {name} long ago", name=name)
    less, more = (doubt_meaning(name, s, 0.5, ids, world_kb, past) for s in (place, thing))
    assert 0 < less < more


def test_titles_and_times_tell_contexts_apart(world_kb):
    """Two titles of one year are more alike, of two years less; so are two times."""
    reader = ContextReader(world_kb)
    windows = ['"Zweb" (2013)', '"Zweb" (2013)', '"Zweb" (1990)']
    same = reader.likeness(contexts(*windows), np.zeros((3, 2), dtype=np.float32))
    assert same[0, 1] > same[0, 2]
    times = [sighting("Zweb", str(t), time=t) for t in (LATER, NO_YEAR, EARLIER)]
    alike = reader.likeness(times, np.zeros((3, 2), dtype=np.float32))
    assert alike[0, 1] == alike[1, 2] > alike[0, 2]
