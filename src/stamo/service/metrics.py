"""How the service is: a route that says it lives, and figures for Prometheus.

Labels are the patterns of routes, never what a client sent, so that nobody can fill the memory
with them.
"""

from __future__ import annotations

import time
from typing import Any

from fastapi import FastAPI, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stamo import __version__
from stamo.service.linking import LinkPool
from stamo.service.parts import ServiceParts

KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
OTHER_LABEL = "other"
SECOND_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServiceMetrics:
    """The figures of one service."""

    def __init__(self, parts: ServiceParts, pool: LinkPool) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "stamo_requests",
            "Requests by route and status.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "stamo_request_seconds",
            "How long requests took.",
            ("route",),
            buckets=SECOND_BUCKETS,
            registry=self.registry,
        )
        busy = Gauge("stamo_linking", "Texts being linked or waiting.", registry=self.registry)
        busy.set_function(lambda: pool.n_inside)
        packs = Gauge("stamo_packs", "Entity packs in use.", registry=self.registry)
        packs.set_function(lambda: len(parts.packs.packs()))
        about = Gauge("stamo_info", "What is served.", ("version", "kb"), registry=self.registry)
        about.labels(__version__, parts.name).set(1)
        ProcessCollector(registry=self.registry)

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        """Count one request."""
        route = getattr(scope.get("route"), "path", OTHER_LABEL)
        method = scope["method"] if scope["method"] in KNOWN_METHODS else OTHER_LABEL
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)


class MeteredRequests:
    """Counts every request, also those that are refused."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            self.metrics.count(scope, status, time.perf_counter() - start)


def add_metrics(app: FastAPI, parts: ServiceParts, pool: LinkPool) -> None:
    """Count the requests of an application and add the routes that tell."""
    metrics = ServiceMetrics(parts, pool)
    app.add_middleware(MeteredRequests, metrics=metrics)

    @app.get("/healthz", tags=["operation"])
    async def health() -> dict[str, str]:
        """Tell that the service answers; it holds no data and needs no token."""
        return {"status": "ok", "version": __version__}

    content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
    described: dict[int | str, dict[str, Any]] = {200: {"content": content}}

    @app.get("/metrics", tags=["operation"], response_class=Response, responses=described)
    def figures() -> Response:
        """Give figures in Prometheus' format."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)
