"""A table of entities becomes a folder of workspaces, or one sentence about its wrong line."""

from dataclasses import replace

import pytest

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.corpus.types import EmergingEntity
from stamo.errors import CorpusFormatError, WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.workspace.collect import Collected
from stamo.workspace.entities import (
    create_workspaces,
    name_warnings,
    pile_warnings,
    read_entity_list,
)
from stamo.workspace.folder import workspace_folders
from tests.build.dumps import write_dump
from tests.workspace.small_world import NOON

TABLE = """name,aliases,description,id,type,url
Rey Skywalker,Rey|Rey S.,"a scavenger, later a Jedi",Q29584,person,https://example.org/rey
Dawn (spacecraft),Dawn,,,,

Ada
"""


def write(tmp_path, text, name="entities.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return path


def create(root, path):
    return create_workspaces(root, read_entity_list(path), created_by="ada", at=NOON)


def test_a_table_becomes_workspaces(tmp_path):
    """Every field travels; the name is an alias where texts would say it."""
    created, _ = create(tmp_path / "week", write(tmp_path, TABLE))
    rey, dawn, ada = (space.entity for space in created)
    assert rey == EmergingEntity(
        "Rey Skywalker",
        ("Rey", "Rey S.", "Rey Skywalker"),
        "a scavenger, later a Jedi",
        "Q29584",
        "person",
        "https://example.org/rey",
    )
    assert dawn.aliases == ("Dawn",)
    assert ada.aliases == ("Ada",)
    names = [folder.name for folder in workspace_folders(tmp_path / "week")]
    assert names == ["ada", "dawn-spacecraft", "rey-skywalker"]


def test_a_longer_table_adds_what_is_new(tmp_path):
    """Run again with one more line, one more workspace is made and none is touched."""
    create(tmp_path / "week", write(tmp_path, TABLE))
    made, there = create(tmp_path / "week", write(tmp_path, TABLE + "Bo\n"))
    assert [space.entity.id for space in made] == ["Bo"]
    assert len(there) == 3


def test_two_entities_of_one_name_are_told_apart(tmp_path):
    """Different ids give different folders; without ids the second one is refused."""
    table = "name;id\nDawn;Q1\nDawn;Q2\n"
    created, _ = create(tmp_path / "week", write(tmp_path, table))
    assert [space.path.name for space in created] == ["dawn", "dawn-q2"]
    with pytest.raises(WorkspaceError, match="Line 3 declares 'Dawn' again"):
        create(tmp_path / "other", write(tmp_path, "name\nDawn\nDawn\n"))
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("title,id\na,b\n", "headings title, id"),
        ("", "headings nothing"),
        ("name\n", "declares no entity"),
        ("name,id\nRey,Q1,more\n", "line 2 has more fields"),
        ("name,url\nRey,javascript:alert(1)\n", "line 2: The URL of 'Rey'"),
        ("name,aliases\nRey," + "|".join("abcdefghijk") + "\n", "line 2: 'Rey' has 11 aliases"),
        ("name,folder\nRey,../out\n", "line 2 names the folder"),
        ("name,id\n,Q1\n", "line 2: An emerging entity needs a name"),
        ("name\nRey\0\n", "line 2 cannot be read .holds a zero byte"),
        ("name\nBeyonc\udce9\n", "not UTF-8"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path, text, match):
    """The file and the line are named, and nothing is made."""
    with pytest.raises(CorpusFormatError, match=match):
        read_entity_list(write(tmp_path, text))


def test_all_wrong_lines_are_told_at_once(tmp_path):
    """Who repairs a table does not come back for every line; of very many the first are told."""
    path = write(tmp_path, "name,aliases\n,x\nRey,a\nBad\x07,b\nAda,c,d\n")
    with pytest.raises(CorpusFormatError) as caught:
        read_entity_list(path)
    told = str(caught.value)
    assert all(f"line {n}" in told for n in (2, 4, 5))
    assert "line 3" not in told
    with pytest.raises(CorpusFormatError, match=r"line 11: .* And 3 more lines\.$"):
        read_entity_list(write(tmp_path, "name,aliases\n" + ",x\n" * 13))


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
    (line,) = name_warnings(EmergingEntity("Brig", ("Brig",)), kb)
    assert "seems to hold the entity already by this name: 'Brig'" in line
    (line,) = name_warnings(EmergingEntity("Burg", ("Brig",), external_id="Q7"), kb)
    assert "with the id Q7: 'Brig'" in line
    (line,) = name_warnings(EmergingEntity("Brig", ("Brig",), external_id="Q8"), kb)
    assert "told apart by its id Q8" in line


def test_names_that_mean_nothing_or_flood_are_told(kb):
    """An alias without a candidate, and one that is a common word."""
    lines = name_warnings(EmergingEntity("Zed Zander", ("Zed", "Zed Zander", "The")), kb)
    assert len(lines) == 2
    assert "No entity of kb is called 'Zed'" in lines[0]
    assert "'The' stands in" in lines[1]
    assert "flood" in lines[1]


def test_a_common_word_that_is_no_name_is_told(world_kb):
    """Names of common words are not counted; their words are."""
    (line,) = name_warnings(EmergingEntity("Zed Zander", ("Zed Zander", "the")), world_kb)
    assert "'the' is a common word" in line
    assert "flood" in line


def test_a_pile_that_hardly_mentions_it_is_told():
    """Few mentions, an alias that was never met, one that floods; else nothing."""
    rey = EmergingEntity("Rey S.", ("Rey", "Rae"))
    assert pile_warnings(rey, FOUND) == []
    few = pile_warnings(rey, replace(FOUND, n_mentions=1, mentions_by_alias={"Rey": 1, "Rae": 0}))
    assert "hardly mention 'Rey S.': 1 mention;" in few[0]
    assert "'Rae' was not met once" in few[1]
    (line,) = pile_warnings(rey, replace(FOUND, mentions_by_alias={"Rey": 27_710}))
    assert "27,710 mentions" in line
