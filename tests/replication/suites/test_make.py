"""Making suites: exact gold, disjoint training groups, files that vouch for themselves."""

import json

import numpy as np
import pytest

from stamo.corpus.readers import read_documents
from stamo.errors import ArtifactMismatchError, SettingsError, SuiteError
from stamo.replication.suites.conflated import ConflatedSettings
from stamo.replication.suites.corpora import join_flat, load_corpora, write_corpora
from stamo.replication.suites.make import make_conflated
from stamo.replication.suites.names import NameFinder, unambiguous_names
from stamo.replication.suites.natural import NaturalSettings
from stamo.replication.suites.store import open_suite
from tests.replication.suites import small


def groups(suite, split):
    return {e for p in suite.problems if p.split == split for e in p.group}


def test_levels_share_their_documents():
    """Three levels are made from one annotation: the large files are one and the same."""
    easy, mid, hard = (suite.path for suite in small.levels())
    for name in ("documents.parquet", "documents.npz", "articles.npz"):
        assert (easy / name).stat().st_ino == (mid / name).stat().st_ino
        assert (easy / name).stat().st_ino == (hard / name).stat().st_ino


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


def test_sets_of_a_problem_share_no_document():
    """W and Test-Web have no document in common, and a document counts once."""
    data = small.easy_data()
    for problem in data.suite.problems[:4]:
        learning = data.corpora.web.flat.documents[problem.rows["W"]].tolist()
        test = data.corpora.web.flat.documents[problem.rows["test-web"]].tolist()
        assert not set(learning) & set(test)
        assert len(set(learning)) == len(learning)


def test_share_of_the_emerging_entity_is_as_asked():
    """Between the bounds of the settings, up to rounding."""
    for problem in small.levels()[0].problems:
        if problem.split != "training":
            share = float((problem.gold["W"] == 0).mean())
            assert 0.2 < share < 0.8


def test_document_about_the_entity_is_left_out():
    """No mention of an entity comes from the article about it."""
    data = small.easy_data()
    for problem in data.suite.problems[:4]:
        flat = data.corpora.wiki.flat
        for row in problem.rows["test-wiki"].tolist():
            title = data.corpora.wiki_titles[flat.documents[row]]
            assert small.kb().entity_ids([title])[0] != flat.entities[row]


def test_kept_corpus_equals_flattening_again(tmp_path):
    """Loading the kept arrays gives what the documents give."""
    suite = small.levels()[0]
    kept = load_corpora(suite.path / "documents.parquet", small.kb())
    alone = tmp_path / "documents.parquet"
    alone.write_bytes((suite.path / "documents.parquet").read_bytes())
    again = load_corpora(alone, small.kb())
    for name in ("web", "wiki"):
        one, two = getattr(kept, name), getattr(again, name)
        for array in ("words", "word_offsets", "documents", "before", "after", "entities"):
            assert np.array_equal(getattr(one.flat, array), getattr(two.flat, array))
        surfaces = [[c.flat.surface_table[i] for i in c.flat.surfaces] for c in (one, two)]
        assert surfaces[0] == surfaces[1]
        assert np.array_equal(one.counted, two.counted)
    assert kept.web_titles == again.web_titles
    assert kept.wiki_titles == again.wiki_titles


def test_two_processes_make_the_same_bytes(tmp_path):
    """The number of workers changes nothing."""
    documents = list(read_documents([small.pile_path()]))[:300]
    for n in (1, 2):
        (tmp_path / str(n)).mkdir()
        write_corpora(tmp_path / str(n), small.kb(), documents, small.SMALL.names, n_workers=n)
    for name in ("documents.npz", "articles.npz"):
        with np.load(tmp_path / "1" / name) as one, np.load(tmp_path / "2" / name) as two:
            assert all(np.array_equal(one[key], two[key]) for key in one.files)


def test_joining_nothing_is_an_empty_corpus():
    """A suite without documents of its own has an empty corpus."""
    flat = join_flat([])
    assert flat.n_documents == 0
    assert flat.n_mentions == 0


def test_names_are_found_at_word_boundaries_only():
    """A name inside a longer word is no mention."""
    names = unambiguous_names(small.kb(), small.SMALL.names)
    name = names.surfaces[0]
    finder = NameFinder(small.kb(), names)
    assert len(finder.find(f"Hello {name} there")[0]) == 1
    assert len(finder.find(f"Hello x{name}x there")[0]) == 0


def test_changed_suite_is_refused(tmp_path):
    """A file that changed after the suite was made is noticed."""
    source = small.levels()[0].path
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert open_suite(tmp_path, small.kb()).checksum == small.levels()[0].checksum
    (tmp_path / "problems.json").write_text("[]")
    with pytest.raises(SuiteError, match=r"problems\.json .* changed"):
        open_suite(tmp_path, small.kb())


def test_foreign_knowledge_base_is_refused(tmp_path):
    """A suite opens only with the knowledge base it was made with."""
    source = small.levels()[0].path
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "kb": "another"}))
    with pytest.raises(ArtifactMismatchError, match="another"):
        open_suite(tmp_path, small.kb())


def test_missing_suite_says_how_to_make_one(tmp_path):
    """The error names the command."""
    with pytest.raises(SuiteError, match="stamo suite make"):
        open_suite(tmp_path, small.kb())


def test_suite_is_not_overwritten_unasked():
    """An existing suite stays."""
    with pytest.raises(SuiteError, match="exists already"):
        make_conflated(small.kb(), [], small.levels()[0].path, small.SMALL)


def test_corpus_without_names_is_an_error(tmp_path):
    """An empty corpus cannot make a suite, and leaves nothing behind."""
    with pytest.raises(SuiteError, match="larger corpus"):
        make_conflated(small.kb(), [], tmp_path / "none", small.SMALL, n_workers=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [{"share": (0.0, 0.5)}, {"n_rivals": (0, 3)}, {"level": "odd"}])
def test_bad_conflated_settings_are_refused(wrong):
    """Settings outside their range raise at once."""
    with pytest.raises(SettingsError):
        ConflatedSettings(**wrong)


@pytest.mark.parametrize("wrong", [{"ambiguity": (0.0, 0.5)}, {"frequency": (9, 3)}])
def test_bad_natural_settings_are_refused(wrong):
    """Settings outside their range raise at once."""
    with pytest.raises(SettingsError):
        NaturalSettings(**wrong)
