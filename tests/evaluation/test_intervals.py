import pytest
from scipy.stats import binomtest

from stamo.evaluation.intervals import LEVEL, wilson


@pytest.mark.parametrize(("n_hits", "n"), [(0, 1), (1, 1), (0, 20), (20, 20), (7, 20), (499, 500)])
def test_wilsons_interval_is_that_of_scipy(n_hits, n):
    """Also where all or none hit."""
    found = wilson(n_hits, n)
    expected = binomtest(n_hits, n).proportion_ci(LEVEL, method="wilson")
    assert found.value == n_hits / n
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
