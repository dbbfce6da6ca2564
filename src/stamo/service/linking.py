"""Routes that link text and manage the packs it is linked with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Body, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from stamo import __version__
from stamo.errors import CorpusFormatError, PackError
from stamo.linking.results import LinkedMention
from stamo.service.parts import Limits, ServiceParts, TextLinker
from stamo.service.schemas import LinkIn, LinkOut, MentionOut, PackDetailOut, PackOut, StatusOut

PoolAnswer = TypeVar("PoolAnswer")

_PACK_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class LinkPool:
    """Links texts in a few threads; turns requests away when too many wait or one takes long."""

    def __init__(self, linker: TextLinker, limits: Limits) -> None:
        self._linker = linker
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.link_threads, thread_name_prefix="stamo-link")
        self._n_inside = 0

    @property
    def n_inside(self) -> int:
        """Texts that are linked or wait for it."""
        return self._n_inside

    async def link(self, text: str) -> Sequence[LinkedMention]:
        """Link a text.

        Raises:
            HTTPException: The text is too long (413), the service is busy or it took long (503).
        """
        limits = self._limits
        if len(text) > limits.link_characters:
            raise HTTPException(
                413,
                f"The text has {len(text)} characters; send at most {limits.link_characters}.",
            )
        return await self.run(partial(self._linker.link, text))

    async def run(self, work: Callable[[], PoolAnswer]) -> PoolAnswer:
        """Do some work of linking in a thread of the pool.

        Raises:
            HTTPException: The service is busy or it took long (503).
        """
        limits = self._limits
        if self._n_inside >= limits.link_threads + limits.link_waiting:
            raise HTTPException(503, "The service is busy; send the text again in a moment.")
        self._n_inside += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        # A thread cannot be stopped: it counts as busy until it is really done.
        future.add_done_callback(self._leave)
        try:
            return await asyncio.wait_for(asyncio.shield(future), limits.link_seconds)
        except TimeoutError:
            raise HTTPException(
                503,
                f"Linking took more than {limits.link_seconds:g} seconds; send a shorter text.",
            ) from None

    def _leave(self, future: asyncio.Future[Any]) -> None:
        self._n_inside -= 1
        if not future.cancelled():
            future.exception()  # fetched, so that a late failure is not logged as forgotten

    def close(self) -> None:
        """Let running texts end and take no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


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
        packs = await run_in_threadpool(parts.packs.packs)
        emerging = frozenset(pack.entity.id for pack in packs)
        found = [MentionOut.model_validate(mention) for mention in mentions]
        for mention in found:
            mention.emerging = mention.entity in emerging
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

    @router.get("/{key}")
    def inspect_pack(key: str) -> PackDetailOut:
        """Show what a pack holds."""
        entry = packs.inspect(key)
        if entry.pack is None:
            raise PackError(entry.problem)
        return PackDetailOut.of(entry)

    @router.get("/{key}/file")
    def download_pack(key: str) -> Response:
        """Give the pack's file."""
        entry = packs.inspect(key)
        if entry.pack is None:
            raise PackError(entry.problem)
        headers = {"Content-Disposition": 'attachment; filename="entity.stamo"'}
        data = entry.path.read_bytes()
        return Response(data, media_type="application/octet-stream", headers=headers)

    @router.post("", status_code=201, openapi_extra=_PACK_BODY)
    async def add_pack(request: Request, replace: Annotated[bool, Query()] = False) -> PackOut:
        """Add a pack; its file is the body of the request."""
        data = await request.body()
        entry = await run_in_threadpool(packs.add, data, replace=replace)
        await run_in_threadpool(parts.on_packs)
        return PackOut.of(entry)

    @router.delete("/{key}", status_code=204)
    def remove_pack(key: str) -> Response:
        """Remove a pack; the knowledge base stays as it is."""
        packs.remove(key)
        parts.on_packs()
        return Response(status_code=204)

    return router
