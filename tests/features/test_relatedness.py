"""The worked Wikipedia Link-based Measure of five documents (Eq. 3)."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch

from stamo.errors import SettingsError
from stamo.features.relatedness import Relatedness
from tests.features.by_hand import A, B, C, FiveDocuments, label, pile_of, star

KB = FiveDocuments()
AS_PRINTED = Relatedness(match_pile=False, shrinkage=0.0, missing="zero")
A_AND_B = 1 - (log(3) - log(2)) / (log(5) - log(3))
"""A is in documents 0, 1, 2 and B in 1, 2, 3 of five: two are shared."""


def test_known_candidates_average_over_the_context():
    """A beside B and C: C shares no document with it, so the mean is half of A with B."""
    mentions = pile_of([star(0, context=(B, C))], candidates=(A, -1)).mentions
    assert round(A_AND_B, 4) == 0.2063
    assert Relatedness().known(mentions, KB)[0] == pytest.approx([A_AND_B / 2, 0.0])


def test_padding_and_repetition_of_the_context():
    """Padding counts for nothing, what stands there twice counts twice, and alone it is zero."""
    contexts = [(B, B, C), (B, -1, -1), (A, -1, -1), (-1, -1, -1)]
    mentions = pile_of([star(d, context=c) for d, c in enumerate(contexts)], candidates=(A,))
    values = Relatedness().known(mentions.mentions, KB)[:, 0]
    assert values == pytest.approx([2 / 3 * A_AND_B, A_AND_B, 1.0, 0.0])


def pile_with(neighbour_in, n_documents=5, background=None):
    """A pile whose documents all say the name and some of them link B."""
    return pile_of(
        [star(d) for d in range(n_documents)],
        pairs=[(d, B) for d in neighbour_in],
        n_documents=n_documents,
        background=background,
    )


def test_as_printed_e_star_is_measured_like_any_entity():
    """e* in documents 0, 1, 2 and its neighbour in 1, 2, 3: the measure of A and B."""
    evidence = label(pile_with({1, 2, 3}, background=[3, 5]), [1, 1, 1, 0, 0])
    assert AS_PRINTED.estimate(evidence, KB).tolist() == [[pytest.approx(A_AND_B)]]


def test_without_a_sample_of_the_crawl_the_knowledge_base_is_the_background():
    """B is in 3 + 3 of 5 + 5 documents, e* in 3, both in 2."""
    evidence = label(pile_with({1, 2, 3}), [1, 1, 1, 0, 0])
    expected = 1 - (log(6) - log(2)) / (log(10) - log(3))
    assert AS_PRINTED.estimate(evidence, KB).tolist() == [[pytest.approx(expected)]]


def test_shrinkage_adds_a_document_at_independence():
    """A neighbour in 3 of 5 documents gets 0.6 of a meeting more: (2 + 0.6) / (3 + 1) of e*."""
    evidence = label(pile_with({1, 2, 3}, background=[3, 5]), [1, 1, 1, 0, 0])
    shrunk = Relatedness(match_pile=False, shrinkage=1.0)
    expected = 1 - (log(3) - log(3 * 2.6 / 4)) / (log(5) - log(3))
    assert shrunk.estimate(evidence, KB).tolist() == [[pytest.approx(expected)]]
    assert 0 < expected < A_AND_B


@pytest.mark.parametrize("feature", [Relatedness(), AS_PRINTED])
def test_a_neighbour_that_e_star_never_meets_is_unrelated(feature):
    """Nothing shared is 0, shrunk or not."""
    evidence = label(pile_with({3, 4}, background=[2, 5]), [1, 1, 1, 0, 0])
    assert feature.estimate(evidence, KB).tolist() == [[0.0]]


def test_a_part_of_the_pile_stands_for_the_whole():
    """Two of four documents are labelled, so each counts twice; as printed it counts once."""
    evidence = label(pile_with({0, 1}, 4, background=[4, 16]), [1, 1, 0, 0], [1, 1, 0, 0])
    scaled = Relatedness(shrinkage=0.0)
    assert scaled.estimate(evidence, KB).item() == pytest.approx(1.0)
    assert AS_PRINTED.estimate(evidence, KB).item() == pytest.approx(1 - log(2) / log(8))


@pytest.mark.parametrize(("missing", "expected"), [("ignore", 0.5), ("zero", 0.25)])
def test_an_entity_that_the_pile_never_links(missing, expected):
    """C has no place in the row of e*: it is unknown, or as printed unrelated."""
    pile = pile_of([star(0, context=(B, C, -1)), star(1, context=(C, -1, -1))], pairs=[(0, B)])
    known = np.zeros((2, 3), dtype=np.float32)
    known = {**pile.mentions.known, "relatedness": known}
    pile = replace(pile, mentions=replace(pile.mentions, known=known))
    feature = Relatedness(missing=missing)
    values = feature.lookup(torch.tensor([[0.5]]), pile)
    assert values[:, 3].tolist() == pytest.approx([expected, 0.0])
    same, back = feature.slope(np.array([[0.5]], dtype=np.float32), pile)
    np.testing.assert_allclose(same, values.numpy())
    assert back(np.ones_like(same)).item() == pytest.approx(2 * expected)


@pytest.mark.parametrize("settings", [{"shrinkage": -1.0}])
def test_settings_out_of_range_are_refused(settings):
    """A shrinkage is not negative."""
    with pytest.raises(SettingsError):
        Relatedness(**settings)
