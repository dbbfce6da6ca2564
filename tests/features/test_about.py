"""What a likeness of a text and a line is worth, in languages that the encoder does not read."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from stamo.features.about import BLIND, UNKNOWN_LIKENESS, neutral_likeness

from stamo.features import about

EVEN = 0.34


class Alike:
    """An encoder that finds every text as much like the line."""

    languages = frozenset({"en"})

    def __init__(self, cosine):
        self.fingerprint = f"alike {cosine}"
        self.cosine, self.n_read = cosine, 0

    def encode(self, texts):
        self.n_read += len(texts)
        rows = [(1.0, 0.0) if t == "line" else (self.cosine, 1 - self.cosine**2) for t in texts]
        return np.array(rows, dtype=np.float32)


def wiki(language, texts):
    batch = pa.record_batch({"text": pa.array(texts, pa.string())})
    return SimpleNamespace(
        language=language, fingerprint=f"{language} {texts}", articles=lambda columns: iter([batch])
    )


@pytest.mark.parametrize(
    ("cosine", "expected"),
    [(0.02, EVEN), (0.1, EVEN), (0.2, 0.44), (0.4, 0.64), (0.7, 0.82), (0.9, 0.94)],
)
def test_what_says_nothing_rises_with_what_any_text_is_like(cosine, expected):
    encoder = Alike(cosine)
    kb = wiki("fr", ["un texte", "", "un autre texte"])
    assert neutral_likeness("line", encoder, kb, EVEN) == pytest.approx(expected, abs=1e-6)
    n_read = encoder.n_read
    assert neutral_likeness("line", encoder, kb, EVEN) == pytest.approx(expected, abs=1e-6)
    assert encoder.n_read == n_read == 3  # two texts and the line, once


def test_english_is_read_as_ever():
    encoder = Alike(0.9)
    assert neutral_likeness("line", encoder, wiki("en", ["some text"]), EVEN) == EVEN
    assert encoder.n_read == 0


def test_without_texts_a_usual_likeness_is_assumed():
    found = neutral_likeness("line", Alike(0.0), wiki("fr", []), EVEN)
    assert found == pytest.approx(UNKNOWN_LIKENESS + 0.4 * (1 - UNKNOWN_LIKENESS))
    assert found < BLIND


def test_a_script_without_letters_is_seen_as_such():
    assert neutral_likeness("line", Alike(0.99), wiki("th", ["x"]), EVEN) >= BLIND


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(about, "_MAX_REMEMBERED", 2)
    kb = wiki("fr", ["x"])
    for cosine in (0.3, 0.31, 0.32, 0.33):
        neutral_likeness("line", Alike(cosine), kb, EVEN)
    assert len(about._background) <= 2
