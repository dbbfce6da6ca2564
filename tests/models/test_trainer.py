"""Training on the held-out articles of the embedded world."""

import contextlib
import copy
from dataclasses import replace

import pytest
import torch
from stamo.models.deeped_known import KnownDeepED

from stamo.errors import ArtifactMismatchError, LearningError, ModelError, SettingsError
from stamo.models.store import load_model
from stamo.models.train import TrainingArgs, max_margin_loss, train_linking_model

ARGS = TrainingArgs(n_pairs=600, n_epochs=2, batch_size=64)


@pytest.mark.parametrize("name", ["deeped", "yamada"])
def test_same_seed_same_bytes(world_kb, name):
    """Training twice gives the same model, whatever was drawn before."""
    first = train_linking_model(world_kb, name, ARGS)
    torch.rand(7)
    assert train_linking_model(world_kb, name, ARGS).fingerprint == first.fingerprint


def test_a_saved_model_comes_back_whole(world_kb, tmp_path):
    """Saving and loading keeps φ, calibration and extra features; another KB is refused."""
    trained = train_linking_model(world_kb, "deeped", ARGS, extra=["keyphrase"])
    path = tmp_path / "model.safetensors"
    trained.save(path)
    loaded = load_model(path)
    assert loaded.fingerprint == trained.fingerprint
    assert [f.name for f in loaded.model.features] == [
        "prior",
        "relatedness",
        "embedding",
        "keyphrase",
    ]
    loaded.check(world_kb)

    class Other:
        name, fingerprint = "another", "0" * 64

    with pytest.raises(ArtifactMismatchError, match="another"):
        loaded.check(Other())


@pytest.mark.parametrize("size", [0, 7, 100, 1500])
def test_a_cut_model_file_is_one_clear_error(world_model, tmp_path, size):
    """A truncated file never loads and never raises anything but ModelError."""
    path = tmp_path / "model.safetensors"
    world_model.save(path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ModelError):
        load_model(path)


def test_unknown_names_and_too_little_text_are_clear_errors(world_kb):
    """Models, features and mentions that are not there are named."""
    with pytest.raises(SettingsError, match="no model"):
        train_linking_model(world_kb, "nonsense", ARGS)
    with pytest.raises(SettingsError, match="no extra feature"):
        train_linking_model(world_kb, "deeped", ARGS, extra=["nonsense"])
    with pytest.raises(LearningError, match="ambiguous mentions"):
        train_linking_model(world_kb, "deeped", TrainingArgs(batch_size=10**6))


def test_max_margin_loss_by_hand():
    """Eq. 12 without the gold entity's own constant μ."""
    scores = torch.tensor([[1.0, 0.995, 0.5, -1e9]])
    loss = max_margin_loss(scores, torch.tensor([0]), 0.01)
    assert float(loss) == pytest.approx(0.005, abs=1e-6)
    loss = max_margin_loss(scores, torch.tensor([2]), 0.01)
    assert float(loss) == pytest.approx(0.51 + 0.505, abs=1e-5)


def test_a_damaged_model_is_refused(world_model, tmp_path):
    """Wherever a bit flips, the model is refused or, in the header's blanks, the same."""
    path = tmp_path / "model.safetensors"
    world_model.save(path)
    good = path.read_bytes()
    for place in range(8, len(good), max(len(good) // 60, 1)):
        data = bytearray(good)
        data[place] ^= 1
        path.write_bytes(data)
        with contextlib.suppress(ModelError):
            assert load_model(path).fingerprint == world_model.fingerprint


def test_a_model_with_a_value_that_is_no_number_is_refused(world_model, tmp_path):
    """No confidence is ever NaN."""
    path = tmp_path / "model.safetensors"
    model = copy.deepcopy(world_model.model)
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] = float("nan")
    replace(world_model, source=model).save(path)
    with pytest.raises(ModelError, match="not finite"):
        load_model(path)
    calibration = replace(world_model.calibration, temperature=float("nan"))
    replace(world_model, calibration=calibration).save(path)
    with pytest.raises(ModelError, match="not finite"):
        load_model(path)


def test_arrays_that_are_not_a_models_are_refused(world_model, tmp_path):
    """A file whose arrays have other shapes is refused when it is opened, not when text comes."""
    path = tmp_path / "model.safetensors"
    world_model.save(path)
    state = dict(load_model(path).source.state)
    for changed in ({"phi1": state["phi1"][:-1]}, {"phi4": state["phi1"]}):
        wrong = KnownDeepED({**state, **changed})
        replace(world_model, source=wrong).save(path)
        with pytest.raises(ModelError, match="does not hold what a stamo model needs"):
            load_model(path)


def test_a_loaded_model_is_the_saved_one(world_model, tmp_path):
    """Loaded as arrays it has the fingerprint and, once asked for, the parameters of the saved."""
    path = tmp_path / "model.safetensors"
    world_model.save(path)
    loaded = load_model(path)
    assert loaded.fingerprint == world_model.fingerprint
    for name, values in world_model.model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], values)
