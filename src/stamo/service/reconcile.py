"""Reconcile tables with the knowledge base and the packs in use, as OpenRefine asks for it.

The Reconciliation Service API 0.2 of the W3C community group: a manifest, batches of queries,
suggestions and previews. The identifier of an entity is its title. A cell is linked as a mention,
with its row's other values as the text around it, so that packs decide as they do in texts; words
of the cell then find further entities.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, HTTPException, Request, Response
from rapidfuzz import fuzz
from starlette.responses import HTMLResponse, JSONResponse

from stamo import __version__
from stamo.corpus.types import Document, EmergingEntity, Mention
from stamo.errors import CorpusFormatError, UnknownEntityError
from stamo.kb.search import name_words
from stamo.service.routes import The
from stamo.service.security import is_loopback
from stamo.workspace.desk import known_choices

PATH = "/api/reconcile"
KNOWN, EMERGING = {"id": "known", "name": "Known entity"}, {"id": "emerging", "name": "Of a pack"}
MAX_QUERIES, MAX_RESULTS, MAX_CHARACTERS = 200, 50, 1000
"""Of a batch, of an answer, and of a cell or of all other values of its row."""
N_RESULTS = 5
N_SUGGESTED = 10
CERTAIN = 0.9
"""From this confidence on, the best candidate counts as a match."""
BY_WORDS = 0.5
"""What an entity that only words of a name find scores at most, as a share of a certain match."""
_CALLBACK = re.compile(r"[A-Za-z_$][\w$.]{0,100}")
_PREVIEW_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self' http://127.0.0.1:* http://localhost:*"
)

router = APIRouter(prefix=PATH, tags=["reconciliation"])


@router.get("", response_class=JSONResponse, summary="Describe the service, or reconcile")
async def describe(service: The, request: Request, queries: str = "") -> Response:
    """Give the manifest; with `queries`, a batch of them as JSON, their candidates."""
    if queries:
        return _answer(request, await _reconcile(service, queries))
    base, about = f"{str(request.base_url).rstrip('/')}{PATH}", service.kb
    page = {"url": f"{base}/preview?id={{{{id}}}}"}
    return _answer(
        request,
        {
            "versions": ["0.2"],
            "name": f"stamo: {about.name}",
            "identifierSpace": f"urn:stamo:{about.fingerprint[:16]}",
            "schemaSpace": "urn:stamo:types",
            "serviceVersion": __version__,
            "defaultTypes": [KNOWN, EMERGING],
            "view": page,
            "preview": {**page, "width": 420, "height": 180},
            "suggest": {"entity": {"service_url": base, "service_path": "/suggest"}},
        },
    )


@router.post("", response_class=JSONResponse, summary="Reconcile a batch of names")
async def reconcile(service: The, request: Request) -> Response:
    """Give the candidates of each query; the field `queries` of a form holds them as JSON."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
    return _answer(request, await _reconcile(service, fields.get("queries", [""])[0]))


@router.get("/suggest", response_class=JSONResponse, summary="Suggest entities while typing")
def suggest(service: The, request: Request, prefix: str = "", cursor: int = 0) -> Response:
    """Find entities by words of a name: those of packs, then the most linked ones."""
    start = min(max(cursor, 0), 1000)
    words = name_words(prefix[:MAX_CHARACTERS])
    found = [
        {"id": one.id, "name": one.id, "description": one.description, "notable": [EMERGING]}
        for one in _emerging(service).values()
        if words and _has_words(one, words)
    ]
    ids = service.kb.search(prefix[:MAX_CHARACTERS], start + N_SUGGESTED).tolist()
    found += [
        {"id": one.entity, "name": one.entity, "description": one.description, "notable": [KNOWN]}
        for one in known_choices(service.kb, ids)
    ]
    return _answer(request, {"result": found[start : start + N_SUGGESTED]})


@router.get("/preview", response_class=HTMLResponse, summary="Show an entity in a small page")
def preview(service: The, id: str) -> HTMLResponse:
    """Tell what is known of an entity, to be shown in a frame."""
    entity = _emerging(service).get(id)
    if entity is not None:
        said = entity.description or f"also {', '.join(entity.aliases)}"
    else:
        number = int(service.kb.entity_ids([id])[0])
        if number < 0:
            raise UnknownEntityError(f"There is no entity {id[:80]!r} here.")
        (choice,) = known_choices(service.kb, [number])
        said = choice.description
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(id)}</title>'
        '<body style="font: 14px sans-serif; margin: 8px">'
        f'<h1 style="font-size: 16px">{escape(id)}</h1><p>{escape(said)}</p></body></html>'
    )
    return HTMLResponse(page, headers={"Content-Security-Policy": _PREVIEW_POLICY})


def _emerging(service: The) -> dict[str, EmergingEntity]:
    return {pack.entity.id: pack.entity for pack in service.packs.packs()}


def _has_words(entity: EmergingEntity, words: list[str]) -> bool:
    own = [word for name in (entity.id, *entity.aliases) for word in name_words(name)]
    return all(any(word.startswith(start) for word in own) for start in words)


async def _reconcile(service: The, queries: str) -> dict[str, Any]:
    """Return the candidates of each query of a batch."""
    try:
        batch = json.loads(queries)
    except ValueError as error:
        raise CorpusFormatError(f"The queries are no JSON ({error}).") from error
    if not isinstance(batch, dict) or len(batch) > MAX_QUERIES:
        raise CorpusFormatError(f"Send an object of at most {MAX_QUERIES} queries by their names.")
    documents = {name: _document(name, query) for name, query in batch.items()}
    asked = [document for document in documents.values() if document is not None]

    def work() -> dict[str, Any]:
        linked = service.linker.link_documents(asked)
        mentions = {one.id: next(iter(one.mentions), None) for one in linked}
        emerging = _emerging(service)
        return {
            name: {"result": _candidates(service, query, mentions.get(name), emerging)}
            for name, query in batch.items()
        }

    size = sum(len(document.text) for document in asked)
    return await service.pool.run(work, size)


def _document(name: str, query: Any) -> Document | None:
    """Return a query as a text with one mention: the cell, and behind it the rest of its row."""
    if not isinstance(query, dict):
        raise CorpusFormatError(f"The query {name[:40]!r} is no object.")
    properties = query.get("properties")
    values: list[str] = []
    for one in properties if isinstance(properties, list) else []:
        given = one.get("v") if isinstance(one, dict) else None
        for value in given if isinstance(given, list) else [given]:
            said = value.get("name", value.get("id")) if isinstance(value, dict) else value
            values += [] if said is None else [str(said)]
    text = " ".join(str(query.get("query") or "").split())[:MAX_CHARACTERS]
    if not text:
        return None
    around = f"{text}. {', '.join(values)[:MAX_CHARACTERS]}".encode("utf-8", "replace").decode()
    return Document(name, around, (Mention(around[: len(text)], 0, len(text)),))


def _candidates(
    service: The, query: Mapping[str, Any], mention: Any, emerging: Mapping[str, EmergingEntity]
) -> list[dict[str, Any]]:
    """Return what a cell may mean, the best first."""
    limit = query.get("limit")
    n = min(max(limit, 1), MAX_RESULTS) if isinstance(limit, int) else N_RESULTS
    kinds = query.get("type") or []
    wanted = {str(kind) for kind in (kinds if isinstance(kinds, list) else [kinds])}
    text = mention.surface if mention is not None else ""
    scores: dict[str, float] = {}
    for candidate in mention.candidates if mention is not None else ():
        scores[candidate.entity] = float(candidate.confidence)
    names = service.kb.titles(service.kb.search(text, MAX_RESULTS)) if text else []
    words = name_words(text)
    names += [name for name, one in emerging.items() if words and _has_words(one, words)]
    for name in names:
        alike = fuzz.ratio(" ".join(words), " ".join(name_words(name))) / 100
        scores.setdefault(name, 1.0 if name == text else BY_WORDS * alike)
    found: list[dict[str, Any]] = [
        {
            "id": name,
            "name": name,
            "score": round(100 * score, 2),
            "match": False,
            "type": [EMERGING if name in emerging else KNOWN],
        }
        for name, score in sorted(scores.items(), key=lambda item: -item[1])
    ]
    found = [one for one in found if not wanted or one["type"][0]["id"] in wanted][:n]
    if found:
        found[0]["match"] = found[0]["score"] >= 100 * CERTAIN
    return found


def _answer(request: Request, content: Any) -> Response:
    """Answer pages of this machine as well: by CORS, or as a script where a callback is named.

    Others would read what may be private, so they get what every page gets: nothing.
    """
    origin, callback = request.headers.get("origin"), request.query_params.get("callback")
    headers = {"Vary": "Origin"}
    here = is_loopback(request.url.hostname or "")
    if origin and here and is_loopback(urlsplit(origin).hostname or ""):
        headers["Access-Control-Allow-Origin"] = origin
    if callback is None:
        return JSONResponse(content, headers=headers)
    if not _CALLBACK.fullmatch(callback):
        raise CorpusFormatError("The callback is no name of JavaScript.")
    site = request.headers.get("sec-fetch-site", "none")
    if not here or site not in ("none", "same-origin", "same-site"):
        raise HTTPException(403, "Only pages of this machine may load this as a script.")
    headers["Cross-Origin-Resource-Policy"] = "same-site"
    script = f"/**/{callback}({json.dumps(content)});"
    return Response(script, media_type="text/javascript", headers=headers)
