"""Every view passes the shared contract."""

import numpy as np
import pytest
from scipy import sparse

from stamo.corpus.types import Corpus
from stamo.features.views import VIEWS
from stamo.features.views.base import View, combined, group_of, products, unit_rows, view_mentions
from stamo.learning.learn import encode_pile


@pytest.fixture(scope="module")
def pile(world, world_corpus, world_kb, world_model):
    entity = world.emerging[0]
    about = [d for d in world_corpus if any(m.surface in entity.aliases for m in d.mentions)]
    return encode_pile([entity], Corpus(tuple(about[:40])), world_kb, world_model).pile


def dense(rows):
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
class TestViews:
    """What every view must do."""

    def test_is_a_view(self, view):
        """It has a name, a part and a prior."""
        assert isinstance(view, View)
        assert view.variance >= 0

    def test_rows_are_at_unit_norm_or_zero(self, view, pile, world_kb):
        """Each mention has one row of finite numbers; some of them say something."""
        rows = dense(view.rows(pile, world_kb))
        assert len(rows) == len(pile)
        norm = np.linalg.norm(rows, axis=1)
        assert np.all((np.abs(norm - 1) < 1e-6) | (norm < 1e-6))
        assert (norm > 0.5).any()

    def test_rows_depend_on_nothing_but_their_mention(self, view, pile, world_kb):
        """Some of the mentions have the same rows as among all of them."""
        some = np.arange(0, len(pile), 3)
        whole, part = (view.rows(p, world_kb) for p in (pile, pile.take(some)))
        np.testing.assert_allclose(dense(part), dense(whole)[some], atol=1e-6)


def test_names_and_parts_are_distinct():
    """No two views share a group of θ(e*) or a name in explanations."""
    assert len({group_of(view) for view in VIEWS}) == len({v.part for v in VIEWS}) == len(VIEWS)


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
