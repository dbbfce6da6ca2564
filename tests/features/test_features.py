"""Prior, relatedness, embedding and surface similarity: the contract of all, and each by hand."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
from scipy import sparse

import stamo.features
from stamo.corpus.types import EmergingEntity
from stamo.features.base import Feature, View, encode_features
from stamo.features.embedding import Contexts, Embedding, MaxMargin
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.models.correction import VIEWS
from stamo.models.yamada import Surface, surface_similarities
from tests.contracts import FeatureContract, implementations
from tests.features.by_hand import A, B, C, FiveDocuments, label, pile_of, star


class TestPrior(FeatureContract):
    feature = Prior()


class TestPriorAsPrinted(FeatureContract):
    feature = Prior(smoothing=0.0, renormalise=False)


class TestRelatedness(FeatureContract):
    feature = Relatedness()


class TestEmbedding(FeatureContract):
    feature = Embedding()


class TestMaxMarginEmbedding(FeatureContract):
    feature = Embedding(max_margin=MaxMargin(n_epochs=3))


class TestSurface(FeatureContract):
    feature = Surface()
    learns = False


def test_every_feature_has_a_contract_test():
    """A feature in any file of `stamo.features` without a contract test is found here."""
    tested = {type(test.feature) for test in FeatureContract.__subclasses__()}
    found = implementations(stamo.features, Feature)
    assert {kind for kind in found if not issubclass(kind, View)} <= tested
    assert {kind for kind in found if issubclass(kind, View)} == {type(view) for view in VIEWS}


KB = FiveDocuments()
PRINTED_PRIOR = Prior(smoothing=0.0, renormalise=False)


@pytest.mark.parametrize(
    ("prior", "weights", "counted", "expected"),
    [
        (PRINTED_PRIOR, [1, 1, 1, 0], None, [3 / 4, 0.0]),  # the share of the documents
        (Prior(), [1, 1, 1, 0], None, [(3 + 2 / 3) / 5, 2 / 3]),  # a vote at (3 + 1) / (4 + 2)
        (Prior(smoothing=2.0), [1, 1, 1, 0], None, [(3 + 4 / 3) / 6, 2 / 3]),
        (PRINTED_PRIOR, [1] * 4, None, [1, 0.0]),  # labels of one kind reach the border
        (Prior(), [1] * 4, None, [(4 + 5 / 6) / 5, 5 / 6]),  # but not with smoothing
        (Prior(), [0] * 4, None, [(1 / 6) / 5, 1 / 6]),
        (PRINTED_PRIOR, [1, 0, 0, 0], [1, 1, 0, 0], [1 / 2, 0.0]),  # only S_web votes
        (PRINTED_PRIOR, [1, 0.5, 0, 0], None, [1.5 / 4, 0.0]),  # half a vote
    ],
)
def test_the_prior_counts_documents(prior, weights, counted, expected):
    """Four documents say "Star"; none says "The Star" (Eq. 2)."""
    pile = pile_of([star(d) for d in range(4)])
    assert prior.estimate(label(pile, weights, counted))[0].tolist() == pytest.approx(expected)


def test_a_document_that_repeats_the_name_has_one_vote():
    """Three mentions in document 0 are one vote against that of document 1."""
    pile = pile_of([star(0), star(0), star(0), star(1)])
    assert PRINTED_PRIOR.estimate(label(pile, [1, 1, 1, 0]))[0, 0] == pytest.approx(1 / 2)


def values(prior, *rows, entities=None):
    pile = pile_of([star(0)], **({} if entities is None else {"entities": entities}))
    return prior.values({"prior": np.array(rows, dtype=np.float32)}, pile)[0].tolist()


@pytest.mark.parametrize(
    ("prior", "theta", "expected"),
    [
        (Prior(), 0.25, [0.45, 0.3, 0.0, 0.25]),  # the others share what is left
        (PRINTED_PRIOR, 0.25, [0.6, 0.4, 0.0, 0.25]),  # Eq. 2 leaves them as they are
        (Prior(), 0.0, [0.6, 0.4, 0.0, 0.0]),
        (Prior(), 1.7, [0.0, 0.0, 0.0, 1.0]),  # steps may carry θ beyond 0 and 1
        (Prior(), -0.3, [0.6, 0.4, 0.0, 0.0]),
    ],
)
def test_priors_of_all_candidates(prior, theta, expected):
    """Known candidates have 0.6 and 0.4 of the name; padding stays 0."""
    assert values(prior, [theta, 0.9]) == pytest.approx(expected)


def test_entities_of_one_alias_share_one_mention():
    """Two that claim 0.8 and 0.7 get 8/15 and 7/15; one that does not have the alias nothing."""
    names = (("1", "Star"), ("2", "Star"), ("3", "Moon"))
    first, second, other = (EmergingEntity(name, (alias,)) for name, alias in names)
    found = values(Prior(), [0.8], [0.7], entities=(first, second))
    assert found[3:] == pytest.approx([8 / 15, 7 / 15])
    found = values(Prior(), [0.5, 0.0], [0.9, 0.5], entities=(first, other))
    assert found[3:] == pytest.approx([0.5, 0.0])


PRINTED_RELATEDNESS = Relatedness(match_pile=False, shrinkage=0.0, missing="zero")
A_AND_B = 1 - (log(3) - log(2)) / (log(5) - log(3))
"""A is in documents 0, 1, 2 and B in 1, 2, 3 of five: two are shared."""


def test_known_candidates_average_over_the_context():
    """C shares nothing with A; padding counts nothing, repetition twice, and no context is 0."""
    contexts = [(B, C, -1), (B, B, C), (B, -1, -1), (A, -1, -1), (-1, -1, -1)]
    pile = pile_of([star(d, context=c) for d, c in enumerate(contexts)], candidates=(A, -1))
    found = Relatedness().known(pile.mentions, KB)
    assert round(A_AND_B, 4) == 0.2063
    assert found[:, 0] == pytest.approx([A_AND_B / 2, 2 / 3 * A_AND_B, A_AND_B, 1.0, 0.0])
    assert not found[:, 1].any()


def wlm(n_a, n_b, n_joint, n):
    """Eq. 3 as we read it."""
    return 1 - (log(max(n_a, n_b)) - log(n_joint)) / (log(n) - log(min(n_a, n_b)))


@pytest.mark.parametrize(
    ("feature", "linked_in", "weights", "counted", "expected"),
    [
        # B is in 3 + 3 of 5 + 5 documents, e* in 3, both in 2.
        (PRINTED_RELATEDNESS, {1, 2, 3}, [1, 1, 1, 0, 0], None, wlm(3, 6, 2, 10)),
        # A document at independence: (2 + .6) / (3 + 1) of the three of e*.
        (Relatedness(False, 1.0), {1, 2, 3}, [1, 1, 1, 0, 0], None, wlm(3, 6, 1.95, 10)),
        (Relatedness(), {3, 4}, [1, 1, 1, 0, 0], None, 0.0),  # they never meet
        (PRINTED_RELATEDNESS, {3, 4}, [1, 1, 1, 0, 0], None, 0.0),
        # Two of four documents are counted: each stands for two, or as printed for one.
        (Relatedness(shrinkage=0.0), {0, 1}, [1, 1, 0, 0], [1, 1, 0, 0], wlm(4, 7, 4, 9)),
        (PRINTED_RELATEDNESS, {0, 1}, [1, 1, 0, 0], [1, 1, 0, 0], wlm(2, 5, 2, 7)),
    ],
)
def test_e_star_is_related_by_the_documents_it_shares(
    feature, linked_in, weights, counted, expected
):
    """All documents say the name and some link B; the knowledge base is the background."""
    n = len(weights)
    pairs = [(d, B) for d in linked_in]
    pile = pile_of([star(d) for d in range(n)], pairs=pairs, n_documents=n)
    found = feature.estimate(label(pile, weights, counted))
    assert found.tolist() == [[pytest.approx(expected, abs=1e-6)]]


@pytest.mark.parametrize(("missing", "expected"), [("ignore", 0.5), ("zero", 0.25)])
def test_an_entity_that_the_pile_never_links(missing, expected):
    """C has no place in the row of e*: it is unknown, or as printed unrelated."""
    pile = pile_of([star(0, context=(B, C, -1)), star(1, context=(C, -1, -1))], pairs=[(0, B)])
    known = {**pile.mentions.known, "relatedness": np.zeros((2, 3), dtype=np.float32)}
    pile = replace(pile, mentions=replace(pile.mentions, known=known))
    theta = {"relatedness": np.array([[0.5]], dtype=np.float32)}
    found = Relatedness(missing=missing).values(theta, pile)
    assert found[:, 3].tolist() == pytest.approx([expected, 0.0])


RED, STAR, MOON = 0, 1, 2
HALF = 0.5**0.5


def vector(contexts, weights, kb=KB, feature=Embedding()):
    pile = pile_of([star(d, words=w) for d, w in enumerate(contexts)], kb)
    return feature.estimate(label(pile, weights))[0].tolist()


@pytest.mark.parametrize(
    ("contexts", "weights", "n_words", "expected"),
    [
        ([(RED, STAR), (MOON, MOON)], [1, 0], 50, [HALF, HALF]),  # the unit mean of its words
        ([(RED, -1), (STAR, -1)], [1, 0.5], 50, [2 / 5**0.5, 1 / 5**0.5]),  # soft labels weigh
        ([(RED, STAR)], [0], 50, [0.0, 0.0]),  # nothing counted
        ([(-1, -1)], [1], 50, [0.0, 0.0]),  # no known word
        ([(MOON, RED, STAR, MOON)], [1], 2, [HALF, HALF]),  # one before and one after
        ([(MOON, RED, STAR, MOON)], [1], 4, [-HALF, HALF]),
    ],
)
def test_the_vector_is_the_mean_of_the_words(contexts, weights, n_words, expected):
    """Three words in a plane: (1, 0), (0, 1) and (-1, 0)."""
    found = vector(contexts, weights, feature=Embedding(n_words=n_words))
    assert found == pytest.approx(expected, abs=1e-6)


def test_words_weigh_and_the_background_is_taken_off():
    """With weight 3 the mean is (0.75, 0.25); less (0.25, 0.25) it points along (1, 0)."""
    kb = FiveDocuments(
        word_weights=np.array([3, 1, 1], dtype=np.float32),
        background=np.array([0.25, 0.25], dtype=np.float32),
    )
    assert vector([(RED, STAR)], [1], kb) == pytest.approx([1.0, 0.0])


def contexts_of(rows, counts):
    """Contexts of three words."""
    votes, vectors = sparse.csr_matrix(np.array(rows)), FiveDocuments.word_vectors
    return Contexts(np.arange(3), votes, votes, vectors, np.array(counts), vectors[0])


def test_max_margin_moves_towards_its_positives():
    """Started across, the vector turns to the word of its contexts; without one it stays."""
    vectors, start = FiveDocuments.word_vectors, np.array([[0, 1]], dtype=np.float32)
    # Only the other words are drawn against the one in both contexts.
    contexts = contexts_of([[1.0, 0, 0], [1.0, 0, 0]], [0, 10, 10])
    trainer = MaxMargin(n_epochs=50, learning_rate=0.1)
    found, again = (trainer.refine(start, contexts, np.ones((2, 1), "f"))[0] for _ in range(2))
    assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-5)
    assert found @ vectors[RED] > max(0.7, found @ vectors[STAR] + trainer.margin / 2)
    assert found.tobytes() == again.tobytes()
    kept = trainer.refine(start, contexts, np.zeros((2, 1), dtype=np.float32))
    np.testing.assert_array_equal(kept, start)


@pytest.mark.parametrize(
    ("surface", "title", "expected"),
    [
        ("Star", "Star", (1.0, 1, 1)),
        ("star", "STAR (film)", (1.0, 1, 1)),  # neither case nor qualifier counts
        ("Star", "The Star", (0.5, 1, 1)),  # four of eight letters, contained, at the end
        ("tar", "Stars", (0.6, 1, 0)),  # contained in the middle
        ("sun", "Star", (0.25, 0, 0)),  # one letter in place
    ],
)
def test_the_three_similarities(surface, title, expected):
    """Share of letters that stay, contained or not, at the start or the end or not."""
    assert surface_similarities([surface], [title])[0] == pytest.approx(expected)


def test_names_are_compared_with_titles_and_the_entity():
    """Every mention compares with its candidates' titles and the id of e*; padding is zero."""
    pile = pile_of([star(0), star(1, surface="The Star"), star(2)])
    pile = replace(pile, mentions=encode_features(pile.mentions, [Surface()], KB))
    found = Surface().values({"embedding": np.zeros((1, 2), dtype=np.float32)}, pile)
    for row, name in zip(found, ("Star", "The Star", "Star"), strict=True):
        expected = surface_similarities([name] * 3, ["Red Star", "Star (film)", "New Star"])
        np.testing.assert_allclose(row[[0, 1, 3]], expected)
        assert not row[2].any()
