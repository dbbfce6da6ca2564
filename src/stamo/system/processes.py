"""Run functions over many items in processes, in order and with a bounded number in flight."""

from __future__ import annotations

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
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from stamo.errors import WorkerError
from stamo.system.closing import Closing
from stamo.system.runtime import without_pandas

Item = TypeVar("Item")
Result = TypeVar("Result")

IN_FLIGHT_PER_WORKER = 4
"""Items that wait, run or are done but not yet taken, for each worker: this bounds memory."""


class SpreadsWork(Protocol):
    """What runs functions elsewhere: processes of this machine, or tasks of a cluster."""

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield `function(item)` for each item, in the order of the items."""
        ...

    def start(self, function: Callable[..., Result], *args: Any) -> Callable[[], Result]:
        """Run `function(*args)`; return what waits for its result."""
        ...


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
            forks = inherited is not None or (may_fork and _can_fork())
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
        with _one_thread_each():  # submitting may start a process
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


def _can_fork() -> bool:
    """Tell whether forking is sound: a thread of the caller might hold a lock for ever."""
    return sys.platform == "linux" and threading.active_count() == 1 and "torch" not in sys.modules


@contextmanager
def _worker_errors() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise WorkerError(
            "A worker process died, most likely because memory ran out; use fewer workers or "
            "a machine with more memory."
        ) from error


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes that start here compute products of matrices in one thread.

    The processes fill the cores; threads of their own would wait for each other, which made small
    products ten times slower.
    """
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
