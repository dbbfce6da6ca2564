"""Connections of slow or greedy clients: headers must come in time, and nobody may hold them all.

The server itself limits neither how long a client may take to send its first request nor how many
connections one address may open; a few hundred idle ones would turn everybody else away.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    # The class that is chosen at run time depends on what is installed.
    from uvicorn.protocols.http.h11_impl import H11Protocol as HTTPProtocol
else:
    HTTPProtocol = AutoHTTPProtocol


@dataclass(frozen=True)
class ConnectionLimits:
    """How long and how many."""

    header_seconds: float = 10.0
    """How long the head of a request may take, the time before its first byte included."""
    per_client: int = 100
    """Connections of one address."""
    total: int = 200
    """Connections of all."""


_BODY = b'{"error":"The service has too many connections; try again in a moment."}'
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


class LimitedProtocol(HTTPProtocol):
    """Ends connections that send no whole head in time; answers 503 to those above a limit."""

    limits: ClassVar[ConnectionLimits]
    n_by_client: ClassVar[Counter[str]]
    peer = ""
    is_refused = False
    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Count a new connection and wait for its first request."""
        super().connection_made(transport)
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if address else ""
        self.n_by_client[self.peer] += 1
        is_greedy = self.n_by_client[self.peer] > self.limits.per_client
        self.is_refused = is_greedy or self.n_by_client.total() > self.limits.total
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self.n_by_client[self.peer] -= 1
        if not self.n_by_client[self.peer]:
            del self.n_by_client[self.peer]
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, unless the connection is one too many."""
        if self.is_refused:
            self.transport.write(FULL)
            self.transport.close()
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()  # the head has come; the guard watches over the body
        elif self.timer is None:
            self._expect_head()

    def _expect_head(self) -> None:
        self.timer = self.loop.call_later(self.limits.header_seconds, self._end)

    def _end(self) -> None:
        self.timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def limited_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """Return the server's protocol of HTTP with limits of its own."""
    return type("Limited", (LimitedProtocol,), {"limits": limits, "n_by_client": Counter()})
