import pytest

from stamo.workspace.learn import LearnSettings, learn_pack
from tests.workspace.small_world import copy_collected, copy_labelled, make_small_world


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A small world with knowledge base, model and a collected workspace."""
    return make_small_world(tmp_path_factory)


@pytest.fixture(scope="session")
def kb(small):
    return small.kb


@pytest.fixture(scope="session")
def trained(small):
    return small.trained


@pytest.fixture(scope="session")
def learned(small, kb, trained, tmp_path_factory):
    """A learned workspace and what learning said; nobody changes them."""
    space = copy_labelled(small, tmp_path_factory.mktemp("learned") / "rey")
    return space, learn_pack(space, kb, trained, LearnSettings(n_folds=2))


@pytest.fixture
def collected(small, tmp_path):
    """A workspace of the test's own with collected documents."""
    return copy_collected(small, tmp_path / "rey")


@pytest.fixture
def labelled(small, tmp_path):
    """A workspace of the test's own with collected documents and labels."""
    return copy_labelled(small, tmp_path / "rey")
