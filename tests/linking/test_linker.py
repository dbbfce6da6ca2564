"""Text in, entities out: decisions, explanations, bad input."""

import pickle

import numpy as np
import pytest

from stamo.corpus.reading import Chunk, Unreadable
from stamo.corpus.types import Document, Mention
from stamo.errors import ArtifactMismatchError, SettingsError
from stamo.linking.linker import Linker, LinkerSettings, batched, map_batches
from stamo.models.store import TrainedModel
from tests.linking.small import DeepED, Yamada, small_kb, untrained


def make_linker(kind=DeepED, **settings):
    kb = small_kb()
    return Linker(
        kb, untrained(kb, kind), settings=LinkerSettings(link_probability=0.0, **settings)
    )


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


@pytest.mark.parametrize("text", ["", "   ", "... !!! ?", "\u200f\u200e", "\x00\x01\x02\x03"])
def test_texts_without_names(linker, text):
    """Empty text, punctuation and control characters give no mention and no error."""
    assert linker.link(text) == []


def test_threshold_and_unknown_names_give_nil(linker):
    """Below the threshold a mention stays, with its candidates; an unknown name has none."""
    (mention,) = make_linker(threshold=1.0).link("on Java")
    assert mention.entity is None
    assert mention.candidates
    (linked,) = linker.link_documents([Document("a", "Zork ran", (Mention("Zork", 0, 4),))])
    (unknown,) = linked.mentions
    assert (unknown.entity, unknown.candidates, unknown.confidence) == (None, (), 0.0)


def test_one_pass_links_by_prior():
    """With one pass the candidate with the highest prior wins, and the prior is the confidence."""
    (mention,) = make_linker(n_passes=1).link("code in Java")
    priors = [candidate.prior for candidate in mention.candidates]
    assert priors == sorted(priors, reverse=True)
    assert mention.confidence == pytest.approx(priors[0])


@pytest.mark.parametrize(
    ("text", "surface", "entities"),
    [
        # Also where detection finds nothing; the entity that a document gives is ignored.
        ("the island of JAVA's coast", "JAVA's", {"Java", "Java (language)"}),
        # A given span in NFD text finds the composed name.
        ("in Sa\u0303o Paulo", "Sa\u0303o Paulo", {"São Paulo"}),
        # A surface with half a character is unknown.
        ("Ja\ud800va is an island", "Ja\ud800va", {None}),
    ],
)
def test_given_mentions_are_linked_as_given(linker, text, surface, entities):
    start = text.index(surface)
    given = Mention(surface, start, start + len(surface), "Wrong")
    (linked,) = linker.link_documents([Document("a", text, (given,))])
    assert [m.surface for m in linked.mentions] == [surface]
    assert linked.mentions[0].entity in entities


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
    for wrong in ({"threshold": 2.0}, {"n_passes": 0}, {"window": 10}, {"link_probability": 1.5}):
        with pytest.raises(SettingsError, match=r"from 0 to 1|at least one|too little"):
            LinkerSettings(**wrong)


@pytest.mark.parametrize("explain", [False, True])
def test_records_need_no_values(explain):
    """Short records come from the columns of a batch and are those of the values."""
    linker = make_linker(threshold=0.3, explain=explain)
    texts = ["Java and Sumatra, York", "nothing", "the code of Java in New York"]
    for linked in linker.link_batch([Chunk(Document(t, t)) for t in texts]):
        values = [m.to_record(all_candidates=False) for m in linked.mentions]
        assert linked.to_record(all_candidates=False)["mentions"] == values
        assert all(("why" in value) == explain for value in values)
        assert pickle.loads(pickle.dumps(linked)) == linked


def test_workers_change_nothing():
    """Two processes give the records of one, in the same order, bad documents among them."""
    linker = make_linker(batch_size=3)
    sources = [Chunk(Document(str(i), "Java and Sumatra " * i)) for i in range(14)]
    sources.insert(5, Unreadable("bad", "it is bad"))
    alone, together = (
        [one.to_record() for batch in batches for one in batch]
        for batches in (map_batches(linker.link_batch, sources, linker.settings, n) for n in (1, 2))
    )
    assert together == alone
    assert alone[5] == {"id": "bad", "error": "it is bad"}
    assert [r["id"] for r in alone[:5]] == list("01234")


def test_batches_are_bounded_by_characters():
    """A batch ends when it has enough documents or enough characters."""
    parts = [Chunk(Document(str(i), "x" * 500)) for i in range(9)]
    assert [len(batch) for batch in batched(parts, 4, 1000)] == [4, 4, 1]
    assert [len(batch) for batch in batched(parts, 100, 500)] == [2, 2, 2, 2, 1]
