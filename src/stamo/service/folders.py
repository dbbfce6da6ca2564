"""The workspaces under one folder, as the service needs them."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from stamo.corpus.types import Corpus, Document, EmergingEntity, LabelKey
from stamo.errors import StamoError, WorkspaceError
from stamo.service.schemas import (
    ChoiceOut,
    Guess,
    LabellingProgress,
    OwnPack,
    Question,
    WorkspaceInfo,
)
from stamo.system.files import file_version
from stamo.workspace.agreement import (
    LabelEntry,
    LabellerPair,
    compare_labellers,
    list_labels,
)
from stamo.workspace.documents import DOCUMENTS_MANIFEST
from stamo.workspace.folder import N_LABELS, REPORT, Workspace, workspace_folders
from stamo.workspace.labels import (
    EMERGING_CHOICE,
    SKIP,
    Choice,
    LabelEvent,
    LabelStore,
    LabelTarget,
    describe_choice,
)
from stamo.workspace.verdict import Decision, judge, read_summary
from stamo.workspace.wording import count_of, cut_end, cut_start

logger = logging.getLogger(__name__)

CONTEXT_CHARACTERS = 1500
"""How much of a document is shown on each side of the mention."""
LABELS_TO_ADVISE = 5
"""After how many new labels it is asked again what teaches most."""


class MissingWorkspaceError(WorkspaceError):
    """There is no workspace, or not that part of one."""


Describe = Callable[[str], Sequence[Choice]]
"""Returns the known entities that a surface form may mean, with a line on each."""

GuessEntity = Callable[[Document, int], Guess | None]
"""Returns what the linking model says of a mention, given by its index in the document."""

Find = Callable[[str], Sequence[Choice]]
"""Returns entities of the knowledge base with a name that begins so; the exact title first."""

Advise = Callable[[Workspace, Corpus, Sequence[LabelEvent]], Iterable[LabelKey]]
"""Orders the candidate mentions, those that teach most first, knowing the labels so far."""


def candidate_mentions(workspace: Workspace, document: Document) -> list[LabelKey]:
    """Return the mentions that may be the emerging entity."""
    aliases = workspace.entity.aliases
    return [(document.id, i) for i, m in enumerate(document.mentions) if m.surface in aliases]


@dataclass
class _Space:
    """An opened workspace: its documents stay in memory while they are labelled."""

    workspace: Workspace
    version: tuple[int, int, int] | None
    documents: dict[str, Document]
    store: LabelStore
    order: list[LabelKey]
    n_labels: int
    """How many labels the order knew of."""

    def target(self, key: LabelKey) -> LabelTarget:
        """Name a mention as the labels do."""
        document = self.documents.get(key[0])
        if document is None or key not in candidate_mentions(self.workspace, document):
            raise MissingWorkspaceError(
                f"There is no candidate mention {key[1]} in the document {key[0][:80]!r}."
            )
        return LabelTarget.of(document.id, key[1], document.mentions[key[1]])

    def differing(self) -> set[tuple[str, str]]:
        """Return the documents and names whose labels differ."""
        said: dict[tuple[str, str], set[str]] = defaultdict(set)
        for event in self.store.current():
            if event.choice != SKIP:
                said[event.target.document, event.target.surface].add(event.choice)
        return {place for place, choices in said.items() if len(choices) > 1}

    def is_among(self, key: LabelKey, places: set[tuple[str, str]]) -> bool:
        """Say whether a mention's document and name are among some."""
        return (key[0], self.documents[key[0]].mentions[key[1]].surface) in places

    def decided(self) -> dict[tuple[str, int, int], LabelEvent]:
        """Return the labels and skips by their places."""
        return {_place(event.target): event for event in self.store.current()}


def _learned_pack(workspace: Workspace) -> OwnPack | None:
    summary = read_summary(workspace.summary_path) if workspace.pack_path.is_file() else None
    if summary is None:
        return None
    verdict = judge(summary.findings)
    return OwnPack(
        fingerprint=summary.pack, is_fit=verdict.decision is Decision.ship, verdict=verdict.sentence
    )


def _advise(entity: str, n_labelled: int, target: int, n_left: int, is_found: bool) -> str:
    """Say what else to do once the goal is reached, where it is not simply to learn."""
    if n_labelled < target:
        return ""
    if not is_found:
        rest = "label some more." if n_left else "collect more documents."
        return f"None of the {n_labelled} labels is {entity}; {rest}"
    if n_labelled < N_LABELS:
        return (
            f"{count_of(n_labelled, 'label')}, and nothing is left to label. To judge a pack takes "
            f"about {N_LABELS}: collect more documents, or learn from what there is."
        )
    return ""


def _place(target: LabelTarget) -> tuple[str, int, int]:
    # By place, not by index: the index changes when documents are collected anew.
    return target.document, target.start, target.end


class WorkspaceFolders:
    """Every workspace that lies directly in a folder; called from several threads.

    An unknown name raises `MissingWorkspaceError`; a folder in another state `WorkspaceError`.
    """

    def __init__(
        self,
        root: Path,
        describe: Describe,
        guess: GuessEntity,
        advise: Advise,
        *,
        find: Find = lambda search: (),
    ) -> None:
        """Look at a folder.

        Args:
            root: The folder that holds the workspaces.
            describe: Knows the entities of the knowledge base.
            guess: Asks the linking model.
            advise: Tells which mentions to ask first.
            find: Finds entities of the knowledge base by the beginning of a name.
        """
        self.root = root
        self._describe = describe
        self._guess = guess
        self._advise = advise
        self.find = find
        self._lock = threading.RLock()
        self._locks: dict[str, threading.RLock] = {}
        self._spaces: dict[str, _Space] = {}

    def all(self) -> list[WorkspaceInfo]:
        """Return every workspace; a damaged one with what is wrong."""
        return [self._info_or_problem(name) for name in self._names()]

    def _info_or_problem(self, name: str) -> WorkspaceInfo:
        try:
            return self.info(name)
        except StamoError as error:
            problem = str(error)
        except Exception:
            logger.exception("The workspace %r cannot be read", name)
            problem = "It cannot be read; the server's log says why."
        return WorkspaceInfo(
            name=name,
            entity=name,
            aliases=(),
            next_step=f"Damaged: {problem}",
            progress=LabellingProgress(n_labelled=0, n_skipped=0, n_left=0),
            problem=problem,
        )

    def info(self, name: str) -> WorkspaceInfo:
        """Return one workspace."""
        workspace = self._workspace(name)
        stage = workspace.status().stage
        return WorkspaceInfo(
            name=name,
            entity=workspace.entity.id,
            aliases=workspace.entity.aliases,
            next_step=stage[:1].upper() + stage[1:],
            progress=self.progress(name),
            has_report=(workspace.path / REPORT).is_file(),
            pack=_learned_pack(workspace),
        )

    def progress(self, name: str) -> LabellingProgress:
        """Count the labels of a workspace; its documents are not read for it."""
        workspace = self._workspace(name)
        events = workspace.current_labels()
        by = Counter(event.labeller for event in events if event.choice != SKIP)
        n_labelled, n_mentions = by.total(), workspace.documents.manifest.n_mentions
        is_found = any(event.choice == EMERGING_CHOICE for event in events)
        n_left = max(n_mentions - len(events), 0)
        target = min(N_LABELS, n_mentions) or N_LABELS
        return LabellingProgress(
            n_labelled=n_labelled,
            n_skipped=len(events) - n_labelled,
            n_left=n_left,
            target=target,
            by=dict(by),
            advice=_advise(workspace.entity.id, n_labelled, target, n_left, is_found),
        )

    def next(self, name: str, taken: frozenset[LabelKey]) -> Question | None:
        """Return the mention that teaches most among those nobody has decided on or taken."""
        space = self.open(name)
        decided, differing = space.decided(), space.differing()
        # Where labels of one name in one document differ, every mention of it is asked.
        order = space.order
        if differing:
            order = sorted(order, key=lambda key: not space.is_among(key, differing))
        for key in order:
            if key not in taken and _place(space.target(key)) not in decided:
                return self._question(space, key)
        return None

    def mention(self, name: str, key: LabelKey) -> Question:
        """Return any candidate mention, with its label where it has one."""
        return self._question(self.open(name), key)

    def document(self, name: str, document: str) -> Document:
        """Return a collected document.

        Raises:
            MissingWorkspaceError: It is not among them.
        """
        found = self.open(name).documents.get(document)
        if found is None:
            raise MissingWorkspaceError(f"There is no document {document[:80]!r} in {name!r}.")
        return found

    def labels(self, name: str) -> tuple[list[LabelEntry], list[LabellerPair]]:
        """Return what is labelled, the newest first, and how far labellers agree."""
        space = self.open(name)
        store, summary = space.store, read_summary(space.workspace.summary_path)
        checks = None if summary is None else summary.checks
        entity, events, current = space.workspace.entity.id, store.events(), store.current()
        entries = list_labels(events, current, space.documents, entity, checks)
        return entries, compare_labellers(store.current_by_labeller())

    def decide(self, name: str, key: LabelKey, choice: str, who: str) -> None:
        """Keep a choice; it is on disk when this returns."""
        space = self.open(name)
        space.store.add(space.target(key), choice, labeller=who, at=datetime.now(UTC))

    def guess(self, name: str, key: LabelKey) -> Guess | None:
        """Return what the linking model says of a mention, None when it fails."""
        space = self.open(name)
        try:
            guess = self._guess(space.documents[key[0]], key[1])
            # With an earlier pack of the entity in use, the model may know it already.
            if guess is not None and guess.choice == space.workspace.entity.id:
                return replace(guess, choice=EMERGING_CHOICE)
            return guess
        except Exception:
            # A guess is an extra; whatever is wrong with it must not look like a lost label.
            logger.exception("The model could not link a mention of %r", name)
            return None

    def undo(self, name: str, who: str) -> LabelKey | None:
        """Take back a person's last choice or skip."""
        space = self.open(name)
        event = space.store.undo(labeller=who, at=datetime.now(UTC))
        if event is None:
            return None
        document = space.documents.get(event.target.document)
        for key in candidate_mentions(space.workspace, document) if document else ():
            if _place(space.target(key)) == _place(event.target):
                if key not in space.order:  # what was decided on when it was made is not in it
                    space.order.insert(0, key)
                return key
        return None

    def report(self, name: str) -> str:
        """Return the page of the report.

        Raises:
            MissingWorkspaceError: None was made.
        """
        path = self._workspace(name).path / REPORT
        if not path.is_file():
            raise MissingWorkspaceError(f"{name!r} has no report yet; learn it first.")
        return path.read_text(encoding="utf-8")

    def learned_pack(self, name: str, *, anyway: bool = False) -> bytes:
        """Return the bytes of the pack that was learned last.

        Raises:
            MissingWorkspaceError: Nothing was learned yet.
            WorkspaceError: The verdict is against its use, and it is not wanted anyway.
        """
        workspace = self._workspace(name)
        learned = _learned_pack(workspace)
        if learned is None:
            raise MissingWorkspaceError(f"{name!r} has no pack yet; learn it first.")
        if not (learned.is_fit or anyway):
            raise WorkspaceError(f"{learned.verdict} To use it all the same, send anyway=true.")
        return workspace.pack_path.read_bytes()

    def close(self) -> None:
        """Close the labels of all workspaces."""
        with self._lock:
            for space in self._spaces.values():
                space.store.close()
            self._spaces.clear()

    def _names(self) -> list[str]:
        return [folder.name for folder in workspace_folders(self.root)]

    def _workspace(self, name: str) -> Workspace:
        # The name is compared with what is there; it never becomes a path by itself.
        if name not in self._names():
            raise MissingWorkspaceError(
                f"There is no workspace {name[:80]!r} here; start one with `stamo new`."
            )
        return Workspace.open(self.root / name)

    def open(self, name: str) -> _Space:
        """Read the documents and choose what to ask, where that is to be done: it takes seconds."""
        workspace = self._workspace(name)
        with self._lock:  # each has a lock of its own: to open one must not hold up the others
            lock = self._locks.setdefault(name, threading.RLock())
        with lock:
            space = self._spaces.get(name)
            version = file_version(workspace.documents.folder / DOCUMENTS_MANIFEST)
            if space is None or space.version != version:
                documents = {document.id: document for document in workspace.documents}
                store = space.store if space else workspace.open_labels()
                space = self._spaces[name] = _Space(workspace, version, documents, store, [], -1)
            labels = space.store.current()
            if space.n_labels < 0 or len(labels) - space.n_labels >= LABELS_TO_ADVISE:
                corpus = Corpus(tuple(space.documents.values()))
                space.order = list(self._advise(workspace, corpus, labels))
                space.n_labels = len(labels)
            return space

    def _question(self, space: _Space, key: LabelKey) -> Question:
        label = space.decided().get(_place(space.target(key)))
        document = space.documents[key[0]]
        mention, entity = document.mentions[key[1]], space.workspace.entity
        # Always first: the same key means the new entity from the first mention to the last.
        first = Choice(EMERGING_CHOICE, entity.id, line_about(entity))
        choices = (first, *self._describe(mention.surface))
        return Question(
            document=document.id,
            mention=key[1],
            title=document.title,
            start=mention.start,
            end=mention.end,
            before=cut_start(document.text[: mention.start], CONTEXT_CHARACTERS),
            surface=document.text[mention.start : mention.end],
            after=cut_end(document.text[mention.end :], CONTEXT_CHARACTERS),
            choices=tuple(map(ChoiceOut.model_validate, choices)),
            n_same=sum(m.surface == mention.surface for m in document.mentions),
            differ=space.is_among(key, space.differing()),
            label=None if label is None else describe_choice(label.choice, entity.id),
            labelled_by="" if label is None else label.labeller,
        )


def line_about(entity: EmergingEntity) -> str:
    """Say in a line what the new entity is: as it was declared, else by its other names."""
    aliases = ", ".join(alias for alias in entity.aliases if alias != entity.id)
    named = f"The new entity; also called {aliases}" if aliases else "The new entity"
    return entity.description or named
