"""Accuracy, ablations, calibration, gold documents and intervals."""

import json
import lzma
from dataclasses import asdict, replace

import numpy as np
import pytest

from stamo.corpus.nif import NifPhrase, context_iri, entity_iri, format_nif
from stamo.errors import CorpusFormatError, LearningError, SettingsError
from stamo.evaluation.gold import evaluate_gold, read_nif, read_zelda
from stamo.evaluation.held_out import evaluate_held_out
from stamo.evaluation.intervals import (
    Interval,
    bootstrap,
    by_document,
    difference,
    f1,
    ratio,
)
from stamo.evaluation.tables import gold_tables, held_out_tables, save_reliability
from stamo.features.mentions import Lexicon, flatten_articles, iterate_articles
from stamo.linking.linker import Linker
from stamo.models.train import TrainingArgs, train_linking_model
from stamo_lab.bench.link import link_plainly, news_size_documents
from tests.linking.small import DeepED, Yamada, small_kb, untrained, world_kb


def test_bootstrap_covers_and_repeats():
    """The interval surrounds the value, narrows with more documents and repeats with its seed."""
    rng = np.random.default_rng(1)
    right = rng.random(4000) < 0.7
    few = bootstrap(by_document(np.arange(40), right[:40], np.ones(40)), ratio, _rng())
    many = bootstrap(by_document(np.arange(4000), right, np.ones(4000)), ratio, _rng())
    assert few.low < few.value < few.high
    assert many.high - many.low < few.high - few.low
    again = bootstrap(by_document(np.arange(40), right[:40], np.ones(40)), ratio, _rng())
    assert few == again


def _rng():
    return np.random.default_rng(5)


def test_statistics_by_hand():
    """Sums by document, differences and F1 are those computed by hand."""
    documents = np.array([4, 4, 9], dtype=np.int32)
    sums = by_document(documents, np.array([True, False, True]), np.ones(3))
    assert sums.tolist() == [[1.0, 2.0], [1.0, 1.0]]
    assert difference(np.array([[8.0, 6.0, 10.0]])).tolist() == [0.2]
    assert f1(np.array([[2.0, 4.0, 4.0]])).tolist() == [0.5]
    assert str(Interval(0.5, 0.25, 0.75)) == "0.500 [0.250, 0.750]"


@pytest.mark.parametrize("kind", [DeepED, Yamada])
def test_held_out_report(kind, tmp_path):
    """Accuracy stands beside prior alone, with ablations of every score and a figure."""
    kb = world_kb()
    report = evaluate_held_out(kb, untrained(kb, kind), n_samples=50)
    prior, model = report.rows
    assert prior.name == "prior alone"
    assert prior.gain.value == 0.0
    assert model.gain.value == pytest.approx(model.accuracy.value - prior.accuracy.value)
    assert 0 < report.n_hard <= report.n_ambiguous < report.n_mentions
    assert len(report.ablations) == (4 if kind is DeepED else 6)
    by_name = {row.name: row for row in report.ablations}
    assert by_name["without prior"].gain.value < 0
    assert 0.0 <= report.confidence[0].ece <= 1.0
    assert sum(n for _, _, n in report.confidence[0].curve) == report.n_ambiguous
    save_reliability(report.confidence, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    table = held_out_tables(report)[0].markdown()
    assert "| prior alone |" in table
    assert held_out_tables(report)[0].rich().row_count == 2
    json.dumps(asdict(report))


def test_held_out_prior_equals_a_count():
    """Prior alone is the share of ambiguous mentions whose most linked candidate is right."""
    kb = world_kb()
    report = evaluate_held_out(kb, untrained(kb), n_samples=10)
    corpus = flatten_articles(iterate_articles(kb, held_out=True), Lexicon.of(kb))
    right = total = 0
    for surface, entity in zip(corpus.surfaces.tolist(), corpus.entities.tolist(), strict=True):
        candidates = kb.candidates(corpus.surface_table[surface])
        if entity >= 0 and len(candidates) > 1 and entity in candidates.ids:
            total += 1
            right += int(candidates.ids[0] == entity)
    assert report.n_ambiguous == total
    assert report.rows[0].accuracy.value == pytest.approx(right / total)


def test_articles_used_in_training_are_left_out():
    """Only the documents that the model's report calls unseen are measured."""
    kb = world_kb()
    everything = evaluate_held_out(kb, untrained(kb), n_samples=10)
    half = list(range(0, everything.n_documents, 2))
    some = evaluate_held_out(kb, untrained(kb, test_documents=half), n_samples=10)
    assert 0 < some.n_documents <= len(half) < everything.n_documents
    assert some.n_mentions < everything.n_mentions


def test_folds_measure_every_held_out_article_once(trained_yamada):
    """All articles are judged, each by a model that was trained without it, and it repeats."""
    kb = world_kb()
    everything = evaluate_held_out(kb, untrained(kb), n_samples=10)
    folds, seen = [], []
    for _ in range(2):
        found = evaluate_held_out(kb, trained_yamada, n_folds=2, n_samples=10, on_fold=seen.append)
        folds.append(found)
    assert seen == [1, 2, 1, 2]
    assert folds[0] == folds[1]
    assert folds[0].n_documents == everything.n_documents
    assert folds[0].n_mentions == everything.n_mentions
    assert folds[0].rows[0] == everything.rows[0]  # the prior alone is not trained
    assert folds[0].rows[1].accuracy != everything.rows[1].accuracy


@pytest.fixture(scope="module")
def trained_yamada():
    args = TrainingArgs(n_pairs=200, n_epochs=1, batch_size=32)
    return train_linking_model(world_kb(), "yamada", args)


REFUSED = {
    "one fold leaves nothing to train on": (world_kb, {"n_folds": 1}, SettingsError, "folds"),
    "a fold needs an article": (world_kb, {"n_folds": 10_000}, SettingsError, "folds"),
    "folds repeat a training": (world_kb, {"n_folds": 2}, LearningError, "stamo train"),
    "nothing was held out": (small_kb, {}, SettingsError, "--held-out"),
    "no sample": (world_kb, {"n_samples": 0}, SettingsError, "at least one sample"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_measured_is_refused(case):
    kb, given, error, sentence = REFUSED[case]
    with pytest.raises(error, match=sentence):
        evaluate_held_out(kb(), untrained(kb()), **given)


GOLD = [
    {
        "text": "Java is near Sumatra, says Zork.",
        "index": [[0, 4], [13, 20], [27, 31]],
        "wikipedia_titles": ["Java", "Sumatra", "Zork"],
    },
    {
        "text": "New York is not York.",
        "index": [[0, 8], [4, 8], [16, 20], [90, 99]],
        "wikipedia_titles": ["New York City", "York", "York", "York"],
    },
]


@pytest.fixture
def gold_path(tmp_path):
    path = tmp_path / "gold.jsonl.xz"
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in GOLD)
    return path


def test_gold_documents_by_hand(gold_path):
    """Counts, accuracy, candidate recall and end-to-end scores of five mentions, by hand."""
    kb = small_kb()
    (report,) = evaluate_gold(kb, untrained(kb), [gold_path], n_samples=20)
    assert (report.n_documents, report.n_mentions, report.n_in_kb) == (2, 5, 4)
    assert report.n_dropped == 2
    assert report.candidate_recall.value == 1.0
    top = kb.title(int(kb.candidates("Java").ids[0]))
    assert report.prior_alone.value == (1.0 if top == "Java" else 0.75)
    assert report.exact.precision.value == report.exact.recall.value
    assert report.exact.detection_recall.value == 1.0
    assert report.exact.n_links == 4
    assert "gold.jsonl.xz" in gold_tables([report])[1].markdown()


@pytest.mark.parametrize(
    ("read", "name", "text", "sentence"),
    [
        (read_zelda, "gold.jsonl", '{"text": "a", "index": [[0, 1]]}\n', r"gold\.jsonl:1"),
        (read_zelda, "nowhere.jsonl.xz", None, r"no file .*nowhere\.jsonl\.xz"),
        (read_nif, "gold.ttl", "nonsense", r"gold\.ttl cannot be read as NIF"),
    ],
)
def test_bad_gold_is_refused(read, name, text, sentence, tmp_path):
    """The sentence names the file, and the line."""
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(CorpusFormatError, match=sentence):
        read(tmp_path / name)


def test_speed_is_measured_on_equal_results():
    """The plain way, which the benchmark compares with, links as the linker does."""
    kb = world_kb()
    documents = news_size_documents(kb, 6, 600)
    linker = Linker(kb, untrained(kb))
    for fast, plain in zip(
        linker.link_documents(documents), link_plainly(linker, documents), strict=True
    ):
        assert [m.entity for m in fast.mentions] == [m.entity for m in plain.mentions]


def test_nif_measures_what_zelda_measures(gold_path, tmp_path):
    """The same gold in GERBIL's format gives the same figures."""
    documents = []
    for i, record in enumerate(GOLD):
        spans = [
            (a, b, title)
            for (a, b), title in zip(record["index"], record["wikipedia_titles"], strict=True)
            if b <= len(record["text"])
        ]
        phrases = [NifPhrase(a, b, entity_iri(title)) for a, b, title in spans]
        documents.append((context_iri(str(i), len(record["text"])), record["text"], phrases))
    path = tmp_path / "gold.ttl"
    path.write_bytes(format_nif(documents))
    kb = small_kb()
    trained = untrained(kb)
    (by_nif,) = evaluate_gold(kb, trained, [path], n_samples=20, read=read_nif)
    (by_zelda,) = evaluate_gold(kb, trained, [gold_path], n_samples=20)
    assert by_nif.n_dropped == 1  # NIF cannot even say the span outside of its text
    assert replace(by_nif, name="", n_dropped=0) == replace(by_zelda, name="", n_dropped=0)
