"""Names of neighbours in the context, by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from stamo.errors import SettingsError
from stamo.features.base import encode_features
from stamo.features.keyphrase import Keyphrase, phrase_overlap
from stamo.features.relatedness import Relatedness
from tests.features.by_hand import A, B, C, FiveDocuments, label, pile_of, star

KB = FiveDocuments()  # A is "Red Star", B "Star (film)", C "Moon"
RED, STAR, MOON = 0, 1, 2


def test_the_share_of_each_name_that_the_context_holds():
    """Of "Red Star" half is "red"; "film" has no vector, so "Star (film)" is never whole."""
    words = np.array([[RED, -1], [RED, STAR], [MOON, MOON], [-1, -1]], dtype=np.int32)
    found = phrase_overlap(words, np.array([A, B, C], dtype=np.int32), KB).toarray()
    expected = [[0.5, 0, 0], [1, 0.5, 0], [0, 0, 1], [0, 0, 0]]
    np.testing.assert_allclose(found, expected)


def test_known_candidates_weigh_their_neighbours_by_relatedness():
    """Of A's neighbours the context holds half of B's name; two phrases count."""
    mentions = pile_of([star(0, words=(STAR, -1))], candidates=(A, -1)).mentions
    related = KB._pair(A, B)
    values = Keyphrase(n_phrases=2).known(mentions, KB)
    assert values[0] == pytest.approx([related * 0.5 / 2, 0.0])


def test_the_weights_of_e_star_are_its_strongest_relatedness():
    """With one phrase the row of relatedness keeps its largest number."""
    pile = pile_of([star(d) for d in range(5)], pairs=[(0, B), (1, B), (0, C), (3, C), (4, C)])
    evidence = label(pile, [1, 1, 0, 0, 0])
    row = Relatedness().estimate(evidence, KB)
    assert row[0, 0] > row[0, 1]
    kept = Keyphrase(n_phrases=1).estimate(evidence, KB)
    assert kept.tolist() == [[row[0, 0].item(), 0.0]]
    assert torch.equal(Keyphrase(n_phrases=5).estimate(evidence, KB), row)


def test_looked_up_weights_of_e_star():
    """The context holds half of B's name and all of C's: (0.4 / 2 + 0.6) over two phrases."""
    feature = Keyphrase(n_phrases=2)
    pile = pile_of([star(0, words=(STAR, MOON))], pairs=[(0, B), (1, C)])
    mentions = encode_features(pile.mentions, [feature], KB)
    pile = replace(pile, mentions=mentions, extra={})
    values = feature.lookup(torch.tensor([[0.4, 0.6]]), pile)
    assert values[0, 3].item() == pytest.approx((0.4 * 0.5 + 0.6) / 2)


def test_no_phrase_is_refused():
    """Nothing kept describes nothing."""
    with pytest.raises(SettingsError):
        Keyphrase(n_phrases=0)
