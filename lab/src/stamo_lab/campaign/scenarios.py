"""The work that is killed or meets a full disk: what is done, and what must hold at any moment."""

from __future__ import annotations

import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import httpx

from stamo.build.build import build_knowledge_base
from stamo.build.settings import BuildSettings
from stamo.corpus.types import Document
from stamo.errors import WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import load_model
from stamo.packs.folder import PackFolder
from stamo.packs.pack import EntityPack
from stamo.service.app import create_app
from stamo.service.parts import ServiceParts
from stamo.service.security import SecuritySettings
from stamo.service.wiring import wire
from stamo.workspace.collect import CollectSettings, collect
from stamo.workspace.folder import Workspace
from stamo.workspace.gold import label_by_gold, read_answers
from stamo.workspace.label_files import import_tasks
from stamo.workspace.labels import EMERGING_CHOICE, LabelTarget
from stamo.workspace.learn import LearnSettings, learn_pack
from stamo.workspace.learn_job import learn_job
from stamo.world import World
from stamo_lab.campaign.packs import make_pack
from tests.service.support import running

AT = datetime(2024, 5, 1, tzinfo=UTC)
LEARN = LearnSettings(n_slots=2, n_folds=2, encoder=None)
NAME = "rey"
Say = Callable[[Any], None]
"""Called with what was acknowledged; it must never be lost after that."""


class Work:
    """Everything that the work needs; it is made once and only copied and read then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kb = KnowledgeBase.open(folder / "kb")
        self.trained = load_model(folder / "model.safetensors")
        self.world = World.open(folder / "world")
        self.entity = self.world.emerging[0]

    @cached_property
    def packs(self) -> tuple[EntityPack, EntityPack]:
        """Two packs of one entity."""
        first = make_pack(self.kb, self.trained)
        return first, EntityPack(**{**vars(first), "description": "a later one"})

    def template(self, name: str) -> Path:
        """Return the folder with which a kind of work begins."""
        path = self.folder / "templates" / name
        if not path.exists():
            path.mkdir(parents=True)
            getattr(self, f"_make_{name}")(path)
        return path

    def fresh_copy(self, template: str, name: str) -> Path:
        """Return a copy of a template, in the place of a former one."""
        path = self.folder / f"copy-{name}"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.template(template), path)
        return path

    def service(self, home: Path) -> ServiceParts:
        """Return the parts of the real service on a folder of workspaces."""
        learn = partial(learn_job, kb=self.kb, trained=self.trained, settings=LEARN)
        return wire(self.kb, self.trained, home / "packs", home, learn, SecuritySettings())

    def _make_empty(self, path: Path) -> None:
        pass

    def _make_built(self, path: Path) -> None:
        shutil.copytree(self.folder / "kb", path / "kb")

    def _make_new(self, path: Path) -> None:
        Workspace.create(path / NAME, self.entity, created_by="ada", at=AT)

    def _make_collected(self, path: Path) -> None:
        self._make_new(path)
        workspace = Workspace.open(path / NAME)
        collect(workspace, [self.world.paths.pile_path], self.kb, self.trained)

    def _make_served(self, path: Path) -> None:
        self._make_collected(path)
        workspace = Workspace.open(path / NAME)
        corpus = workspace.documents.read()
        keys = [(d.id, _candidate(d)) for d in list(corpus)[:14]]
        label_by_gold(workspace, corpus, read_answers(self.world.paths.gold_path), keys, at=AT)


def _candidate(document: Document) -> int:
    return next(i for i, mention in enumerate(document.mentions) if mention.entity is None)


class Scenario(ABC):
    """One kind of work, which can be done again after anything that happened to it."""

    template: str

    def __init__(self, work: Work) -> None:
        self.work = work

    @abstractmethod
    def act(self, home: Path, say: Say) -> None:
        """Do the work, or what is left of it."""

    @abstractmethod
    def look(self, home: Path) -> object:
        """Return what a reader finds after the whole work."""

    @abstractmethod
    def check(self, home: Path, said: list[Any], expected: object) -> None:
        """Fail when a reader at this moment finds anything but the old or the new."""


class Build(Scenario):
    """Build a knowledge base in the place of another one."""

    template = "built"

    def act(self, home: Path, say: Say) -> None:
        """Build it."""
        settings = BuildSettings(dimensions=9, overwrite=True)
        build_knowledge_base(self.work.folder / "dump.xml", home / "kb", settings)

    def look(self, home: Path) -> object:
        """Return its fingerprint."""
        return KnowledgeBase.open(home / "kb").fingerprint

    def check(self, home: Path, said: list[Any], expected: object) -> None:
        """It is the old one or the new one."""
        assert self.look(home) in (self.work.kb.fingerprint, expected)


class Collect(Scenario):
    """Collect documents in small parts."""

    template = "new"

    def act(self, home: Path, say: Say) -> None:
        """Collect, or go on with it."""
        workspace, work = Workspace.open(home / NAME), self.work
        source, settings = [work.world.paths.pile_path], CollectSettings(batch_size=8)
        if not workspace.documents.manifest.complete:
            collect(workspace, source, work.kb, work.trained, settings=settings)

    def look(self, home: Path) -> object:
        """Return the documents."""
        return [repr(document) for document in Workspace.open(home / NAME).documents]

    def check(self, home: Path, said: list[Any], expected: object) -> None:
        """What is there are the first of all documents."""
        found = self.look(home)
        assert isinstance(found, list)
        assert isinstance(expected, list)
        assert found == expected[: len(found)]


class Label(Scenario):
    """Label mentions one by one, then import others together."""

    template = "collected"

    def act(self, home: Path, say: Say) -> None:
        """Add the labels that are not there yet."""
        workspace = Workspace.open(home / NAME)
        documents = list(workspace.documents)
        tasks = [_task(document) for document in documents[10:16]]
        with workspace.open_labels() as store:
            done = {event.target.document for event in store.current()}
            for document in documents[:10]:
                if document.id not in done:
                    index = _candidate(document)
                    target = LabelTarget.of(document.id, index, document.mentions[index])
                    store.add(target, EMERGING_CHOICE, labeller="ada", at=AT)
                    say(document.id)
            corpus = workspace.documents.read()
            import_tasks(store, json.dumps(tasks), corpus, labeller="bob", at=AT)
            say([document.id for document in documents[10:16]])

    def look(self, home: Path) -> object:
        """Return what is labelled."""
        with Workspace.open(home / NAME).read_labels() as store:
            return sorted((event.target.document, event.choice) for event in store.current())

    def check(self, home: Path, said: list[Any], expected: object) -> None:
        """Nothing acknowledged is lost, and the import is there as a whole or not at all."""
        with Workspace.open(home / NAME).read_labels() as store:
            found = {event.target.document for event in store.current()}
            n_imported = sum(event.labeller == "bob" for event in store.events())
        acknowledged = {x for item in said for x in (item if isinstance(item, list) else [item])}
        assert acknowledged <= found, f"lost: {sorted(acknowledged - found)}"
        assert n_imported in (0, 6), f"{n_imported} of 6 imported labels"


def _task(document: Document) -> dict[str, Any]:
    mention = document.mentions[_candidate(document)]
    value = {"start": mention.start, "end": mention.end, "text": mention.surface}
    region = {"id": "r", "type": "labels", "value": {**value, "labels": ["@emerging"]}}
    data = {"text": document.text, "document_id": document.id}
    return {"data": data, "annotations": [{"result": [region]}]}


class Learn(Scenario):
    """Learn a pack, slot by slot."""

    template = "served"

    def act(self, home: Path, say: Say) -> None:
        """Learn, or go on with it."""
        learn_pack(Workspace.open(home / NAME), self.work.kb, self.work.trained, LEARN)

    def look(self, home: Path) -> object:
        """Return the pack's bytes."""
        return Workspace.open(home / NAME).pack_path.read_bytes()

    def check(self, home: Path, said: list[Any], expected: object) -> None:
        """There is no pack, or the whole one."""
        path = Workspace.open(home / NAME).pack_path
        assert not path.exists() or path.read_bytes() == expected
        Workspace.open(home / NAME).status()


class Packs(Scenario):
    """Add, replace and remove packs."""

    template = "empty"

    def act(self, home: Path, say: Say) -> None:
        """Go through a pack's life some times."""
        folder = PackFolder(home / "packs", self.work.kb, self.work.trained.fingerprint)
        first, later = (pack.to_bytes() for pack in self.work.packs)
        for _ in range(3):
            entry = folder.add(first, replace=True)
            folder.add(later, replace=True)
            folder.remove(entry.key)
        folder.add(later)

    def look(self, home: Path) -> object:
        """Return the fingerprints of all packs."""
        folder = PackFolder(home / "packs", self.work.kb, self.work.trained.fingerprint)
        return [(e.problem, e.pack.fingerprint if e.pack else "") for e in folder.entries()]

    def check(self, home: Path, said: list[Any], expected: object) -> None:
        """A pack is there whole or not at all."""
        fingerprints = {pack.fingerprint for pack in self.work.packs}
        found = self.look(home)
        assert isinstance(found, list)
        assert all(not problem and name in fingerprints for problem, name in found), found


class Serve(Scenario):
    """Label, add a pack and learn through the service."""

    template = "served"

    def act(self, home: Path, say: Say) -> None:
        """Ask a running service for everything that changes something."""
        parts = self.work.service(home)
        parts.jobs.start()  # as the command does, which tells in one line when it cannot
        app = create_app(parts)
        # A machine may stop us all for minutes; a connection that is kept would not outlive that.
        headers = {"X-Stamo": "1", "Connection": "close"}
        options: dict[str, Any] = {"headers": headers, "timeout": 600}
        with running(app) as address, httpx.Client(base_url=address, **options) as client:
            for _ in range(3):
                question = _good(client.post(f"/api/workspaces/{NAME}/next", json={"client": "c"}))
                asked = question["question"]
                body = {key: asked[key] for key in ("document", "mention")}
                body |= {"choice": "@none", "who": "ada", "client": "c"}
                _good(client.post(f"/api/workspaces/{NAME}/labels", json=body))
                say(asked["document"])
            for pack in self.work.packs:
                _good(client.post("/api/packs?replace=true", content=pack.to_bytes()))
            started = client.post(f"/api/workspaces/{NAME}/learn")
            if started.status_code != 409:  # a job that was interrupted goes on by itself
                _good(started)
            self._wait(client)

    def _wait(self, client: httpx.Client) -> None:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            jobs = _good(client.get("/api/jobs"))
            if not any(job["state"] in ("queued", "running") for job in jobs):
                if "disk is full" in jobs[0]["message"]:
                    raise WorkspaceError(jobs[0]["message"])
                assert jobs[0]["state"] == "done", jobs[0]["message"]
                return
            time.sleep(0.05)
        raise AssertionError("the job does not end")

    def look(self, home: Path) -> object:
        """Return whether there is a pack that can be read."""
        return EntityPack.load(Workspace.open(home / NAME).pack_path).entity.id

    def check(self, home: Path, said: list[Any], expected: object) -> None:
        """Nothing acknowledged is lost, and every pack is whole."""
        with Workspace.open(home / NAME).read_labels() as store:
            found = {event.target.document for event in store.current()}
        assert set(said) <= found
        entries = PackFolder(home / "packs", self.work.kb, self.work.trained.fingerprint).entries()
        assert all(not entry.problem for entry in entries)


def _good(answer: httpx.Response) -> Any:
    if answer.status_code in (409, 507):
        raise WorkspaceError(answer.json()["error"])
    assert answer.status_code < 300, f"{answer.status_code} {answer.text[:200]}"
    return answer.json()


SCENARIOS: dict[str, type[Scenario]] = {
    "build": Build,
    "collect": Collect,
    "label": Label,
    "learn": Learn,
    "packs": Packs,
    "serve": Serve,
}
