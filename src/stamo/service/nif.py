"""The route of GERBIL: texts in NIF come in, the same texts with their entities go out.

A context without phrases is annotated (A2KB). Where it brings phrases, these are linked and no
others (D2KB). A mention that is linked to nothing gets an IRI of GERBIL's "not in wiki" (NIL).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from stamo.corpus.formats.nif import format_nif, parse_nif
from stamo.corpus.types import Document, Mention
from stamo.errors import CorpusFormatError
from stamo.linking.output import nif_phrases
from stamo.linking.results import LinkedMention
from stamo.service.link_pool import LinkPool, check_size
from stamo.service.parts import Limits, ServiceParts, TextLinker

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
