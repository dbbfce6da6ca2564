"""Keyphrase: partial matches and covers."""

import numpy as np
import pytest

from lab.tests.suites import small
from stamo_lab.baselines import keyphrase_scores


def test_partial_matches_score_by_weight_and_distance():
    """By hand: two of three words, three apart, carry two of four parts of the weight."""
    weight = np.array([1.0, 1.0, 2.0, 1.0])
    documents = [np.array([0, 3, 1, 3], dtype=np.int32), np.array([3, 3], dtype=np.int32)]
    scores = keyphrase_scores(documents, {7: [(0, 1, 2)], 8: [(2,), (3,)]}, weight)
    assert scores[7] == pytest.approx([2 / 3 * (2 / 4) ** 2, 0.0])
    assert scores[8] == pytest.approx([1.0, 1.0])


def test_phrases_are_link_texts_and_titles_of_linking_articles():
    """Content words of both, never masked ones."""
    data = small.easy_data()
    book, flat = data.phrasebook, data.corpora.wiki.flat
    entity = data.suite.problems[0].group[0]
    nothing = np.zeros(0, dtype=np.int32)
    words = {w for phrase in book.phrases(entity, nothing) for w in phrase}
    linking = np.unique(flat.documents[flat.entities == entity])
    about = data.corpora.wiki.titles.index(data.suite.problems[0].title)
    texts = [data.corpora.wiki.titles[i] for i in linking]
    texts += [flat.surface_table[i] for i in flat.surfaces[flat.documents == about]]
    assert words == {w for text in texts for w in book.phrase(text, nothing)}
    masked = np.array(sorted(words)[:3], dtype=np.int32)
    left = {w for phrase in book.phrases(entity, masked) for w in phrase}
    assert left == words - set(masked.tolist())
