"""The route of GERBIL: texts in NIF come in, the same texts with their entities go out.

A context without phrases is annotated (A2KB). Where it brings phrases, these are linked and no
others (D2KB). A mention that is linked to nothing gets an IRI of GERBIL's "not in wiki" (NIL).
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse

from stamo import __version__
from stamo.corpus.nif import format_nif, parse_nif
from stamo.corpus.types import Document, LabelKey, Mention
from stamo.discovery.accept import AcceptRequest, AcceptRequests
from stamo.discovery.proposals import Proposal, ProposalKind
from stamo.errors import (
    CorpusFormatError,
    PackError,
    StamoError,
    UnknownEntityError,
    WorkspaceError,
)
from stamo.linking.output import nif_phrases
from stamo.linking.results import LinkedMention
from stamo.packs.folder import PackEntry
from stamo.service.jobs import Job
from stamo.service.linking import LinkPool, check_size
from stamo.service.parts import Limits, ServiceParts, TextLinker
from stamo.service.schemas import (
    AcceptIn,
    ChoiceOut,
    DocumentOut,
    FoundOut,
    Guess,
    HistoryOut,
    LabelIn,
    LabellingProgress,
    LabelOut,
    LinkIn,
    LinkOut,
    MentionOut,
    NextIn,
    NextOut,
    PackDetailOut,
    PackOut,
    Question,
    RejectIn,
    ShortText,
    StatusOut,
    UndoIn,
    WorkspaceInfo,
)
from stamo.service.security import REPORT_POLICY
from stamo.workspace.labels import NONE, SKIP
from stamo.workspace.report import with_links

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


_PACK_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def link_routes(parts: ServiceParts, pool: LinkPool) -> APIRouter:
    """Return the routes that link text."""
    router = APIRouter(prefix="/api", tags=["linking"])

    @router.get("/status")
    def status() -> StatusOut:
        """Tell what this service is and whether changes need a token."""
        return StatusOut(
            version=__version__,
            knowledge_base=parts.name,
            n_packs=len(parts.packs.packs()),
            token_needed=parts.security.token is not None,
            max_characters=parts.limits.link_characters,
        )

    @router.post("/link")
    async def link(body: Annotated[LinkIn, Body()]) -> LinkOut:
        """Link the mentions of a text to entities."""
        check_text(body.text)
        start = time.perf_counter()
        mentions = await pool.link(body.text)
        found = [MentionOut.model_validate(mention) for mention in mentions]
        if any(mention.in_pack for mention in found):
            packs = await run_in_threadpool(parts.packs.packs)
            emerging = frozenset(pack.entity.id for pack in packs)
            for mention in found:
                mention.emerging = mention.in_pack and mention.entity in emerging
        return LinkOut(mentions=found, seconds=time.perf_counter() - start)

    return router


def check_text(text: str) -> None:
    """Refuse a text that cannot be written as UTF-8.

    Raises:
        CorpusFormatError: It holds half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorpusFormatError(
            f"The text holds half a character at {error.start}; send well-formed Unicode."
        ) from error


def pack_routes(parts: ServiceParts) -> APIRouter:
    """Return the routes that list, add, inspect and remove packs."""
    router = APIRouter(prefix="/api/packs", tags=["packs"])
    packs = parts.packs

    @router.get("")
    def list_packs() -> list[PackOut]:
        """List the packs, also those that cannot be used."""
        return [PackOut.of(entry) for entry in packs.entries()]

    def usable(key: str) -> PackEntry:
        entry = packs.inspect(key)
        if entry.pack is None:
            raise PackError(entry.problem)
        return entry

    @router.get("/{key}")
    def inspect_pack(key: str) -> PackDetailOut:
        """Show what a pack holds."""
        return PackDetailOut.of(usable(key))

    @router.get("/{key}/file")
    def download_pack(key: str) -> Response:
        """Give the pack's file."""
        data = usable(key).path.read_bytes()
        headers = {"Content-Disposition": 'attachment; filename="entity.stamo"'}
        return Response(data, media_type="application/octet-stream", headers=headers)

    @router.post("", status_code=201, openapi_extra=_PACK_BODY)
    async def add_pack(request: Request, replace: Annotated[bool, Query()] = False) -> PackOut:
        """Add a pack; its file is the body of the request."""
        data = await request.body()
        entry = await run_in_threadpool(packs.add, data, replace=replace)
        await run_in_threadpool(parts.on_packs)
        return PackOut.of(entry)

    @router.post("/of/{name}", status_code=201)
    def use_learned(name: str, anyway: Annotated[bool, Query()] = False) -> PackOut:
        """Link with the pack that a workspace learned last, instead of an earlier one of it.

        One that is not fit to be used is refused, unless it is wanted anyway.
        """
        entry = packs.add(parts.workspaces.learned_pack(name, anyway=anyway), replace=True)
        parts.on_packs()
        return PackOut.of(entry)

    @router.delete("/{key}", status_code=204)
    def remove_pack(key: str) -> Response:
        """Remove a pack; the knowledge base stays as it is."""
        packs.remove(key)
        parts.on_packs()
        return Response(status_code=204)

    return router


PAGE_SIZE = 20
MOST_AT_ONCE = 100
MOST_TYPES = 20


def found_routes(parts: ServiceParts) -> APIRouter:
    """Return the routes that show proposals and decide about them."""
    router = APIRouter(prefix="/api/found", tags=["found"])
    requests = parts.found

    @router.get("")
    def list_found(
        kind: ProposalKind | None = None,
        types: Annotated[list[str], Query(alias="type", max_length=MOST_TYPES)] = [],  # noqa: B006
        start: Annotated[int, Query(ge=0)] = 0,
        most: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = PAGE_SIZE,
    ) -> FoundOut:
        """List the open proposals, the best first, with the text around some of their places."""
        if requests is None:
            return FoundOut(is_served=False, n=0, proposals=[], under_way={})
        every = requests.folder.proposals()
        kept = [p for p in every if kind in (None, p.kind) and p.is_one_of(types)]
        return FoundOut(
            is_served=True,
            n=len(kept),
            proposals=kept[start : start + most],
            under_way=requests.waiting(),
        )

    @router.get("/{key}")
    def show_found(key: str) -> Proposal:
        """Give one proposal with all its places."""
        return _served(requests).folder.with_id(key)

    @router.post("/{key}/accept", status_code=202)
    def accept_found(key: str, body: Annotated[AcceptIn, Body()]) -> Job:
        """Make a workspace with its documents in the background; nothing is linked to it yet."""
        request = AcceptRequest(key, body.who, datetime.now(UTC).isoformat(), body.labels)
        _served(requests).add(body.workspace, request)
        try:
            return parts.jobs.submit(body.workspace)
        except StamoError:
            _served(requests).remove(body.workspace)
            raise

    @router.post("/{key}/reject", status_code=204)
    def reject_found(key: str, body: Annotated[RejectIn, Body()]) -> None:
        """Leave a proposal out from now on."""
        folder = _served(requests).folder
        folder.decide(folder.with_id(key), "rejected", by=body.who, at=datetime.now(UTC))

    return router


def _served(requests: AcceptRequests | None) -> AcceptRequests:
    if requests is None:
        raise UnknownEntityError("This service shows no proposals; start it with --found FOLDER.")
    return requests


TURTLE, OLD_TURTLE = "text/turtle", "application/x-turtle"
_TEXT = {"schema": {"type": "string"}}
_NIF: dict[str, Any] = {
    "requestBody": {"required": True, "content": {TURTLE: _TEXT, OLD_TURTLE: _TEXT}},
    "responses": {"200": {"description": "The annotated texts.", "content": {TURTLE: _TEXT}}},
}


def nif_routes(parts: ServiceParts, pool: LinkPool) -> APIRouter:
    """Return the route that links NIF."""
    router = APIRouter(tags=["linking"])

    @router.post("/nif", openapi_extra=_NIF, response_class=Response)
    async def link_nif(request: Request) -> Response:
        """Link texts in NIF 2.1 (Turtle), as GERBIL asks for them."""
        data = await request.body()
        check_size(len(data), parts.limits.nif_bytes, "The NIF has {} bytes; send at most {}.")
        packs = await run_in_threadpool(parts.packs.packs)
        emerging = frozenset(pack.entity.id for pack in packs)
        work = partial(annotate_nif, data, parts.linker, emerging, parts.limits)
        kind = OLD_TURTLE if OLD_TURTLE in request.headers.get("accept", "") else TURTLE
        return Response(await pool.run(work, len(data)), media_type=f"{kind}; charset=utf-8")

    return router


def annotate_nif(
    data: bytes, linker: TextLinker, emerging: Collection[str], limits: Limits
) -> bytes:
    """Link the texts of a NIF document.

    Raises:
        CorpusFormatError: It is not NIF, or a text cannot be linked.
        HTTPException: It is too long.
    """
    documents, most = parse_nif(data, limits.nif_triples), limits.link_characters
    length = sum(len(document.text) for document in documents)
    check_size(length, most, "The texts have {} characters; send at most {}.")
    pieces = [layer for document in documents for layer in mention_layers(document)]
    sentence = (
        "The mentions overlap so often that {} characters are linked; send at most {}, counted "
        "once for each mention that covers another."
    )
    check_size(sum(len(piece.text) for piece in pieces), most, sentence)
    found: dict[str, list[LinkedMention]] = {document.id: [] for document in documents}
    for linked in linker.link_documents(pieces):
        if linked.error is not None:
            raise CorpusFormatError(linked.error)
        found[linked.id] += linked.mentions
    return format_nif((d.id, d.text, nif_phrases(found[d.id], emerging)) for d in documents)


def mention_layers(document: Document) -> list[Document]:
    """Split a document whose mentions overlap into copies in which they do not."""
    layers: list[list[Mention]] = []
    ends: list[tuple[int, int]] = []
    """The end of each layer, with its place; the earliest first."""
    for mention in sorted(document.mentions, key=lambda m: (m.start, m.end)):
        if ends and ends[0][0] <= mention.start:
            place = ends[0][1]
            heapq.heapreplace(ends, (mention.end, place))
            layers[place].append(mention)
        else:
            heapq.heappush(ends, (mention.end, len(layers)))
            layers.append([mention])
    return [
        replace(document, mentions=tuple(replace(m, entity=None) for m in layer))
        for layer in layers or [[]]
    ]
