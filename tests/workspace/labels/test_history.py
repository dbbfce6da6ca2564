from datetime import UTC, datetime, timedelta

import pytest

from stamo.corpus.types import Document, Mention
from stamo.workspace.agreement import Check, compare_labellers, list_labels
from stamo.workspace.labels import EMERGING_CHOICE, NONE, SKIP, LabelStore, LabelTarget

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
DOCUMENT = Document("d1", "In the evening Rey came back.", (Mention("Rey", 15, 18),), "News")
HERE, GONE = LabelTarget("d1", 0, "Rey", 15, 18), LabelTarget("d9", 0, "Rey", 3, 6)


@pytest.fixture
def store(tmp_path):
    with LabelStore.open(tmp_path / "labels.sqlite") as store:
        yield store


def entries(store, checks=None):
    return list_labels(store.events(), store.current(), {"d1": DOCUMENT}, "Rey Skywalker", checks)


def test_a_changed_answer_keeps_what_was_said_before(store):
    """What holds is the last answer; the log tells who said what, in words and in order."""
    store.add(HERE, NONE, labeller="Ada", at=NOON)
    store.add(HERE, EMERGING_CHOICE, labeller="Bob", at=NOON + timedelta(hours=1))
    (entry,) = entries(store)
    assert (entry.answer, entry.labeller, entry.at) == ("Rey Skywalker", "Bob", "2026-05-01 13:00")
    assert entry.said == (
        "Ada, 2026-05-01 12:00: none of these",
        "Bob, 2026-05-01 13:00: Rey Skywalker",
    )
    assert (entry.title, entry.shown.surface, entry.mention) == ("News", "Rey", 0)


def test_labels_of_lost_documents_are_listed(store):
    """They can be read, but not jumped to."""
    store.add(GONE, NONE, labeller="Ada", at=NOON)
    (entry,) = entries(store)
    assert (entry.mention, entry.title, entry.shown.surface) == (None, "d9", "Rey")


@pytest.mark.parametrize(
    ("choice", "check", "differs"),
    [
        (EMERGING_CHOICE, Check(0.1, False), True),
        (EMERGING_CHOICE, Check(0.9, True), False),
        (NONE, Check(0.9, True), True),
        (SKIP, Check(0.9, True), False),
        (NONE, None, False),
    ],
)
def test_the_other_labels_may_say_otherwise(store, choice, check, differs):
    """A label differs where a run that did not see it decides otherwise; a skip never does."""
    store.add(HERE, choice, labeller="Ada", at=NOON)
    (entry,) = entries(store, None if check is None else {("d1", 15): check})
    assert entry.differs is differs


def test_entries_are_found_by_any_text_in_them(store):
    """Title, context, answer and labeller, in any case."""
    store.add(HERE, NONE, labeller="Ada", at=NOON)
    (entry,) = entries(store)
    assert all(map(entry.matches, ["news", "EVENING", "none of", "ada", ""]))
    assert not entry.matches("Bob")


def test_labellers_are_compared_where_both_answered(store):
    """Three of four the same: kappa by hand is (0.75 - 0.5) / (1 - 0.5)."""
    for i, (ada, bob) in enumerate(["ee", "ee", "nn", "en"]):
        target = LabelTarget("d1", i, "Rey", 10 * i, 10 * i + 3)
        for who, answer in (("Ada", ada), ("Bob", bob)):
            choice = EMERGING_CHOICE if answer == "e" else NONE
            store.add(target, choice, labeller=who, at=NOON)
    store.add(GONE, SKIP, labeller="Cy", at=NOON)
    (pair,) = compare_labellers(store.current_by_labeller())
    assert (pair.first, pair.second, pair.n, pair.n_same) == ("Ada", "Bob", 4, 3)
    assert pair.kappa == pytest.approx(0.5)


def test_one_answer_for_all_has_no_kappa(store):
    """Where chance alone gives full agreement, kappa says nothing."""
    for who in ("Ada", "Bob"):
        store.add(HERE, NONE, labeller=who, at=NOON)
    assert compare_labellers(store.current_by_labeller())[0].kappa is None
