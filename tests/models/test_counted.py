"""Linking without a trained model."""

from dataclasses import replace

import numpy as np
import pytest
from stamo.models.counted import CountedScores

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.errors import ModelError
from stamo.features.base import encode_features
from stamo.features.mentions import (
    EncodedMentions,
    EncodingSettings,
    Lexicon,
    encode,
    flatten_articles,
    iterate_articles,
)
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.models.store import is_model, without_training
from tests.linking.small import PAGES, small_kb, untrained, write_dump


def mentions(prior: list[float], relatedness: list[float]) -> EncodedMentions:
    none = np.zeros((1, 0), np.int32)
    n = np.zeros(1, np.int32)
    candidates = np.arange(len(prior), dtype=np.int32)[None]
    known = {
        "prior": np.array([prior], np.float32),
        "relatedness": np.array([relatedness], np.float32),
    }
    return EncodedMentions(n, n, n, none, none, candidates, known, ("x",))


def test_relatedness_decides_between_like_priors_and_not_against_a_clear_one():
    def best(prior, relatedness):
        encoded = mentions(prior, relatedness)
        return int(
            CountedScores().score_known(encoded, CountedScores().tables(small_kb())).argmax()
        )

    assert best([0.6, 0.4], [0.1, 0.5]) == 1
    assert best([0.99, 0.01], [0.1, 0.5]) == 0


def test_padding_never_wins():
    encoded = mentions([0.2, 0.0], [0.0, 0.9])
    encoded = replace(encoded, candidates=np.array([[3, -1]], np.int32))
    assert CountedScores().score_known(encoded, CountedScores().tables(small_kb())).argmax() == 0


def test_a_knowledge_base_without_vectors_links(tmp_path):
    """The company of other entities decides what Java is, though no word has a vector."""
    dump_path = write_dump(tmp_path / "small.xml", PAGES)
    settings = BuildSettings(dimensions=0, held_out=0.0)
    kb = KnowledgeBase.open(build_knowledge_base(dump_path, tmp_path / "kb", settings).path)
    linker = Linker(kb)
    island = linker.link("Indonesia and Sumatra are far away; Java is near.")
    language = linker.link("Sun Microsystems used C++ before Java.")
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


def test_explanations_need_vectors_and_no_training(tmp_path):
    """The scores add up to what linking uses; a knowledge base without vectors says what to do."""
    text = "Indonesia and Sumatra are far away; Java is near."
    linker = Linker(small_kb(), settings=LinkerSettings(explain=True))
    explained = {m.surface: m for m in linker.link(text)}
    plain = {m.surface: m for m in Linker(small_kb()).link(text)}
    names = [score.name for score in explained["Java"].why]
    assert names == ["log prior", "context words", "relatedness"]
    assert {s: m.entity for s, m in explained.items()} == {s: m.entity for s, m in plain.items()}
    dump_path = write_dump(tmp_path / "small.xml", PAGES)
    settings = BuildSettings(dimensions=0, held_out=0.0)
    kb = KnowledgeBase.open(build_knowledge_base(dump_path, tmp_path / "kb", settings).path)
    with pytest.raises(ModelError, match="--dimensions 0"):
        Linker(kb, settings=LinkerSettings(explain=True))


def test_the_model_in_torch_gives_the_same_scores():
    """Learning and linking see one model."""
    kb = small_kb()
    trained = without_training(kb)
    corpus = flatten_articles(iterate_articles(kb, held_out=None), Lexicon.of(kb))
    encoded = encode(corpus, kb, EncodingSettings(n_candidates=5))
    encoded = encode_features(encoded, trained.source.encoded_features, kb)
    arrays = trained.source.score_known(encoded, trained.tables(kb))
    tensors = trained.model.score_known(encoded, trained.tables(kb))
    assert (encoded.mask.sum(axis=1) > 1).any()
    # Vectors are kept in half precision, so their norms are only nearly one.
    np.testing.assert_allclose(arrays, tensors, atol=2e-3)


def test_models_are_told_from_documents(tmp_path):
    """By the ending, or by the first bytes where a model has another name."""
    untrained(small_kb()).save(tmp_path / "model.bin")
    (tmp_path / "text.txt").write_text("stamo-model is a word of this text")
    assert is_model(tmp_path / "missing.safetensors")
    assert is_model(tmp_path / "model.bin")
    assert not is_model(tmp_path / "text.txt")
    assert not is_model(tmp_path / "missing.txt")


def test_the_fingerprint_is_that_of_the_weights():
    kb = small_kb()
    assert without_training(kb).fingerprint == without_training(kb).fingerprint
    other = replace(without_training(kb), source=CountedScores(prior_weight=1.0))
    assert other.fingerprint != without_training(kb).fingerprint
