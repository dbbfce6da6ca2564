"""Link in several processes that share one linker: its pages are copied only when written to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from stamo.corpus.parts import ReadPart
from stamo.linking.linker import batched
from stamo.linking.results import LinkedDocument
from stamo.linking.settings import LinkerSettings
from stamo.system.processes import Result, Workers, without_garbage_collection
from stamo.system.threads import one_thread

Finish = Callable[[LinkedDocument], Result]


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

    The results do not depend on the number of workers. The linker's caches are made
    before the workers are forked, so that all share them.

    Args:
        linker: The linker.
        sources: What to link.
        finish: Turns a linked document into what is wanted of it, inside the worker.
        n_workers: Processes; 1 is the calling process itself.
    """
    batches = batched(sources, linker.settings.batch_size, linker.window)

    def link(batch: Sequence[ReadPart]) -> list[Result]:
        with without_garbage_collection(), one_thread():
            return [finish(linked) for linked in linker.link_batch(batch)]

    if n_workers == 1:
        yield from map(link, batches)
        return
    linker.warm_up()
    with Workers(n_workers, inherited=link) as workers:
        yield from workers.map(link, batches)
