from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from stamo.models.store import open_encoder
from stamo.workspace.gold import label_by_gold
from stamo.workspace.labels import EMERGING_CHOICE, NONE, SKIP, LabelEvent
from stamo.workspace.queue import LabelQueue, choose_documents, open_queue
from tests.synthetic import make_synthetic_pile
from tests.workspace.small_world import NOON, copy_collected


@pytest.fixture(scope="module")
def space(small, tmp_path_factory):
    """A collected workspace without labels; tests that label make their own."""
    return copy_collected(small, tmp_path_factory.mktemp("queue") / "rey")


@pytest.fixture(scope="module")
def queue(space, kb, trained):
    return LabelQueue(space.entity, space.documents.read(), kb, trained)


def clustered(n_clusters, size):
    """Mentions in tight clusters, one document each."""
    rng = np.random.default_rng(0)
    n = n_clusters * size
    pile = make_synthetic_pile(rng, n_mentions=n)
    documents = np.arange(n, dtype=np.int32)
    alias = np.zeros(n, dtype=np.int32)
    pile = replace(
        pile,
        mentions=replace(pile.mentions, documents=documents),
        alias=alias,
        kept={},
    )
    cluster = np.repeat(np.arange(n_clusters), size)
    vectors = np.eye(n_clusters)[cluster]
    views = [vectors, sparse.csr_matrix(vectors)]
    return pile, views, cluster


def test_each_kind_of_context_is_asked_once_first():
    """Of five clusters of alike mentions, the first five questions take one each."""
    pile, views, cluster = clustered(5, 6)
    rows = choose_documents(pile, views, 5, np.random.default_rng(0))
    assert sorted(cluster[rows].tolist()) == [0, 1, 2, 3, 4]


def test_large_and_unsure_groups_come_first():
    """Without labels, what stands for most comes first; weights move the choice."""
    pile, views, cluster = clustered(3, 4)
    weight = np.where(cluster == 2, 1.0, 0.01)
    rows = choose_documents(pile, views, 1, np.random.default_rng(0), weight=weight)
    assert cluster[rows[0]] == 2


def test_labelled_documents_and_what_they_cover_wait():
    """A cluster with a label comes after the others, and its document never again."""
    pile, views, cluster = clustered(3, 4)
    chosen = np.array([0])
    rows = choose_documents(pile, views, 12, np.random.default_rng(0), chosen=chosen)
    assert set(cluster[rows[:2]].tolist()) == {1, 2}
    assert 0 not in rows
    assert len(rows) == 11


def test_both_names_are_asked(queue):
    """The first questions cover every alias that the pile has."""
    names = {queue.targets[key].surface for key in queue.order([])[:10]}
    assert names == set(queue.entity.aliases)


def test_order_is_complete_and_the_same_each_time(space, kb, trained, queue):
    """Every candidate mention comes once; another queue gives the same order."""
    order = queue.order([])
    assert sorted(order) == sorted(queue.keys)
    again = LabelQueue(space.entity, space.documents.read(), kb, trained)
    assert again.order([]) == order


def test_a_document_is_asked_once_before_any_is_asked_again(queue):
    """The first mentions in the order are of different documents."""
    order = queue.order([])
    n_documents = len({name for name, _ in queue.keys})
    first = [name for name, _ in order[:n_documents]]
    # The two names of one document may both be asked early; apart from that all differ.
    assert len(set(first)) >= 0.9 * n_documents


def test_decided_mentions_are_not_asked(small, tmp_path, kb, trained):
    """Labels and skips leave the order, and their documents come last."""
    space = copy_collected(small, tmp_path / "rey")
    corpus = space.documents.read()
    queue = LabelQueue(space.entity, corpus, kb, trained)
    keys = queue.order([])[:8]
    label_by_gold(space, corpus, small.gold, keys[:7], at=NOON)
    with space.open_labels() as store:
        store.add(queue.targets[keys[7]], SKIP, labeller="ada", at=NOON)
        events = store.current()
    order = queue.order(events)
    assert len(order) == len(queue.keys) - 8
    assert not {name for name, _ in order[:10]} & {name for name, _ in keys}


def test_the_outlook_tells_what_the_last_labels_changed(small, tmp_path, kb, trained):
    """With few labels nothing is told, nor where all mentions are labelled."""
    space = copy_collected(small, tmp_path / "rey")
    corpus = space.documents.read()
    queue = LabelQueue(space.entity, corpus, kb, trained)
    assert queue.outlook([]) is None
    label_by_gold(space, corpus, small.gold, queue.order([])[:14], at=NOON)
    with space.open_labels() as store:
        changed, expected, n_last = queue.outlook(store.current())
    assert 0 <= changed <= 1
    assert 0 < expected < len(queue.keys)
    assert n_last == 5
    label_by_gold(space, corpus, small.gold, queue.keys, at=NOON)
    with space.open_labels() as store:
        assert queue.outlook(store.current()) is None


def test_probable_and_doubtful_mentions_come_on_wish(small, tmp_path, kb, trained):
    """The probable ones mostly are the entity, and the order is the same where it was foreseen."""
    space = copy_collected(small, tmp_path / "rey")
    corpus = space.documents.read()
    with LabelQueue(space.entity, corpus, kb, trained) as queue, space.open_labels() as store:
        label_by_gold(space, corpus, small.gold, queue.order([])[:12], at=NOON)
        events, n_positive = store.current(), {}
        for ask in ("probable", "doubtful"):
            first = queue.order(events, ask)[:10]
            copy = copy_collected(small, tmp_path / ask)
            label_by_gold(copy, corpus, small.gold, first, at=NOON)
            chosen = [event.choice for event in copy.current_labels()]
            n_positive[ask] = chosen.count(EMERGING_CHOICE)
        assert n_positive["probable"] >= max(8, n_positive["doubtful"] + 1)
        key = queue.order(events)[0]
        queue.look_ahead(events, key)
        store.add(queue.targets[key], NONE, labeller="ada", at=NOON)
        alone = LabelQueue(space.entity, corpus, kb, trained)
        assert queue.order(store.current()) == alone.order(store.current())


@pytest.mark.parametrize(
    ("labels", "comes_first"),
    [
        ([("1", False)], False),  # one label speaks for all of its name
        ([("1", False), ("2", False)], True),  # they differ
        ([("1", True)], True),  # it holds for its mention only
        ([("1", True), ("2", False)], False),  # the second one speaks for the others
    ],
)
def test_a_mixed_document_is_gone_through(kb, trained, space, queue, labels, comes_first):
    """Its other mentions are asked next where no label speaks for them."""
    names = Counter(target.name for target in queue.targets.values())
    name, _ = next(item for item in names.items() if item[1] > 2)
    targets = [target for target in queue.targets.values() if target.name == name]
    events = [
        LabelEvent(str(n), "ada", NOON, target, choice, only=only)
        for n, (target, (choice, only)) in enumerate(zip(targets, labels, strict=False))
    ]
    first = queue.targets[queue.order(events)[0]]
    assert (first.name == name) == comes_first


def test_the_queue_of_a_workspace_uses_the_installed_encoder(space, kb, trained):
    """The order is that of the queue with it, and what was encoded is kept."""
    corpus = space.documents.read()
    again = LabelQueue(space.entity, corpus, kb, trained, open_encoder(trained, kb))
    assert open_queue(space, corpus, kb, trained).order([]) == again.order([])
    assert space.encodings_path.exists()
