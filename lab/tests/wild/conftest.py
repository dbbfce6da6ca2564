import pytest

from lab.tests.wild.small import write_files
from stamo_lab.wild.suite import make_wild, read_wild_entities, read_wild_labels


@pytest.fixture(scope="session")
def wild_files(world, world_corpus, tmp_path_factory):
    return write_files(world, world_corpus, tmp_path_factory.mktemp("judged"))


@pytest.fixture(scope="session")
def wild(world, world_kb, world_model, wild_files, tmp_path_factory):
    """A suite of the embedded world's entities."""
    entities, labels = wild_files
    return make_wild(
        world_kb,
        world_model,
        read_wild_entities(entities),
        read_wild_labels(labels),
        [world.paths.pile_path],
        tmp_path_factory.mktemp("wild") / "suite",
    )
