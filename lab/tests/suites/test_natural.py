"""Naturally ambiguous names: the paper's criteria, and nothing known of the emerging entity."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from lab.tests.suites import small
from lab.tests.test_facc1 import FILLER, annotate, trec, write
from stamo_lab.cli.main import create_app
from stamo_lab.suites.encode import SuiteData, load_problem
from stamo_lab.suites.store import open_suite
from tests.corpus import archives


@pytest.fixture(scope="module")
def data():
    return SuiteData.load(small.natural(), small.kb())


def test_entities_meet_the_criteria(data):
    """Every alias also means something else, and the ambiguity rate is within its bounds."""
    flat, counted = data.corpora.wiki.flat, data.corpora.wiki.counted
    low, high = small.SMALL_NATURAL.ambiguity
    for problem in data.suite.problems:
        shares = []
        for alias in problem.aliases:
            rows = np.flatnonzero(flat.surfaces == flat.surface_table.index(alias))
            rows = rows[counted[flat.documents[rows]] & (flat.entities[rows] >= 0)]
            meant = flat.entities[rows] == problem.group[0]
            assert (~meant).sum() >= small.SMALL_NATURAL.least_rival_links
            shares.append((meant.sum(), len(rows)))
        share = sum(a for a, _ in shares) / sum(b for _, b in shares)
        assert low <= share <= high


def test_emerging_entity_is_hidden(data):
    """It is no candidate, no context and no neighbour."""
    for problem in data.suite.problems:
        loaded = load_problem(data, problem)
        for encoded in (loaded.learning, *loaded.tests.values()):
            mentions = encoded.pile.mentions
            assert problem.group[0] not in mentions.candidates
            assert problem.group[0] not in mentions.context
            assert problem.group[0] not in encoded.pile.neighbours


def test_gold_column_is_the_linked_entity(data):
    """The last column where the link means e*, the candidate's column elsewhere."""
    for problem in data.suite.problems:
        encoded = load_problem(data, problem).learning
        entities = data.corpora.wiki.flat.entities[problem.rows["W"]]
        assert np.array_equal(encoded.is_emerging, entities == problem.group[0])
        known = encoded.gold[~encoded.is_emerging]
        rows = np.flatnonzero(~encoded.is_emerging)[known >= 0]
        candidates = encoded.pile.mentions.candidates[rows, known[known >= 0]]
        assert np.array_equal(candidates, entities[rows])


def test_priors_leave_their_own_document_out(data):
    """In a counted article the link itself is not counted: a single link has no prior left."""
    kb = small.kb()
    problem = data.suite.problems[0]
    mentions = load_problem(data, problem).learning.pile.mentions
    prior = mentions.known["prior"]
    assert (prior >= 0).all()
    assert (prior.sum(axis=1) <= 1 + 1e-5).all()
    counts = {int(e): int(c) for e, c in zip(*_counts(kb, problem.aliases[0]), strict=True)}
    row = int(np.flatnonzero(mentions.gold != problem.group[0])[0])
    column = int(np.flatnonzero(mentions.candidates[row] == mentions.gold[row])[0])
    others = sum(c for e, c in counts.items() if e != problem.group[0])
    assert prior[row, column] < counts[int(mentions.gold[row])] / others


def _counts(kb, surface):
    found = kb.candidates(surface)
    return found.ids, found.counts


def test_command_reads_the_paper_s_own_formats(tmp_path):
    """ClueWeb12 WARC, FACC1 lines and Freebase keys become a suite by one command.

    W and Test-Web come from the pages, Test-Wiki from the articles, with the given gold.
    """
    pytest.importorskip("resiliparse", reason="the extra `web` is not installed")
    kb = small.kb()
    problem = max(small.natural().problems, key=lambda p: len(p.rows["test-wiki"]))
    alias, title = problem.aliases[0], problem.title
    meanings = [title, next(t for t in titles_of(kb, alias) if t != title)]
    page_ids = {
        article["title"]: article["page_id"]
        for batch in kb.articles(columns=["title", "page_id"])
        for article in batch.to_pylist()
    }
    keys = tmp_path / "keys.tsv"
    keys.write_text("".join(f"/m/0{i}\t{page_ids[t]}\n" for i, t in enumerate(meanings)))
    pages, lines = {}, ""
    for n in range(60):
        raw = archives.page(f"{FILLER}Page {n} speaks of {alias} and nothing else. {FILLER}")
        pages[trec(n)] = raw
        lines += annotate(trec(n), raw, alias, f"/m/0{n % 2}")
    warc, annotations = write(tmp_path, pages, lines)
    app = create_app()
    out = tmp_path / "suite"
    line = (
        f"suite make facc1 --kb {kb.path} --corpus {warc} --annotations {annotations} "
        f"--freebase-keys {keys} --out {out} --frequency 5 100 --least-documents 10"
    )
    done = CliRunner().invoke(app, [*line.split(), "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    (record,) = json.loads(done.stdout)
    assert (record["suite"], record["kind"]) == (str(out), "facc1")
    suite = open_suite(out, kb)
    assert suite.kind == "facc1"
    assert all(len(p.rows["W"]) + len(p.rows["test-web"]) == 60 for p in suite.problems)
    found = next(p for p in suite.problems if p.title == title)
    data = SuiteData.load(suite, kb)
    meant = data.corpora.web.flat.entities[found.rows["W"]] == kb.entity_id(title)
    assert np.array_equal(meant, found.gold["W"] == 0)
    assert set(load_problem(data, found).tests) == {"test-web", "test-wiki"}


def titles_of(kb, alias):
    return [kb.title(int(entity)) for entity in kb.candidates(alias).ids if kb.has_article[entity]]
