"""How this process computes: in how many threads, and what becomes of freed memory.

One thread for numbers, so that the same input gives the same bytes on any machine setting.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
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


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Do not look for cycles during a bounded piece of work that makes many tuples and no cycles.

    Looking takes 9 % of the time of extracting links; the piece bounds what could pile up.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def without_pandas() -> None:
    """Keep Arrow from importing pandas in this process, for as long as it lives.

    Arrow asks of every list and array whether it is one of pandas, and imports pandas to do so
    where it is installed: .2 s and 45 MB for each process.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([0])  # Arrow tries once
    finally:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """A finder of modules that stops whoever imports pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


@contextmanager
def plain_allocator() -> Iterator[None]:
    """Let Arrow take its memory from the system's allocator meanwhile.

    Its own keeps some 70 MB of what is freed; `give_back_memory` cannot reach that while it is
    needed again and again.
    """
    import pyarrow as pa

    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def give_back_memory() -> None:
    """Hand freed memory back to the system, so that one stage does not add to the next."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):  # the second part is Linux with glibc only
        ctypes.CDLL(None).malloc_trim(0)


@cache
def keep_freed_memory() -> None:
    """Let this process use freed memory again instead of handing it back and asking anew.

    The arrays of a batch have some MB each, which glibc returns to the system one by one until it
    has met a larger one; to get them anew took a tenth of the time of linking.
    """
    with suppress(AttributeError, OSError):  # Linux with glibc only
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(_TRIM_THRESHOLD, 64 << 20)
