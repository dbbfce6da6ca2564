"""The word vectors that models look up."""

from dataclasses import replace

import numpy as np
import pytest
from stamo.models.kinds import make_model
from stamo.models.tables import (
    LocalVectors,
    WeightedWords,
    check_kind,
    in_memory,
    mean_rows,
    model_tables,
)

from stamo.errors import SettingsError
from stamo.kb.words import entity_directions
from stamo.models import tables as tables_module
from stamo.models.store import load_model


def test_the_mean_of_weighted_words_points_where_an_entity_of_that_context_would():
    """A context and the entity met only there have the same direction."""
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(9, 4)).astype(np.float32)
    weights = rng.random(9).astype(np.float32)
    background = rng.normal(size=4).astype(np.float32)
    ids = np.array([1, 5, 5, 8], dtype=np.int32)
    mean = WeightedWords(vectors, weights, background)[ids].mean(axis=0)
    entity = entity_directions(
        weights[ids] @ vectors[ids][None], weights[ids].sum()[None], background
    )
    np.testing.assert_allclose(mean / np.linalg.norm(mean), entity[0], atol=1e-5)


def test_means_of_few_and_of_many_are_the_same_bits(monkeypatch):
    """Whether many mentions are scored together or few, padding is left out and no bit differs."""
    rng = np.random.default_rng(5)
    table = rng.normal(size=(40, 7)).astype(np.float32)
    ids = rng.integers(-1, 40, (30, 9)).astype(np.int32)
    ids[3] = -1
    vectors = LocalVectors.of(table, ids)
    few = mean_rows(vectors, ids)
    monkeypatch.setattr(tables_module, "FEW_IDS", 0)
    assert few.tobytes() == mean_rows(vectors, ids).tobytes()
    expected = [
        table[row[row >= 0]].mean(axis=0) if (row >= 0).any() else 0 * table[0] for row in ids
    ]
    np.testing.assert_allclose(few, expected, atol=1e-6)


def test_plain_tables_are_those_of_the_knowledge_base(world_kb):
    """`plain` changes nothing, and vectors in memory are the same vectors."""
    tables = model_tables(world_kb, "plain")
    ids = np.array([0, 3, 2])
    np.testing.assert_array_equal(tables.words[ids], world_kb.word_vectors[ids])
    weighted = model_tables(world_kb, "weighted")
    assert not np.allclose(weighted.words[ids], tables.words[ids])
    np.testing.assert_array_equal(in_memory(weighted).words[ids], weighted.words[ids])


def test_a_saved_model_remembers_its_words(tmp_path, world_model):
    """A model is never used with word vectors it was not trained with."""
    path = tmp_path / "model.safetensors"
    replace(world_model, words="weighted").save(path)
    assert load_model(path).words == "weighted"


def test_unknown_words_and_features_that_a_model_has_are_refused():
    """The messages name what was asked for."""
    with pytest.raises(SettingsError, match="'heavy'"):
        check_kind("heavy")
    with pytest.raises(SettingsError, match="'relatedness' of its own"):
        make_model("deeped", 4, ["relatedness"])
    assert make_model("yamada", 4, ["relatedness"]).extra == ("relatedness",)
