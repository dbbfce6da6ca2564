"""The model of docs/architecture.md, exactly as it is printed there."""

import numpy as np
import pytest

from stamo.features.embedding import model_tables
from stamo.linking.linker import lead_by_score
from stamo.models.base import MASKED
from stamo.models.store import EXTRA_FEATURES, MODELS, load_model
from stamo.models.train import TrainingArgs, encode_held_out, predict, train_linking_model
from stamo_lab.keyphrase import Keyphrase
from tests.contracts import ModelContract
from tests.documents import ROOT, run_blocks
from tests.learning.test_learn import split

PAGE = ROOT / "docs" / "architecture.md"
ARGS = TrainingArgs(n_pairs=2000, n_epochs=4, batch_size=64)
LINEAR = run_blocks(PAGE, {"__name__": "own_linear_model"}, 0, 1)["Linear"]


class TestLinear(ModelContract):
    kind = LINEAR


@pytest.fixture(scope="module")
def case(world, world_corpus):
    entity = world.emerging[0]
    return entity, *split(world_corpus, entity, 20)


@pytest.fixture(scope="module")
def page(case, world_kb):
    """Everything the page defines after its blocks ran."""
    entity, labelled, unlabelled, _ = case
    given = {"Linear": LINEAR, "kb": world_kb, "args": ARGS, "entity": entity}
    given |= {"labelled": labelled, "unlabelled": unlabelled}
    yield run_blocks(PAGE, given, 1)
    MODELS.pop(LINEAR.name, None)


def test_training_helps_and_parts_add_up(page, world_kb):
    """It links unseen mentions better than before training; its parts add up to the lead."""
    model, start = page["trained"].model, LINEAR(world_kb.dimensions)
    encoded, is_test = encode_held_out(world_kb, model, page["trained"].encoding)
    test, tables = encoded.take(np.flatnonzero(is_test)), model_tables(world_kb, "weighted")
    right = [float((predict(m, test, tables) == test.gold_column()).mean()) for m in (model, start)]
    assert right[0] > right[1]
    for _, batch in model.batches(test.take(np.arange(20)), tables):
        scores, psi = model.scores(batch), model.psi(batch)
        top = np.argsort(-scores, axis=1)[:, :2]
        best = np.take_along_axis(scores, top, axis=1)
        _, leads = lead_by_score(model, psi, batch.mask, top)
        if best.shape[1] == 2 and (best > MASKED / 2).all():
            np.testing.assert_allclose(leads.sum(axis=1), best[:, 0] - best[:, 1], atol=1e-5)


def test_it_learns_an_emerging_entity_and_links(page, case):
    """Twenty labels and the pile judge the other mentions better than always or never."""
    entity, _, _, gold = case
    learned = page["learned"]
    is_it = np.array(
        [m.entity == entity.id for d in gold for m in d.mentions if m.surface in entity.aliases]
    )
    judged = learned.posterior[-len(is_it) :, 0] > 0.5
    assert (judged == is_it).mean() > max(is_it.mean(), 1 - is_it.mean()) + 0.05
    assert page["mentions"]
    assert all(0 <= mention.confidence <= 1 for mention in page["mentions"])


def test_it_is_saved_and_loaded_with_an_added_feature(page, world_kb, tmp_path, monkeypatch):
    """With one entry in MODELS and one in EXTRA_FEATURES files know both by name."""
    monkeypatch.setitem(EXTRA_FEATURES, "keyphrase", Keyphrase())
    args = TrainingArgs(n_pairs=500, n_epochs=1, batch_size=64)
    trained = train_linking_model(world_kb, "linear", args, extra=["keyphrase"])
    trained.save(tmp_path / "linear.safetensors")
    loaded = load_model(tmp_path / "linear.safetensors")
    assert loaded.fingerprint == trained.fingerprint
    assert loaded.model.extra == ("keyphrase",)
