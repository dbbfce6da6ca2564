"""The application: its parts, its routes and pages, and the place where errors become statuses."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector
from prometheus_fastapi_instrumentator import Instrumentator
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from stamo import __version__
from stamo.errors import (
    ArtifactMismatchError,
    StamoError,
    UnknownEntityError,
    WorkspaceError,
)
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.service.linking import Limits
from stamo.service.reconcile import router as reconciliation
from stamo.service.routes import Service, router
from stamo.service.schemas import ErrorOut
from stamo.service.security import Guard, SecuritySettings, put_headers, sentence
from stamo.system.files import DISK_FULL
from stamo.workspace.desk import MissingWorkspaceError

STATIC = Path(__file__).parent / "static"
PAGES = {
    "/": "index.html",
    "/found": "found.html",
    "/label": "label.html",
    "/try": "try.html",
    "/docs": "docs.html",
}
STATUS_BY_ERROR: dict[int, tuple[type[StamoError], ...]] = {
    404: (MissingWorkspaceError, UnknownEntityError),
    409: (ArtifactMismatchError, WorkspaceError),
    422: (StamoError,),
}
"""The first one that fits tells the status."""
_HTML = "text/html; charset=utf-8"
_ERRORS: dict[int | str, dict[str, Any]] = {"4XX": {"model": ErrorOut}, "5XX": {"model": ErrorOut}}


def create_app(
    kb: KnowledgeBase,
    trained: TrainedModel,
    packs_dir: Path,
    workspaces_dir: Path,
    *,
    security: SecuritySettings = SecuritySettings(),
    found_dir: Path | None = None,
    limits: Limits = Limits(),
) -> FastAPI:
    """Put the service together.

    Args:
        kb: The knowledge base.
        trained: A model trained with it.
        packs_dir: The folder of packs to link with.
        workspaces_dir: The folder that holds the workspaces.
        security: Where the service listens and what it lets in.
        found_dir: The folder of `stamo discover`, where its proposals are to be shown.
        limits: How much one request may ask for.
    """
    service = Service(kb, trained, packs_dir, workspaces_dir, security, found_dir, limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="stamo",
        version=__version__,
        description="Link text, label emerging entities, learn them, manage their packs.",
        lifespan=lifespan,
        responses=_ERRORS,
        generate_unique_id_function=lambda route: route.name,
        # The usual page loads scripts from elsewhere, which our policy forbids; ours has them here.
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.include_router(_titled(router))
    app.include_router(_titled(reconciliation))
    _add_metrics(app, service)
    app.add_middleware(Guard, settings=security)
    _add_handlers(app)
    _add_pages(app)
    return app


def _titled(router: APIRouter) -> APIRouter:
    """Give each route a title that people read: the beginning of its description."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            route.summary = re.split(r"[;:]|\.$", route.description.partition("\n")[0])[0]
    return router


def _add_handlers(app: FastAPI) -> None:
    """Turn every error into one sentence."""

    @app.exception_handler(StamoError)
    async def user_error(request: Request, error: StamoError) -> JSONResponse:
        return sentence(
            next(s for s, k in STATUS_BY_ERROR.items() if isinstance(error, k)), str(error)
        )

    @app.exception_handler(OSError)
    async def system_error(request: Request, error: OSError) -> JSONResponse:
        if error.errno not in DISK_FULL:
            raise error
        return sentence(507, "The service's disk is full; nothing was changed. Free some space.")

    @app.exception_handler(RequestValidationError)
    async def bad_request(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where, what = ".".join(map(str, first["loc"]))[:100], str(first["msg"]).lower()[:200]
        return sentence(422, f"The request is not as documented: {where}: {what}.")

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        path, said = request.url.path[:100], str(error.detail)
        if error.status_code == 405:
            said = f"{request.method} is not for {path!r}; GET /docs lists what each route takes."
        elif error.status_code == 404 and said == HTTPStatus.NOT_FOUND.phrase:
            if "text/html" in request.headers.get("accept", ""):
                return FileResponse(STATIC / "missing.html", 404, media_type=_HTML)
            said = f"There is no route {path!r}; GET /docs lists those there are."
        return sentence(error.status_code, said, error.headers or {})

    @app.exception_handler(Exception)
    async def defect(request: Request, error: Exception) -> JSONResponse:
        # The server logs the trace; this answer passes no middleware.
        answer = sentence(500, "The service failed on this request; its log says why.")
        put_headers(answer.headers, request.url.path, "")
        return answer


def _add_metrics(app: FastAPI, service: Service) -> None:
    """Count the requests that the guard lets in, by the patterns of their routes."""
    registry = CollectorRegistry()
    busy = Gauge("stamo_linking", "Texts being linked or waiting.", registry=registry)
    busy.set_function(lambda: service.pool.n_inside)
    in_use = Gauge("stamo_packs", "Entity packs in use.", registry=registry)
    in_use.set_function(lambda: len(service.packs.packs()))
    served = Gauge("stamo_info", "What is served.", ("version", "kb"), registry=registry)
    served.labels(__version__, service.kb.name).set(1)
    ProcessCollector(registry=registry)
    metrics = Instrumentator(should_group_status_codes=False, registry=registry)
    metrics.instrument(app, metric_namespace="stamo").expose(app, tags=["operation"])


def _add_pages(app: FastAPI) -> None:
    def page(request: Request) -> FileResponse:
        return FileResponse(STATIC / PAGES[request.url.path], media_type=_HTML)

    for route in PAGES:
        app.get(route, include_in_schema=False)(page)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    # Only its files are used: a list of routes to read and try, without any other site.
    assets = StaticFiles(packages=[("fastapi_offline", "static")])
    app.mount("/assets", assets, name="assets")
