import numpy as np
import pytest

from stamo.workspace.cross_validation import LeftOut

LABELS = np.array([True, True, False])
CHECKED = LeftOut(
    rows=np.arange(3),
    labels=LABELS,
    odds={-1: np.array([0.2, -0.4, -1.0]), 2: np.array([1.2, 0.6, -2.0])},
    shifts={-1: np.zeros(3), 2: np.full(3, 0.5)},
)


@pytest.mark.parametrize(
    ("weight", "line", "odds", "decisions"),
    [
        (1.0, 0.0, [1.2, 0.6, -2.0], [True, True, False]),
        (0.0, 0.0, [0.2, -0.4, -1.0], [True, False, False]),
        (0.5, 0.0, [0.7, 0.1, -1.5], [True, True, False]),
        (0.5, -0.4, [0.3, -0.3, -1.9], [True, False, False]),
    ],
)
def test_labels_and_pile_are_put_together_as_in_the_run(weight, line, odds, decisions):
    """Their odds count by weight, and what the run added to the line is added here too."""
    labels, found, decided = CHECKED.at(2, weight, line)
    np.testing.assert_array_equal(labels, LABELS)
    np.testing.assert_allclose(found, odds)
    assert decided.tolist() == decisions
