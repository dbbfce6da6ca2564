"""Who may do what: limits on bodies, checks on the origin of requests, headers on every answer.

The service trusts no browser page but its own and no text at all. It listens on this machine only
unless told otherwise, and then asks for a token before it shows or changes anything.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stamo.errors import SettingsError

REQUEST_HEADER = "x-stamo"
"""A page of another site cannot send this header without asking first, and we never allow it."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OTHER_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
STATELESS_PATHS = frozenset({"/api/link", "/api/reconcile", "/nif"})
"""Routes that are called by POST because of their body, but change nothing."""
HEALTH_PATH = "/healthz"
"""Answered under any name: those who watch services ask by address, and it tells nothing."""
DATA_PATHS = ("/api/", "/nif", "/metrics")
"""What the routes that hold data start with; the pages hold none."""
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MIN_TOKEN = 16
PASS_COOKIE = "stamo-pass"
"""Lets a browser that has shown the token read; it changes nothing."""

PAGE_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; sandbox allow-forms"
)
"""A report is one file with its own styles and pictures, and nothing in it may run or load; its one
form leads to a page of ours."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class SecuritySettings:
    """Where the service listens and what it lets in."""

    host: str = "127.0.0.1"
    token: str | None = None
    """Needed for everything that changes state and, where others can reach the service, for all
    data; None is only allowed on this machine."""
    allowed_hosts: frozenset[str] = frozenset()
    """Other names under which browsers reach the service, such as that of a proxy."""
    max_body: int = 5 * 2**20
    """Bytes that a request may have."""
    public_read: bool = False
    """Whether others may read and link without the token."""

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise SettingsError(
                f"The service would listen on {self.host!r}, where others can reach it; give it a "
                "token, or let it listen on 127.0.0.1."
            )
        if self.token is not None and len(self.token) < MIN_TOKEN:
            raise SettingsError(f"The token is too short; use at least {MIN_TOKEN} characters.")

    @property
    def guards_reading(self) -> bool:
        """Whether reading needs the token too."""
        is_open = not is_loopback(self.host) or bool(self.allowed_hosts)
        return self.token is not None and is_open and not self.public_read

    def knows_host(self, host: str) -> bool:
        """Tell whether a Host header names this service (against DNS rebinding)."""
        name = _host_name(host)
        if name in self.allowed_hosts or name == self.host.strip("[]").lower():
            return True
        # On 0.0.0.0 we cannot know our names; there the token guards what matters.
        return name in LOOPBACK_NAMES if is_loopback(self.host) else not self.allowed_hosts


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def refusal(
    settings: SecuritySettings, method: str, path: str, headers: Mapping[str, str]
) -> tuple[int, str] | None:
    """Return status and sentence when a request is refused, None when it may pass."""
    host = headers.get("host", "")
    if method not in SAFE_METHODS | OTHER_METHODS:  # it would be counted under its own name
        return 405, f"{method[:20]} is no method of this service."
    if path == HEALTH_PATH and method in SAFE_METHODS:
        return None
    if not settings.knows_host(host):
        return 421, f"This service is not known as {host[:100]!r}; use the address it printed."
    if method in SAFE_METHODS:
        return _refuse_reading(settings, path, headers)
    if not _is_same_origin(host, headers):
        return 403, "The request comes from a page of another site; open the service's own page."
    if path in STATELESS_PATHS:
        return _refuse_reading(settings, path, headers)
    if REQUEST_HEADER not in headers:
        return 403, "The request changes something; send the header 'X-Stamo: 1' with it."
    if settings.token is not None and not _has_token(settings.token, headers):
        return 401, "The request changes something; send 'Authorization: Bearer TOKEN' with it."
    return None


def _refuse_reading(
    settings: SecuritySettings, path: str, headers: Mapping[str, str]
) -> tuple[int, str] | None:
    # The pages hold no data; they are what asks people for the token.
    if not settings.guards_reading or not path.startswith(DATA_PATHS):
        return None
    assert settings.token is not None
    if _has_token(settings.token, headers) or _has_pass(settings.token, headers):
        return None
    return 401, "This service needs its token; send 'Authorization: Bearer TOKEN' with the request."


def reading_pass(token: str) -> str:
    """Return what a browser keeps as a cookie, so that links to reports and files work."""
    return hmac.new(token.encode(), b"stamo reading pass", "sha256").hexdigest()


def _has_pass(token: str, headers: Mapping[str, str]) -> bool:
    given = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    values = [value for name, _, value in given if name == PASS_COOKIE]
    right = reading_pass(token).encode()
    return any(hmac.compare_digest(value.encode("utf-8", "replace"), right) for value in values)


def _is_same_origin(host: str, headers: Mapping[str, str]) -> bool:
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return False
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # such as "http://["
        return False


def _has_token(token: str, headers: Mapping[str, str]) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    # compare_digest takes the same time however much of the token is right.
    right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return right and scheme.lower() == "bearer"


class Guard:
    """Refuses foreign requests and too long bodies, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, settings: SecuritySettings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, settings, size = Headers(scope=scope), self.settings, 0
        token = settings.token if settings.guards_reading else None
        cookie = reading_pass(token) if token and _has_token(token, headers) else ""
        too_long = f"The request has more than {settings.max_body} bytes; send less at once."

        async def receive_some() -> Message:
            # What a header promises is not to be relied on: what comes is counted.
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > settings.max_body:
                raise HTTPException(413, too_long, {"Connection": "close"})
            return message

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                put_headers(MutableHeaders(scope=message), scope["path"], cookie)
            await send(message)

        refused = refusal(settings, scope["method"], scope["path"], headers)
        promised = headers.get("content-length", "0")
        if refused is None and promised.isdecimal() and int(promised[:20]) > settings.max_body:
            refused = 413, too_long
        if refused is None:
            await self.app(scope, receive_some, send_guarded)
            return
        # What is left of a refused body is not read; the connection cannot be used again.
        more = {401: {"WWW-Authenticate": "Bearer"}, 413: {"Connection": "close"}}
        answer = sentence(*refused, more.get(refused[0], {}))
        await answer(scope, receive, send_guarded)


def sentence(status: int, text: str, headers: Mapping[str, str] = {}) -> JSONResponse:
    """Answer with what went wrong, in one sentence."""
    # It may quote what came in, which may hold half a character.
    clean = text.encode("utf-8", "replace").decode()
    again = {"Retry-After": "1"} if status == 503 else {}
    return JSONResponse({"error": clean}, status, {**headers, **again})


def put_headers(headers: MutableHeaders, path: str, cookie: str) -> None:
    """Put the policy on an answer, and the pass of a browser that has shown the token."""
    headers.setdefault("Content-Security-Policy", PAGE_POLICY)
    headers.setdefault("Cache-Control", "no-store" if "/api/" in path else "no-cache")
    if cookie:
        kept = f"{PASS_COOKIE}={cookie}; Path=/api; HttpOnly; SameSite=Strict"
        headers.append("Set-Cookie", kept)
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
