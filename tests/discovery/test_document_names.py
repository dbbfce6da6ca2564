"""Which entities a name comes with."""

import numpy as np

from stamo.discovery.names import N_NEAR_ENTITIES, DocumentNames, companions


def ints(*values):
    return np.array(values, dtype=np.int32)


def test_a_name_of_a_document_is_counted_once_with_its_short_names():
    """The second document uses the short name alone, where it stands for itself."""
    documents, own, full = ints(0, 0, 0, 1), ints(5, 7, 5, 5), ints(7, 7, 7, 5)
    names = DocumentNames.of(documents, np.array([2, 4, 6, 9]), own, full)
    assert names.documents.tolist() == [0, 1]
    assert names.names.tolist() == [7, 5]
    assert names.rows.tolist() == [2, 9]
    assert names.n_mentions.tolist() == [3, 1]
    assert names.short_by_name([f"n{i}" for i in range(8)]) == {0: ("n5",)}
    inside = names.includes(np.array([0, 1]), ints(5, 7, 6, 5, 7, 6).reshape(2, 3))
    assert inside.tolist() == [[True, True, False], [True, False, False]]


def test_the_nearest_entities_of_other_names_come_first():
    """Not those of its own names, of other documents, or the same one twice."""
    documents = ints(0, 0, 0, 0, 0, 0, 1)
    numbers = ints(1, 2, 3, 9, 8, 4, 5)
    linked = ints(10, 20, 30, -1, 80, 20, 50)
    rows, own, full = np.array([3, 4]), ints(9, 8), ints(9, 9)  # name 8 is short for 9
    names = DocumentNames.of(documents[rows], rows, own, full)
    assert companions(names, np.array([0]), linked, numbers, documents) == [(30, 20, 10)]


def test_few_entities_are_kept():
    """And none where nothing is linked."""
    n = 40
    documents, numbers, linked = np.zeros(n, np.int32), ints(*range(n)), ints(*range(n))
    rows = np.array([20])
    names = DocumentNames.of(documents[rows], rows, numbers[rows], numbers[rows])
    (found,) = companions(names, np.array([0]), linked, numbers, documents)
    assert len(found) == N_NEAR_ENTITIES
    assert set(found) == {16, 17, 18, 19, 21, 22, 23, 24}
    nothing = np.full(n, -1, dtype=np.int32)
    assert companions(names, np.array([0]), nothing, numbers, documents) == [()]
