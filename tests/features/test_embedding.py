"""The vector of an emerging entity from three words in a plane."""

import numpy as np
import pytest
from scipy import sparse

from stamo.errors import SettingsError
from stamo.features.embedding import Contexts, Embedding, MaxMargin
from tests.features.by_hand import A, C, FiveDocuments, label, pile_of, star

RED, STAR, MOON = 0, 1, 2
HALF = 0.5**0.5


def estimate(contexts, weights, kb=None, feature=Embedding()):
    kb = kb or FiveDocuments()
    pile = pile_of([star(d, words=w) for d, w in enumerate(contexts)], kb)
    return feature.estimate(label(pile, weights), kb)[0].tolist()


def test_the_closed_form_is_the_unit_mean_of_the_words():
    """(1, 0) and (0, 1) average to (0.5, 0.5); the word of the other document does not count."""
    assert estimate([(RED, STAR), (MOON, MOON)], [1, 0]) == pytest.approx([HALF, HALF])


def test_words_weigh_and_the_background_is_taken_off():
    """With weight 3 the mean is (0.75, 0.25); less (0.25, 0.25) it points along (1, 0)."""
    kb = FiveDocuments(
        word_weights=np.array([3, 1, 1], dtype=np.float32),
        background=np.array([0.25, 0.25], dtype=np.float32),
    )
    assert estimate([(RED, STAR)], [1], kb) == pytest.approx([1.0, 0.0])


def test_a_soft_label_weighs_its_context():
    """Half a document of (0, 1) beside a whole one of (1, 0) gives the direction of (2, 1)."""
    vector = estimate([(RED, -1), (STAR, -1)], [1, 0.5])
    assert vector == pytest.approx([2 / 5**0.5, 1 / 5**0.5])


def test_nothing_counted_is_the_zero_vector():
    """Without a label, or without a known word, there is no direction."""
    assert estimate([(RED, STAR)], [0]) == [0.0, 0.0]
    assert estimate([(-1, -1)], [1]) == [0.0, 0.0]


def test_only_the_nearest_words_count():
    """Two words are the one before and the one after the mention."""
    contexts = [(MOON, RED, STAR, MOON)]
    assert estimate(contexts, [1], feature=Embedding(n_words=2)) == pytest.approx([HALF, HALF])
    assert estimate(contexts, [1], feature=Embedding(n_words=4)) == pytest.approx(
        [-HALF, HALF], abs=1e-6
    )


def test_known_vectors_come_from_the_knowledge_base():
    """Candidates have their rows, padding a zero."""
    kb = FiveDocuments()
    mentions = pile_of([star(0)], kb, candidates=(C, A, -1)).mentions
    expected = np.array([[0.6, 0.8], [1, 0], [0, 0]], dtype=np.float32)
    np.testing.assert_array_equal(Embedding().known(mentions, kb)[0], expected)


def contexts_of(rows, counts):
    """Contexts of three words."""
    votes, vectors = sparse.csr_matrix(np.array(rows)), FiveDocuments.word_vectors
    return Contexts(np.arange(3), votes, votes, vectors, np.array(counts), vectors[0])


def test_max_margin_moves_towards_its_positives():
    """Started across, the vector turns to the word of its contexts and away from the others."""
    vectors = FiveDocuments.word_vectors
    # Only the other words are drawn against the one in both contexts.
    contexts = contexts_of([[1.0, 0, 0], [1.0, 0, 0]], [0, 10, 10])
    start = np.array([[0, 1]], dtype=np.float32)
    trainer = MaxMargin(n_epochs=50, learning_rate=0.1)
    found = trainer.refine(start, contexts, np.ones((2, 1), np.float32))[0]
    assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-5)
    assert found @ vectors[RED] > found @ vectors[STAR] + trainer.margin / 2
    assert found @ vectors[RED] > 0.7
    again = trainer.refine(start, contexts, np.ones((2, 1), np.float32))[0]
    assert found.tobytes() == again.tobytes()


def test_max_margin_without_a_context_stays_where_it_was():
    """Nothing counts as e*, so nothing moves."""
    start = np.array([[0, 1]], dtype=np.float32)
    contexts = contexts_of([[1.0, 0, 0]], FiveDocuments().word_counts)
    found = MaxMargin().refine(start, contexts, np.zeros((1, 1), np.float32))
    np.testing.assert_array_equal(found, start)


def test_settings_out_of_range_are_refused():
    """A window holds a word on either side; training has an epoch and a rate."""
    for make in (
        lambda: Embedding(n_words=1),
        lambda: MaxMargin(n_epochs=0),
        lambda: MaxMargin(learning_rate=0.0),
    ):
        with pytest.raises(SettingsError):
            make()
