"""Groups, clusters, time and descriptions of what was seen."""

from datetime import date

import numpy as np
import pytest

from stamo.discovery.meanings import (
    group_names,
    is_date,
    is_phrase,
    is_piece,
    is_quoted,
    longer_names,
    opens_sentences,
)
from stamo.discovery.names import (
    EARLIER,
    LATER,
    NO_YEAR,
    NamedYears,
    Seen,
    Tally,
    last_year,
    pack,
    years,
)
from stamo.discovery.proposals import Occurrence, Proposal, confirmed
from stamo.discovery.propose import (
    NEW_TITLE,
    OLD_TITLE,
    Past,
    about_line,
    doubt_meaning,
)
from stamo.linking.texts import join_texts
from tests.discovery.test_names import sighting


def tally_of(counts, **more):
    tally = Tally()
    for name, n in counts.items():
        for i in range(n):
            document = f"{name}-{i}"
            tally.add(Seen(document, [pack(sighting(name, document, **more))], []))
    return tally


def contexts(*windows, name="Zweb", **more):
    return [sighting(name, str(i), window=w, **more) for i, w in enumerate(windows)]


def test_full_name_short_name_and_longer_forms_are_one_entity():
    """Spelling, titles in front and the surname alone come together; another person does not."""
    one = {"Qaro Zweb": 9, "Senator Qaro Zweb": 2, "Zweb": 3, "QARO ZWEB": 1, "Qáro-Zweb": 1}
    counts = one | {"Ilta Vwopp": 4}
    groups = group_names(tally_of(counts).names)
    found = {group[0].name: {tally.name for tally in group} for group in groups}
    assert found == {
        "Qaro Zweb": set(one),
        "Ilta Vwopp": {"Ilta Vwopp"},
    }


def test_a_short_name_of_many_stays_alone():
    """A surname that several people share is nobody's short name."""
    counts = {"Qaro Zweb": 4, "Ilta Zweb": 4, "Ogo Zweb": 4, "Zweb": 3}
    names = {group[0].name for group in group_names(tally_of(counts).names)}
    assert names == set(counts)


@pytest.mark.parametrize(
    ("name", "window", "more", "expected"),
    [
        ("Town Hall", "", {"is_common": True}, True),  # documents write it small too
        ("Capt", "said Capt. Zweb", {}, True),
        ("Monday", "", {}, True),
        ("Zweb", "", {}, False),
    ],
)
def test_common_phrases_and_abbreviations_are_no_names(name, window, more, expected):
    """What documents write small too, days, and what ends in a full stop."""
    assert is_phrase(tally_of({name: 3}, window=window, **more).names[name]) is expected


@pytest.mark.parametrize(
    ("window", "seen", "expected"),
    [
        ("it ended. Does Zweb know", {"Zweb"}, True),
        ("(Friday) Does Zweb know", {"Zweb"}, True),
        ("it ended. Does Zweb know", set(), False),
        ("we met Does Zweb there", {"Zweb"}, False),
    ],
)
def test_a_word_that_only_opens_sentences_is_no_part_of_a_name(window, seen, expected):
    """Unless it is seen inside a sentence too, or the rest is no name."""
    tally = tally_of({"Does Zweb": 2}, window=window).names["Does Zweb"]
    assert opens_sentences(tally, seen.__contains__) is expected


def test_pieces_dates_and_quoted_titles_are_told():
    """A word that stands more often in longer names is part of them; dates stand in any text."""
    names = tally_of({"Labs": 2, "Qaro Labs": 2, "Ilta Labs": 1, "Zweb": 2, "Ogo Zweb": 1}).names
    longer = longer_names(names.values())
    assert [n for n in names if is_piece(names[n], longer)] == ["Labs"]
    dates = ["Monday", "March", "1 November", "May 2007", "January 15"]
    assert [n for n in (*dates, "March Hare") if is_date(n)] == dates
    windows = ('the film "Zweb" of', 'he said "Zweb left"', "Zweb")
    assert [is_quoted(s) for s in contexts(*windows)] == [True, False, False]


def test_later_years_speak_for_a_new_entity_and_earlier_ones_against_it():
    """Without years, documents are counted."""
    of = {t: [sighting("Zweb", "a", time=t)] for t in (EARLIER, NO_YEAR, LATER)}
    past = Past(Tally(), 2006)
    assert past.evidence(of[EARLIER]) < 0 < past.evidence(of[NO_YEAR]) < past.evidence(of[LATER])
    assert Past(Tally(), None).evidence(of[EARLIER] * 3) == 3


def test_years_are_found_and_other_numbers_are_not():
    """A year stands alone."""
    assert list(years("in 1999, 2,012 men and 20145; 2014. See 1.2013")) == [1999, 2014]
    text = "founded in 2004, sold in 2014, and so on until 2090"
    joined = join_texts([text, "in 2014"])
    pieces = [(0, 20), (-9, len(text) + 9), (16, 24), (32, len(text))]
    begins, ends = np.array(pieces, dtype=np.int32).T
    first = np.zeros(len(pieces), dtype=np.int32)
    times = NamedYears.of(joined, 2006).times_of(first, begins, ends)
    assert times.tolist() == [EARLIER, LATER, NO_YEAR, NO_YEAR]
    assert (NamedYears.of(joined, None).times_of(first, begins, ends) == NO_YEAR).all()


def test_the_year_of_a_knowledge_base_is_that_of_its_articles(world_kb):
    """The invented encyclopaedia ends before its later documents begin."""
    found = last_year(world_kb)
    assert found is not None
    assert 2000 <= found <= date.today().year


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("we met. Zweb is a small tool for poets. It", "Zweb is a small tool for poets."),
        ("they use Zweb, a small tool for poets, daily", "Zweb, a small tool for poets"),
        ("they went with Zweb home", ""),
    ],
)
def test_the_line_comes_from_a_sentence_that_defines(window, expected, world_kb):
    """A sentence with "is a", then an apposition, then nothing."""
    assert about_line("Zweb", [sighting("Zweb", "a", window=window)], world_kb) == expected


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


GOLD = {"a": {(0, 3): "Rey"}, "b": {(5, 8): "Rey"}, "c": {(0, 3): "Rey (river)"}, "d": {}}


def make_proposal(*places):
    occurrences = tuple(Occurrence(document, start, start + 3) for document, start in places)
    texts = ("1", "name", "Rey", ("Rey",), 3, 3, "", (), (), "", "", 0.5, 1.0)
    return Proposal(*texts, occurrences)


def test_half_of_the_places_confirm_an_entity():
    """Places of another entity, or of none, count against it."""
    assert confirmed(make_proposal(("a", 1), ("b", 5), ("c", 0), ("d", 0)), GOLD) == "Rey"
    assert confirmed(make_proposal(("a", 1), ("d", 0), ("b", 20)), GOLD) == ""
    assert confirmed(make_proposal(("missing", 0)), GOLD) == ""
