"""One thread for numbers, so that the same input gives the same bytes on any machine setting."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_is_inside: ContextVar[bool] = ContextVar("_is_inside", default=False)


@dataclass
class _Limit:
    """What all threads share that compute in one thread each.

    The first to come notes what was set, the last to leave sets it again.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    n_inside: int = 0
    n_torch: int = 0
    restore: ExitStack = field(default_factory=ExitStack)


_limit = _Limit()


@cache
def _controller(has_torch: bool) -> Any:
    """Find the libraries that have threads: once, for it takes milliseconds; with torch again."""
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread: sums then have one order, and a θ(e*) is too small to share.

    Inside of another one nothing is set and nothing restored.
    """
    if _is_inside.get():
        yield
        return
    token, torch = _is_inside.set(True), sys.modules.get("torch")
    with _limit.lock:
        _limit.n_inside += 1
        if _limit.n_inside == 1:
            _limit.n_torch = torch.get_num_threads() if torch is not None else 0
            _limit.restore.enter_context(_controller(torch is not None).limit(limits=1))
        if torch is not None:
            torch.set_num_threads(1)  # torch keeps it thread by thread
    try:
        yield
    finally:
        with _limit.lock:
            _limit.n_inside -= 1
            if not _limit.n_inside:
                _limit.restore.close()  # numpy's products
            if _limit.n_torch:
                sys.modules["torch"].set_num_threads(_limit.n_torch)
        _is_inside.reset(token)
