"""A knowledge base, a model and a learned pack on disk, as a user of other tools has them."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from stamo.linking.linker import Linker
from stamo.packs.pack import EntityPack
from tests.learning.test_learn import split


@dataclass(frozen=True)
class Installed:
    """Paths of the parts, and texts that mention the pack's entity."""

    kb_path: Path
    model_path: Path
    pack_path: Path
    linker: Linker
    pack: EntityPack
    texts: tuple[str, ...]


@pytest.fixture(scope="session")
def installed(tmp_path_factory, world, world_corpus, world_kb, world_model):
    """The embedded world with the pack of its first emerging entity; nobody changes it."""
    from stamo.learning.learn import learn

    folder = tmp_path_factory.mktemp("installed")
    entity = world.emerging[0]
    labelled, unlabelled, rest = split(world_corpus, entity, 20)
    (learned,) = learn(entity, labelled, unlabelled, world_model, world_kb, encoder=None)
    pack = learned.to_pack()
    world_model.save(folder / "deeped.safetensors")
    (folder / "packs").mkdir()
    pack.save(folder / "packs" / "first.stamo")
    linker = Linker(world_kb, world_model, [pack])
    return Installed(
        world_kb.path,
        folder / "deeped.safetensors",
        folder / "packs" / "first.stamo",
        linker,
        pack,
        tuple(document.text for document in rest[:30]),
    )
