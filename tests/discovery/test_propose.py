"""Groups, clusters, time and descriptions of what was seen."""

from datetime import date

import numpy as np
import pytest

from stamo.discovery.clusters import cluster, coherence
from stamo.discovery.describe import about_line
from stamo.discovery.groups import fold_spelling, group_names, is_phrase, is_variant
from stamo.discovery.propose import (
    ProposeSettings,
    has_common_name,
    lower_bound,
    surprise,
    without_copies,
)
from stamo.discovery.sightings import Seen
from stamo.discovery.tally import Tally
from stamo.discovery.time import last_year, speaks_of_later, years
from stamo.errors import SettingsError
from tests.discovery.test_tally import sighting


def tally_of(counts, **more):
    tally = Tally()
    for name, n in counts.items():
        for i in range(n):
            document = f"{name}-{i}"
            tally.add(Seen(document, "", [sighting(name, document, **more)], []))
    return tally


def test_full_name_short_name_and_longer_forms_are_one_entity():
    """Spelling, titles in front and the surname alone come together; another person does not."""
    counts = {"Qaro Zweb": 9, "Senator Qaro Zweb": 2, "Zweb": 3, "QARO ZWEB": 1, "Ilta Vwopp": 4}
    groups = group_names(tally_of(counts).names)
    found = {group.name: {tally.name for tally in group.tallies} for group in groups}
    assert found == {
        "Qaro Zweb": {"Qaro Zweb", "Senator Qaro Zweb", "Zweb", "QARO ZWEB"},
        "Ilta Vwopp": {"Ilta Vwopp"},
    }


def test_a_short_name_of_many_stays_alone():
    """A surname that several people share is nobody's short name."""
    counts = {"Qaro Zweb": 4, "Ilta Zweb": 4, "Ogo Zweb": 4, "Zweb": 3}
    names = {group.name for group in group_names(tally_of(counts).names)}
    assert names == set(counts)


def test_variants_of_known_names_are_not_new(world_kb):
    """Plurals, case and signs do not make a new entity."""
    known = next(n for n in world_kb.aliases(range(200)) if n.istitle() and n.isalpha())
    assert is_variant(known + "s", world_kb)
    assert is_variant(known.upper(), world_kb)
    assert not is_variant("Qaro Zweb", world_kb)


def test_common_phrases_and_abbreviations_are_no_names():
    """What documents write small too, and what ends in a full stop."""
    assert is_phrase([tally_of({"Town Hall": 3}, is_common=True).names["Town Hall"]])
    assert is_phrase([tally_of({"Capt": 3}, window="said Capt. Zweb").names["Capt"]])
    assert not is_phrase([tally_of({"Zweb": 3}).names["Zweb"]])


def test_spellings_fold_case_accents_and_signs():
    """What is left are letters and digits."""
    assert fold_spelling("Al-Qaïda 2") == "alqaida2"


def test_clusters_hold_what_agrees():
    """Two groups that are alike inside and unlike each other are two clusters."""
    alike = np.full((5, 5), 0.1)
    alike[:3, :3] = 0.7
    alike[3:, 3:] = 0.6
    np.fill_diagonal(alike, 1)
    assert [rows.tolist() for rows in cluster(alike, 0.4)] == [[0, 1, 2], [3, 4]]
    assert coherence(alike[:3, :3]) == pytest.approx(6 * 0.7 / 8)


def test_copies_count_once():
    """A text that stands in many documents was written once."""
    alike = np.array([[1, 0.99, 0.5], [0.99, 1, 0.5], [0.5, 0.5, 1]])
    assert without_copies(np.arange(3), alike).tolist() == [0, 2]


def test_people_who_share_a_word_are_not_one_entity():
    """Of the forms of one entity's name, one is used more than the others."""
    people = [sighting(name, name) for name in ("Ada Zweb", "Ilta Zweb", "Ogo Zweb", "Uno Zweb")]
    assert not has_common_name(people)
    assert has_common_name([*people, sighting("Ada Zweb", "a"), sighting("Ada Zweb", "b")])


def test_contexts_of_the_past_take_the_surprise():
    """What the knowledge base says as well is not new."""
    inside = np.array([[1, 0.6, 0.6], [0.6, 1, 0.6], [0.6, 0.6, 1]])
    nothing, same = np.zeros((3, 0), np.float32), np.full((3, 4), 0.6, np.float32)
    assert surprise(inside, nothing) == pytest.approx(0.6)
    assert surprise(inside, same) == pytest.approx(0.0, abs=1e-6)


def test_few_documents_prove_little():
    """Three of three is less than thirty of thirty."""
    assert lower_bound(3, 3) < lower_bound(30, 30) < 1
    assert lower_bound(0, 5) == 0


def test_years_are_found_and_other_numbers_are_not():
    """A year stands alone."""
    assert list(years("in 1999, 2,012 men and 20145; 2014. See 1.2013")) == [1999, 2014]
    assert speaks_of_later("founded in 2014", 2006)
    assert not speaks_of_later("founded in 2004", 2006)
    assert not speaks_of_later("founded in 2014", None)
    assert not speaks_of_later("by 2090", 2006)


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


def test_refuses_lists_of_nothing():
    """Settings say what is expected."""
    with pytest.raises(SettingsError, match="at least 2 documents"):
        ProposeSettings(least_documents=1)
