"""Link in several processes that share one linker: its pages are copied only when written to."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection, wait
from typing import Protocol, TypeVar

from stamo.corpus.parts import ReadPart
from stamo.errors import StamoError
from stamo.linking.linker import batched
from stamo.linking.results import LinkedDocument
from stamo.linking.settings import LinkerSettings

Result = TypeVar("Result")
Finish = Callable[[LinkedDocument], Result]


class WorkerError(StamoError, RuntimeError):
    """A worker process ended before its work."""


class BatchLinker(Protocol):
    """What links batches: a linker, with or without entity packs."""

    @property
    def settings(self) -> LinkerSettings:
        """How to link."""
        ...

    @property
    def window(self) -> int:
        """Characters of a long text that are linked together."""
        ...

    def warm_up(self) -> None:
        """Make everything that is made on first use."""

    def link_batch(self, sources: Sequence[ReadPart]) -> Iterable[LinkedDocument]:
        """Link the documents or parts of one batch."""
        ...


def link_in_processes(
    linker: BatchLinker, sources: Iterable[ReadPart], finish: Finish[Result], n_workers: int = 1
) -> Iterator[list[Result]]:
    """Link a stream and yield the results of one batch after the other, in order.

    The results do not depend on the number of workers. The linker's automaton and caches are made
    before the workers are forked, so that all share them.

    Args:
        linker: The linker.
        sources: What to link.
        finish: Turns a linked document into what is wanted of it, inside the worker.
        n_workers: Processes; 1 is the calling process itself.
    """
    batches = batched(sources, linker.settings.batch_size, linker.window)
    if n_workers == 1:
        for batch in batches:
            yield [finish(linked) for linked in linker.link_batch(batch)]
        return
    linker.warm_up()
    with ExitStack() as stack:
        workers = [_start(linker, finish, stack) for _ in range(n_workers)]
        yield from _feed(workers, batches)


def _feed(
    workers: Sequence[Connection], batches: Iterable[Sequence[ReadPart]]
) -> Iterator[list[Result]]:
    """Give each worker one batch at a time and take the results in order."""
    idle, busy = deque(workers), deque[Connection]()
    for batch in batches:
        finished: list[Result] | None = None
        if not idle:
            idle.append(busy.popleft())
            finished = _receive(idle[0])
        worker = idle.popleft()
        worker.send(batch)
        busy.append(worker)
        if finished is not None:
            yield finished
    while busy:
        yield _receive(busy.popleft())


def _receive(worker: Connection) -> list[Result]:
    try:
        answer = worker.recv()
    except (EOFError, ConnectionError) as error:
        raise WorkerError(
            "A linking process died, most likely because memory ran out; use fewer workers or a "
            "smaller window."
        ) from error
    if isinstance(answer, BaseException):
        raise answer
    result: list[Result] = answer
    return result


def _start(linker: BatchLinker, finish: Finish[Result], stack: ExitStack) -> Connection:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(linker, finish, theirs), daemon=True)
    process.start()
    theirs.close()
    stack.callback(process.join)
    stack.callback(ours.close)
    stack.callback(process.terminate)
    return ours


def _serve(linker: BatchLinker, finish: Finish[Result], connection: Connection) -> None:
    import signal

    import torch

    # Ctrl-C reaches every process of the terminal; the main process decides what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    assert parent is not None
    while True:
        if connection not in wait([connection, parent.sentinel]):
            return
        try:
            batch = connection.recv()
        except EOFError:
            return
        try:
            connection.send([finish(linked) for linked in linker.link_batch(batch)])
        except Exception as error:  # whatever it is, the main process reports it
            connection.send(error)
