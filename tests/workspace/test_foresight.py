"""What is said before work is spent."""

from dataclasses import replace

import pytest

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.corpus.types import EmergingEntity
from stamo.kb.base import KnowledgeBase
from stamo.workspace.collect import Collected
from stamo.workspace.entities import look_at, weigh_names
from tests.build.dumps import write_dump

FOUND = Collected(30, 40, {}, {}, {}, 30, {"Rey": 40})


@pytest.fixture(scope="module")
def kb(tmp_path_factory):
    folder = tmp_path_factory.mktemp("known")
    pages = [(f"Page {i}", f"The [[River {i}|river]] of day {i}. The end.") for i in range(60)]
    pages += [("Odd", "[[The (band)|The]] plays near [[Brig]]."), ("Brig", "A town, [[Brig]].")]
    ids = folder / "ids.tsv"
    ids.write_text("Brig\tQ7\n")
    settings = BuildSettings(held_out=0, dimensions=0, ids=ids)
    build_knowledge_base(write_dump(folder / "d.xml", pages), folder / "kb", settings)
    return KnowledgeBase.open(folder / "kb")


def test_an_entity_that_is_known_is_told(kb):
    """By its name, by its id; another id is another entity."""
    (line,) = weigh_names(EmergingEntity("Brig", ("Brig",)), kb)
    assert "seems to hold the entity already by this name: 'Brig'" in line
    (line,) = weigh_names(EmergingEntity("Burg", ("Brig",), external_id="Q7"), kb)
    assert "with the id Q7: 'Brig'" in line
    (line,) = weigh_names(EmergingEntity("Brig", ("Brig",), external_id="Q8"), kb)
    assert "told apart by its id Q8" in line


def test_names_that_mean_nothing_or_flood_are_told(kb):
    """An alias without a candidate, and one that is a common word."""
    lines = weigh_names(EmergingEntity("Zed Zander", ("Zed", "Zed Zander", "The")), kb)
    assert len(lines) == 2
    assert "No entity of kb is called 'Zed'" in lines[0]
    assert "'The' stands in" in lines[1]
    assert "flood" in lines[1]


def test_a_common_word_that_is_no_name_is_told(world_kb):
    """Names of common words are not counted; their words are."""
    (line,) = weigh_names(EmergingEntity("Zed Zander", ("Zed Zander", "the")), world_kb)
    assert "'the' is a common word" in line
    assert "flood" in line


def test_a_pile_that_hardly_mentions_it_is_told():
    """Few mentions, an alias that was never met, one that floods; else nothing."""
    rey = EmergingEntity("Rey S.", ("Rey", "Rae"))
    assert look_at(rey, FOUND) == []
    few = look_at(rey, replace(FOUND, n_mentions=1, mentions_by_alias={"Rey": 1, "Rae": 0}))
    assert "hardly mention 'Rey S.': 1 mention;" in few[0]
    assert "'Rae' was not met once" in few[1]
    (line,) = look_at(rey, replace(FOUND, mentions_by_alias={"Rey": 27_710}))
    assert "27,710 mentions" in line
