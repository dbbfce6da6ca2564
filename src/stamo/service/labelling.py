"""Routes of the workspaces: labelling, looking at labels again, learning, the report."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Body, Request
from starlette.responses import HTMLResponse

from stamo.corpus.types import LabelKey
from stamo.errors import CorpusFormatError, WorkspaceError
from stamo.service.jobs import Job
from stamo.service.parts import ServiceParts
from stamo.service.schemas import (
    ChoiceOut,
    DocumentOut,
    Guess,
    HistoryOut,
    LabelIn,
    LabellingProgress,
    LabelOut,
    NextIn,
    NextOut,
    Question,
    ShortText,
    UndoIn,
    WorkspaceInfo,
)
from stamo.service.security import REPORT_POLICY
from stamo.workspace.labels.events import NONE, SKIP
from stamo.workspace.report_html import with_links

MOST_LISTED = 500
MAX_PER_ADDRESS = 20
"""Mentions of a workspace that one address may hold."""


@dataclass(frozen=True, slots=True)
class _Lease:
    client: str
    until: float
    address: str


class Leases:
    """Who looks at which mention.

    They live in memory only: after a restart nobody holds anything, and the first to ask gets it.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self.lock = threading.RLock()
        """Held while a mention is chosen, so that two people never choose at the same time."""
        self._held: dict[str, dict[LabelKey, _Lease]] = {}

    def keep(
        self, workspace: str, keys: Sequence[LabelKey], client: str, address: str = ""
    ) -> None:
        """Let a client hold these mentions, in this order, and no others.

        One address holds `MAX_PER_ADDRESS` mentions of a workspace at most, however many clients
        it says it is; the oldest lease ends then.
        """
        with self.lock:
            self.release(workspace, client)
            held = self._held.setdefault(workspace, {})
            own = [k for k, lease in self._live(workspace).items() if lease.address == address]
            for oldest in own[: max(len(own) - MAX_PER_ADDRESS + len(keys), 0)]:
                del held[oldest]
            for key in keys:
                held.pop(key, None)  # so that the order is that of taking
                held[key] = _Lease(client, self._clock() + self._seconds, address)

    def release(self, workspace: str, client: str, only: LabelKey | None = None) -> None:
        """Forget what a client holds, or only that it holds a certain mention."""
        with self.lock:
            held = self._held.get(workspace, {})
            own = [key for key, lease in held.items() if lease.client == client]
            for key in own if only is None else {only}.intersection(own):
                del held[key]

    def held_by(self, workspace: str, client: str) -> list[LabelKey]:
        """Return the mentions that a client holds, the first taken first."""
        with self.lock:
            return [k for k, lease in self._live(workspace).items() if lease.client == client]

    def held_by_others(self, workspace: str, client: str) -> frozenset[LabelKey]:
        """Return the mentions that other clients hold."""
        with self.lock:
            live = self._live(workspace)
            return frozenset(key for key, lease in live.items() if lease.client != client)

    def _live(self, workspace: str) -> dict[LabelKey, _Lease]:
        now, held = self._clock(), self._held.get(workspace, {})
        for key in [key for key, lease in held.items() if lease.until <= now]:
            del held[key]
        return held


class Desk:
    """Hands out mentions so that people who label at the same time get different ones."""

    def __init__(self, parts: ServiceParts) -> None:
        self._spaces = parts.workspaces
        self._leases = Leases(parts.limits.lease_seconds)

    def next(self, name: str, asked: NextIn | UndoIn, address: str) -> NextOut:
        """Return the mentions a client at an address holds, filled up with the best free ones."""
        client, leases = asked.client, self._leases
        self._spaces.open(name)  # before the lock, which other workspaces wait for
        with leases.lock:
            held = (self._spaces.mention(name, key) for key in leases.held_by(name, client))
            questions = [question for question in held if question.label is None][: asked.n]
            taken = {*leases.held_by_others(name, client), *map(_key, questions)}
            while len(questions) < asked.n and (found := self._spaces.next(name, frozenset(taken))):
                questions.append(found)
                taken.add(_key(found))
            leases.keep(name, [_key(question) for question in questions], client, address)
        first = questions[0] if questions else None
        progress = self._spaces.progress(name)
        return NextOut(question=first, ahead=questions[1:], progress=progress)

    def decide(self, name: str, label: LabelIn) -> Guess | None:
        """Keep what a person decided.

        Raises:
            WorkspaceError: Somebody else is looking at the mention.
        """
        self._spaces.open(name)
        key = (label.document, label.mention)
        with self._leases.lock:
            if key in self._leases.held_by_others(name, label.client):
                raise WorkspaceError(
                    "Somebody else is labelling this mention now; go on with the next one."
                )
            question = self._spaces.mention(name, key)
            if question.label and not label.change:
                raise WorkspaceError("This mention has a label already; go on with the next one.")
            choice, known = label.choice, {c.choice for c in question.choices} | {NONE, SKIP}
            if choice not in known and all(c.choice != choice for c in self._spaces.find(choice)):
                raise CorpusFormatError(
                    f"{choice[:80]!r} is no choice for this mention; take one of those that "
                    "came with it, or another entity of the knowledge base."
                )
            self._spaces.decide(name, key, choice, label.who)
            self._leases.release(name, label.client, only=key)
        return None if choice == SKIP else self._spaces.guess(name, key)

    def undo(self, name: str, asked: UndoIn, address: str) -> NextOut:
        """Take back a person's last decision and show that mention again."""
        self._spaces.open(name)
        with self._leases.lock:
            key = self._spaces.undo(name, asked.who)
            if key is None:
                raise WorkspaceError(f"{asked.who!r} has no label here to take back.")
            held = [k for k in self._leases.held_by(name, asked.client) if k != key]
            self._leases.keep(name, [key, *held], asked.client, address)
            # Another person's label may still stand; then there is nothing to choose again.
            return self.next(name, asked, address)


def _key(question: Question) -> LabelKey:
    return question.document, question.mention


def workspace_routes(parts: ServiceParts) -> APIRouter:
    """Return the routes that label."""
    router = APIRouter(prefix="/api/workspaces", tags=["workspaces"])
    spaces, desk = parts.workspaces, Desk(parts)

    @router.get("")
    def list_workspaces() -> list[WorkspaceInfo]:
        """List the emerging entities."""
        return spaces.all()

    @router.get("/{name}")
    def show_workspace(name: str) -> WorkspaceInfo:
        """Tell where a workspace stands."""
        return spaces.info(name)

    @router.get("/{name}/progress")
    def show_progress(name: str) -> LabellingProgress:
        """Count the labels."""
        return spaces.progress(name)

    @router.post("/{name}/next")
    def next_mention(name: str, body: Annotated[NextIn, Body()], request: Request) -> NextOut:
        """Keep the next mentions for this client; the model's guess stays hidden."""
        return desk.next(name, body, _address(request))

    @router.post("/{name}/labels", status_code=201)
    def add_label(name: str, body: Annotated[LabelIn, Body()]) -> LabelOut:
        """Keep a label, "none of these" or a skip; then tell what the model would have said."""
        guess = desk.decide(name, body)
        return LabelOut(guess=guess, progress=spaces.progress(name))

    @router.post("/{name}/undo")
    def undo(name: str, body: Annotated[UndoIn, Body()], request: Request) -> NextOut:
        """Take back this person's last decision and return its mention."""
        return desk.undo(name, body, _address(request))

    @router.get("/{name}/report", response_class=HTMLResponse)
    def report(name: str) -> HTMLResponse:
        """Give the report: one HTML file in which nothing may run or load."""
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return HTMLResponse(with_links(spaces.report(name), "/label"), headers=headers)

    return router


def history_routes(parts: ServiceParts) -> APIRouter:
    """Return the routes that show what was labelled and what can be."""
    router = APIRouter(prefix="/api/workspaces", tags=["workspaces"])
    spaces = parts.workspaces

    @router.get("/{name}/labels")
    def list_labels(
        name: str,
        search: ShortText = "",
        answer: ShortText = "",
        who: ShortText = "",
        differs: bool = False,
    ) -> HistoryOut:
        """List the labels, the newest first, by a text in them, their answer or their labeller.

        With `differs`, only those that the other labels contradict.
        """
        entries, agreement = spaces.labels(name)
        kept = [
            entry
            for entry in entries
            if entry.matches(search)
            and answer in ("", entry.answer)
            and who in ("", entry.labeller)
            and (entry.differs or not differs)
        ]
        return HistoryOut.model_validate(
            {"labels": kept[:MOST_LISTED], "n": len(kept), "agreement": agreement}
        )

    @router.get("/{name}/mention")
    def show_mention(name: str, document: ShortText, mention: int) -> Question:
        """Give any candidate mention with its choices and its label."""
        return spaces.mention(name, (document, mention))

    @router.get("/{name}/document")
    def show_document(name: str, document: ShortText) -> DocumentOut:
        """Give the whole text of a collected document."""
        return DocumentOut.model_validate(spaces.document(name, document))

    @router.get("/{name}/entities")
    def find_entities(name: str, search: ShortText) -> list[ChoiceOut]:
        """Find entities of the knowledge base by the beginning of a name."""
        spaces.info(name)
        return [ChoiceOut.model_validate(choice) for choice in spaces.find(search)]

    return router


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def job_routes(parts: ServiceParts) -> APIRouter:
    """Return the routes that learn in the background."""
    router = APIRouter(prefix="/api", tags=["jobs"])

    @router.post("/workspaces/{name}/learn", status_code=202)
    def learn(name: str) -> Job:
        """Start learning an entity; it goes on when the service is restarted."""
        parts.workspaces.info(name)
        return parts.jobs.submit(name)

    @router.get("/jobs")
    def list_jobs() -> list[Job]:
        """List the jobs, the newest first."""
        return parts.jobs.store.all()

    @router.get("/jobs/{key}")
    def show_job(key: str) -> Job:
        """Tell how far a job is."""
        return parts.jobs.store.get(key)

    return router
