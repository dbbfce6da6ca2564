"""How often names in running text are links."""

import pytest

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.kb.base import KnowledgeBase
from tests.build.dumps import write_dump


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """Three articles: two link Brig, all three write it; one writes Old Brig Bridge."""
    folder = tmp_path_factory.mktemp("linked")
    pages = [
        ("One", "[[Brig]] and Brig and Brig. [[Corm|Old]] Brig Bridge"),
        ("Two", "[[Brig]] and Voss"),
        ("Three", "Brig here, [[Voss]] there, [[Corm|Brig Bridge]], Brigs."),
    ]
    dump = write_dump(folder / "dump.xml", pages)
    build_knowledge_base(dump, folder / "kb", BuildSettings(held_out=0, dimensions=0))
    return KnowledgeBase.open(folder / "kb")


@pytest.mark.parametrize(
    ("alias", "expected"),
    [("Brig", 2 / 3), ("Voss", 1 / 2), ("Old", 1), ("Brig Bridge", 1 / 2), ("Corm", 0)],
)
def test_link_probability_counts_articles(linked, alias, expected):
    """It is the share of articles that link a name among those in which the name occurs."""
    assert linked.link_probability[linked.alias_id(alias)] == pytest.approx(expected)


def test_titles_of_several_words_are_names_without_a_link(tmp_path):
    """Their own article counts as a link of them; a title of one word may be any word."""
    pages = [
        ("Mount Corm", "It is a hill."),
        ("Lake Voss", "It is deep, near [[Brig]]."),
        ("Deep", "Deep below Mount Corm."),
    ]
    dump = write_dump(tmp_path / "dump.xml", pages)
    build_knowledge_base(dump, tmp_path / "kb", BuildSettings(held_out=0, dimensions=0))
    kb = KnowledgeBase.open(tmp_path / "kb")
    names = ["Mount Corm", "Lake Voss", "Deep", "Brig"]
    assert kb.link_probability[kb.alias_ids(names)].tolist() == [0.5, 1.0, 0.0, 1.0]
    assert len(kb.matcher.find("Mount Corm, Lake Voss, Deep")) == 2
