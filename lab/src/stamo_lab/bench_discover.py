"""How fast a stream is scanned for new entities, beside linking the same batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from stamo.corpus.reading import Chunk, ReadChunk, read_chunks
from stamo.discovery.discover import make_observer
from stamo.discovery.names import Tally
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker, batched
from stamo.linking.output import link_format
from stamo.models.store import TrainedModel
from stamo.system.processes import one_thread, without_garbage_collection
from stamo_lab.usage import timed


@dataclass(frozen=True)
class DiscoverSpeed:
    """Processor seconds of one process for the same documents, without starting."""

    n_documents: int
    """Documents, or parts of long ones."""
    n_characters: int
    n_names: int
    """Names that the pass keeps."""
    link_seconds: float
    """Linking them and writing lines of JSON."""
    pass_seconds: float
    """Seeing their names and counting them."""

    @property
    def ratio(self) -> float:
        """The speed of the pass over that of linking."""
        return self.link_seconds / self.pass_seconds


def measure_pass(
    sources: Sequence[str | Path],
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    n_documents: int,
    on_batch: Callable[[int], None] = lambda n: None,
) -> DiscoverSpeed:
    """Link and scan the first documents batch by batch in turns.

    Args:
        sources: Files or folders.
        kb: The knowledge base.
        trained: A model trained with it.
        n_documents: Documents, or parts of long ones, at most.
        on_batch: Called with the documents so far.
    """
    linker, observer = Linker(kb, trained), make_observer(kb, trained)
    tally, form = Tally(), link_format("jsonl")
    linker.warm_up()
    observer.warm_up()

    def link(batch: Sequence[ReadChunk]) -> None:
        for linked in linker.link_batch(batch):
            form.render(linked)

    def scan(batch: Sequence[ReadChunk]) -> None:
        for seen in observer.see(batch):
            tally.add(seen)

    seconds = {link: 0.0, scan: 0.0}
    n = n_characters = 0
    parts = islice(read_chunks(sources, linker.window), n_documents)
    for number, batch in enumerate(batched(parts, linker.settings.batch_size, linker.window)):
        for way in (link, scan) if number % 2 else (scan, link):
            with without_garbage_collection(), one_thread():
                seconds[way] += timed(partial(way, batch))[1].cpu_seconds
        n += len(batch)
        n_characters += sum(len(p.document.text) for p in batch if isinstance(p, Chunk))
        on_batch(n)
    return DiscoverSpeed(n, n_characters, len(tally.names), seconds[link], seconds[scan])
