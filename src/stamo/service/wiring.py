"""The real parts of the service: knowledge base, linking model, packs and workspaces."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path

from stamo.corpus.types import Document
from stamo.discovery.accept import AcceptRequests, accept_job
from stamo.discovery.proposals import FoundFolder
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.linking.results import LinkedDocument
from stamo.models.store import TrainedModel
from stamo.packs.folder import PackFolder
from stamo.service.folders import WorkspaceFolders
from stamo.service.jobs import JobRunner, Work
from stamo.service.parts import ServiceParts
from stamo.service.schemas import Guess
from stamo.service.security import SecuritySettings
from stamo.workspace.labels import NONE, Choice
from stamo.workspace.queue import Advisor

JOBS_FILE = ".stamo-jobs.sqlite"
MAX_CHOICES = 40
N_NAMES = 3
N_RELATED = 3

LOOK_SECONDS = 1.0
"""How often the folder of packs is looked at, at most, while texts are linked."""


class PackLinker:
    """A linker that is made anew when its packs change; texts under way keep the old one."""

    def __init__(self, kb: KnowledgeBase, trained: TrainedModel, packs: PackFolder) -> None:
        self._kb, self._trained, self._packs = kb, trained, packs
        self._lock = threading.Lock()
        self.reload()

    def reload(self) -> None:
        """Read the packs again."""
        with self._lock:
            self._load()

    def _load(self) -> None:
        self._version = self._packs.version()
        packs, settings = self._packs.packs(), LinkerSettings(explain=True)
        linker = Linker(self._kb, self._trained, packs, settings=settings)
        _ = linker.detector  # made now, so that the first text does not wait for it
        self._linker = linker
        self._next_look = time.monotonic() + LOOK_SECONDS

    def link_documents(self, documents: Iterable[Document]) -> Iterable[LinkedDocument]:
        """Link documents in their order, with the packs that are in the folder now."""
        if time.monotonic() >= self._next_look and self._lock.acquire(blocking=False):
            try:  # a command may have put some there
                self._next_look = time.monotonic() + LOOK_SECONDS
                if self._packs.version() != self._version:
                    self._load()
            finally:
                self._lock.release()
        return self._linker.link_documents(documents)


def known_choices(kb: KnowledgeBase, surface: str) -> tuple[Choice, ...]:
    """List the entities of a surface form, with a line of what is known of each."""
    return _choices(kb, kb.candidates(surface).ids[:MAX_CHOICES].tolist(), surface)


def search_entities(kb: KnowledgeBase, search: str) -> tuple[Choice, ...]:
    """Find entities by the beginning of a title or another name."""
    text = " ".join(search.split())
    if not text:
        return ()
    # People write in small letters what titles capitalise.
    starts = dict.fromkeys([text, text[:1].upper() + text[1:], text.title()])
    found = [i for i in kb.entity_ids(list(starts)).tolist() if i >= 0]
    for start in starts:
        for name in kb.names_with_prefix(start, MAX_CHOICES):
            found += kb.candidates(name).ids[:3].tolist()
    return _choices(kb, list(dict.fromkeys(found))[:MAX_CHOICES])


def _choices(kb: KnowledgeBase, ids: Sequence[int], surface: str = "") -> tuple[Choice, ...]:
    """Return entities with a line of what the knowledge base knows: other names, related ones."""
    found = []
    for entity, title in zip(ids, kb.titles(ids), strict=True):
        aliases = (name for name, _ in kb.aliases_of(entity)[: N_NAMES + 2])
        names = [name for name in aliases if name not in (title, surface)][:N_NAMES]
        related = kb.titles(kb.related(entity, N_RELATED)[0])
        known = (("also", names), ("with", related))
        line = " · ".join(f"{word} {', '.join(listed)}" for word, listed in known if listed)
        found.append(Choice(title, title, line))
    return tuple(found)


def model_guess(linker: PackLinker, document: Document, mention: int) -> Guess | None:
    """Ask the linking model for a mention of a document."""
    (linked,) = linker.link_documents([document])
    if linked.error is not None or len(linked.mentions) != len(document.mentions):
        return None
    found = linked.mentions[mention]
    if found.entity is None:
        return Guess(NONE, "none of these", 0.0)
    return Guess(found.entity, found.entity, found.confidence)


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
    found, work = None, learn(workspaces_dir)
    if found_dir is not None:
        found = AcceptRequests(FoundFolder(found_dir), workspaces_dir)
        work = accept_job(found, kb, trained, work)
    packs = PackFolder(packs_dir, kb, trained.fingerprint)
    linker = PackLinker(kb, trained, packs)
    return ServiceParts(
        linker=linker,
        packs=packs,
        workspaces=WorkspaceFolders(
            workspaces_dir,
            lru_cache(maxsize=256)(partial(known_choices, kb)),
            partial(model_guess, linker),
            Advisor(kb, trained),
            find=partial(search_entities, kb),
        ),
        jobs=JobRunner(workspaces_dir / JOBS_FILE, work),
        security=security,
        on_packs=linker.reload,
        found=found,
        name=kb.name,
    )
