"""Near-duplicates are found in a stream, and different documents are kept."""

import numpy as np
import pytest

from stamo.corpus.duplicates import NearDuplicates, shingle_hashes
from stamo.corpus.types import Document


def words(seed, n=400):
    return [f"w{i}" for i in np.random.default_rng(seed).integers(0, 3000, n)]


def document(id, words):
    return Document(id, " ".join(words))


def test_copies_with_small_changes_are_found():
    """A copy with another headline is a near-duplicate of the first one; its id is returned."""
    index = NearDuplicates()
    original = words(0)
    assert index.add(document("a", original)) is None
    assert index.add(document("b", ["another", "headline", *original])) == "a"
    assert index.add(Document("c", " ".join(original).upper() + " !")) == "a"
    assert len(index) == 1


def test_different_documents_are_kept():
    """Two hundred unrelated documents are all kept, also when they share a paragraph."""
    index = NearDuplicates()
    shared = words(999, 100)
    found = [index.add(document(str(i), [*shared, *words(i)])) for i in range(200)]
    assert found == [None] * 200
    assert len(index) == 200


@pytest.mark.parametrize(("changed", "expected"), [(4, True), (60, False)])
def test_the_threshold_divides_similar_from_different(changed, expected):
    """4 of 400 words changed leave 90 % of the shingles, 60 leave a third."""
    original = words(7)
    copy = list(original)
    for i in range(changed):
        copy[i * len(copy) // changed] = f"new{i}"
    a, b = (set(shingle_hashes(" ".join(w)).tolist()) for w in (original, copy))
    assert (len(a & b) / len(a | b) >= 0.8) == expected
    index = NearDuplicates()
    index.add(document("a", original))
    assert (index.add(document("b", copy)) is not None) == expected


def test_short_and_empty_texts():
    """Texts with fewer words than a shingle are equal only when their words are."""
    index = NearDuplicates()
    texts = ["one two", "one two three", "One, two!", "", "...", "one"]
    assert [index.add(Document(str(i), t)) for i, t in enumerate(texts)] == [
        None,
        None,
        "0",
        None,
        "3",
        None,
    ]
