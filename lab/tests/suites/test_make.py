"""Making suites: exact gold, disjoint training groups, files that vouch for themselves."""

import json

import numpy as np
import pytest

from lab.tests.suites import small
from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.errors import ArtifactMismatchError, SuiteError
from stamo.kb.base import KnowledgeBase
from stamo_lab.suites.conflated import (
    is_entity_title,
    make_conflated,
    name_entities,
)
from stamo_lab.suites.store import open_suite
from tests.build.dumps import make_pages, write_dump


def groups(suite, split):
    return {e for p in suite.problems if p.split == split for e in p.group}


def test_training_groups_share_nothing_with_the_problems():
    """No entity that φ is trained on belongs to the group of an emerging entity."""
    for suite in small.levels():
        tested = groups(suite, "development") | groups(suite, "held-out")
        assert groups(suite, "training")
        assert not tested & groups(suite, "training")


def test_gold_is_the_entity_that_the_name_means():
    """The place in the group is that of the entity found in the text."""
    suite, data = small.levels()[0], small.easy_data()
    for problem in suite.problems[:4]:
        for name, rows in problem.rows.items():
            found = data.corpus(name).flat.entities[rows]
            assert np.array_equal(found, np.array(problem.group)[problem.gold[name]])


def test_sets_share_no_document_and_have_none_about_the_entity():
    """W and Test-Web have no document in common, in W a document counts once."""
    data = small.easy_data()
    for problem in data.suite.problems[:4]:
        learning = data.corpora.web.flat.documents[problem.rows["W"]].tolist()
        test = data.corpora.web.flat.documents[problem.rows["test-web"]].tolist()
        assert not set(learning) & set(test)
        assert len(set(learning)) == len(learning)
        flat = data.corpora.wiki.flat
        for row in problem.rows["test-wiki"].tolist():
            title = data.corpora.wiki.titles[flat.documents[row]]
            assert small.kb().entity_ids([title])[0] != flat.entities[row]


def test_changed_suite_and_foreign_knowledge_base_are_refused(tmp_path):
    """A suite opens as it was made, with the knowledge base it was made with."""
    for path in small.levels()[0].path.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert open_suite(tmp_path, small.kb()).checksum == small.levels()[0].checksum
    problems, manifest = tmp_path / "problems.json", tmp_path / "manifest.json"
    whole = problems.read_text()
    problems.write_text("[]")
    with pytest.raises(SuiteError, match=r"problems\.json .* changed"):
        open_suite(tmp_path, small.kb())
    problems.write_text(whole)
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "kb": "another"}))
    with pytest.raises(ArtifactMismatchError, match="another"):
        open_suite(tmp_path, small.kb())


def test_a_suite_that_cannot_be_made_changes_nothing(tmp_path):
    """An existing one stays, and an empty corpus leaves nothing behind."""
    with pytest.raises(SuiteError, match="exists already"):
        make_conflated(small.kb(), [], small.levels()[0].path, [small.SMALL])
    with pytest.raises(SuiteError, match="larger corpus"):
        make_conflated(small.kb(), [], tmp_path / "none", [small.SMALL])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("title", "is_entity"),
    [
        ("January 1", False),
        ("1987", False),
        ("1980s", False),
        ("19th century", False),
        ("44 BC", False),
        ("List of rivers of Europe", False),
        ("6 (number)", False),
        ("May", False),
        ("Dawn (spacecraft)", True),
        ("1984 (novel)", True),
        ("Apollo 11", True),
        ("2001: A Space Odyssey", True),
        ("March on Rome", True),
        ("7-Eleven", True),
    ],
)
def test_dates_numbers_and_lists_are_no_entities(title, is_entity):
    """What a title looks like decides."""
    assert is_entity_title(title) == is_entity


def test_common_nouns_are_no_entities(tmp_path):
    """What the dump links in lower case more often than not bears no name."""
    links = (
        "[[Cuisine|cuisine]] [[Rey]]",
        "[[Cuisine|cuisine]] [[Rey]]",
        "[[Cuisine]] [[Rey|rey]]",
    )
    pages = [(title, f"{text} {links[i % 3]}") for i, (title, text) in enumerate(make_pages(30))]
    dump = write_dump(tmp_path / "dump.xml", pages)
    settings = BuildSettings(dimensions=8, held_out=0.2)
    kb = KnowledgeBase.open(build_knowledge_base(dump, tmp_path / "kb", settings).path)
    found = name_entities(kb, np.array(kb.entity_ids(["Cuisine", "Rey"]), dtype=np.int64))
    assert found.tolist() == [False, True]
