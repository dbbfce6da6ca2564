"""Routes of the workspaces: labelling, learning, the report."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request
from starlette.responses import HTMLResponse

from stamo.errors import CorpusFormatError, WorkspaceError
from stamo.service.folders import (
    Guess,
    LabellingProgress,
    MissingWorkspaceError,
    Question,
    WorkspaceInfo,
)
from stamo.service.jobs import Job
from stamo.service.leases import Leases
from stamo.service.parts import ServiceParts
from stamo.service.schemas import LabelIn, LabelOut, NextIn, NextOut, UndoIn
from stamo.service.security import REPORT_POLICY
from stamo.workspace.labels.events import NONE, SKIP


class Desk:
    """Hands out mentions so that people who label at the same time get different ones."""

    def __init__(self, parts: ServiceParts) -> None:
        self._spaces = parts.workspaces
        self._leases = Leases(parts.limits.lease_seconds)

    def next(self, name: str, client: str, address: str = "") -> Question | None:
        """Return the mention a client at an address holds, or else the best free one."""
        with self._leases.lock:
            held = self._leases.held_by(name, client)
            question = None if held is None else self._spaces.question(name, held)
            if question is None:
                taken = self._leases.held_by_others(name, client)
                question = self._spaces.next(name, taken)
            if question is None:
                self._leases.release(name, client)
            else:
                key = question.document, question.mention
                self._leases.take(name, key, client, address)
            return question

    def decide(self, name: str, label: LabelIn) -> Guess | None:
        """Keep what a person decided.

        Raises:
            WorkspaceError: Somebody else is looking at the mention.
        """
        key = (label.document, label.mention)
        with self._leases.lock:
            if key in self._leases.held_by_others(name, label.client):
                raise WorkspaceError(
                    "Somebody else is labelling this mention now; go on with the next one."
                )
            question = self._spaces.question(name, key)
            if question is None:
                raise WorkspaceError("This mention has a label already; go on with the next one.")
            known = {choice.choice for choice in question.choices} | {NONE, SKIP}
            if label.choice not in known:
                raise CorpusFormatError(
                    f"{label.choice[:80]!r} is no choice for this mention; take one of those that "
                    "came with it."
                )
            self._spaces.decide(name, key, label.choice, label.who)
            self._leases.release(name, label.client)
        return None if label.choice == SKIP else self._spaces.guess(name, key)

    def undo(self, name: str, who: str, client: str, address: str = "") -> Question | None:
        """Take back a person's last decision and show that mention again."""
        with self._leases.lock:
            key = self._spaces.undo(name, who)
            if key is None:
                raise WorkspaceError(f"{who!r} has no label here to take back.")
            self._leases.take(name, key, client, address)
            # Another person's label may still stand; then there is nothing to choose again.
            return self.next(name, client, address)


def workspace_routes(parts: ServiceParts) -> APIRouter:
    """Return the routes that label."""
    router = APIRouter(prefix="/api/workspaces", tags=["workspaces"])
    spaces, desk = parts.workspaces, Desk(parts)

    def answer(name: str, question: Question | None) -> NextOut:
        return NextOut.model_validate({"question": question, "progress": spaces.progress(name)})

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
        """Keep the next mention for this client and return it; the model's guess stays hidden."""
        return answer(name, desk.next(name, body.client, _address(request)))

    @router.post("/{name}/labels", status_code=201)
    def add_label(name: str, body: Annotated[LabelIn, Body()]) -> LabelOut:
        """Keep a label, "none of these" or a skip; then tell what the model would have said."""
        guess = desk.decide(name, body)
        return LabelOut.model_validate({"guess": guess, "progress": spaces.progress(name)})

    @router.post("/{name}/undo")
    def undo(name: str, body: Annotated[UndoIn, Body()], request: Request) -> NextOut:
        """Take back this person's last decision and return its mention."""
        return answer(name, desk.undo(name, body.who, body.client, _address(request)))

    @router.get("/{name}/report", response_class=HTMLResponse)
    def report(name: str) -> HTMLResponse:
        """Give the report: one HTML file in which nothing may run or load."""
        path = spaces.report(name)
        if path is None:
            raise MissingWorkspaceError(f"{name!r} has no report yet; learn it first.")
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return HTMLResponse(path.read_text(encoding="utf-8"), headers=headers)

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
