"""Models trained on the embedded world or not at all: files, calibration, and linking by counts."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.errors import ArtifactMismatchError, LearningError, ModelError, SettingsError
from stamo.evaluation.intervals import expected_calibration_error, reliability
from stamo.features import embedding
from stamo.features.embedding import WeightedWords, local_vectors, mean_rows, model_tables
from stamo.kb.base import KnowledgeBase, entity_directions
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.models import store
from stamo.models.base import Calibration
from stamo.models.store import is_model, load_model
from stamo.models.train import (
    TrainingArgs,
    fit_calibration,
    max_margin_loss,
    train_linking_model,
)
from stamo_lab.keyphrase import Keyphrase
from tests.build.dumps import write_dump
from tests.linking.small import PAGES, small_kb, untrained

ARGS = TrainingArgs(n_pairs=600, n_epochs=2, batch_size=64)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("name", ["deeped", "yamada"])
def test_same_seed_same_bytes(world_kb, name):
    """Training twice gives the same model, whatever was drawn before."""
    first = train_linking_model(world_kb, name, ARGS)
    torch.rand(7)
    assert train_linking_model(world_kb, name, ARGS).fingerprint == first.fingerprint


def test_a_saved_model_comes_back_whole(world_kb, path, monkeypatch):
    """Saving and loading keeps φ, calibration and added features; another KB is refused."""
    monkeypatch.setitem(store.EXTRA_FEATURES, "keyphrase", Keyphrase())
    trained = train_linking_model(world_kb, "deeped", ARGS, extra=["keyphrase"])
    trained.save(path)
    loaded = load_model(path)
    assert loaded.fingerprint == trained.fingerprint
    assert (loaded.words, loaded.calibration) == ("weighted", trained.calibration)
    assert [f.name for f in loaded.features] == ["prior", "relatedness", "embedding", "keyphrase"]
    for name, values in trained.model.phi.items():
        np.testing.assert_array_equal(loaded.model.phi[name], values)
    loaded.check(world_kb)

    class Other:
        name, fingerprint = "another", "0" * 64

    with pytest.raises(ArtifactMismatchError, match="another"):
        loaded.check(Other())


def test_a_damaged_file_is_one_clear_error(world_model, path):
    """Cut or with a bit flipped it is refused or, in the header's blanks, the same model."""
    world_model.save(path)
    good = path.read_bytes()
    for size in (0, 7, 100, 1500):
        path.write_bytes(good[:size])
        with pytest.raises(ModelError):
            load_model(path)
    for place in range(8, len(good), max(len(good) // 60, 1)):
        data = bytearray(good)
        data[place] ^= 1
        path.write_bytes(data)
        with contextlib.suppress(ModelError):
            assert load_model(path).fingerprint == world_model.fingerprint


def test_a_file_with_wrong_content_is_refused(world_model, path):
    """No number is NaN, and arrays have the shapes of the model."""
    phi = world_model.model.phi
    changes = [
        ({"phi1": phi["phi1"] * np.float32(np.nan)}, "not finite"),
        ({"phi1": phi["phi1"][:-1]}, "does not hold what a stamo model needs"),
        ({"phi4": phi["phi1"]}, "does not hold what a stamo model needs"),
    ]
    for change, message in changes:
        changed = world_model.model.with_phi({**phi, **change})
        replace(world_model, model=changed).save(path)
        with pytest.raises(ModelError, match=message):
            load_model(path)
    calibration = replace(world_model.calibration, temperature=float("nan"))
    replace(world_model, calibration=calibration).save(path)
    with pytest.raises(ModelError, match="not finite"):
        load_model(path)


def test_unknown_names_and_too_little_text_are_clear_errors(world_kb):
    """Models, features and mentions that are not there are named."""
    with pytest.raises(SettingsError, match="no model"):
        train_linking_model(world_kb, "nonsense", ARGS)
    with pytest.raises(SettingsError, match="no extra feature"):
        train_linking_model(world_kb, "deeped", ARGS, extra=["nonsense"])
    with pytest.raises(LearningError, match="ambiguous mentions"):
        train_linking_model(world_kb, "deeped", TrainingArgs(batch_size=10**6))
    with pytest.raises(SettingsError, match="n_epochs is 0; give 1 or more"):
        TrainingArgs(n_epochs=0)


def test_max_margin_loss_by_hand():
    """Eq. 12 without the gold entity's own constant μ; padding takes no part."""
    scores = torch.tensor([[1.0, 0.995, 0.5, -1e9]])
    for gold, expected in ((0, 0.005), (2, 0.51 + 0.505)):
        loss = max_margin_loss(scores, torch.tensor([gold]), 0.01)
        assert float(loss) == pytest.approx(expected, abs=1e-5)


def test_models_are_told_from_documents(tmp_path):
    """By the ending, or by the first bytes where a model has another name."""
    untrained(small_kb()).save(tmp_path / "model.bin")
    (tmp_path / "text.txt").write_text("stamo-model is a word of this text")
    assert is_model(tmp_path / "missing.safetensors")
    assert is_model(tmp_path / "model.bin")
    assert not is_model(tmp_path / "text.txt")
    assert not is_model(tmp_path / "missing.txt")


def test_the_mean_of_weighted_words_points_where_an_entity_of_that_context_would(world_kb):
    """A context and the entity met only there have the same direction; plain vectors are plain."""
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(9, 4)).astype(np.float32)
    weights = rng.random(9).astype(np.float32)
    background = rng.normal(size=4).astype(np.float32)
    ids = np.array([1, 5, 5, 8], dtype=np.int32)
    mean = WeightedWords(vectors, weights, background)[ids].mean(axis=0)
    sums, mass = weights[ids] @ vectors[ids][None], weights[ids].sum()[None]
    entity = entity_directions(sums, mass, background)
    np.testing.assert_allclose(mean / np.linalg.norm(mean), entity[0], atol=1e-5)
    plain = model_tables(world_kb, "plain").words[ids]
    np.testing.assert_array_equal(plain, world_kb.word_vectors[ids])


def test_means_of_few_and_of_many_are_the_same_bits(monkeypatch):
    """Whether many mentions are scored together or few, padding is left out and no bit differs."""
    rng = np.random.default_rng(5)
    table = rng.normal(size=(40, 7)).astype(np.float32)
    ids = rng.integers(-1, 40, (30, 9)).astype(np.int32)
    ids[3] = -1
    vectors, (places,) = local_vectors(table, ids)
    few = mean_rows(vectors, places)
    monkeypatch.setattr(embedding, "FEW_IDS", 0)
    assert few.tobytes() == mean_rows(vectors, places).tobytes()
    real = [row[row >= 0] for row in ids]
    expected = [table[row].mean(axis=0) if len(row) else 0 * table[0] for row in real]
    np.testing.assert_allclose(few, expected, atol=1e-6)


def draw(temperature, n=6000, n_candidates=4, outside=0.0, seed=0):
    """Scores, and gold entities drawn with the probabilities that the scores stand for."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n, n_candidates)).astype(np.float32)
    p = softmax(scores.astype(np.float64) / temperature, axis=1)
    gold = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=n_candidates - 1)
    return scores, np.where(rng.random(n) < outside, -1, gold)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_the_temperature_that_made_the_labels_is_found(temperature):
    """Labels drawn at a temperature give it back, whatever the scale and the padding."""
    scores, gold = draw(temperature)
    found = fit_calibration(scores, gold)
    assert found.temperature == pytest.approx(temperature, rel=0.1)
    assert (found.slope, found.intercept) == pytest.approx((1.0, 0.0), abs=0.2)
    padding = np.full((len(scores), 1), -1e9, dtype=np.float32)
    for other in (scores / np.float32(1000), np.hstack([scores, padding])):
        confidence = fit_calibration(other, gold).confidence(other)
        np.testing.assert_allclose(confidence, found.confidence(scores), atol=1e-2)


@pytest.mark.parametrize("outside", [0.0, 0.3])
def test_confidence_is_how_often_the_best_candidate_is_right(outside):
    """Also where many mentions mean none of the candidates: on other draws the error is small."""
    found = fit_calibration(*draw(0.5, outside=outside))
    scores, gold = draw(0.5, outside=outside, seed=1)
    right = scores.argmax(axis=1) == gold
    assert expected_calibration_error(found.confidence(scores), right) < 0.04
    assert fit_calibration(*draw(0.5, n=9)) == Calibration()  # too few to fit anything


def test_reliability_by_hand():
    """Two bins, one right of two in the first and both in the second: the error is their mean."""
    confidence, right = np.array([0.11, 0.19, 0.9, 1.0]), np.array([True, False, True, True])
    expected = [(pytest.approx(0.15), 0.5, 2), (pytest.approx(0.95), 1.0, 2)]
    assert reliability(confidence, right) == expected
    assert expected_calibration_error(confidence, right) == pytest.approx((0.35 + 0.05) / 2)


@pytest.fixture(scope="module")
def without_vectors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("without")
    dump_path = write_dump(folder / "small.xml", PAGES.items())
    settings = BuildSettings(dimensions=0, held_out=0.0)
    return KnowledgeBase.open(build_knowledge_base(dump_path, folder / "kb", settings).path)


ISLAND = "Indonesia and Sumatra are far away; Java is near."


def test_a_knowledge_base_without_vectors_links_and_explains(without_vectors):
    """The company of other entities decides what Java is, though no word has a vector."""
    for settings in (LinkerSettings(), LinkerSettings(explain=True)):
        linker = Linker(without_vectors, settings=settings)
        island, language = linker.link(ISLAND), linker.link("Sun Microsystems had C++, then Java.")
        assert {m.surface: m.entity for m in island}["Java"] == "Java"
        assert {m.surface: m.entity for m in language}["Java"] == "Java (language)"
        assert all(0 < m.confidence < 1 for m in [*island, *language])


def test_words_decide_where_nothing_is_linked(tmp_path):
    """Two entities of one name are told apart by their descriptions."""
    rows = "1,Falcon,A shoe for wet trails.\n2,Falcon,A drone with a camera.\n"
    (tmp_path / "p.csv").write_text(f"id,name,description\n{rows}")
    summary = build_knowledge_base(tmp_path / "p.csv", tmp_path / "kb", BuildSettings())
    linker = Linker(KnowledgeBase.open(summary.path))
    assert linker.link("The trails were wet under the Falcon.")[0].entity == "Falcon (1)"
    assert linker.link("The Falcon lost its camera.")[0].entity == "Falcon (2)"


def test_explanations_change_nothing_without_training():
    """The scores are named and decide as they do without an explanation."""
    linkers = [Linker(small_kb(), settings=LinkerSettings(explain=e)) for e in (True, False)]
    explained, plain = ({m.surface: m for m in linker.link(ISLAND)} for linker in linkers)
    names = [score.name for score in explained["Java"].why]
    assert names == ["log prior", "context words", "relatedness"]
    assert {s: m.entity for s, m in explained.items()} == {s: m.entity for s, m in plain.items()}
