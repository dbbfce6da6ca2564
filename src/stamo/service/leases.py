"""Leases: a mention that one person is looking at is not shown to another one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stamo.corpus.types import LabelKey

MAX_PER_ADDRESS = 20
"""Mentions of a workspace that one address may hold."""


@dataclass(frozen=True, slots=True)
class _Lease:
    client: str
    until: float
    address: str


class Leases:
    """Who looks at which mention.

    They live in memory only: after a restart nobody holds anything, and the first to ask gets it.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self.lock = threading.RLock()
        """Held while a mention is chosen, so that two people never choose at the same time."""
        self._held: dict[str, dict[LabelKey, _Lease]] = {}

    def keep(
        self, workspace: str, keys: Sequence[LabelKey], client: str, address: str = ""
    ) -> None:
        """Let a client hold these mentions, in this order, and no others.

        One address holds `MAX_PER_ADDRESS` mentions of a workspace at most, however many clients
        it says it is; the oldest lease ends then.
        """
        with self.lock:
            self.release(workspace, client)
            held = self._held.setdefault(workspace, {})
            own = [k for k, lease in self._live(workspace).items() if lease.address == address]
            for oldest in own[: max(len(own) - MAX_PER_ADDRESS + len(keys), 0)]:
                del held[oldest]
            for key in keys:
                held.pop(key, None)  # so that the order is that of taking
                held[key] = _Lease(client, self._clock() + self._seconds, address)

    def release(self, workspace: str, client: str, only: LabelKey | None = None) -> None:
        """Forget what a client holds, or only that it holds a certain mention."""
        with self.lock:
            held = self._held.get(workspace, {})
            own = [key for key, lease in held.items() if lease.client == client]
            for key in own if only is None else {only}.intersection(own):
                del held[key]

    def held_by(self, workspace: str, client: str) -> list[LabelKey]:
        """Return the mentions that a client holds, the first taken first."""
        with self.lock:
            return [k for k, lease in self._live(workspace).items() if lease.client == client]

    def held_by_others(self, workspace: str, client: str) -> frozenset[LabelKey]:
        """Return the mentions that other clients hold."""
        with self.lock:
            live = self._live(workspace)
            return frozenset(key for key, lease in live.items() if lease.client != client)

    def _live(self, workspace: str) -> dict[LabelKey, _Lease]:
        now, held = self._clock(), self._held.get(workspace, {})
        for key in [key for key, lease in held.items() if lease.until <= now]:
            del held[key]
        return held
