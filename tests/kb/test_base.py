"""The knowledge base as its readers see it."""

import json
import math
import shutil

import numpy as np
import pytest

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.errors import KnowledgeBaseError, UnknownEntityError
from stamo.kb import relatedness
from stamo.kb.base import KnowledgeBase, stop_words
from stamo.kb.relatedness import relate
from stamo.kb.storage import open_array
from tests.build.dumps import make_pages, write_dump


def by_title(kb, pairs):
    """Return ids as titles."""
    return [(kb.title(entity), *rest) for entity, *rest in pairs]


def test_candidates_come_with_counts_and_priors(small_kb):
    """Candidates are ordered by count; priors are shares of the links with that text."""
    found = small_kb.candidates("Avalon")
    rows = zip(found.ids.tolist(), found.counts.tolist(), found.priors.tolist(), strict=True)
    assert by_title(small_kb, rows) == [
        ("Avalon (river)", 2, pytest.approx(2 / 3)),
        ("Avalon (film)", 1, pytest.approx(1 / 3)),
    ]


def test_batch_equals_single_look_ups(small_kb):
    """Many aliases at once give what each gives alone, cut and padded."""
    names = ["Avalon", "nobody", "Brig", "Voss", "Old Brig"]
    ids, priors = small_kb.candidate_table(names, 2)
    assert ids.shape == priors.shape == (5, 2)
    for row, name in enumerate(names):
        single = small_kb.candidates(name)
        n = min(len(single), 2)
        assert ids[row].tolist() == [*single.ids[:2].tolist(), *[-1] * (2 - n)]
        assert priors[row].tolist() == [*single.priors[:2].tolist(), *[0.0] * (2 - n)]
    top, _ = small_kb.candidate_table(names, 1)
    assert top[:, 0].tolist() == ids[:, 0].tolist()


def test_entities_are_found_by_title_redirect_and_spelling(small_kb):
    """Redirect chains, underscores and a small first letter lead to the same entity."""
    brig = small_kb.entity_id("Brig")
    assert {small_kb.entity_id(t) for t in ("Brigg", "Town of Brig", "Town_of_Brig", "brig")} == {
        brig
    }
    assert small_kb.title(brig) == "Brig"
    assert small_kb.entity_ids(["Brig", "Nobody", "Loop"]).tolist() == [brig, -1, -1]
    with pytest.raises(UnknownEntityError, match="no entity 'Nobody'"):
        small_kb.entity_id("Nobody")


def test_frequencies_and_articles(small_kb):
    """|D(e)| counts articles, entity counts count links, and a missing page is no article."""
    brig, lake = small_kb.entity_id("Brig"), small_kb.entity_id("Lake Corm")
    assert small_kb.document_frequency[brig] == 4
    assert small_kb.entity_counts[brig] == 4
    assert [bool(small_kb.has_article[e]) for e in (brig, lake)] == [True, False]
    assert small_kb.n_documents == 5
    assert np.all(np.diff(small_kb.entity_counts) <= 0)


def test_documents_and_their_entities_agree(small_kb):
    """An entity is among those of a document exactly when the document is in D(e)."""
    pairs = {(e, d) for e in range(small_kb.n_entities) for d in small_kb.documents(e).tolist()}
    indptr = open_array(small_kb.path / "content_indptr.npy")
    entities = open_array(small_kb.path / "content_entities.npy")
    assert len(indptr) == small_kb.manifest.counts["articles"] + 1
    documents = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    assert pairs == set(zip(entities.tolist(), documents.tolist(), strict=True))
    assert len(pairs) == small_kb.document_frequency.sum()


def all_pairs(kb):
    """Return the relatedness of every entity to every other, by `relate`: one mention a pair."""
    n = kb.n_entities
    one, other = (m.ravel()[:, None] for m in np.mgrid[:n, :n].astype(np.int32))
    documents = np.arange(n * n, dtype=np.int32) % 3
    return relate(kb, documents, one, other).reshape(n, n)


def test_relatedness_equals_the_formula_on_sets(small_kb):
    """Every pair of entities has the WLM of its document sets."""
    sets = [set(small_kb.documents(e).tolist()) for e in range(small_kb.n_entities)]
    for (i, j), value in np.ndenumerate(all_pairs(small_kb)):
        joint = len(sets[i] & sets[j])
        expected = 0.0
        if joint:
            sizes = sorted((len(sets[i]), len(sets[j])))
            room = math.log(small_kb.n_documents) - math.log(sizes[0])
            expected = 1 - (math.log(sizes[1]) - math.log(joint)) / room if room else 1.0
        assert value == pytest.approx(max(expected, 0.0), abs=1e-6)


def test_related_lists_the_best_pairs(small_kb):
    """The most related entities have the highest pairwise relatedness; itself is left out."""
    brig = small_kb.entity_id("Brig")
    others, scores = small_kb.related(brig, 3)
    assert brig not in others
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)
    best = all_pairs(small_kb)[brig]
    assert best[others] == pytest.approx(scores)
    assert scores[0] == pytest.approx(np.delete(best, brig).max())


def test_relatedness_to_a_context_is_a_mean(learned_kb, monkeypatch):
    """Candidates and contexts of many mentions at once give the mean over each context."""
    rng = np.random.default_rng(0)
    candidates, context = (
        rng.integers(-1, learned_kb.n_entities, (40, width)).astype(np.int32) for width in (5, 7)
    )
    context[3] = -1
    pairs = all_pairs(learned_kb)
    monkeypatch.setattr(relatedness, "_CELLS_PER_BLOCK", 16)
    got = relate(learned_kb, rng.integers(0, 4, 40).astype(np.int32), candidates, context)
    assert got.max() > 0
    for (i, j), value in np.ndenumerate(got):
        others = context[i][context[i] >= 0]
        known = candidates[i, j] >= 0 and len(others)
        expected = pairs[candidates[i, j], others].mean() if known else 0.0
        assert value == pytest.approx(expected, abs=1e-6)


def test_articles_carry_mentions_with_exact_spans(small_kb):
    """Each mention cuts an alias of its entity out of the text."""
    rows = [row for batch in small_kb.articles() for row in batch.to_pylist()]
    assert [row["document"] for row in rows] == list(range(5))
    assert [row["title"] for row in rows][:2] == ["Avalon (river)", "Avalon (film)"]
    spans = [(row, mention) for row in rows for mention in row["mentions"]]
    assert len(spans) == 11
    for row, mention in spans:
        surface = row["text"][mention["start"] : mention["end"]]
        assert mention["entity"] in small_kb.candidates(surface).ids


def test_vectors_left_out_are_reported(small_kb):
    """A knowledge base without vectors says so."""
    assert small_kb.dimensions == 0
    with pytest.raises(KnowledgeBaseError, match="built without"):
        small_kb.entity_vectors()


@pytest.fixture(scope="module")
def learned_kb(tmp_path_factory):
    """A knowledge base with vectors learned from its own text and held-out articles."""
    folder = tmp_path_factory.mktemp("learned")
    dump = write_dump(folder / "dump.xml", [*make_pages(60), ("Lonely", "Nobody links here.")])
    build_knowledge_base(dump, folder / "kb", BuildSettings(held_out=0.2, dimensions=8))
    return KnowledgeBase.open(folder / "kb")


def test_word_vectors_are_centred_and_of_unit_norm(learned_kb):
    """Every word has a vector of length one, and its count in the counted articles."""
    vectors = np.asarray(learned_kb.word_vectors)
    assert vectors.shape == (len(learned_kb.word_counts), learned_kb.dimensions)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=2e-3)
    texts = [t for b in learned_kb.articles(held_out=False) for t in b["text"].to_pylist()]
    name = learned_kb.words.text(0)
    n = sum(text.lower().split().count(name) for text in texts)
    assert learned_kb.word_counts[0] == n > 0
    assert learned_kb.word_ids([name, "unheard"]).tolist() == [0, -1]


def test_nearest_agrees_with_all_cosines(learned_kb):
    """The nearest entities are those with the highest cosine, itself left out."""
    vectors = np.asarray(learned_kb.entity_vectors())
    cosines = vectors @ vectors[0]
    cosines[0] = -1
    ids, scores = learned_kb.nearest(0, 5)
    assert ids.tolist() == np.argsort(-cosines, kind="stable")[:5].tolist()
    assert scores == pytest.approx(cosines[ids])


@pytest.mark.parametrize("file", ["aliases.trie", "words.trie", "alias_counts.npy"])
@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_flipped_bit_in_the_index_is_found_on_opening(learned_kb, tmp_path, file, place):
    """A wrong bit in a trie or a small array is one clear error, before it is used."""
    copy = tmp_path / "kb"
    shutil.copytree(learned_kb.path, copy)
    data = bytearray((copy / file).read_bytes())
    data[int(len(data) * place)] ^= 4
    (copy / file).write_bytes(data)
    with pytest.raises(KnowledgeBaseError, match=file):
        KnowledgeBase.open(copy)


def test_counts_of_pairs_are_those_of_single_aliases(learned_kb):
    """count(e, m) of many pairs is what the candidates of each alias say, 0 for the unknown."""
    table, pairs = learned_kb.by_alias, []
    for alias in range(min(learned_kb.n_aliases, 50)):
        found = table.single(alias)
        pairs += [(alias, e, n) for e, n in zip(found.ids, found.counts, strict=True)]
        pairs.append((alias, learned_kb.n_entities, 0))
    pairs += [(-1, 0, 0), (0, -1, 0)]
    aliases, entities, counts = np.array(pairs, dtype=np.int32).T
    assert table.counts(aliases, entities).tolist() == counts.tolist()


def test_articles_that_cannot_be_read_are_one_clear_error(learned_kb, tmp_path):
    """A damaged table of articles is named."""
    copy = tmp_path / "kb"
    shutil.copytree(learned_kb.path, copy)
    path = copy / "articles.parquet"
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(KnowledgeBaseError, match=r"articles\.parquet"):
        list(KnowledgeBase.open(copy).articles())


def test_a_count_that_is_missing_is_named(small_kb, tmp_path):
    """A manifest may agree with its own fingerprint and still say too little."""
    copy = tmp_path / "kb"
    shutil.copytree(small_kb.path, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    del manifest["counts"]["dimensions"]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(KnowledgeBaseError, match=r"does not say its number of dimensions; build"):
        KnowledgeBase.open(copy)


def test_stop_words_follow_the_counts():
    """Words above the given share of the text are stop words, in any language."""
    counts = np.array([500, 300, 150, 49, 1])
    assert stop_words(counts, 0.2).tolist() == [True, True, False, False, False]
    assert not stop_words(np.zeros(3, dtype=np.int64)).any()
    assert stop_words(np.array([11, 10, 3])).tolist() == [True, False, False]
