"""The label desk: what is asked next, what a person decides or takes back, and what was said.

A person in a terminal and several people on pages label at the same desk. The mention that is shown
is kept for the person who sees it, so that nobody else is asked the same, until they answer, leave
or ask again. What is kept lives in memory only: after a restart nobody holds anything.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stamo.corpus.types import Corpus, Document, LabelKey
from stamo.errors import CorpusFormatError, WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.linking.results import LinkedDocument
from stamo.models.store import TrainedModel
from stamo.system.files import Closing, file_version
from stamo.workspace.documents import DOCUMENTS_MANIFEST
from stamo.workspace.folder import N_LABELS, Status, Workspace, workspace_folders
from stamo.workspace.labels import (
    EMERGING_CHOICE,
    NONE,
    SKIP,
    LabelEvent,
    LabelPlace,
    LabelStore,
    LabelTarget,
    describe_choice,
)
from stamo.workspace.queue import LabelQueue, asked_apart, open_queue
from stamo.workspace.verdict import Ask, Check, MentionPlace, Outlook
from stamo.workspace.wording import Snippet, cut_context, cut_end, cut_start

logger = logging.getLogger(__name__)

ENTRY_WIDTH = 90
CONTEXT_CHARACTERS = 1500
"""How much of a document is shown on each side of the mention."""
LEASE_SECONDS = 600.0
"""How long a mention is kept for who sees it."""
MAX_CHOICES = 40
MAX_DESKS = 8
"""Desks that stay open, some ten megabytes each; others are opened anew when they are asked for."""

LinkAll = Callable[[Iterable[Document]], Iterable[LinkedDocument]]
"""Links documents with the mentions that they bring."""


class MissingWorkspaceError(WorkspaceError):
    """There is no workspace of this name, or not that part of one."""


@dataclass(frozen=True)
class Choice:
    """One entity that a person may choose."""

    choice: str
    """What is kept: a title of the knowledge base, or `@emerging`."""
    entity: str
    description: str = ""
    """What is known of it."""
    emerging: bool = False
    """Whether it is the new entity."""


@dataclass(frozen=True)
class Question:
    """A candidate mention in its context, and what it may mean."""

    document: str
    mention: int
    title: str | None
    start: int
    """Where it stands in the document's text, in characters; `end` is behind it."""
    end: int
    before: str
    surface: str
    after: str
    choices: tuple[Choice, ...]
    n_same: int
    """Mentions of this name in this document: one label speaks for all of them, unless it is given
    for one only."""
    differ: bool
    """Whether labels of this name in this document differ; then each speaks for itself."""
    label: str | None
    """Its label as people read it."""
    labelled_by: str

    @property
    def key(self) -> LabelKey:
        """Document and index, as the desk names a mention."""
        return self.document, self.mention


@dataclass(frozen=True)
class Guess:
    """What the linking model would have said; shown only after the choice."""

    choice: str
    """A title, `@emerging`, or `@none` when it would not have linked the mention."""
    entity: str
    confidence: float


@dataclass(frozen=True)
class LabellingProgress:
    """How far the labels of a workspace are."""

    n_labelled: int = 0
    n_skipped: int = 0
    n_left: int = 0
    """Mentions that nobody has looked at."""
    target: int = N_LABELS
    advice: str = ""
    """What to do next: label more and of what kind, learn, or what the verdict on the pack says."""
    ask: Ask = ""
    """Which mentions the advice speaks of."""
    is_enough: bool = False
    """Whether the labels are enough to learn from."""


def labelling_progress(status: Status) -> LabellingProgress:
    """Say how far the labels of a workspace are."""
    labels, target = status.labels, min(N_LABELS, status.n_mentions) or N_LABELS
    counts = (labels.n_labelled, labels.n_skipped, status.n_left, target)
    return LabellingProgress(*counts, *status.advice)


def find_entities(kb: KnowledgeBase, search: str) -> tuple[Choice, ...]:
    """Find entities by words of their names, the most linked first."""
    return known_choices(kb, kb.search(search, MAX_CHOICES).tolist())


def known_choices(kb: KnowledgeBase, ids: Sequence[int], surface: str = "") -> tuple[Choice, ...]:
    """Describe entities by what the knowledge base knows: other names, related entities."""
    found = []
    for entity, title in zip(ids, kb.titles(ids), strict=True):
        aliases = (name for name, _ in kb.aliases_of(entity)[:5])
        names = [name for name in aliases if name not in (title, surface)][:3]
        known = {"also": names, "with": kb.titles(kb.related(entity, 3)[0])}
        said = " · ".join(f"{word} {', '.join(some)}" for word, some in known.items() if some)
        found.append(Choice(title, title, said))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class LabelEntry:
    """One labelled mention."""

    document: str
    mention: int | None
    """Its index now; None where it is not among the documents any more."""
    title: str
    shown: Snippet
    choice: str
    answer: str
    """The choice as people read it."""
    only: bool
    """Whether it holds for this mention alone."""
    labeller: str
    at: str
    said: tuple[str, ...]
    """Everything said of it, oldest first: who, when, what."""
    check: Check | None
    """None before learning."""
    differs: bool
    """Whether the other labels say otherwise."""

    def matches(self, search: str) -> bool:
        """Say whether a text stands in it, in any case."""
        where = (self.title, self.document, *self.shown, self.answer, self.labeller)
        return search.casefold() in "\n".join(where).casefold()


def list_labels(
    store: LabelStore,
    documents: Mapping[str, Document],
    entity: str,
    checks: Mapping[MentionPlace, Check] | None = None,
) -> list[LabelEntry]:
    """List what holds now, the newest first, each with all that was said of its mention.

    Args:
        store: The labels.
        documents: The collected documents by id.
        entity: The name of the emerging entity.
        checks: What runs that did not see a label say of its mention.
    """
    said: dict[LabelPlace, list[str]] = defaultdict(list)
    for event in store.events():
        answer = describe_choice(event.choice, entity)
        said[event.target.place].append(f"{event.labeller}, {event.at:%Y-%m-%d %H:%M}: {answer}")
    entries = []
    for event in reversed(store.current()):
        target, document = event.target, documents.get(event.target.document)
        shown, index = Snippet("", target.surface, ""), None
        for i, mention in enumerate(document.mentions if document else ()):
            if document and (mention.start, mention.end) == (target.start, target.end):
                shown = cut_context(document.text, target.start, target.end, ENTRY_WIDTH)
                index = i
        answer = describe_choice(event.choice, entity)
        check = (checks or {}).get((target.document, target.start))
        said_otherwise = check is not None and check.is_entity != (answer == entity)
        entries.append(
            LabelEntry(
                document=target.document,
                mention=index,
                title=(document.title if document else None) or target.document,
                shown=shown,
                choice=event.choice,
                answer=answer,
                only=event.only,
                labeller=event.labeller,
                at=f"{event.at:%Y-%m-%d %H:%M}",
                said=tuple(said[target.place]),
                check=check,
                differs=said_otherwise and event.choice != SKIP,
            )
        )
    return entries


class LabelDesk(Closing):
    """The labelling of one workspace; several threads may use it."""

    def __init__(
        self, workspace: Workspace, kb: KnowledgeBase, trained: TrainedModel, link: LinkAll
    ) -> None:
        """Open the labels; documents are read when the first question is asked.

        Args:
            workspace: The workspace.
            kb: The knowledge base that its documents were linked with.
            trained: The model that linked them.
            link: Tells what the model says of a mention, once it is labelled.
        """
        self.workspace, self.kb, self._trained, self._link = workspace, kb, trained, link
        self.store = workspace.open_labels()
        self.documents: dict[str, Document] = {}
        self._lock = threading.RLock()
        self._version: tuple[int, int, int] | None = None
        self._targets: dict[LabelKey, LabelTarget] = {}
        self._queue: LabelQueue | None = None
        self._outlook: Outlook | None = None
        self._choices: dict[str, tuple[Choice, ...]] = {}
        self._held: dict[str, tuple[LabelKey, float]] = {}
        self._again: dict[str, LabelKey] = {}
        """The mention whose answer each person just took back."""

    def close(self) -> None:
        """Close the labels; all of them are on disk already."""
        self._forget_queue()
        self.store.close()

    def _forget_queue(self) -> None:
        if self._queue is not None:
            self._queue.close()
        self._queue = None

    def read(self) -> None:
        """Read the documents, where they changed since the last time."""
        version = file_version(self.workspace.documents.folder / DOCUMENTS_MANIFEST)
        with self._lock:
            if version is None or version != self._version:
                names = self.workspace.entity.aliases
                self.documents = {document.id: document for document in self.workspace.documents}
                self._targets = {
                    (document.id, index): LabelTarget.of(document.id, index, mention)
                    for document in self.documents.values()
                    for index, mention in enumerate(document.mentions)
                    if mention.surface in names
                }
                self._version = version
                self._forget_queue()

    def next(self, who: str = "", ask: Ask = "") -> Question | None:
        """Return the mention to ask a person now, and begin to work out what comes after it.

        It is the advisor's first choice of those that nobody else sees, whatever the person saw
        before; but one whose answer they just took back is asked first. Where no person is named,
        it is kept for nobody. None: nothing is left.
        """
        with self._lock:
            self.read()
            self.release(who)
            events, now = self.store.current(), time.monotonic()
            if self._queue is None and self._targets:
                corpus = Corpus(tuple(self.documents.values()))
                self._queue = open_queue(self.workspace, corpus, self.kb, self._trained)
            if self._queue is None:
                return None
            order = self._queue.order(events, ask)
            taken = {key for key, until in self._held.values() if until > now}
            free = [key for key in order if key not in taken]
            again = self._again.pop(who, None)
            key = again if again in free else next(iter(free), None)
            if sum(event.choice != SKIP for event in events) >= N_LABELS:
                self._outlook = self._queue.outlook(events)
            if key is None:
                return None
            if who:
                self._held[who] = (key, now + LEASE_SECONDS)
            self._queue.look_ahead(events, key, ask)
            return self.question(key)

    def release(self, who: str) -> None:
        """Let others see what was kept for a person, who has left."""
        with self._lock:
            self._held.pop(who, None)

    def question(self, key: LabelKey) -> Question:
        """Return any candidate mention, with its label where it has one.

        Raises:
            MissingWorkspaceError: There is no such mention.
        """
        with self._lock:
            self.read()
            if key not in self._targets:
                raise MissingWorkspaceError(
                    f"There is no candidate mention {key[1]} in the document {key[0][:80]!r}."
                )
            document, entity = self.documents[key[0]], self.workspace.entity
            target, events = self._targets[key], self.store.current()
            label = next((e for e in events if e.target.place == target.place), None)
            if target.surface not in self._choices:
                ids = self.kb.candidates(target.surface).ids[:MAX_CHOICES].tolist()
                known = known_choices(self.kb, ids, target.surface)
                others = ", ".join(alias for alias in entity.aliases if alias != entity.id)
                named = f"The new entity; also called {others}" if others else "The new entity"
                new = Choice(EMERGING_CHOICE, entity.id, entity.description or named, emerging=True)
                # Always first: the same key means the new entity from the first mention on.
                self._choices[target.surface] = (new, *known)
            return Question(
                document=document.id,
                mention=key[1],
                title=document.title,
                start=target.start,
                end=target.end,
                before=cut_start(document.text[: target.start], CONTEXT_CHARACTERS),
                surface=document.text[target.start : target.end],
                after=cut_end(document.text[target.end :], CONTEXT_CHARACTERS),
                choices=self._choices[target.surface],
                n_same=sum(m.surface == target.surface for m in document.mentions),
                differ=target.name in asked_apart(e for e in events if not e.only),
                label=None if label is None else describe_choice(label.choice, entity.id),
                labelled_by="" if label is None else label.labeller,
            )

    def decide(
        self, key: LabelKey, choice: str, *, who: str, only: bool = False, change: bool = False
    ) -> Guess | None:
        """Keep what a person decided; it is on disk when this returns.

        Args:
            key: The mention.
            choice: One of the question's choices, another title, `@none` or `@skip`.
            who: The person.
            only: Whether it holds for this mention alone.
            change: Whether the mention may have a label already.

        Returns:
            What the linking model says; nothing for a skip, or where the model fails.

        Raises:
            MissingWorkspaceError: There is no such mention.
            WorkspaceError: Somebody else is looking at it, or it has a label.
            CorpusFormatError: The choice is no entity.
        """
        with self._lock:
            question, now = self.question(key), time.monotonic()
            others = (held for holder, held in self._held.items() if holder != who)
            if any(held == key and until > now for held, until in others):
                raise WorkspaceError(
                    "Somebody else is labelling this mention now; go on with the next one."
                )
            if question.label and not change:
                raise WorkspaceError("This mention has a label already; go on with the next one.")
            known = {NONE, SKIP, *(one.choice for one in question.choices)}
            if choice not in known and self.kb.entity_ids([choice])[0] < 0:
                raise CorpusFormatError(
                    f"{choice[:80]!r} is no choice for this mention; take one of those that "
                    "came with it, or another entity of the knowledge base."
                )
            at = datetime.now(UTC)
            self.store.add(self._targets[key], choice, labeller=who, at=at, only=only)
        return None if choice == SKIP else self._guess(key)

    def undo(self, *, who: str) -> LabelEvent | None:
        """Take back a person's last choice or skip; its mention is the next that they are asked."""
        with self._lock:
            self.read()
            event = self.store.undo(labeller=who, at=datetime.now(UTC))
            for key, target in self._targets.items():
                if event is not None and target.place == event.target.place:
                    self._again[who] = key
            return event

    def progress(self) -> LabellingProgress:
        """Say how far the labels are, by what the advisor last expected of the others."""
        return labelling_progress(self.workspace.status(self._outlook))

    def _guess(self, key: LabelKey) -> Guess | None:
        try:
            document = self.documents[key[0]]
            (linked,) = self._link([document])
            if linked.error is not None or len(linked.mentions) != len(document.mentions):
                return None
            found = linked.mentions[key[1]]
        except Exception:
            # A guess is an extra; whatever is wrong with it must not look like a lost label.
            logger.exception("The model could not link a mention of %r", self.workspace.path.name)
            return None
        if found.entity is None:
            return Guess(NONE, "none of these", 0.0)
        # With an earlier pack of the entity in use, the model may know it already.
        choice = EMERGING_CHOICE if found.entity == self.workspace.entity.id else found.entity
        return Guess(choice, found.entity, round(found.confidence, 4))


class Desks(Closing):
    """The desks of every workspace that lies directly in a folder."""

    def __init__(self, root: Path, kb: KnowledgeBase, trained: TrainedModel, link: LinkAll) -> None:
        self.root = root
        self._kb, self._trained, self._link = kb, trained, link
        self._lock = threading.Lock()
        self._desks: dict[str, LabelDesk] = {}

    def names(self) -> list[str]:
        """List the workspaces."""
        return [folder.name for folder in workspace_folders(self.root)]

    def workspace(self, name: str) -> Workspace:
        """Open one workspace.

        Raises:
            MissingWorkspaceError: There is none of this name.
            WorkspaceError: It is damaged.
        """
        # The name is compared with what is there; it never becomes a path by itself.
        if name not in self.names():
            raise MissingWorkspaceError(
                f"There is no workspace {name[:80]!r} here; start one with `stamo new`."
            )
        return Workspace.open(self.root / name)

    def open(self, name: str) -> LabelDesk:
        """Return the desk of a workspace; see `workspace` for what may be wrong with it."""
        workspace = self.workspace(name)
        with self._lock:
            desk = self._desks.pop(name, None)
            if desk is None:
                desk = LabelDesk(workspace, self._kb, self._trained, self._link)
            self._desks[name] = desk  # the last one used stands last
            for oldest in list(self._desks)[:-MAX_DESKS]:
                del self._desks[oldest]  # it closes when the last request has done with it
            return desk

    def close(self) -> None:
        """Close the labels of all workspaces."""
        with self._lock:
            for desk in self._desks.values():
                desk.close()
            self._desks.clear()
