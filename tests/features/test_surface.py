"""Likeness of a mention to titles: Yamada's three numbers, and the whole title."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from stamo.features.base import encode_features
from stamo.features.surface import NameSimilarity, Surface, surface_similarities
from tests.features.by_hand import FiveDocuments, pile_of, star

KB = FiveDocuments()  # Red Star, Star (film), Moon


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


@pytest.mark.parametrize(
    ("surface", "title", "expected"),
    [("Mercury", "mercury", 1.0), ("Mercury", "Mercury (planet)", 7 / 16), ("ab", "cd", 0.0)],
)
def test_the_name_counts_its_qualifier(surface, title, expected):
    """Nine letters of the sixteen are the qualifier's."""
    assert NameSimilarity.compare([surface], [title])[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("feature", [Surface(), NameSimilarity()])
def test_known_titles_then_the_entity_then_nothing_to_learn(feature):
    """Every mention compares with its candidates' titles and the id of e*; padding is zero."""
    pile = pile_of([star(0), star(1, surface="The Star"), star(2)])
    mentions = encode_features(pile.mentions, [feature], KB)
    pile = replace(pile, mentions=mentions, extra={})
    values = feature.lookup(torch.zeros(1, 0), pile).numpy().reshape(3, 4, -1)
    for row, name in zip(values, ("Star", "The Star", "Star"), strict=True):
        expected = feature.compare([name] * 3, ["Red Star", "Star (film)", "New Star"])
        np.testing.assert_allclose(row[[0, 1, 3]], expected)
        assert not row[2].any()
