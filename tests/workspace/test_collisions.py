import pytest

from stamo.corpus.types import Document
from stamo.linking.linker import Linker
from stamo.workspace.learn import LearnSettings, learn_pack
from stamo.workspace.scored import N_LOST_SHOWN, NOTHING, find_collisions
from tests.workspace.small_world import copy_labelled


@pytest.fixture(scope="module")
def pack(small, kb, trained, tmp_path_factory):
    space = copy_labelled(small, tmp_path_factory.mktemp("collisions") / "rey")
    return learn_pack(space, kb, trained, LearnSettings(n_folds=0)).pack


@pytest.fixture(scope="module")
def texts(small):
    from stamo.corpus.reading import read_documents

    return [Document(d.id, d.text) for d in read_documents([small.world.paths.pile_path])][:120]


def test_counts_agree_with_linking_twice(kb, trained, pack, texts):
    """What is counted as lost is what differs between linking without and with the pack."""
    linker = Linker(kb, trained, extra_aliases=pack.entity.aliases)
    found = find_collisions(linker, pack, texts)
    before = list(linker.link_documents(texts))
    after = list(Linker(kb, trained, [pack], settings=linker.settings).link_documents(texts))
    lost = [
        (left.entity or NOTHING)
        for old, new in zip(before, after, strict=True)
        for left, right in zip(old.mentions, new.mentions, strict=True)
        if right.entity == pack.entity.id
    ]
    assert found.n_taken == len(lost) > 0
    assert {loss.entity: loss.n_lost for loss in found.losses if loss.n_lost} == {
        name: lost.count(name) for name in set(lost)
    }
    dropped = [
        left.entity
        for old, new in zip(before, after, strict=True)
        for left, right in zip(old.mentions, new.mentions, strict=True)
        if left.entity is not None and right.entity is None
    ]
    assert found.n_unlinked == len(dropped)
    assert {loss.entity: loss.n_unlinked for loss in found.losses if loss.n_unlinked} == {
        name: dropped.count(name) for name in set(dropped)
    }
    assert found.n_documents == len(texts)
    assert found.n_elsewhere == 0
    assert sum(loss.n_before for loss in found.losses) == found.n_named


def test_examples_show_the_mention(kb, trained, pack, texts):
    """A few examples of each entity, each with the name."""
    found = find_collisions(Linker(kb, trained), pack, texts)
    examples = [shown for loss in found.losses for shown in loss.examples]
    assert examples
    assert all(len(loss.examples) <= N_LOST_SHOWN for loss in found.losses)
    assert all(shown.surface in pack.entity.aliases for shown in examples)


def test_nothing_collides_where_the_name_is_absent(kb, trained, pack):
    """Texts without the name change nothing."""
    found = find_collisions(Linker(kb, trained), pack, [Document("a", "No name here at all.")])
    assert (found.n_named, found.n_taken, found.n_elsewhere, found.losses) == (0, 0, 0, ())


def test_no_documents_at_all(kb, trained, pack):
    """An empty reference gives an empty report."""
    assert find_collisions(Linker(kb, trained), pack, []).n_documents == 0
