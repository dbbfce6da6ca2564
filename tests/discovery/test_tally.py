"""What is kept of a stream."""

import random

import numpy as np
import pytest

from stamo.discovery.names import (
    EARLIER,
    LATER,
    NO_YEAR,
    Seen,
    Sighting,
    Tally,
    draw,
    full_names,
    pack,
)


def sighting(name, document, *, window="", date="", alias=-1, **more):
    window = window or f"we saw {name} there"
    at = window.index(name)
    fields = {
        "name": name,
        "alias": alias,
        "document": document,
        "date": date,
        "start": at,
        "end": at + len(name),
        "n_mentions": 1,
        "surfaces": (),
        "window": window,
        "at": at,
        "entities": (),
        "is_common": False,
        "fit": 0.0,
        "time": NO_YEAR,
    }
    return Sighting(**fields | more)


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


def test_errors_are_counted_and_nothing_else():
    """A document that cannot be read is told by its reason."""
    tally = Tally()
    tally.add(Seen("a", [], [], "not valid JSON"))
    assert (tally.errors, tally.n_documents) == ({"not valid JSON": 1}, 0)


@pytest.mark.parametrize(
    ("names", "aliases", "expected"),
    [
        (["Edward Mira", "Mira", "Mira"], [-1, -1, -1], {"Mira": "Edward Mira"}),
        (["Falcon", "Falcon 9"], [3, -1], {"Falcon": "Falcon 9"}),
        (["Planck", "Planck Length"], [3, 4], {}),
        (["Max Planck", "Planck"], [4, 3], {"Planck": "Max Planck"}),
        (["Mira", "Mira units"], [-1, -1], {}),
        (["A Mira", "B Mira", "B Mira", "Mira"], [-1] * 4, {"Mira": "B Mira"}),
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


def test_a_short_name_stands_for_the_longest_at_the_end():
    """A chain of names leads to its last one."""
    names = ["Mira", "Ada Mira", "Lady Ada Mira"]
    numbers, documents = np.arange(3, dtype=np.int32), np.zeros(3, dtype=np.int32)
    unknown = np.full(3, -1, dtype=np.int32)
    assert full_names(documents, numbers, names, unknown).tolist() == [2, 2, 2]


def test_contexts_of_a_later_time_are_kept_rather():
    """Of many contexts those that name later years are most of the sample."""
    tally = Tally(sample_size=20)
    for i in range(200):
        time = LATER if i % 10 == 0 else EARLIER
        tally.add(Seen(f"d{i}", [pack(sighting("Mira", f"d{i}", time=time))], []))
    kept = [s.time for s in tally.names["Mira"].sightings]
    assert kept.count(LATER) > 10


def test_what_is_kept_is_what_was_seen():
    """Nothing is lost by packing."""
    tally, one = Tally(), sighting("Mira", "a", entities=(3, 70_000), surfaces=("M", "Z\u00fc"))
    tally.add(Seen("a", [pack(one)], []))
    assert tally.names["Mira"].sightings == [one]


@pytest.mark.parametrize(
    "more", [{}, {"time": LATER}, {"alias": 3, "fit": 0.9}, {"alias": 3, "fit": 0.1}]
)
def test_a_packed_sighting_is_drawn_as_the_sighting_itself(more):
    """Both are drawn by name, document, time and what explains it."""
    one = sighting("Mira", "a", **more)
    assert pack(one).drawn_by == draw(one)
