"""Routes of the workspaces: labelling, learning, the report."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request
from starlette.responses import HTMLResponse

from stamo.corpus.types import LabelKey
from stamo.errors import CorpusFormatError, WorkspaceError
from stamo.service.folders import MissingWorkspaceError
from stamo.service.jobs import Job
from stamo.service.leases import Leases
from stamo.service.parts import ServiceParts
from stamo.service.schemas import (
    Guess,
    LabelIn,
    LabellingProgress,
    LabelOut,
    NextIn,
    NextOut,
    Question,
    UndoIn,
    WorkspaceInfo,
)
from stamo.service.security import REPORT_POLICY
from stamo.workspace.labels.events import NONE, SKIP
from stamo.workspace.report_html import with_links


class Desk:
    """Hands out mentions so that people who label at the same time get different ones."""

    def __init__(self, parts: ServiceParts) -> None:
        self._spaces = parts.workspaces
        self._leases = Leases(parts.limits.lease_seconds)

    def next(self, name: str, client: str, address: str = "", n: int = 1) -> list[Question]:
        """Return the mentions a client at an address holds, filled up with the best free ones."""
        self._spaces.prepare(name)  # before the lock, which other workspaces wait for
        with self._leases.lock:
            held = (self._spaces.question(name, k) for k in self._leases.held_by(name, client))
            questions = [question for question in held if question is not None][:n]
            taken = {*self._leases.held_by_others(name, client), *map(_key, questions)}
            while len(questions) < n:
                found = self._spaces.next(name, frozenset(taken))
                if found is None:
                    break
                questions.append(found)
                taken.add(_key(found))
            self._leases.keep(name, [_key(question) for question in questions], client, address)
            return questions

    def decide(self, name: str, label: LabelIn) -> Guess | None:
        """Keep what a person decided.

        Raises:
            WorkspaceError: Somebody else is looking at the mention.
        """
        self._spaces.prepare(name)
        key = (label.document, label.mention)
        with self._leases.lock:
            if key in self._leases.held_by_others(name, label.client):
                raise WorkspaceError(
                    "Somebody else is labelling this mention now; go on with the next one."
                )
            question = self._spaces.mention(name, key)
            if question.label and not label.change:
                raise WorkspaceError("This mention has a label already; go on with the next one.")
            known = {choice.choice for choice in question.choices} | {NONE, SKIP}
            if label.choice not in known and not self._spaces.is_known(label.choice):
                raise CorpusFormatError(
                    f"{label.choice[:80]!r} is no choice for this mention; take one of those that "
                    "came with it, or another entity of the knowledge base."
                )
            self._spaces.decide(name, key, label.choice, label.who)
            self._leases.release_one(name, key, label.client)
        return None if label.choice == SKIP else self._spaces.guess(name, key)

    def undo(
        self, name: str, who: str, client: str, address: str = "", n: int = 1
    ) -> list[Question]:
        """Take back a person's last decision and show that mention again."""
        self._spaces.prepare(name)
        with self._leases.lock:
            key = self._spaces.undo(name, who)
            if key is None:
                raise WorkspaceError(f"{who!r} has no label here to take back.")
            held = [k for k in self._leases.held_by(name, client) if k != key]
            self._leases.keep(name, [key, *held], client, address)
            # Another person's label may still stand; then there is nothing to choose again.
            return self.next(name, client, address, n)


def _key(question: Question) -> LabelKey:
    return question.document, question.mention


def workspace_routes(parts: ServiceParts) -> APIRouter:
    """Return the routes that label."""
    router = APIRouter(prefix="/api/workspaces", tags=["workspaces"])
    spaces, desk = parts.workspaces, Desk(parts)

    def answer(name: str, questions: list[Question]) -> NextOut:
        first = questions[0] if questions else None
        return NextOut(question=first, ahead=questions[1:], progress=spaces.progress(name))

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
        return answer(name, desk.next(name, body.client, _address(request), body.n))

    @router.post("/{name}/labels", status_code=201)
    def add_label(name: str, body: Annotated[LabelIn, Body()]) -> LabelOut:
        """Keep a label, "none of these" or a skip; then tell what the model would have said."""
        guess = desk.decide(name, body)
        return LabelOut(guess=guess, progress=spaces.progress(name))

    @router.post("/{name}/undo")
    def undo(name: str, body: Annotated[UndoIn, Body()], request: Request) -> NextOut:
        """Take back this person's last decision and return its mention."""
        return answer(name, desk.undo(name, body.who, body.client, _address(request), body.n))

    @router.get("/{name}/report", response_class=HTMLResponse)
    def report(name: str) -> HTMLResponse:
        """Give the report: one HTML file in which nothing may run or load."""
        path = spaces.report(name)
        if path is None:
            raise MissingWorkspaceError(f"{name!r} has no report yet; learn it first.")
        headers = {"Content-Security-Policy": REPORT_POLICY}
        page = with_links(path.read_text(encoding="utf-8"), "/label")
        return HTMLResponse(page, headers=headers)

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
