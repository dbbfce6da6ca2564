"""Views: the contract of all, and those of the text by hand."""

from dataclasses import replace

import numpy as np
import pytest

from stamo.corpus.types import Corpus, EmergingEntity
from stamo.features.base import View
from stamo.features.mentions import Surroundings
from stamo.features.views import Description, LongerName, NextWords, Sentence
from stamo.learning.learn import encode_pile
from stamo.models.correction import VIEWS
from stamo.models.store import open_encoder
from tests.features.by_hand import pile_of


@pytest.fixture(scope="module")
def pile(world, world_corpus, world_kb, world_model):
    entity = replace(world.emerging[0], description="a new thing that the documents speak of")
    about = [d for d in world_corpus if any(m.surface in entity.aliases for m in d.mentions)]
    corpus, encoder = Corpus(tuple(about[:40])), open_encoder(world_model, world_kb)
    return encode_pile([entity], corpus, world_kb, world_model, encoder=encoder)


def dense(rows):
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
class TestViews:
    """What every view must do."""

    def test_rows_are_finite_and_say_something(self, view, pile):
        """Each mention has one row; one of many columns has unit norm or is zero."""
        rows = dense(view.rows(pile))
        assert len(rows) == len(pile)
        assert np.isfinite(rows).all()
        norm = np.linalg.norm(rows, axis=1)
        assert rows.shape[1] <= 4 or np.all((np.abs(norm - 1) < 1e-6) | (norm < 1e-6))
        assert (norm > 0).any()

    def test_rows_depend_on_nothing_but_their_mention(self, view, pile):
        """The mentions of some documents have the same rows as among all of them."""
        some = np.flatnonzero(pile.mentions.documents % 3 == 0)
        whole = view.rows(pile)
        part = view.rows(pile.take(some))
        np.testing.assert_allclose(dense(part), dense(whole)[some], atol=1e-6)


def test_names_and_parts_are_distinct():
    """No two views share a group of θ(e*) or a name in explanations."""
    assert all(isinstance(view, View) and "-" not in view.name for view in VIEWS)
    assert len({view.name for view in VIEWS}) == len({v.part for v in VIEWS}) == len(VIEWS)


@pytest.mark.parametrize(
    "view", [v for v in VIEWS if type(v).terms is not View.terms], ids=lambda view: view.name
)
def test_named_terms_add_up_to_the_row(view, pile):
    """What explanations name is all that a view says of a mention."""
    rows = dense(pile.rows(view))
    named = set()
    for row in range(len(pile)):
        terms = view.terms(pile, row)
        total = np.sum([part for _, part in terms], axis=0) if terms else np.zeros(rows.shape[1])
        np.testing.assert_allclose(total, rows[row], atol=1e-5)
        named |= {name for name, _ in terms}
    assert named
    assert all(named)


TEXTS = (
    "Hurricane Sandy hit the coast.",
    "Sandy Hook is a place.",
    "We met Sandy in 2012.",
    "We met Sandy in 1999.",
)


class LetterEncoder:
    """Reads two numbers off a text: how often it says "coast" and "met"."""

    fingerprint = "0" * 16

    def encode(self, texts):
        rows = np.array([[t.count("coast") + 0.1, t.count("met") + 0.1] for t in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def encode_masked(self, texts, starts, ends):
        return self.encode(texts)


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
    rows = NextWords().rows(pile).toarray()
    words = pile.vocabularies["neighbours"]
    marked = {words[i] for i in np.flatnonzero(rows[0])}
    assert {"hurricane _", "_ hit", "<Capital> _", "_ <small>", "_ . the"} <= marked
    assert {words[i] for i in np.flatnonzero(rows[1])} >= {"_ hook", "_ <Capital>", "<edge> _"}
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)


def test_a_given_vocabulary_keeps_its_columns_and_the_norm():
    """Looked up with the words of a pack, a row has the same values in the same columns."""
    whole = sandy()
    rows = NextWords().rows(whole).toarray()
    words = whole.vocabularies["neighbours"]
    some = ("_ hit", "hurricane _", "never met")
    pile = sandy(vocabularies={"neighbours": some})
    small = NextWords().rows(pile).toarray()
    np.testing.assert_allclose(small[:, :2], rows[:, [words.index(w) for w in some[:2]]])
    assert not small[:, 2].any()


def test_without_text_or_encoder_a_view_has_no_columns():
    """A pile of numbers only is learned by the other views."""
    pile = replace(sandy(), text=None)
    assert NextWords().rows(pile).shape == (4, 0)
    assert Sentence().rows(sandy()).shape == (4, 0)
    nameless = sandy(name="Sandy")
    assert Description().rows(nameless).shape == (4, 0)


@pytest.mark.parametrize(("about", "name"), [("coast", "Sandy"), ("", "Sandy (coast)")])
def test_a_description_is_compared_with_the_window(about, name):
    """The likeness of the encoder, four times; without a description the brackets are compared."""
    pile = replace(sandy(about=about, name=name, encoder=LetterEncoder()), kb=_Words())
    likeness, near = Description().rows(pile).T
    read = LetterEncoder().encode([*TEXTS, "coast"])
    np.testing.assert_allclose(likeness, 4 * read[:4] @ read[4], atol=1e-6)
    np.testing.assert_allclose(near, [1, 0, 0, 0])  # no text says a word as rare


def test_without_an_encoder_words_are_compared():
    """A word that no vector knows has no likeness, but counts where a text says it."""
    pile = replace(sandy(about="the coast", name="Sandy"), kb=_Words())
    likeness, near = Description().rows(pile).T
    assert not likeness.any()
    assert near[0] > 0
    assert not near[1:].any()


def test_a_sentence_is_its_masked_window():
    """One unit row a mention, as the encoder reads it."""
    rows = Sentence().rows(sandy(encoder=LetterEncoder()))
    np.testing.assert_allclose(rows, LetterEncoder().encode(TEXTS))


def test_the_whole_name_speaks_for_the_entity_and_another_name_against_it():
    """Inside "Hurricane Sandy", in a document that says it elsewhere, inside "Sandy Hook"."""
    texts = (*TEXTS[:3], "Sandy came. That was HURRICANE  SANDY.", "The Sandys.")
    pile = replace(sandy(texts, name="Hurricane Sandy"), kb=_Words())
    said, another = LongerName().rows(pile).T
    np.testing.assert_allclose(said, [1, 0, 0, 0.5, 0])
    np.testing.assert_array_equal(another != 0, [False, True, False, False, True])


def test_a_name_without_case_is_found_with_what_is_written_on_to_it():
    """Korean particles follow a name without a space; a cased name must end with its word."""
    texts = ("서울시청은 크다. Sandy", "Sandy Perryman")
    for name in ("서울시청", "Sandy (hurricane)"):  # no alias is a part of the name
        pile = replace(sandy(texts, name=name), kb=_Words())
        assert LongerName().rows(pile)[:, 0].tolist() == [0.0, 0.0]
    entity = EmergingEntity("서울시청", ("시청",))
    korean = replace(pile, entities=(entity,))
    assert LongerName().rows(korean)[:, 0].tolist() == [0.5, 0.0]
    perry = replace(sandy(texts, name="Sandy Perry"), kb=_Words())
    assert not LongerName().rows(perry)[:, 0].any()


class _Words(type(pile_of([(0, "Star", (0, 1), (-1,))]).kb)):
    """The hand-made knowledge base, seen as one that can find words."""

    dimensions = 2
    language = "en"

    @property
    def words(self):
        return self

    def find_many(self, words):
        return np.full(len(words), -1, dtype=np.int32)
