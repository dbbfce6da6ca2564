"""What views are worth is learned from entities whose mentions are all judged."""

from dataclasses import replace

import numpy as np
import pytest

from stamo.cli.main import create_app
from stamo.errors import ModelError
from stamo.learning.rehearsal import Trial, adapt_to, learn_weights
from stamo.models.store import load_model, open_encoder
from stamo.models.weights import Weights, shipped_weights, weights_for

START = Weights(0.0, 1.0, 1.0, 0.3, {"description": (0.0, 0.0)}, {"description": (0.5, 0.5)})


def trials(worth, bias, n=150, n_labels=0):
    """Entities whose mentions mean them by the logistic of what their columns are worth."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(n):
        rows = rng.standard_normal((40, 2))
        means = rng.random(40) < 1 / (1 + np.exp(-(rows @ worth + bias)))
        is_label = np.arange(40) < n_labels
        found.append(Trial({"description": rows}, np.zeros(40), means, is_label))
    return found


def test_without_labels_the_means_and_the_bias_are_found():
    """They are those by which the answers were drawn."""
    learned = learn_weights(trials(np.array([2.0, -1.0]), -1.5), START)
    assert learned.mean["description"] == pytest.approx((2.0, -1.0), abs=0.15)
    assert learned.bias == pytest.approx(-1.5, abs=0.15)


def test_what_all_entities_share_leaves_labels_little_to_move():
    """With labels too, a column that is worth the same everywhere has a small variance."""
    drawn = [t for n in (0, 5, 20) for t in trials(np.array([2.0, -1.0]), -1.5, 50, n)]
    learned = learn_weights(drawn, START)
    assert max(learned.variance["description"]) < 0.5


def test_a_strong_start_holds():
    """Few trials hardly move weights that count for many; others than those asked stay."""
    few = trials(np.array([2.0, -1.0]), -1.5, 3)
    held = learn_weights(few, START, strength=100.0)
    assert np.abs(held.mean["description"]).max() < 0.2
    only = learn_weights(few, START, only=("sentence",))
    assert only.mean == START.mean
    assert only.bias != START.bias


@pytest.mark.slow
def test_a_knowledge_base_adapts_encoder_and_weights(world_kb, world_model, tmp_path):
    """The model keeps both; they are used in place of the package's, and refuse another file."""
    seen = []
    adapted = adapt_to(world_kb, world_model, n_steps=2, on_progress=lambda *at: seen.append(at))
    assert [share for share, _ in seen] == sorted(share for share, _ in seen)
    adapted.save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert open_encoder(again, world_kb).fingerprint == open_encoder(adapted, world_kb).fingerprint
    (situation,) = again.weights
    assert situation == "description and encoder"
    learned, shipped = weights_for(situation, again.weights), weights_for(situation)
    assert learned != shipped
    assert learned.mean["longer name"] == pytest.approx(shipped.mean["longer name"])
    assert weights_for("name", again.weights) == Weights(**shipped_weights()["name"])
    replace(adapted, weights={"name": {"bias": "low"}}).save(tmp_path / "bad.safetensors")
    with pytest.raises(ModelError, match="train it again"):
        load_model(tmp_path / "bad.safetensors")


@pytest.mark.slow
def test_the_command_keeps_both_with_the_model(world_kb, tmp_path, capsys):
    """`stamo train --encoder` shows how far it is and writes one file with all of it."""
    path = tmp_path / "model.safetensors"
    few = ("--pairs", "300", "--epochs", "1", "--steps", "1")
    words = ["train", "--kb", str(world_kb.path), "--out", str(path), "--encoder", *few]
    create_app()(words, standalone_mode=False)
    assert "Hiding known entities" in capsys.readouterr().err
    trained = load_model(path)
    assert trained.adapter is not None
    assert "description and encoder" in trained.weights
