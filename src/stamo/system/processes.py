"""Run functions over many items in processes, in order and with a bounded number in flight."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from stamo.errors import WorkerError
from stamo.system.files import Closing

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_is_inside: ContextVar[bool] = ContextVar("_is_inside", default=False)


_lock = threading.Lock()
_inside: list[int] = []
"""What torch was set to, once for each thread that computes in one thread now."""
_restore = ExitStack()


@cache
def _controller(has_torch: bool) -> Any:
    """Find the libraries that have threads: once, for it takes milliseconds; with torch again."""
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread: sums then have one order, and a θ(e*) is too small to share.

    The first of several threads that come notes what was set, the last to leave sets it again;
    inside of another one only torch is told, where it was loaded in between.
    """
    torch, is_nested = sys.modules.get("torch"), _is_inside.get()
    set_now = 0 if torch is None else torch.get_num_threads()
    if is_nested and set_now <= 1:
        yield
        return
    with _lock:
        before = _inside[0] if _inside and not is_nested else set_now
        if not _inside:
            _restore.enter_context(_controller(torch is not None).limit(limits=1))
        _inside.append(before)
        if torch is not None:
            torch.set_num_threads(1)  # torch keeps it thread by thread
    token = _is_inside.set(True)
    try:
        yield
    finally:
        _is_inside.reset(token)
        with _lock:
            _inside.pop()
            if not _inside:
                _restore.close()  # numpy's products
            if before:
                sys.modules["torch"].set_num_threads(before)


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


Item = TypeVar("Item")
Result = TypeVar("Result")

IN_FLIGHT_PER_WORKER = 4
"""Items that wait, run or are done but not yet taken, for each worker: this bounds memory."""


class Workers(Closing):
    """A fixed number of processes; a single worker is the calling process itself.

    Processes are started afresh, so a script that asks for several needs the usual
    `if __name__ == "__main__":`; or they are forked to share what the caller holds.

    Args:
        n_workers: How many.
        inherited: A function that is not sent to the workers: they are forked with it and all it
            holds, whose pages are copied only when written to.
        may_fork: Whether workers may be forked to spare them their imports (.3 s each), where the
            caller runs no other thread. Not for work with products of matrices: how many threads
            they take is settled in the caller, and those of torch do not survive a fork.
    """

    def __init__(
        self,
        n_workers: int,
        *,
        inherited: Callable[[Any], object] | None = None,
        may_fork: bool = False,
    ) -> None:
        self.n_workers = n_workers
        self._inherited = inherited
        self._pool: ProcessPoolExecutor | None = None
        if n_workers > 1:
            # Forking is sound where no other thread of the caller might hold a lock for ever.
            alone = threading.active_count() == 1 and "torch" not in sys.modules
            forks = inherited is not None or (may_fork and alone and sys.platform == "linux")
            self._pool = ProcessPoolExecutor(
                n_workers,
                mp_context=multiprocessing.get_context("fork" if forks else "spawn"),
                initializer=_prepare_worker,
                initargs=(inherited,),
            )
            for _ in range(n_workers):  # so that they start now and not with their first item
                self._submit(os.getpid)

    def close(self) -> None:
        """End the processes; what they have not begun is not done."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _submit(self, function: Callable[..., Result], *arguments: object) -> Future[Result]:
        assert self._pool is not None
        if function is self._inherited:
            function = _call_inherited
        return self._pool.submit(function, *arguments)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield `function(item)` for each item, in the order of the items.

        Raises:
            WorkerError: A worker process died.
        """
        if self._pool is None:
            yield from map(function, items)
            return
        waiting: deque[Future[Result]] = deque()
        with _worker_errors():
            for item in items:
                waiting.append(self._submit(function, item))
                if len(waiting) >= self.n_workers * IN_FLIGHT_PER_WORKER:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def start(self, function: Callable[..., Result], *args: Any) -> Callable[[], Result]:
        """Let a worker run `function(*args)`; return what waits for its result.

        A single worker runs it at once.

        Raises:
            WorkerError: A worker process died.
        """
        if self._pool is None:
            result = function(*args)
            return lambda: result
        with _worker_errors():
            future = self._submit(function, *args)

        def wait() -> Result:
            with _worker_errors():
                return future.result()

        return wait


@contextmanager
def _worker_errors() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise WorkerError(
            "A worker process died, most likely because memory ran out; use fewer workers or "
            "a machine with more memory."
        ) from error


_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_inherited: Callable[[Any], Any] | None = None
"""What this worker was forked with."""


def _call_inherited(item: object) -> Any:
    assert _inherited is not None
    return _inherited(item)


def _prepare_worker(inherited: Callable[[Any], Any] | None) -> None:
    import pyarrow as pa

    global _inherited
    _inherited = inherited
    # The processes fill the cores: threads of their own, in libraries that are loaded or will be,
    # would wait for each other, which made small products of matrices ten times slower.
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    ThreadpoolController().limit(limits=1)
    pa.set_memory_pool(pa.system_memory_pool())  # for as long as it lives, see plain_allocator
    without_pandas()
    gc.freeze()  # what is imported stays; no collection needs to look at it again
    # Ctrl-C reaches every process of the terminal; the main process decides what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when the main process is gone, even by `kill -9`."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
