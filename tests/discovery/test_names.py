"""What looks like a name in a text, what it comes with, and what is kept of a stream."""

import random

import numpy as np
import pytest

from stamo.discovery.names import (
    NO_YEAR,
    Seen,
    Sighting,
    Tally,
    capital_spans,
    full_names,
    pack,
)
from stamo.linking.texts import join_texts

FREQUENT = {"in", "the", "however"}


def runs(*texts):
    joined = join_texts(texts)
    found = capital_spans(joined, FREQUENT)
    starts, ends = joined.starts[found.first], joined.ends[found.last - 1]
    return [joined.text[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"see {'Word ' * 12}", []),  # a heading in capitals
        ("we saw Ada Lovelace there", ["Ada Lovelace"]),
        ("they watched Game of Thrones again", ["Game of Thrones"]),
        ("the John F. Kennedy papers", ["John F. Kennedy"]),
        ("a Falcon 9 rocket", ["Falcon 9"]),
        ("won by Ada Lovelace 1843", ["Ada Lovelace"]),
        ("the Mira Gamma-ray Space Telescope saw", ["Mira Gamma-ray Space Telescope"]),
        ("a Mira-led team", ["Mira"]),
        ("at Ilta & Zweb today", ["Ilta & Zweb"]),
        ("by R&D alone", ["R&D"]),
        ("near Mira's house", ["Mira"]),
        ("vitamin C. However it", ["However"]),
        ("the U.S. Senate met", ["U.S. Senate"]),
        ("by O'Brien alone", ["O'Brien"]),
        ("Ada, Grace and Emmy", ["Ada", "Grace", "Emmy"]),
        ("no name at all", []),
        ("in Zürich and Łódź", ["Zürich", "Łódź"]),
        ("東京で会った", []),
        ("", []),
    ],
)
def test_runs_of_capitalised_words(text, expected):
    """A run goes on over small words, initials, hyphens and short numbers, and no further."""
    assert runs(text) == expected


def test_a_name_never_reaches_into_the_next_text():
    """Texts of a batch do not touch."""
    assert runs("seen by Ada", "Lovelace wrote") == ["Ada", "Lovelace"]


def sighting(name, document, *, window="", date="", alias=-1, **more):
    window = window or f"we saw {name} there"
    at = window.index(name)
    place = (document, date, at, at + len(name))
    made = Sighting(name, alias, *place, 1, (), window, at, (), False, 0.0, NO_YEAR)
    return made._replace(**more)


def seen(document, *names, date="", explained=()):
    sightings = [pack(sighting(n, document, date=date)) for n in names]
    return Seen(document, sightings, list(explained))


def test_counts_documents_once():
    """A further part of a long document is no further document."""
    tally = Tally()
    for document in ("a", "b", "b"):
        tally.add(seen(document, "Mira"))
    mira = tally.names["Mira"]
    assert (mira.n_documents, mira.n_mentions, tally.n_documents) == (2, 3, 2)


def test_the_sample_does_not_depend_on_the_order():
    """Which contexts are kept is a function of the documents, not of when they came."""
    stream = [seen(f"d{i}", "Mira") for i in range(200)]
    shuffled = random.Random(1).sample(stream, len(stream))
    kept = []
    for order in (stream, shuffled):
        tally = Tally(sample_size=7)
        for one in order:
            tally.add(one)
        kept.append([s.document for s in tally.names["Mira"].sightings])
    assert kept[0] == kept[1]
    assert len(kept[0]) == 7


def test_memory_is_bounded_and_frequent_names_stay():
    """Names seen once are forgotten first."""
    tally = Tally(max_names=100)
    for i in range(1000):
        tally.add(seen(f"d{i}", f"Name{i}", "Mira"))
    assert len(tally.names) <= 100
    assert tally.names["Mira"].n_documents == 1000


@pytest.mark.parametrize(
    ("names", "aliases", "expected"),
    [
        (["Edward Mira", "Mira", "Mira"], [-1, -1, -1], {"Mira": "Edward Mira"}),
        (["Falcon", "Falcon 9"], [3, -1], {"Falcon": "Falcon 9"}),
        (["Planck", "Planck Length"], [3, 4], {}),
        (["Max Planck", "Planck"], [4, 3], {"Planck": "Max Planck"}),
        (["Mira", "Mira units"], [-1, -1], {}),
        (["A Mira", "B Mira", "B Mira", "Mira"], [-1] * 4, {"Mira": "B Mira"}),
        # a chain of names leads to its last one
        (
            ["Lady Ada Mira", "Ada Mira", "Mira"],
            [-1] * 3,
            dict.fromkeys(["Ada Mira", "Mira"], "Lady Ada Mira"),
        ),
    ],
)
def test_short_names_stand_for_full_names_of_the_document(names, aliases, expected):
    """The last words of a longer name, or the first ones of an unknown name."""
    texts = list(dict.fromkeys(names))
    known = np.array([aliases[names.index(text)] for text in texts], dtype=np.int32)
    numbers = np.array([texts.index(name) for name in names], dtype=np.int32)
    # Two documents: what stands in one says nothing of the other.
    documents = np.repeat(np.arange(2, dtype=np.int32), [len(names), 1])
    both = np.append(numbers, numbers[-1:])
    found = full_names(documents, both, texts, known).tolist()
    stands_for = {n: texts[i] for n, i in zip(names, found[:-1], strict=True) if texts[i] != n}
    assert stands_for == expected
    assert found[-1] == numbers[-1]
