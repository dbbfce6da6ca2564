"""One thread for numbers, so that the same input gives the same bytes on any machine setting."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_is_inside: ContextVar[bool] = ContextVar("_is_inside", default=False)


class _Limit:
    """The settings of the process, shared by all threads that compute in one thread each.

    The first to come notes what was set, the last to leave sets it again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._n_torch = 0
        self._restore = ExitStack()

    def enter(self) -> None:
        torch = sys.modules.get("torch")
        with self._lock:
            self._n_inside += 1
            if self._n_inside == 1:
                self._n_torch = torch.get_num_threads() if torch is not None else 0
                self._restore.enter_context(_controller(torch is not None).limit(limits=1))
            if torch is not None:
                torch.set_num_threads(1)  # torch keeps it thread by thread

    def leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._restore.close()  # numpy's products
            if self._n_torch:
                sys.modules["torch"].set_num_threads(self._n_torch)


@cache
def _controller(has_torch: bool) -> Any:
    """Find the libraries that have threads: once, for it takes milliseconds; with torch again."""
    return ThreadpoolController()


_limit = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread: sums then have one order, and a θ(e*) is too small to share.

    Inside of another one nothing is set and nothing restored.
    """
    if _is_inside.get():
        yield
        return
    token = _is_inside.set(True)
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
        _is_inside.reset(token)
