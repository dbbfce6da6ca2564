"""What a service works with, and its routes."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse

from stamo import __version__
from stamo import errors as wrong
from stamo.discovery.discover import accept
from stamo.discovery.proposals import FoundFolder, Proposal, ProposalKind
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.models.store import TrainedModel
from stamo.packs.folder import PackEntry, PackFolder
from stamo.packs.pack import EntityPack
from stamo.service import schemas
from stamo.service.jobs import Job, Jobs
from stamo.service.linking import Limits, LinkPool, PackLinker, annotate_nif, check_size
from stamo.service.schemas import ShortText
from stamo.service.security import REPORT_POLICY, SecuritySettings
from stamo.workspace import desk as labelling
from stamo.workspace.desk import MissingWorkspaceError, list_labels
from stamo.workspace.folder import REPORT, Workspace
from stamo.workspace.labels import compare_labellers
from stamo.workspace.learn import OnProgress, last_settings, learn_pack
from stamo.workspace.report import with_links, write_report
from stamo.workspace.verdict import Decision, judge, read_summary

logger = logging.getLogger(__name__)

MOST_LISTED = 500
"""Labels in an answer."""
PAGE_SIZE = 20
MOST_AT_ONCE = 100
"""Proposals in an answer."""
MOST_TYPES = 20
NIF_BYTES = 2**20
TURTLE, OLD_TURTLE = "text/turtle", "application/x-turtle"
SPACE = "/api/workspaces/{name}"

_TEXT = {"schema": {"type": "string"}}
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_NIF: dict[str, Any] = {
    "requestBody": {"required": True, "content": {TURTLE: _TEXT, OLD_TURTLE: _TEXT}},
    "responses": {"200": {"description": "The annotated texts.", "content": {TURTLE: _TEXT}}},
}
_PACK_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/octet-stream": _BYTES}}
}


class Service:
    """What the routes work with; see `create_app`."""

    def __init__(
        self,
        kb: KnowledgeBase,
        trained: TrainedModel,
        packs_dir: Path,
        workspaces_dir: Path,
        security: SecuritySettings,
        found_dir: Path | None,
        limits: Limits,
    ) -> None:
        self.kb, self.trained, self.security, self.limits = kb, trained, security, limits
        self.packs = PackFolder(packs_dir, kb, trained)
        self.linker = PackLinker(kb, trained, self.packs)
        self.pool = LinkPool(self.linker, limits)
        self.desks = labelling.Desks(workspaces_dir, kb, trained, self.linker.link_documents)
        self.jobs = Jobs()
        self._found = None if found_dir is None else FoundFolder(found_dir)

    @property
    def found(self) -> FoundFolder:
        """The folder of proposals.

        Raises:
            UnknownEntityError: The service shows none.
        """
        if self._found is None:
            said = "This service shows no proposals; start it with --found FOLDER."
            raise wrong.UnknownEntityError(said)
        return self._found

    def emerging(self) -> frozenset[str]:
        """Return the entities of the packs in use."""
        return frozenset(pack.entity.id for pack in self.packs.packs())

    def add_pack(self, data: bytes, *, replace: bool) -> schemas.PackOut:
        """Put a pack into use."""
        entry = self.packs.add(data, replace=replace)
        self.linker.reload()
        return schemas.PackOut.of(entry)

    def close(self) -> None:
        """End what runs in the background, and close the labels."""
        for part in (self.pool, self.jobs, self.desks):
            part.close()


def _of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


The = Annotated[Service, Depends(_of)]
router = APIRouter()


@router.get("/healthz", tags=["operation"])
async def health() -> dict[str, str]:
    """Tell that the service answers; it holds no data and needs no token."""
    return {"status": "ok", "version": __version__}


@router.get("/api/status", tags=["linking"])
def status(service: The) -> schemas.StatusOut:
    """Tell what this service is and whether changes need a token."""
    return schemas.StatusOut(
        version=__version__,
        knowledge_base=service.kb.name,
        n_packs=len(service.packs.packs()),
        token_needed=service.security.token is not None,
        max_characters=service.limits.characters,
    )


@router.post("/api/link", tags=["linking"])
async def link(service: The, body: schemas.LinkIn) -> schemas.LinkOut:
    """Link the mentions of a text to entities."""
    try:
        body.text.encode()
    except UnicodeEncodeError as error:
        said = f"The text holds half a character at {error.start}; send well-formed Unicode."
        raise wrong.CorpusFormatError(said) from error
    start = time.perf_counter()
    linked = await service.pool.link(body.text)
    has_pack = any(mention.in_pack for mention in linked)
    emerging = await run_in_threadpool(service.emerging) if has_pack else frozenset[str]()
    return schemas.LinkOut.of(linked, emerging, time.perf_counter() - start)


@router.post(f"{SPACE}/try", tags=["workspaces"])
def try_pack(service: The, name: str, body: schemas.TryIn) -> schemas.LinkOut:
    """Link a text with the pack that a workspace learned last.

    The pack need not be in use; those that are in use of other entities link too.
    """
    path, start = service.desks.workspace(name).pack_path, time.perf_counter()
    if not path.is_file():
        raise MissingWorkspaceError(f"{name!r} has no pack yet; learn it first.")
    own = EntityPack.load(path, service.kb, service.trained)
    packs = [own, *(p for p in service.packs.packs() if p.entity.id != own.entity.id)]
    linker = Linker(service.kb, service.trained, packs, settings=LinkerSettings(explain=True))
    emerging = {pack.entity.id for pack in packs}
    return schemas.LinkOut.of(linker.link(body.text), emerging, time.perf_counter() - start)


@router.post("/nif", tags=["linking"], openapi_extra=_NIF, response_class=Response)
async def link_nif(service: The, request: Request) -> Response:
    """Link texts in NIF 2.1 (Turtle), as GERBIL asks for them."""
    data = await request.body()
    check_size(len(data), NIF_BYTES, "The NIF has {} bytes; send at most {}.")
    emerging = await run_in_threadpool(service.emerging)
    work = partial(annotate_nif, data, service.linker, emerging, service.limits.characters)
    kind = OLD_TURTLE if OLD_TURTLE in request.headers.get("accept", "") else TURTLE
    answer = await service.pool.run(work, len(data))
    return Response(answer, media_type=f"{kind}; charset=utf-8")


@router.get("/api/packs", tags=["packs"])
def list_packs(service: The) -> list[schemas.PackOut]:
    """List the packs, also those that cannot be used."""
    return [schemas.PackOut.of(entry) for entry in service.packs.entries()]


@router.get("/api/packs/{key}", tags=["packs"])
def inspect_pack(service: The, key: str) -> schemas.PackDetailOut:
    """Show what a pack holds."""
    return schemas.PackDetailOut.of(_usable(service, key))


@router.get("/api/packs/{key}/file", tags=["packs"])
def download_pack(service: The, key: str) -> Response:
    """Give the pack's file."""
    data = _usable(service, key).path.read_bytes()
    headers = {"Content-Disposition": 'attachment; filename="entity.stamo"'}
    return Response(data, media_type="application/octet-stream", headers=headers)


def _usable(service: Service, key: str) -> PackEntry:
    entry = service.packs.inspect(key)
    if entry.pack is None:
        raise wrong.PackError(entry.problem)
    return entry


@router.post("/api/packs", tags=["packs"], status_code=201, openapi_extra=_PACK_BODY)
async def add_pack(service: The, request: Request, replace: bool = False) -> schemas.PackOut:
    """Add a pack; its file is the body of the request."""
    return await run_in_threadpool(service.add_pack, await request.body(), replace=replace)


@router.post("/api/packs/of/{name}", tags=["packs"], status_code=201)
def use_learned(service: The, name: str, anyway: bool = False) -> schemas.PackOut:
    """Link with the pack that a workspace learned last, instead of an earlier one of it.

    One that is not fit to be used is refused, unless it is wanted anyway.
    """
    workspace = service.desks.workspace(name)
    learned = _own_pack(workspace)
    if learned is None:
        raise MissingWorkspaceError(f"{name!r} has no pack yet; learn it first.")
    if not (learned.is_fit or anyway):
        raise wrong.WorkspaceError(f"{learned.verdict} To use it all the same, send anyway=true.")
    return service.add_pack(workspace.pack_path.read_bytes(), replace=True)


@router.delete("/api/packs/{key}", tags=["packs"], status_code=204)
def remove_pack(service: The, key: str) -> None:
    """Remove a pack; the knowledge base stays as it is."""
    service.packs.remove(key)
    service.linker.reload()


@router.get("/api/workspaces", tags=["workspaces"])
def list_workspaces(service: The) -> list[schemas.WorkspaceInfo]:
    """List the emerging entities; a damaged workspace with what is wrong."""
    listed = []
    for name in service.desks.names():
        try:
            listed.append(show_workspace(service, name))
            continue
        except wrong.StamoError as error:
            problem = str(error)
        except Exception:
            logger.exception("The workspace %r cannot be read", name)
            problem = "It cannot be read; the server's log says why."
        step = f"Damaged: {problem}"
        info = schemas.WorkspaceInfo(name=name, entity=name, next_step=step, problem=problem)
        listed.append(info)
    return listed


@router.get(SPACE, tags=["workspaces"])
def show_workspace(service: The, name: str) -> schemas.WorkspaceInfo:
    """Tell where a workspace stands."""
    workspace = service.desks.workspace(name)
    status = workspace.status()
    stage = status.stage
    return schemas.WorkspaceInfo(
        name=name,
        entity=workspace.entity.id,
        aliases=workspace.entity.aliases,
        next_step=stage[:1].upper() + stage[1:],
        progress=labelling.labelling_progress(status),
        has_report=(workspace.path / REPORT).is_file(),
        pack=_own_pack(workspace),
    )


def _own_pack(workspace: Workspace) -> schemas.OwnPack | None:
    """Return what is known of the pack that a workspace learned last."""
    summary = read_summary(workspace.summary_path) if workspace.pack_path.is_file() else None
    if summary is None:
        return None
    verdict = judge(summary.findings)
    is_fit = verdict.decision is Decision.ship
    return schemas.OwnPack(fingerprint=summary.pack, is_fit=is_fit, verdict=verdict.sentence)


@router.get(f"{SPACE}/progress", tags=["workspaces"])
def show_progress(service: The, name: str) -> labelling.LabellingProgress:
    """Count the labels, and say what to do next."""
    return labelling.labelling_progress(service.desks.workspace(name).status())


@router.post(f"{SPACE}/next", tags=["workspaces"])
def next_mention(service: The, name: str, body: schemas.NextIn) -> schemas.NextOut:
    """Ask for the mention to label now.

    It is kept for this person, and nobody else is asked it; the model's guess stays hidden.
    """
    desk = service.desks.open(name)
    return schemas.NextOut(question=desk.next(body.who, body.ask), progress=desk.progress())


@router.post(f"{SPACE}/leave", tags=["workspaces"], status_code=204)
def leave(service: The, name: str, body: schemas.PersonIn) -> None:
    """Stop labelling: what was kept for this person is free."""
    service.desks.open(name).release(body.who)


@router.post(f"{SPACE}/labels", tags=["workspaces"], status_code=201)
def add_label(service: The, name: str, body: schemas.LabelIn) -> schemas.LabelOut:
    """Label a mention.

    The answer tells what the model would have said, and which mention to label next.
    """
    desk, key = service.desks.open(name), (body.document, body.mention)
    guess = desk.decide(key, body.choice, who=body.who, only=body.only, change=body.change)
    return schemas.LabelOut(guess=guess, **dict(next_mention(service, name, body)))


@router.post(f"{SPACE}/undo", tags=["workspaces"])
def undo(service: The, name: str, body: schemas.NextIn) -> schemas.NextOut:
    """Take back this person's last answer.

    Its mention is the next.
    """
    if service.desks.open(name).undo(who=body.who) is None:
        raise wrong.WorkspaceError(f"{body.who!r} has no label here to take back.")
    return next_mention(service, name, body)


@router.get(f"{SPACE}/labels", tags=["workspaces"])
def list_labelled(
    service: The,
    name: str,
    search: ShortText = "",
    answer: ShortText = "",
    who: ShortText = "",
    differs: bool = False,
) -> schemas.HistoryOut:
    """List the labels, the newest first, by a text in them, their answer or their labeller.

    With `differs`, only those that the other labels contradict.
    """
    desk = service.desks.open(name)
    desk.read()
    store, summary = desk.store, read_summary(desk.workspace.summary_path)
    checks = None if summary is None else summary.checks
    entity = desk.workspace.entity.id
    entries = [
        entry
        for entry in list_labels(store, desk.documents, entity, checks)
        if entry.matches(search)
        and answer in ("", entry.answer)
        and who in ("", entry.labeller)
        and (entry.differs or not differs)
    ]
    agreement, _ = compare_labellers(store.current_by_labeller())
    shown = {"labels": entries[:MOST_LISTED], "n": len(entries), "agreement": agreement}
    return schemas.HistoryOut.model_validate(shown)


@router.get(f"{SPACE}/mention", tags=["workspaces"])
def show_mention(service: The, name: str, document: ShortText, mention: int) -> labelling.Question:
    """Give any candidate mention with its choices and its label."""
    return service.desks.open(name).question((document, mention))


@router.get(f"{SPACE}/document", tags=["workspaces"])
def show_document(service: The, name: str, document: ShortText) -> schemas.DocumentOut:
    """Give the whole text of a collected document."""
    desk = service.desks.open(name)
    desk.read()
    if document not in desk.documents:
        raise MissingWorkspaceError(f"There is no document {document[:80]!r} in {name!r}.")
    return schemas.DocumentOut.model_validate(desk.documents[document])


@router.get(f"{SPACE}/entities", tags=["workspaces"])
def search_entities(service: The, name: str, search: ShortText) -> list[labelling.Choice]:
    """Find entities of the knowledge base by the beginning of a name."""
    service.desks.workspace(name)
    return list(labelling.find_entities(service.kb, search))


@router.get(f"{SPACE}/report", tags=["workspaces"], response_class=HTMLResponse)
def report(service: The, name: str) -> HTMLResponse:
    """Give the report: one HTML file in which nothing may run or load."""
    path = service.desks.workspace(name).path / REPORT
    if not path.is_file():
        raise MissingWorkspaceError(f"{name!r} has no report yet; learn it first.")
    headers = {"Content-Security-Policy": REPORT_POLICY}
    return HTMLResponse(with_links(path.read_text("utf-8"), "/label", "/try"), headers=headers)


@router.post(f"{SPACE}/learn", tags=["jobs"], status_code=202)
def learn(service: The, name: str) -> Job:
    """Start learning an entity in the background, as the last time; its report is written too."""
    workspace, kb, trained = service.desks.workspace(name), service.kb, service.trained

    def work(on_progress: OnProgress) -> str:
        settings = last_settings(workspace)
        learned = learn_pack(workspace, kb, trained, settings, on_progress=on_progress)
        on_progress(0.95, "Writing the report")
        write_report(workspace, kb, trained)
        return f"Learned. {learned.verdict.sentence}"

    return service.jobs.submit(name, work)


@router.get("/api/jobs", tags=["jobs"])
def list_jobs(service: The) -> list[Job]:
    """List the jobs since the service was started, the newest first."""
    return service.jobs.all()


@router.get("/api/jobs/{key}", tags=["jobs"])
def show_job(service: The, key: str) -> Job:
    """Tell how far a job is."""
    return service.jobs.get(key)


@router.get("/api/found", tags=["found"])
def list_found(
    service: The,
    kind: ProposalKind | None = None,
    types: Annotated[list[str], Query(alias="type", max_length=MOST_TYPES)] = [],  # noqa: B006
    start: Annotated[int, Query(ge=0)] = 0,
    most: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = PAGE_SIZE,
) -> schemas.FoundOut:
    """List the open proposals, the best first, with the text around some of their places."""
    try:
        every = service.found.proposals()
    except wrong.UnknownEntityError:
        return schemas.FoundOut(is_served=False, n=0, proposals=[], under_way={})
    kept = [p for p in every if kind in (None, p.kind) and p.is_one_of(types)]
    page, under_way = kept[start : start + most], service.jobs.accepting()
    return schemas.FoundOut(is_served=True, n=len(kept), proposals=page, under_way=under_way)


@router.get("/api/found/{key}", tags=["found"])
def show_found(service: The, key: str) -> Proposal:
    """Give one proposal with all its places."""
    return service.found.with_id(key)


@router.post("/api/found/{key}/accept", tags=["found"], status_code=202)
def accept_found(service: The, key: str, body: schemas.AcceptIn) -> Job:
    """Make a workspace with its documents in the background; nothing is linked to it yet."""
    proposal, path = service.found.with_id(key), service.desks.root / body.workspace
    if proposal.decision != "open" or key in service.jobs.accepting():
        said = "This proposal was decided on before; load the list again."
        raise wrong.WorkspaceError(said)
    if path.exists():
        said = f"{body.workspace!r} is in use; give the workspace another name."
        raise wrong.WorkspaceError(said)

    def work(on_progress: OnProgress) -> str:
        on_progress(0.0, "Opening the documents")
        done = accept(
            service.found,
            proposal,
            path,
            service.kb,
            service.trained,
            by=body.who,
            at=datetime.now(UTC),
            take_labels=body.labels,
            on_progress=lambda at: on_progress(
                at.share, f"{at.n_read:,} documents read, {at.n_kept:,} kept"
            ),
        )
        verb, n = "kept" if body.labels else "suggested", done.collected.n_kept
        return f"Accepted: {n:,} documents, {len(done.suggested)} labels {verb}. Label some more."

    return service.jobs.submit(body.workspace, work, proposal=key)


@router.post("/api/found/{key}/reject", tags=["found"], status_code=204)
def reject_found(service: The, key: str, body: schemas.PersonIn) -> None:
    """Leave a proposal out from now on."""
    proposal = service.found.with_id(key)
    service.found.decide(proposal, "rejected", by=body.who, at=datetime.now(UTC))
