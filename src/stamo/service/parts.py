"""What the service is given: it makes none of its parts itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from stamo.corpus.types import Document
from stamo.discovery.accept import AcceptRequests
from stamo.linking.results import LinkedDocument
from stamo.packs.folder import PackFolder
from stamo.service.folders import WorkspaceFolders
from stamo.service.jobs import JobRunner
from stamo.service.security import SecuritySettings


class TextLinker(Protocol):
    """Links texts; called from several threads."""

    def link_documents(self, documents: Iterable[Document]) -> Iterable[LinkedDocument]:
        """Link documents in their order, the mentions that they bring or those it finds."""
        ...


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for."""

    link_characters: int = 500_000
    """Characters of a text to link."""
    link_seconds: float = 30.0
    """How long linking a text may take."""
    link_threads: int = 1
    """Threads for long texts and NIF; the short ones share one of their own."""
    link_waiting: int = 256
    """Texts that may wait for their turn; more are turned away."""
    link_waiting_characters: int = 2_000_000
    """Characters that may wait, about four seconds of work; more are turned away."""
    nif_bytes: int = 2**20
    """Bytes of a NIF document."""
    nif_triples: int = 20_000
    """Triples of a NIF document; to read so many takes about a second."""
    lease_seconds: float = 600.0
    """How long a mention is kept for the person who sees it."""


@dataclass(frozen=True)
class ServiceParts:
    """Everything that the service works with."""

    linker: TextLinker
    packs: PackFolder
    workspaces: WorkspaceFolders
    jobs: JobRunner
    security: SecuritySettings = field(default_factory=SecuritySettings)
    limits: Limits = field(default_factory=Limits)
    on_packs: Callable[[], None] = lambda: None
    """Called after a pack was added or removed."""
    found: AcceptRequests | None = None
    """Where proposals are shown and accepted; None shows none."""
    name: str = ""
    """The knowledge base's name, for the pages."""
