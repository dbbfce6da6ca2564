"""Views that read the text, on mentions small enough to check by hand."""

from dataclasses import replace

import numpy as np
import pytest

from stamo.corpus.types import EmergingEntity
from stamo.features.mentions import Surroundings
from stamo.features.views_context import About, Sentence
from stamo.features.views_names import LongerName, NextWords
from tests.features.by_hand import pile_of

TEXTS = (
    "Hurricane Sandy hit the coast.",
    "Sandy Hook is a place.",
    "We met Sandy in 2012.",
    "We met Sandy in 1999.",
)


class LetterEncoder:
    """Reads two numbers off a text: how often it says "coast" and "met"."""

    fingerprint = "0" * 16
    languages = frozenset({"en"})

    def encode(self, texts):
        rows = np.array([[t.count("coast") + 0.1, t.count("met") + 0.1] for t in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def encode_spans(self, texts, starts, ends):
        return self.encode(texts), self.encode(
            [t[s:e] for t, s, e in zip(texts, starts, ends, strict=True)]
        )


def sandy(texts=TEXTS, about="", encoder=None, name="Sandy (hurricane)", **text):
    entity = EmergingEntity(name, ("Sandy",), about)
    mentions = [(d, "Sandy", (0, 1), (-1,)) for d in range(len(texts))]
    pile = pile_of(mentions, entities=(entity,), n_documents=len(texts))
    starts = np.array([t.index("Sandy") for t in texts], dtype=np.int32)
    documents = np.arange(len(texts), dtype=np.int32)
    surroundings = Surroundings(texts, documents, starts, starts + np.int32(5))
    return replace(pile, text=surroundings, encoder=encoder, **text)


def test_the_words_next_to_a_name_are_columns():
    """Each mention marks the words beside it and their kinds; rows have unit norm."""
    pile = sandy()
    rows = NextWords().rows(pile, pile.kb).toarray()
    words = pile.vocabulary("neighbours")
    marked = {words[i] for i in np.flatnonzero(rows[0])}
    assert {"hurricane _", "_ hit", "<Capital> _", "_ <small>", "_ . the"} <= marked
    assert {words[i] for i in np.flatnonzero(rows[1])} >= {"_ hook", "_ <Capital>", "<edge> _"}
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)


def test_a_given_vocabulary_keeps_its_columns_and_the_norm():
    """Looked up with the words of a pack, a row has the same values in the same columns."""
    whole = sandy()
    rows = NextWords().rows(whole, whole.kb).toarray()
    words = whole.vocabulary("neighbours")
    some = ("_ hit", "hurricane _", "never met")
    pile = sandy(vocabularies={"neighbours": some})
    small = NextWords().rows(pile, pile.kb).toarray()
    np.testing.assert_allclose(small[:, :2], rows[:, [words.index(w) for w in some[:2]]])
    assert not small[:, 2].any()


def test_without_text_or_encoder_a_view_has_no_columns():
    """A pile of numbers only is learned by the other views."""
    pile = replace(sandy(), text=None)
    assert NextWords().rows(pile, pile.kb).shape == (4, 0)
    assert Sentence().rows(sandy(), pile.kb).shape == (4, 0)
    nameless = sandy(name="Sandy")
    assert About().rows(nameless, nameless.kb).shape == (4, 0)


def test_without_a_line_the_brackets_speak_by_half():
    """What stands in brackets behind the name is a line that counts less."""
    encoder = LetterEncoder()
    written = replace(sandy(about="coast", encoder=encoder, name="Sandy"), kb=_Words())
    rows = About().rows(written, written.kb)
    named = replace(sandy(encoder=encoder, name="Sandy (coast)"), kb=_Words())
    np.testing.assert_allclose(About().rows(named, named.kb), 0.5 * rows)
    np.testing.assert_allclose(About(by_name=1.0).rows(named, named.kb), rows)


def test_brackets_of_unknown_words_say_nothing():
    """Without an encoder a word that no vector knows neither speaks for a mention nor against."""
    named = replace(sandy(name="Sandy (qwxyz)"), kb=_Words())
    assert About().rows(named, named.kb).shape == (4, 0)
    written = replace(sandy(about="qwxyz", name="Sandy"), kb=_Words())
    assert not About().rows(written, written.kb).any()


def test_sentences_are_three_readings_side_by_side():
    """The window, the words near the mention, and the phrase alone: unit rows of three times d."""
    pile = sandy(encoder=LetterEncoder())
    rows = Sentence().rows(pile, pile.kb)
    assert rows.shape == (4, 6)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    assert rows[2] @ rows[3] > rows[2] @ rows[0]


@pytest.mark.parametrize("encoder", [None, LetterEncoder()])
def test_a_word_of_the_line_beside_the_name_speaks_for_it(encoder):
    """Of all mentions "Hurricane Sandy" is most like the line, with and without an encoder."""
    pile = sandy(about="a Hurricane at the coast", encoder=encoder)
    pile = replace(pile, kb=_Words())
    (column,) = About().rows(pile, pile.kb).T
    assert column.argmax() == 0
    assert column[0] - column[2] > 0.12  # one rare word beside the name, in any encoder


def test_the_whole_name_speaks_for_the_entity_and_another_name_against_it():
    """Inside "Hurricane Sandy", in a document that says it elsewhere, inside "Sandy Hook"."""
    texts = (*TEXTS[:3], "Sandy came. That was HURRICANE  SANDY.", "The Sandys.")
    pile = replace(sandy(texts, name="Hurricane Sandy"), kb=_Words())
    said, another = LongerName().rows(pile, pile.kb).T
    np.testing.assert_allclose(said, [1, 0, 0, 0.5, 0])
    np.testing.assert_array_equal(another != 0, [False, True, False, False, True])
    assert (another <= 0).all()


def test_a_name_that_no_alias_shortens_says_nothing():
    """What stands in brackets is not a part of the name as texts write it."""
    pile = replace(sandy(), kb=_Words())
    said, _ = LongerName().rows(pile, pile.kb).T
    assert not said.any()


def test_a_name_without_case_is_found_with_what_is_written_on_to_it():
    """Korean particles follow a name without a space; a cased name must end with its word."""
    texts = ("서울시청은 크다. Sandy", "Sandy Perryman")
    korean = replace(sandy(texts, name="서울시청"), kb=_Words())
    assert LongerName().rows(korean, korean.kb)[:, 0].tolist() == [0.0, 0.0]  # no shorter alias
    entity = EmergingEntity("서울시청", ("시청",))
    korean = replace(korean, entities=(entity,))
    assert LongerName().rows(korean, korean.kb)[:, 0].tolist() == [0.5, 0.0]
    perry = replace(sandy(texts, name="Sandy Perry"), kb=_Words())
    assert not LongerName().rows(perry, perry.kb)[:, 0].any()


class _Words(type(pile_of([(0, "Star", (0, 1), (-1,))]).kb)):
    """The hand-made knowledge base, seen as one that can find words."""

    dimensions = 2
    language = "en"

    @property
    def words(self):
        return self

    def find_many(self, words):
        return np.full(len(words), -1, dtype=np.int32)


class Spans(list):
    """Places that may be looked up and not gone through."""

    def __iter__(self):
        raise AssertionError("every mention would look at every place")


def test_a_name_among_many_is_looked_up():
    """A text that says the whole name a thousand times takes no million steps."""
    view, spans = LongerName(), Spans((10 * i, 10 * i + 8) for i in range(1000))
    assert view._weight(5000, 5003, spans) == 1.0
    assert view._weight(5005, 5008, spans) == 1.0
    assert view._weight(5007, 5010, spans) == view.elsewhere
    assert view._weight(3, 4, Spans([(5, 8)])) == view.elsewhere
    assert view._weight(3, 4, Spans()) == 0.0
