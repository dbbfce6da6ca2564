"""Ids of entities elsewhere: read from SQL or two columns, kept in the KB, given by `link`."""

import gzip

import pytest

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.build.site import Site
from stamo.errors import DumpError
from stamo.kb.base import KnowledgeBase
from tests.build.dumps import write_dump

PAGE_PROPS = (
    "CREATE TABLE `page_props` (`pp_page` int);\n"
    "INSERT INTO `page_props` VALUES (1,'displaytitle','a \\'(4,\\'wikibase_item\\',\\'Q9\\'',NULL)"
    ",(1,'wikibase_item','Q11',NULL),(4,'wikibase_item','Q44',NULL),(99,'wikibase_item','Q1',0);\n"
)
ITEMS = (
    "INSERT INTO `wb_items_per_site` VALUES (1,11,'enwiki','Avalon (river)'),"
    "(2,77,'dewiki','Brig'),(3,44,'enwiki','Brig'),(4,5,'enwiki','O\\'Nobody'),"
    "(5,66,'enwiki','Dara_Voss');\n"
)


def build(tmp_path, data, name="ids"):
    path = tmp_path / name
    path.write_bytes(data)
    settings = BuildSettings(held_out=0, dimensions=0, ids=path)
    summary = build_knowledge_base(write_dump(tmp_path / "d.xml"), tmp_path / "kb", settings)
    return KnowledgeBase.open(tmp_path / "kb"), summary


@pytest.mark.parametrize(
    ("data", "known", "unknown"),
    [
        (PAGE_PROPS.encode(), {"Avalon (river)": "Q11", "Brig": "Q44"}, 1),
        (
            gzip.compress(ITEMS.encode()),
            {"Avalon (river)": "Q11", "Brig": "Q44", "Dara Voss": "Q66"},
            1,
        ),
        (b"Avalon_(river)\tQ11\nbrig\tdb:44\nNowhere at all\tx\n",
         {"Avalon (river)": "Q11", "Brig": "db:44"}, 1),
        (b'"Avalon (river)",Q11\n\nBrig,Q11\n', {"Avalon (river)": "Q11"}, 0),
    ],
)  # fmt: skip
def test_ids_are_found_in_both_directions(tmp_path, data, known, unknown):
    """Each form gives the ids of its rows; a text that looks like a row is none."""
    kb, summary = build(tmp_path, data)
    titles = ["Avalon (river)", "Brig", "Dara Voss", "Corm"]
    found = kb.external_ids(kb.entity_ids(titles))
    assert dict(zip(titles, found, strict=True)) == {t: known.get(t, "") for t in titles}
    entities = kb.entities_with_ids([*known.values(), "Q9"]).tolist()
    assert [kb.title(e) for e in entities[:-1]] == list(known)
    assert entities[-1] == -1
    assert summary.counts["entities with an id"] == len(known)
    assert summary.skipped.get("id of a title or page that is no entity", 0) == unknown
    kb.manifest.verify(kb.path)


def test_rows_that_cross_blocks_are_found(tmp_path):
    """A row is found wherever the blocks of a large file end."""
    filler = ",".join(f"({i},{i},'frwiki','Un titre {i}')" for i in range(100_000))
    data = f"INSERT INTO `wb_items_per_site` VALUES {filler},{ITEMS[40:].strip()}\n"
    assert len(data) > 2_000_000
    kb, _ = build(tmp_path, data.encode())
    assert kb.external_ids(kb.entity_ids(["Dara Voss"])) == ["Q66"]


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "holds no id of enwiki"),
        (ITEMS.replace("enwiki", "plwiki").encode(), "holds no id of enwiki"),
        (b"Brig\tQ1\textra\n", "line 1 is not a title and an id"),
        (b"Brig,Q1\nCorm\n", "line 2 is not a title and an id"),
        (b'Corm,"' + b"Q1\n" * 100_000, "line .* quotation mark missing"),
        (b"Caf\xe9,Q1\n", "not UTF-8"),
        (gzip.compress(PAGE_PROPS.encode() * 50)[:-20], "cannot be read whole"),
    ],
)
def test_a_wrong_file_is_one_sentence_and_leaves_no_kb(tmp_path, data, match):
    """Nothing is built from ids that cannot be read."""
    with pytest.raises(DumpError, match=match):
        build(tmp_path, data)
    assert not (tmp_path / "kb").exists()


def test_a_dump_names_its_wiki():
    """The database's name comes from the dump, or from its language."""
    assert Site.parse(b"<siteinfo><dbname>simplewiki</dbname></siteinfo>").database == "simplewiki"
    assert Site.parse(b'<mediawiki xml:lang="de">').database == "dewiki"


def test_a_kb_without_ids_has_none(small_kb):
    """Nothing is known, and nothing fails."""
    assert not small_kb.has_external_ids
    assert small_kb.external_ids([0, 1]) == ["", ""]
    assert small_kb.entities_with_ids(["Q1"]).tolist() == [-1]
