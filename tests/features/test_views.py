"""Every view passes the shared contract."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from stamo.features.views import VIEWS
from stamo.learning.correction import combined, products

from stamo.corpus.types import Corpus
from stamo.features.base import View, unit_rows, view_mentions
from stamo.features.encoder import INSTALLED, encoder_of
from stamo.features.views_names import _read
from stamo.learning.learn import encode_pile


@pytest.fixture(scope="module")
def pile(world, world_corpus, world_kb, world_model):
    entity = replace(world.emerging[0], description="a new thing that the documents speak of")
    about = [d for d in world_corpus if any(m.surface in entity.aliases for m in d.mentions)]
    corpus, encoder = Corpus(tuple(about[:40])), encoder_of(INSTALLED)
    return encode_pile([entity], corpus, world_kb, world_model, encoder=encoder).pile


def dense(rows):
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
class TestViews:
    """What every view must do."""

    def test_is_a_view(self, view):
        """It has a name, a part and a prior."""
        assert isinstance(view, View)
        assert view.variance >= 0

    def test_rows_are_finite_and_say_something(self, view, pile, world_kb):
        """Each mention has one row; at unit norm or zero, but for a likeness, which is a number."""
        rows = dense(view.rows(pile, world_kb))
        assert len(rows) == len(pile)
        assert np.isfinite(rows).all()
        norm = np.linalg.norm(rows, axis=1)
        assert view.mean or np.all((np.abs(norm - 1) < 1e-6) | (norm < 1e-6))
        assert (norm > 0).any()

    def test_rows_depend_on_nothing_but_their_mention(self, view, pile, world_kb):
        """The mentions of some documents have the same rows as among all of them."""
        some = np.flatnonzero(pile.mentions.documents % 3 == 0)
        whole = view.rows(pile, world_kb)
        words = {v.name: pile.vocabulary(v.name) for v in VIEWS if v.has_vocabulary}
        part = view.rows(replace(pile.take(some), vocabularies=words), world_kb)
        np.testing.assert_allclose(dense(part), dense(whole)[some], atol=1e-6)


def test_names_and_parts_are_distinct():
    """No two views share a group of θ(e*) or a name in explanations."""
    assert len({view.name for view in VIEWS}) == len({v.part for v in VIEWS}) == len(VIEWS)


def test_views_are_computed_once(pile, world_kb):
    """A pile keeps its views."""
    first, second = (view_mentions(pile, world_kb, VIEWS) for _ in range(2))
    assert all(first[name] is second[name] for name in first)


def test_sparse_and_dense_rows_count_alike():
    """Products and sums of rows do not depend on how the rows are stored."""
    rng = np.random.default_rng(0)
    rows = unit_rows(rng.standard_normal((5, 3)))
    for view in (rows, sparse.csr_matrix(rows)):
        np.testing.assert_allclose(products(view, view, 2.0), 2 * rows @ rows.T)
        np.testing.assert_allclose(combined(view, np.arange(5.0), 2.0), 2 * np.arange(5) @ rows)


@pytest.mark.parametrize(
    "view", [v for v in VIEWS if type(v).terms is not View.terms], ids=lambda view: view.name
)
def test_named_terms_add_up_to_the_row(view, pile, world_kb):
    """What explanations name is all that a view says of a mention."""
    rows = dense(view_mentions(pile, world_kb, (view,))[view.name])
    named = set()
    for row in range(len(pile)):
        terms = view.terms(pile, world_kb, row)
        total = np.sum([part for _, part in terms], axis=0) if terms else np.zeros(rows.shape[1])
        np.testing.assert_allclose(total, rows[row], atol=1e-5)
        named |= {name for name, _ in terms}
    assert named
    assert all(named)


def test_marks_read_as_words():
    """What stands next to a name is told with its side."""
    assert _read("heavy _") == "“heavy” before it"
    assert _read("_ . crest") == "“crest” two words after it"
    assert _read("<Capital> _") == "a capital before it"
    assert _read("_ <edge>") == "nothing after it"
