"""What the service is given: it makes none of its parts itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stamo.corpus.types import LabelKey
from stamo.errors import WorkspaceError
from stamo.linking.results import LinkedMention
from stamo.packs.pack import PackFolder
from stamo.service.jobs import JobRunner
from stamo.service.security import SecuritySettings
from stamo.workspace.labels.events import Choice


class MissingWorkspaceError(WorkspaceError):
    """There is no workspace, or not that part of one."""


class TextLinker(Protocol):
    """Links one text; called from several threads."""

    def link(self, text: str) -> Sequence[LinkedMention]:
        """Return the mentions of a text with their entities."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """One candidate mention in its context, with what it may mean."""

    document: str
    mention: int
    title: str | None
    before: str
    surface: str
    after: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Guess:
    """What the linking model would have said; shown only after the choice."""

    choice: str
    """A title, `@emerging`, or `@none` when it would not have linked the mention."""
    entity: str
    confidence: float


@dataclass(frozen=True, slots=True)
class LabellingProgress:
    """How far the labels of a workspace are."""

    n_labelled: int
    n_skipped: int
    n_left: int
    """Mentions that nobody has looked at."""
    target: int = 20
    by: Mapping[str, int] = field(default_factory=dict)
    """How many labels each person gave."""
    advice: str = ""
    """A line on whether more labels help."""


@dataclass(frozen=True, slots=True)
class WorkspaceInfo:
    """One emerging entity and where its workspace stands."""

    name: str
    entity: str
    aliases: tuple[str, ...]
    next_step: str
    progress: LabellingProgress
    has_report: bool = False


class Workspaces(Protocol):
    """The folders of emerging entities; called from several threads.

    An unknown name raises `MissingWorkspaceError`; a folder in another state `WorkspaceError`.
    """

    def all(self) -> list[WorkspaceInfo]:
        """Return every workspace."""
        ...

    def info(self, name: str) -> WorkspaceInfo:
        """Return one workspace."""
        ...

    def progress(self, name: str) -> LabellingProgress:
        """Count the labels of a workspace."""
        ...

    def next(self, name: str, taken: frozenset[LabelKey]) -> Question | None:
        """Return the mention that teaches most among those nobody has labelled or taken."""
        ...

    def question(self, name: str, key: LabelKey) -> Question | None:
        """Return a certain mention while it has no label, else None."""
        ...

    def decide(self, name: str, key: LabelKey, choice: str, who: str) -> None:
        """Keep a choice; it is on disk when this returns."""
        ...

    def guess(self, name: str, key: LabelKey) -> Guess | None:
        """Return what the linking model says of a mention."""
        ...

    def undo(self, name: str, who: str) -> LabelKey | None:
        """Take back a person's last label or skip; None when there is none."""
        ...

    def report(self, name: str) -> Path | None:
        """Return the report's path, None when none was made."""
        ...

    def close(self) -> None:
        """Let go of all files."""
        ...


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for."""

    link_characters: int = 500_000
    """Characters of a text to link."""
    link_seconds: float = 30.0
    """How long linking a text may take."""
    link_threads: int = 2
    """Texts that are linked at the same time."""
    link_waiting: int = 16
    """Texts that may wait for their turn; more are turned away."""
    lease_seconds: float = 600.0
    """How long a mention is kept for the person who sees it."""


@dataclass(frozen=True)
class ServiceParts:
    """Everything that the service works with."""

    linker: TextLinker
    packs: PackFolder
    workspaces: Workspaces
    jobs: JobRunner
    security: SecuritySettings = field(default_factory=SecuritySettings)
    limits: Limits = field(default_factory=Limits)
    on_packs: Callable[[], None] = lambda: None
    """Called after a pack was added or removed."""
    name: str = ""
    """The knowledge base's name, for the pages."""
