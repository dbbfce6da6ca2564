"""Routes that link text and manage the packs it is linked with."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from stamo import __version__
from stamo.errors import CorpusFormatError, PackError
from stamo.packs.folder import PackEntry
from stamo.service.link_pool import LinkPool
from stamo.service.parts import ServiceParts
from stamo.service.schemas import LinkIn, LinkOut, MentionOut, PackDetailOut, PackOut, StatusOut

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
