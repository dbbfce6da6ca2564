"""The model of docs/add-your-own-model.md, exactly as it is printed there."""

import sys
import types

import numpy as np
import pytest
import torch
from stamo.models.tables import MASKED

from stamo.linking.explain import lead_by_score
from stamo.models import kinds
from stamo.models.base import PlainScorer, make_batch
from stamo.models.store import load_model
from stamo.models.train import TrainingArgs, predict, train_linking_model
from tests.documents import ROOT, run_blocks
from tests.learning.test_learn import accuracy, split
from tests.models.test_oracle import candidates_of, cosine
from tests.synthetic import Q, make_synthetic_pile, make_tables, make_theta

PAGE = ROOT / "docs" / "add-your-own-model.md"
ARGS = TrainingArgs(n_pairs=2000, n_epochs=4, batch_size=64)


@pytest.fixture(scope="module")
def linear():
    """The class of the page; a module of its own, so that it can be copied and saved."""
    module = types.ModuleType("own_linear_model")
    sys.modules[module.__name__] = module
    run_blocks(PAGE, vars(module), 0, 1)
    yield module.Linear
    del sys.modules[module.__name__]


@pytest.fixture(scope="module")
def case(world, world_corpus):
    entity = world.emerging[0]
    return entity, *split(world_corpus, entity, 20)


@pytest.fixture(scope="module")
def page(linear, case, world_kb):
    """Everything the page defines after its blocks ran."""
    entity, labelled, unlabelled, _ = case
    given = {"Linear": linear, "kb": world_kb, "args": ARGS, "entity": entity}
    given |= {"labelled": labelled, "unlabelled": unlabelled}
    return run_blocks(PAGE, given, 1)


def test_scores_equal_the_formula_written_as_a_loop(linear):
    """The vectorised model gives w · (prior, cosine, relatedness), candidate by candidate."""
    rng = np.random.default_rng(0)
    tables, pile = make_tables(rng), make_synthetic_pile(rng)
    theta, model = make_theta(rng, pile), linear(Q).eval()
    model.combine.weight.data = torch.tensor([[0.7, -0.2, 0.4]])
    with torch.no_grad():
        scores = PlainScorer(model, pile, tables, block=5)(theta).numpy()
    weights = np.array([0.7, -0.2, 0.4])
    for m in range(len(pile)):
        words = [tables.words[w] for w in pile.mentions.words[m] if w >= 0]
        mean = np.mean(words, axis=0) if words else np.zeros(Q)
        expected = np.full(scores.shape[1], MASKED)
        for column, vector, prior, relatedness, _ in candidates_of(pile, theta, tables, m):
            expected[column] = weights @ [prior, cosine(vector, mean), relatedness]
        np.testing.assert_allclose(scores[m], expected, rtol=1e-4, atol=1e-5)


def test_it_uses_the_plain_scorer(linear):
    """A model that prepares nothing itself is scored by its forward pass."""
    rng = np.random.default_rng(1)
    tables, pile = make_tables(rng), make_synthetic_pile(rng)
    assert isinstance(linear(Q).prepare(pile, tables), PlainScorer)


def test_training_helps_on_unseen_documents(page, linear, world_kb):
    """After training it links unseen ambiguous mentions better than its starting point."""
    trained = page["trained"]
    test = page["encoded"].take(np.flatnonzero(page["is_test"]))
    gold = test.gold_column()
    right = [
        float((predict(model, test, trained.tables(world_kb)) == gold).mean())
        for model in (trained.model, linear(world_kb.dimensions))
    ]
    assert right[0] > right[1]


def test_it_learns_an_emerging_entity(page, case, world_kb):
    """Twenty labels and the pile judge the other mentions better than always or never."""
    entity, _, _, gold = case
    flags = [m.entity == entity.id for d in gold for m in d.mentions if m.surface in entity.aliases]
    share = float(np.mean(flags))
    found = accuracy(page["learned"], case, world_kb, page["trained"])
    assert found > max(share, 1 - share) + 0.05


def test_it_links_text(page):
    """The linker finds mentions with it and gives each a confidence between 0 and 1."""
    assert page["mentions"]
    assert all(0 <= mention.confidence <= 1 for mention in page["mentions"])


def test_it_explains_itself(page, world_kb):
    """For a linear model the parts of the scores add up to the lead."""
    trained = page["trained"]
    test = page["encoded"].take(np.flatnonzero(page["is_test"]))
    batch = make_batch(test.take(np.arange(20)), trained.tables(world_kb))
    with torch.no_grad():
        psi, scores = trained.model.scores(batch), trained.model(batch)
        top = scores.topk(2, dim=1)
        _, leads = lead_by_score(trained.model, psi, batch.mask, top.indices)
    expected = (top.values[:, 0] - top.values[:, 1]).numpy()
    np.testing.assert_allclose(leads.sum(axis=1), expected, atol=1e-5)


def test_a_registered_model_is_trained_saved_and_loaded(linear, world_kb, tmp_path, monkeypatch):
    """With one entry in MODELS the commands know it, also with an extra feature."""
    monkeypatch.setitem(kinds.MODELS, linear.name, linear)
    args = TrainingArgs(n_pairs=500, n_epochs=1, batch_size=64)
    trained = train_linking_model(world_kb, "linear", args, extra=["keyphrase"])
    path = tmp_path / "linear.safetensors"
    trained.save(path)
    loaded = load_model(path)
    assert loaded.fingerprint == trained.fingerprint
    assert loaded.model.extra == ("keyphrase",)
