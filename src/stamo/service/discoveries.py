"""Routes of what `stamo discover` found: list it, look at it, accept, reject."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Body, Query

from stamo.discovery.accept import AcceptRequest, AcceptRequests
from stamo.discovery.proposal import Proposal, ProposalKind
from stamo.errors import StamoError, UnknownEntityError
from stamo.service.jobs import Job
from stamo.service.parts import ServiceParts
from stamo.service.schemas import AcceptIn, FoundOut, RejectIn

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
