"""The label desk: which mention is asked next, what a person decides, and how it is taken back.

A person in a terminal and several people on pages label at the same desk. A mention that is shown
is kept for whoever sees it, so that nobody else is asked the same. What is kept lives in memory
only: after a restart nobody holds anything.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from stamo.corpus.types import Corpus, Document, LabelKey
from stamo.errors import CorpusFormatError, WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.linking.results import LinkedDocument
from stamo.models.store import TrainedModel
from stamo.system.files import Closing, file_version
from stamo.workspace.documents import DOCUMENTS_MANIFEST
from stamo.workspace.folder import N_LABELS, Workspace, workspace_folders
from stamo.workspace.labels import (
    EMERGING_CHOICE,
    NONE,
    SKIP,
    LabelEvent,
    LabelTarget,
    describe_choice,
)
from stamo.workspace.queue import LabelQueue, open_queue
from stamo.workspace.wording import count_of, cut_end, cut_start

logger = logging.getLogger(__name__)

CONTEXT_CHARACTERS = 1500
"""How much of a document is shown on each side of the mention."""
ADVISE_EVERY = 2
"""After how many new labels it is asked again what teaches most."""
LEASE_SECONDS = 600.0
"""How long a mention is kept for the person who sees it."""
MAX_CHOICES = 40
MAX_DESKS = 8
"""Desks that stay open, some ten megabytes each; others are opened anew when they are asked for."""

LinkAll = Callable[[Iterable[Document]], Iterable[LinkedDocument]]
"""Links documents with the mentions that they bring."""
LabelPlace = tuple[str, int, int]
"""Document, start and end: indices of mentions change when documents are collected anew."""


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
    """Mentions of this name in this document: one label speaks for all of them."""
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
    by: dict[str, int] = field(default_factory=dict)
    """How many labels each person gave."""
    advice: str = ""
    """Whether more labels help, where it is known."""


def labelling_progress(workspace: Workspace) -> LabellingProgress:
    """Count the labels of a workspace; its documents are not read for it."""
    events, n_mentions = workspace.current_labels(), workspace.documents.manifest.n_mentions
    by = Counter(event.labeller for event in events if event.choice != SKIP)
    n, n_left = by.total(), max(n_mentions - len(events), 0)
    target, advice = min(N_LABELS, n_mentions) or N_LABELS, ""
    if n >= target and all(event.choice != EMERGING_CHOICE for event in events):
        rest = "label some more." if n_left else "collect more documents."
        advice = f"None of the {n} labels is {workspace.entity.id}; {rest}"
    elif target <= n < N_LABELS:
        advice = (
            f"{count_of(n, 'label')}, and nothing is left to label. To judge a pack takes about "
            f"{N_LABELS}: collect more documents, or learn from what there is."
        )
    return LabellingProgress(n, len(events) - n, n_left, target, dict(by), advice)


def find_entities(kb: KnowledgeBase, search: str) -> tuple[Choice, ...]:
    """Find entities by the beginning of a title or another name; the exact title comes first."""
    text = " ".join(search.split())
    if not text:
        return ()
    # People write in small letters what titles capitalise.
    starts = dict.fromkeys([text, text[:1].upper() + text[1:], text.title()])
    found = [i for i in kb.entity_ids(list(starts)).tolist() if i >= 0]
    for start in starts:
        for name in kb.names_with_prefix(start, MAX_CHOICES):
            found += kb.candidates(name).ids[:3].tolist()
    return known_choices(kb, list(dict.fromkeys(found))[:MAX_CHOICES])


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
        self.advice = ""
        """What the advisor last said of whether more labels help."""
        self._lock = threading.RLock()
        self._version: tuple[int, int, int] | None = None
        self._places: dict[LabelKey, LabelPlace] = {}
        self._queue: LabelQueue | None = None
        self._order: list[LabelKey] = []
        self._n_known = -1
        self._choices: dict[str, tuple[Choice, ...]] = {}
        self._leases: dict[LabelKey, tuple[str, float]] = {}

    def close(self) -> None:
        """Close the labels; all of them are on disk already."""
        self.store.close()

    def read(self) -> None:
        """Read the documents, where they changed since the last time."""
        version = file_version(self.workspace.documents.folder / DOCUMENTS_MANIFEST)
        with self._lock:
            if version is not None and version == self._version:
                return
            names = self.workspace.entity.aliases
            self.documents = {document.id: document for document in self.workspace.documents}
            self._places = {
                (document.id, index): (document.id, mention.start, mention.end)
                for document in self.documents.values()
                for index, mention in enumerate(document.mentions)
                if mention.surface in names
            }
            self._version, self._queue, self._n_known = version, None, -1

    def next(self, client: str = "", n: int = 1) -> list[Question]:
        """Return the mentions to ask now: those that this client holds, then the best free ones."""
        with self._lock:
            self.read()
            decided, differing = self._decided()
            self._advise(list(decided.values()))
            now = time.monotonic()
            held = {key: lease for key, lease in self._leases.items() if lease[1] > now}
            own = [key for key, (who, _) in held.items() if who == client]
            # Where labels of one name in one document differ, every mention of it is asked.
            order = sorted(self._order, key=lambda key: self._name(key) not in differing)
            free = (key for key in order if key not in held)
            open_ = (k for k in (*own, *free) if k in self._places)
            keys = list(islice((k for k in open_ if self._places[k] not in decided), n))
            self._leases = {key: lease for key, lease in held.items() if lease[0] != client}
            self._leases |= {key: (client, now + LEASE_SECONDS) for key in keys}
            return [self.question(key) for key in keys]

    def question(self, key: LabelKey) -> Question:
        """Return any candidate mention, with its label where it has one.

        Raises:
            MissingWorkspaceError: There is no such mention.
        """
        with self._lock:
            self.read()
            if key not in self._places:
                raise MissingWorkspaceError(
                    f"There is no candidate mention {key[1]} in the document {key[0][:80]!r}."
                )
            decided, differing = self._decided()
            document, entity = self.documents[key[0]], self.workspace.entity
            mention, label = document.mentions[key[1]], decided.get(self._places[key])
            if mention.surface not in self._choices:
                ids = self.kb.candidates(mention.surface).ids[:MAX_CHOICES].tolist()
                known = known_choices(self.kb, ids, mention.surface)
                others = ", ".join(alias for alias in entity.aliases if alias != entity.id)
                named = f"The new entity; also called {others}" if others else "The new entity"
                new = Choice(EMERGING_CHOICE, entity.id, entity.description or named, emerging=True)
                # Always first: the same key means the new entity from the first mention on.
                self._choices[mention.surface] = (new, *known)
            return Question(
                document=document.id,
                mention=key[1],
                title=document.title,
                start=mention.start,
                end=mention.end,
                before=cut_start(document.text[: mention.start], CONTEXT_CHARACTERS),
                surface=document.text[mention.start : mention.end],
                after=cut_end(document.text[mention.end :], CONTEXT_CHARACTERS),
                choices=self._choices[mention.surface],
                n_same=sum(m.surface == mention.surface for m in document.mentions),
                differ=self._name(key) in differing,
                label=None if label is None else describe_choice(label.choice, entity.id),
                labelled_by="" if label is None else label.labeller,
            )

    def decide(
        self, key: LabelKey, choice: str, *, who: str, client: str = "", change: bool = False
    ) -> Guess | None:
        """Keep what a person decided; it is on disk when this returns.

        Args:
            key: The mention.
            choice: One of the question's choices, another title, `@none` or `@skip`.
            who: The person.
            client: Where the person sees it, see `next`.
            change: Whether the mention may have a label already.

        Returns:
            What the linking model says; nothing for a skip, or where the model fails.

        Raises:
            MissingWorkspaceError: There is no such mention.
            WorkspaceError: Somebody else is looking at it, or it has a label.
            CorpusFormatError: The choice is no entity.
        """
        with self._lock:
            question = self.question(key)
            holder, until = self._leases.get(key, (client, 0.0))
            if holder != client and until > time.monotonic():
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
            mention = self.documents[key[0]].mentions[key[1]]
            target = LabelTarget.of(key[0], key[1], mention)
            self.store.add(target, choice, labeller=who, at=datetime.now(UTC))
            self._leases.pop(key, None)
            events = self.store.current()
            n = sum(event.choice != SKIP for event in events)
            if self._queue is not None and n >= N_LABELS and n % 5 == 0:
                self.advice = self._queue.advise(events).text
        return None if choice == SKIP else self._guess(key)

    def undo(self, *, who: str, client: str = "") -> LabelEvent | None:
        """Take back a person's last choice or skip; its mention is the next that they are asked."""
        with self._lock:
            self.read()
            event = self.store.undo(labeller=who, at=datetime.now(UTC))
            if event is not None:
                self._n_known = -1  # it is to be asked again, by others too
                for key, place in self._places.items():
                    if place == _place(event):
                        until = time.monotonic() + LEASE_SECONDS
                        self._leases.pop(key, None)
                        self._leases = {key: (client, until), **self._leases}
            return event

    def progress(self) -> LabellingProgress:
        """Count the labels, with what the advisor says."""
        counted = labelling_progress(self.workspace)
        return replace(counted, advice=counted.advice or self.advice)

    def _advise(self, events: list[LabelEvent]) -> None:
        """Order the mentions anew where enough labels came since the last time."""
        if self._n_known >= 0 and abs(len(events) - self._n_known) < ADVISE_EVERY:
            return
        if self._queue is None and self._places:
            corpus = Corpus(tuple(self.documents.values()))
            self._queue = open_queue(self.workspace, corpus, self.kb, self._trained)
        self._order = [] if self._queue is None else self._queue.order(events)
        self._n_known = len(events)

    def _decided(self) -> tuple[dict[LabelPlace, LabelEvent], set[tuple[str, str]]]:
        """Return the labels and skips by place, and the names whose labels differ, by document."""
        decided, said = {}, defaultdict(set)
        for event in self.store.current():
            decided[_place(event)] = event
            if event.choice != SKIP:
                said[event.target.document, event.target.surface].add(event.choice)
        return decided, {name for name, choices in said.items() if len(choices) > 1}

    def _name(self, key: LabelKey) -> tuple[str, str]:
        return key[0], self.documents[key[0]].mentions[key[1]].surface

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


def _place(event: LabelEvent) -> LabelPlace:
    return event.target.document, event.target.start, event.target.end
