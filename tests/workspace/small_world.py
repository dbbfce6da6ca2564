"""A small invented world with its knowledge base and model, made once for all tests."""

import fcntl
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel, load_model
from stamo.models.train import TrainingArgs, train_linking_model
from stamo.workspace.collect import collect
from stamo.workspace.folder import Workspace
from stamo.workspace.gold import label_by_gold, read_answers
from stamo.world import World
from stamo_lab.world import WorldSettings, generate_world

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
SETTINGS = WorldSettings(
    n_articles=300,
    n_emerging=2,
    documents_per_entity=60,
    background_documents=40,
    compress=False,
)


@dataclass(frozen=True)
class SmallWorld:
    """Everything a workspace works with; nobody changes it."""

    folder: Path

    @property
    def world(self) -> World:
        return World.open(self.folder / "world")

    @property
    def kb_path(self) -> Path:
        return self.folder / "kb"

    @property
    def model_path(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def kb(self) -> KnowledgeBase:
        return KnowledgeBase.open(self.kb_path)

    @property
    def trained(self) -> TrainedModel:
        return load_model(self.model_path)

    @property
    def entity(self):
        return self.world.emerging[0]

    @property
    def gold(self):
        return read_answers(self.world.paths.gold_path)

    @property
    def origin(self) -> dict[str, str]:
        return {"kb": str(self.kb_path), "model": str(self.model_path)}


def make_small_world(tmp_path_factory) -> SmallWorld:
    """Make the world, or take the one that another test process has made."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "small-world"
    folder.mkdir(exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "collected" / "documents").exists():
            _make(SmallWorld(folder))
    return SmallWorld(folder)


def _make(small: SmallWorld) -> None:
    world = generate_world(SETTINGS, small.folder / "world")
    settings = BuildSettings(dimensions=30, held_out=0.4)
    build_knowledge_base(world.paths.dump_path, small.kb_path, settings)
    args = TrainingArgs(n_pairs=400, n_epochs=3, batch_size=64)
    trained = train_linking_model(small.kb, "deeped", args)
    trained.save(small.model_path)
    workspace = Workspace.create(
        small.folder / "collected", small.entity, created_by="ada", at=NOON
    )
    collect([workspace], [world.paths.pile_path], small.kb, trained, origin=small.origin)


def copy_collected(small: SmallWorld, path: Path) -> Workspace:
    """Return a workspace of our own with the collected documents."""
    shutil.copytree(small.folder / "collected", path)
    return Workspace.open(path)


def copy_labelled(small: SmallWorld, path: Path, n: int = 14) -> Workspace:
    """Return a workspace of our own with collected documents and labels for every fourth one."""
    workspace = copy_collected(small, path)
    corpus = workspace.documents.read()
    keys = [
        (d.id, next(i for i, m in enumerate(d.mentions) if m.entity is None))
        for d in list(corpus)[:: max(1, len(corpus) // n)][:n]
    ]
    label_by_gold(workspace, corpus, small.gold, keys, at=NOON)
    return workspace
