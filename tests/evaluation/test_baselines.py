"""Baselines: keyphrases with partial matches and covers, and the cross-encoder."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from stamo.errors import MissingExtraError
from stamo.evaluation.baselines.bert import BertArgs, CrossEncoder, Example, fine_tune, load_encoder
from stamo.evaluation.baselines.keyphrase import keyphrase_scores, shortest_cover
from stamo.evaluation.suites.descriptions import Texts
from stamo.evaluation.suites.load import load_problem
from tests.evaluation.suites import small


def test_cover_is_the_shortest_stretch_with_every_word():
    """By hand: places 1 and 9 of one word, 4 and 8 of another."""
    assert shortest_cover([[1, 9], [4, 8]]) == 2
    assert shortest_cover([[0], [5], [2]]) == 6
    assert shortest_cover([[3]]) == 1


def test_partial_matches_score_by_weight_and_distance():
    """By hand: two of three words, three apart, carry two of four parts of the weight."""
    weight = np.array([1.0, 1.0, 2.0, 1.0])
    documents = [np.array([0, 3, 1, 3], dtype=np.int32), np.array([3, 3], dtype=np.int32)]
    scores = keyphrase_scores(documents, {7: [(0, 1, 2)], 8: [(2,), (3,)]}, weight)
    assert scores[7] == pytest.approx([2 / 3 * (2 / 4) ** 2, 0.0])
    assert scores[8] == pytest.approx([1.0, 1.0])


def test_masked_words_never_match():
    """A masked word is -1 in a document, which no phrase contains."""
    scores = keyphrase_scores([np.array([-1, -1], dtype=np.int32)], {1: [(0,)]}, np.ones(2))
    assert scores[1].tolist() == [0.0]


def test_phrases_are_link_texts_and_titles_of_linking_articles():
    """Content words of both, never masked ones."""
    data = small.easy_data()
    book, flat = data.phrasebook, data.corpora.wiki.flat
    entity = data.suite.problems[0].group[0]
    nothing = np.zeros(0, dtype=np.int32)
    words = {w for phrase in book.phrases(entity, nothing) for w in phrase}
    linking = np.unique(flat.documents[flat.entities == entity])
    about = data.corpora.wiki_titles.index(data.suite.problems[0].title)
    texts = [data.corpora.wiki_titles[i] for i in linking]
    texts += [flat.surface_table[i] for i in flat.surfaces[flat.documents == about]]
    assert words == {w for text in texts for w in book.phrase(text, nothing)}
    masked = np.array(sorted(words)[:3], dtype=np.int32)
    left = {w for phrase in book.phrases(entity, masked) for w in phrase}
    assert left == words - set(masked.tolist())


def test_title_of_a_document_does_not_count_in_it():
    """The article about a thing mentions its own title; that says nothing of the entity."""
    documents = [np.array([0, 1], dtype=np.int32)] * 2
    scores = keyphrase_scores(documents, {3: [(0,)]}, np.ones(2), own=[(0,), (1,)])
    assert scores[3].tolist() == [0.0, 1.0]


def test_entity_without_article_and_links_scores_nothing():
    """No phrases, no score."""
    assert keyphrase_scores([np.array([1], dtype=np.int32)], {5: []}, np.ones(3))[5].tolist() == [0]


class FakeTokenizer:
    """Numbers words by their length and first letter; separates the two texts."""

    def __call__(self, contexts, descriptions, *, max_length, **_):
        pairs = zip(contexts, descriptions, strict=True)
        rows = [[hash_word(w) for w in f"{a} . {b}".split()][:max_length] for a, b in pairs]
        width = max(map(len, rows))
        return {"ids": torch.tensor([[0, *row, *[0] * (width - len(row))] for row in rows])}


def hash_word(word):
    return 1 + sum(map(ord, word)) % 49


class FakeBert(torch.nn.Module):
    """Puts the products of all pairs of words into the first output, as attention could."""

    def __init__(self):
        super().__init__()
        self.config = SimpleNamespace(hidden_size=50)
        self.words = torch.nn.Embedding(50, 50)

    def forward(self, ids):
        counts = torch.nn.functional.one_hot(ids, 50).float().sum(dim=1)
        hidden = (counts > 1).float() @ self.words.weight
        return SimpleNamespace(last_hidden_state=hidden[:, None])


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return CrossEncoder(FakeTokenizer(), FakeBert(), 20).eval()


EXAMPLES = [
    Example("goal team", ("goal match", "river bank"), 0),
    Example("boat bank", ("goal match", "river bank"), 1),
    Example("late match", ("river bank", "goal match"), 1),
]


def test_fine_tuning_lowers_the_loss(encoder):
    """The description that shares words with the context comes to score highest."""
    losses = []
    args = BertArgs(n_epochs=60, learning_rate=0.05, batch_size=3)
    fine_tune(encoder, EXAMPLES, args, on_step=lambda step, loss: losses.append(loss))
    assert losses[-1] < 0.2 * losses[0]
    for example in EXAMPLES:
        scores = encoder.link([example.context], example.descriptions)
        assert scores.shape == (1, 2)
        assert int(scores.argmax()) == example.gold


def test_saved_encoder_scores_the_same(encoder, tmp_path, monkeypatch):
    """What was fine-tuned is what a later process links with."""
    fine_tune(encoder, EXAMPLES, BertArgs(n_epochs=2))
    path = tmp_path / "bert" / "model.safetensors"
    encoder.save(path)
    fake = SimpleNamespace(
        AutoTokenizer=SimpleNamespace(from_pretrained=lambda *_, **__: FakeTokenizer()),
        AutoModel=SimpleNamespace(from_pretrained=lambda *_, **__: FakeBert()),
    )
    monkeypatch.setitem(sys.modules, "transformers", fake)
    again = load_encoder(BertArgs(weights="somewhere", n_tokens=20), path)
    texts = (["goal team"], ["goal match", "river bank"])
    assert np.array_equal(encoder.link(*texts), again.link(*texts))


def test_missing_transformers_names_the_extra(monkeypatch):
    """Without the extra the message says what to install."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"stamo\[bert\]"):
        load_encoder()


def test_descriptions_never_name_the_group():
    """Neither contexts nor descriptions of a conflated group contain words of its names."""
    data = small.easy_data()
    texts = Texts(data)
    problem = data.suite.problems[0]
    masked = data.masked_words(problem)
    names = set(data.kb.words.texts(masked))
    loaded = load_problem(data, problem)
    written = [texts.description(entity, masked) for entity in problem.group]
    written += texts.contexts(loaded.learning)
    written.append(texts.from_labels(loaded, np.ones(len(loaded.learning.gold), dtype=bool)))
    assert all(written[: len(problem.group)])
    assert not names & {word for text in written for word in text.split()}
    assert len(list(texts.examples())) > 50
