"""Text in, entities out: decisions, explanations, bad input."""

import numpy as np
import pytest

from stamo.corpus.types import Document, Mention
from stamo.errors import ArtifactMismatchError, SettingsError
from stamo.linking.detect import DetectionSettings
from stamo.linking.linker import Linker, LinkerSettings
from stamo.linking.names import known_names
from stamo.models.store import TrainedModel
from tests.linking.small import DeepED, Yamada, small_kb, untrained

ALL = DetectionSettings(least_link_probability=0.0, least_link_probability_small=0.0)


def make_linker(kind=DeepED, **settings):
    kb = small_kb()
    return Linker(kb, untrained(kb, kind), settings=LinkerSettings(detection=ALL, **settings))


@pytest.fixture(scope="module")
def linker():
    return make_linker()


def test_link_gives_spans_entities_and_confidence(linker):
    """Each mention carries its span, its entity, a confidence and the runner-up."""
    text = "Java lies in Indonesia."
    java, indonesia = linker.link(text)
    assert (java.surface, java.start, java.end) == ("Java", 0, 4)
    assert text[indonesia.start : indonesia.end] == "Indonesia"
    assert java.entity in {"Java", "Java (language)"}
    assert {java.entity, java.runner_up.entity} == {"Java", "Java (language)"}
    assert 0.0 <= java.runner_up.confidence <= java.confidence <= 1.0
    assert indonesia.runner_up is None


def test_what_is_remembered_of_words_is_bounded(monkeypatch):
    """Neither many words nor endless ones stay in memory; what they are is still found out."""
    monkeypatch.setattr("stamo.linking.batch.MAX_CACHED_WORDS", 5)
    linker = make_linker()
    endless = "x" * 1000
    linker.link(f"Java lies in {endless} Indonesia.")
    assert 0 < len(linker.words) <= 5
    assert endless not in linker.words
    linker.link(" ".join(f"word{i}" for i in range(30)))
    assert len(linker.words) == 5
    assert linker.words["word29"] == linker.words[endless] == -1


@pytest.mark.parametrize("text", ["", "   ", "... !!! ?", "\u200f\u200e", "\x00\x01\x02\x03"])
def test_texts_without_names(linker, text):
    """Empty text, punctuation and control characters give no mention and no error."""
    assert linker.link(text) == []


def test_threshold_gives_nil():
    """Below the threshold a mention stays, with its candidates, but without an entity."""
    (mention,) = make_linker(threshold=1.0).link("on Java")
    assert mention.entity is None
    assert mention.candidates


def test_one_pass_links_by_prior():
    """With one pass the candidate with the highest prior wins, and the prior is the confidence."""
    (mention,) = make_linker(n_passes=1).link("code in Java")
    priors = [candidate.prior for candidate in mention.candidates]
    assert priors == sorted(priors, reverse=True)
    assert mention.confidence == pytest.approx(priors[0])


def test_given_mentions_are_linked_as_given(linker):
    """Given spans are used, also where detection finds nothing, and their entities are ignored."""
    text = "the island of JAVA's coast"
    mention = Mention("JAVA's", 14, 20, "Wrong")
    (linked,) = linker.link_documents([Document("a", text, (mention,))])
    assert [m.surface for m in linked.mentions] == ["JAVA's"]
    assert linked.mentions[0].entity in {"Java", "Java (language)"}


def test_unknown_surface_is_nil(linker):
    """A given mention that no name fits has no entity and no candidate."""
    (linked,) = linker.link_documents([Document("a", "Zork ran", (Mention("Zork", 0, 4),))])
    assert linked.mentions[0].entity is None
    assert linked.mentions[0].candidates == ()
    assert linked.mentions[0].confidence == 0.0


def test_a_bad_document_does_not_harm_its_batch(linker):
    """Overlapping mentions or wrong surfaces are an error of that document alone."""
    overlapping = Document("bad", "New York", (Mention("New York", 0, 8), Mention("York", 4, 8)))
    wrong = Document("wrong", "Java", (Mention("Jav", 0, 4),))
    good = Document("good", "on Java")
    first, second, third = linker.link_documents([overlapping, wrong, good])
    assert "overlapping mentions at 0-8 and 4-8" in first.error
    assert "count the offsets" in second.error
    assert third.error is None
    assert len(third.mentions) == 1


def test_batching_changes_nothing(linker):
    """Documents linked together give what each gives alone."""
    texts = ["Java and Sumatra", "", "code in Java on C++", "New York, 東京"]
    together = list(linker.link_documents([Document(str(i), t) for i, t in enumerate(texts)]))
    for linked, text in zip(together, texts, strict=True):
        alone = linker.link(text)
        assert [m.entity for m in linked.mentions] == [m.entity for m in alone]
        assert [m.confidence for m in linked.mentions] == pytest.approx(
            [m.confidence for m in alone], abs=1e-5
        )


def test_long_text_is_linked_in_windows():
    """A text beyond the window gives the mentions at their offsets in the whole text."""
    linker = make_linker(window=1000)
    text = "Java is an island near Sumatra. " * 200
    (linked,) = linker.link_documents([Document("long", text)])
    assert linked.text == text
    assert len(linked.mentions) == 400
    assert all(text[m.start : m.end] == m.surface for m in linked.mentions)


def test_decomposed_given_mention(linker):
    """A given span in NFD text finds the composed name."""
    text = "in Sa\u0303o Paulo"
    (linked,) = linker.link_documents([Document("a", text, (Mention(text[3:], 3, len(text)),))])
    assert linked.mentions[0].entity == "São Paulo"
    assert linked.mentions[0].surface == text[3:]


@pytest.mark.parametrize("kind", [DeepED, Yamada])
def test_explanation_adds_up(kind):
    """Explaining changes no decision; each part is the lead that levelling its score takes away."""
    plain, explained = make_linker(kind), make_linker(kind, explain=True)
    text = "Java is a programming language with code of Sun Microsystems"
    for mention, other in zip(plain.link(text), explained.link(text), strict=True):
        assert mention.entity == other.entity
        assert mention.confidence == pytest.approx(other.confidence, abs=1e-5)
    java = explained.link(text)[0]
    assert len(java.why) == (4 if kind is DeepED else 6)
    psi = np.array([[c.best for c in java.why], [c.runner_up for c in java.why]], np.float32)
    combine = explained.trained.model.combine
    scores = combine(psi)
    assert float(scores[0]) == pytest.approx(java.candidates[0].score, abs=1e-4)
    for k, part in enumerate(java.why):
        levelled = psi.copy()
        levelled[:, k] = psi[:, k].mean()
        other = combine(levelled)
        lead = (scores[0] - scores[1]) - (other[0] - other[1])
        assert part.lead == pytest.approx(float(lead), abs=1e-4)


def test_model_of_another_knowledge_base():
    """A model that was trained with another knowledge base is refused."""
    kb = small_kb()
    foreign = TrainedModel(DeepED(kb.dimensions), kb.dimensions, "0" * 64)
    with pytest.raises(ArtifactMismatchError, match="train again"):
        Linker(kb, foreign)


def test_settings_are_checked():
    """Settings outside their range are refused with a sentence."""
    for wrong in ({"threshold": 2.0}, {"n_passes": 0}, {"window": 10}, {"max_candidates": 0}):
        with pytest.raises(SettingsError):
            LinkerSettings(**wrong)


def test_surfaces_fall_back_to_known_names():
    """Possessives, quotes, articles and case lead to the known name; unknown ones stay."""
    surfaces = ["Java's", '"Sumatra"', "the Indonesia", "NEW YORK", "o’neill", "Zork"]
    expected = ["Java", "Sumatra", "Indonesia", "New York", "O'Neill", "Zork"]
    assert known_names(small_kb(), surfaces) == expected


def test_half_a_character_in_a_given_mention_names_nothing():
    """A surface with a lone surrogate is unknown; its document and the others are linked."""
    kb = small_kb()
    linker = Linker(kb, untrained(kb))
    given = (Mention("Ja\ud800va", 0, 5), Mention("Java", 10, 14))
    odd = Document("odd", "Ja\ud800va and Java", given)
    first, second = linker.link_documents([odd, Document("good", "Java is an island.")])
    assert [m.entity for m in first.mentions] == [None, "Java"]
    assert second.mentions
