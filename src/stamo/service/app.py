"""The application: routes, pages and one place where errors become status codes."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stamo import __version__
from stamo.errors import (
    ArtifactMismatchError,
    StamoError,
    UnknownAliasError,
    UnknownEntityError,
    WorkspaceError,
)
from stamo.service.folders import MissingWorkspaceError
from stamo.service.linking import LinkPool
from stamo.service.metrics import add_metrics
from stamo.service.parts import ServiceParts
from stamo.service.routes import (
    found_routes,
    history_routes,
    job_routes,
    link_routes,
    nif_routes,
    pack_routes,
    workspace_routes,
)
from stamo.service.schemas import ErrorOut
from stamo.service.security import Guard, sentence
from stamo.system.files import DISK_FULL

logger = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
PAGES = {
    "/": "index.html",
    "/found": "found.html",
    "/label": "label.html",
    "/try": "try.html",
    "/docs": "docs.html",
}
MISSING_PAGE = STATIC / "missing.html"

STATUS_BY_ERROR: dict[int, tuple[type[StamoError], ...]] = {
    404: (MissingWorkspaceError, UnknownEntityError, UnknownAliasError),
    409: (ArtifactMismatchError, WorkspaceError),
    422: (StamoError,),
}
"""The first one that fits tells the status."""

_HTML = "text/html; charset=utf-8"
_NOT_FOUND = HTTPStatus.NOT_FOUND.phrase
_ERRORS: dict[int | str, dict[str, Any]] = {"4XX": {"model": ErrorOut}, "5XX": {"model": ErrorOut}}


def create_app(parts: ServiceParts) -> FastAPI:
    """Put the service together from its parts."""
    pool = LinkPool(parts.linker, parts.limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(parts.jobs.start)
        yield
        pool.close()
        await run_in_threadpool(parts.jobs.stop)
        parts.workspaces.close()

    app = FastAPI(
        title="stamo",
        version=__version__,
        description="Link text, label emerging entities, learn them, manage their packs.",
        lifespan=lifespan,
        responses=_ERRORS,
        openapi_url="/api/openapi.json",
        # The usual page loads scripts from elsewhere, which our policy forbids; ours has them here.
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Failsafe)
    app.add_middleware(Guard, settings=parts.security)
    for router in (
        link_routes(parts, pool),
        nif_routes(parts, pool),
        pack_routes(parts),
        workspace_routes(parts),
        history_routes(parts),
        found_routes(parts),
        job_routes(parts),
    ):
        app.include_router(router)
    add_metrics(app, parts, pool)
    _add_handlers(app)
    _add_pages(app)
    return app


def status_of(error: StamoError) -> int:
    """Return the status code of an error that a user can cause."""
    return next(status for status, kinds in STATUS_BY_ERROR.items() if isinstance(error, kinds))


def _add_handlers(app: FastAPI) -> None:
    @app.exception_handler(StamoError)
    async def user_error(request: Request, error: StamoError) -> JSONResponse:
        return sentence(status_of(error), str(error))

    @app.exception_handler(OSError)
    async def system_error(request: Request, error: OSError) -> JSONResponse:
        if error.errno not in DISK_FULL:
            raise error
        return sentence(507, "The service's disk is full; nothing was changed. Free some space.")

    @app.exception_handler(RequestValidationError)
    async def bad_request(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        what = str(first["msg"]).lower()
        return sentence(422, f"The request is not as documented: {where[:100]}: {what[:200]}.")

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        path = request.url.path[:100]
        if error.status_code == 405:
            said = f"{request.method} is not for {path!r}; GET /docs lists what each route takes."
            return sentence(405, said, error.headers or {})
        if error.status_code == 404 and error.detail == _NOT_FOUND:
            if "text/html" in request.headers.get("accept", ""):
                return FileResponse(MISSING_PAGE, 404, media_type=_HTML)
            return sentence(404, f"There is no route {path!r}; GET /docs lists those there are.")
        return sentence(error.status_code, str(error.detail))


class Failsafe:
    """Turns what nobody expected into one sentence; the trace goes to the log only."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Exception:
            if scope["type"] != "http" or started:
                raise
            logger.exception("%s %s failed", scope["method"], scope["path"])
            answer = sentence(500, "The service failed on this request; its log says why.")
            await answer(scope, receive, send)


def _add_pages(app: FastAPI) -> None:
    for route, file in PAGES.items():
        app.get(route, include_in_schema=False, response_class=FileResponse)(_page(STATIC / file))
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    # Only its files are used: a list of routes to read and try, without any other site.
    assets = StaticFiles(packages=[("fastapi_offline", "static")])
    app.mount("/assets", assets, name="assets")


def _page(path: Path) -> Any:
    async def page() -> FileResponse:
        return FileResponse(path, media_type=_HTML)

    return page
