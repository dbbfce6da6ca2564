"""The real parts of the service: knowledge base, linking model, packs and workspaces."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path

from stamo.corpus.types import Document
from stamo.discovery.accept_job import AcceptRequests, accept_job
from stamo.discovery.found import FoundFolder
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from stamo.linking.packed import PackedLinker
from stamo.linking.results import LinkedDocument, LinkedMention
from stamo.linking.settings import LinkerSettings
from stamo.models.store import TrainedModel
from stamo.packs.folder import PackFolder
from stamo.packs.pack import EntityPack
from stamo.service.folders import Describe, Find, GuessEntity, WorkspaceFolders
from stamo.service.jobs import JobRunner, Work
from stamo.service.parts import ServiceParts
from stamo.service.schemas import Guess
from stamo.service.security import SecuritySettings
from stamo.workspace.labels.events import NONE, Choice
from stamo.workspace.labels.queue import Advisor

JOBS_FILE = ".stamo-jobs.sqlite"
MAX_CHOICES = 40
N_NAMES = 3
N_RELATED = 3

MakeLinker = Callable[[Sequence[EntityPack]], PackedLinker]
"""Makes a linker that knows some packs besides its knowledge base."""


LOOK_SECONDS = 1.0
"""How often the folder of packs is looked at, at most, while texts are linked."""


class PackLinker:
    """A linker that is made anew when its packs change; texts under way keep the old one."""

    def __init__(self, make: MakeLinker, packs: PackFolder) -> None:
        self._make = make
        self._packs = packs
        self._lock = threading.Lock()
        self.reload()

    def reload(self) -> None:
        """Read the packs again."""
        with self._lock:
            self._load()

    def _load(self) -> None:
        self._version = self._packs.version()
        self._linker = self._make(self._packs.packs())
        self._next_look = time.monotonic() + LOOK_SECONDS

    @property
    def current(self) -> PackedLinker:
        """The linker with the packs of the folder, also those that a command put there."""
        if time.monotonic() >= self._next_look and self._lock.acquire(blocking=False):
            try:
                self._next_look = time.monotonic() + LOOK_SECONDS
                if self._packs.version() != self._version:
                    self._load()
            finally:
                self._lock.release()
        return self._linker

    def link(self, text: str) -> Sequence[LinkedMention]:
        """Return the mentions of a text with their entities."""
        return self.current.link(text)

    def link_documents(self, documents: Iterable[Document]) -> Iterable[LinkedDocument]:
        """Link documents in their order."""
        return self.current.link_documents(documents)


def known_choices(kb: KnowledgeBase) -> Describe:
    """Return what lists the entities of a surface form, with a line of what is known of each."""

    @lru_cache(maxsize=256)
    def describe(surface: str) -> tuple[Choice, ...]:
        ids = kb.candidates(surface).ids[:MAX_CHOICES]
        return tuple(
            Choice(title, title, describe_entity(kb, int(entity), {title, surface}))
            for entity, title in zip(ids, kb.titles(ids), strict=True)
        )

    return describe


def search_entities(kb: KnowledgeBase) -> Find:
    """Return what finds entities by the beginning of a title or another name."""

    def find(search: str) -> tuple[Choice, ...]:
        text = " ".join(search.split())
        if not text:
            return ()
        # People write in small letters what titles capitalise.
        starts = dict.fromkeys([text, text[:1].upper() + text[1:], text.title()])
        names = [name for start in starts for name in kb.names_with_prefix(start, MAX_CHOICES)]
        exact = kb.entity_ids(list(starts))
        found = [int(i) for i in exact.tolist() if i >= 0]
        for name in names:
            found += [int(i) for i in kb.candidates(name).ids[:3].tolist()]
        ids = list(dict.fromkeys(found))[:MAX_CHOICES]
        return tuple(
            Choice(title, title, describe_entity(kb, entity, {title}))
            for entity, title in zip(ids, kb.titles(ids), strict=True)
        )

    return find


def describe_entity(kb: KnowledgeBase, entity: int, known: set[str]) -> str:
    """Write a line of what the knowledge base knows: other names, related entities."""
    names = [name for name, _ in kb.aliases_of(entity)[: N_NAMES + 2] if name not in known]
    related = kb.titles(kb.related(entity, N_RELATED)[0])
    parts = []
    if names:
        parts.append("also " + ", ".join(names[:N_NAMES]))
    if related:
        parts.append("with " + ", ".join(related))
    return " · ".join(parts)


def model_guess(linker: PackLinker) -> GuessEntity:
    """Return what asks the linking model for a mention of a document."""

    def guess(document: Document, mention: int) -> Guess | None:
        (linked,) = linker.current.link_documents([document])
        if linked.error is not None or len(linked.mentions) != len(document.mentions):
            return None
        found = linked.mentions[mention]
        if found.entity is None:
            return Guess(NONE, "none of these", 0.0)
        return Guess(found.entity, found.entity, found.confidence)

    return guess


def make_linker(
    kb: KnowledgeBase, trained: TrainedModel, packs: Sequence[EntityPack]
) -> PackedLinker:
    """Make the linker of the service: it knows the packs and explains itself."""
    linker = PackedLinker(Linker(kb, trained, settings=LinkerSettings(explain=True)), packs)
    _ = linker.detector  # made now, so that the first text does not wait for it
    return linker


def wire(
    kb: KnowledgeBase,
    trained: TrainedModel,
    packs_dir: Path,
    workspaces_dir: Path,
    learn: Callable[[Path], Work],
    security: SecuritySettings,
    found_dir: Path | None = None,
) -> ServiceParts:
    """Put the real parts together.

    Args:
        kb: The knowledge base.
        trained: A model trained with it.
        packs_dir: The folder of packs to link with.
        workspaces_dir: The folder that holds the workspaces.
        learn: Gets the workspaces' folder and returns the work of a learning job.
        security: Where the service listens and what it lets in.
        found_dir: The folder of `stamo discover`, where its proposals are to be shown.
    """
    found = None
    work = learn(workspaces_dir)
    if found_dir is not None:
        found = AcceptRequests(FoundFolder(found_dir), workspaces_dir)
        work = accept_job(found, kb, trained, work)
    packs = PackFolder(packs_dir, kb, trained.fingerprint)

    linker = PackLinker(partial(make_linker, kb, trained), packs)
    return ServiceParts(
        linker=linker,
        packs=packs,
        workspaces=WorkspaceFolders(
            workspaces_dir,
            known_choices(kb),
            model_guess(linker),
            Advisor(kb, trained),
            find=search_entities(kb),
        ),
        jobs=JobRunner(workspaces_dir / JOBS_FILE, work),
        security=security,
        on_packs=linker.reload,
        found=found,
        name=kb.name,
    )
