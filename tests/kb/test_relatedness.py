"""WLM by hand."""

import numpy as np
import pytest

from stamo.kb import relatedness
from stamo.kb.relatedness import COLUMNS_PER_ENTRY, Incidence, shared_articles, wlm


def test_wlm_by_hand_on_five_documents():
    """Of five documents a is in four, b in two, both in one; c is in three of those with a."""
    a, b = {0, 1, 2, 3}, {3, 4}
    expected = 1 - (np.log(4) - np.log(1)) / (np.log(5) - np.log(2))
    got = wlm(np.array([len(a)]), np.array([len(b)]), np.array([len(a & b)]), 5)
    assert expected < 0
    assert got[0] == 0
    c = {1, 2, 3}
    expected = 1 - (np.log(4) - np.log(3)) / (np.log(5) - np.log(3))
    got = wlm(np.array([len(a)]), np.array([len(c)]), np.array([len(a & c)]), 5)
    assert got[0] == pytest.approx(expected)


def test_wlm_at_its_borders():
    """Nothing shared is 0, the same documents are 1, also when they are all there are."""
    n_a = np.array([3, 2, 5, 0])
    n_b = np.array([2, 2, 5, 0])
    joint = np.array([0, 2, 5, 0])
    assert wlm(n_a, n_b, joint, 5).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("few", [0, 1 << 20])
@pytest.mark.parametrize("n_articles", [40, 40 * 100 * COLUMNS_PER_ENTRY])
def test_shared_articles_of_few_and_of_very_many(n_articles, few, monkeypatch):
    """The counts are those of plain sets, however many articles there are, by either product."""
    monkeypatch.setattr(relatedness, "FEW_ENTRIES", few)
    monkeypatch.setattr(relatedness, "FEW_CELLS", few)
    rng = np.random.default_rng(0)
    step = n_articles // 40
    rows = [set(rng.choice(40, size=size, replace=False).tolist()) for size in (0, 3, 9, 20, 30)]

    def incidence(sets):
        articles = [article * step for members in sets for article in sorted(members)]
        lengths = np.array([*map(len, sets)])
        return Incidence(np.array(articles, dtype=np.int64), lengths, n_articles)

    row, column, count = shared_articles(incidence(rows[:3]), incidence(rows[1:]))
    got = np.zeros((3, 4), dtype=int)
    got[row, column] = count
    assert got.tolist() == [[len(a & b) for b in rows[1:]] for a in rows[:3]]
    assert [len(part) for part in shared_articles(*[incidence(rows[:1])] * 2)] == [0, 0, 0]
