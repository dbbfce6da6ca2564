"""Discover new entities in a stream: one pass over the documents, then proposals.

    documents ─▶ sightings (in several processes) ─▶ tally ─┐
    the knowledge base's own articles ─▶ the same names ────┴▶ groups, clusters ─▶ proposals

The knowledge base's articles are the past that the stream is compared with. Nothing is linked to
what is proposed: a proposal becomes an entity only when somebody accepts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from stamo.corpus.reading import Chunk, ReadChunk, read_chunks, split_document
from stamo.corpus.types import Document
from stamo.discovery.meanings import ContextReader
from stamo.discovery.names import Tally, last_year
from stamo.discovery.observe import Observer
from stamo.discovery.proposals import Proposal
from stamo.discovery.propose import Past, ProposeSettings, propose
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker, map_batches
from stamo.models.store import TrainedModel
from stamo.system.processes import without_garbage_collection

COMPARED_ARTICLES = 20_000
"""Articles of the knowledge base that the stream is compared with."""


@dataclass(frozen=True)
class Discovered:
    """What a stream gave."""

    proposals: list[Proposal]
    n_documents: int
    n_names: int
    """Names that no known meaning explains."""
    errors: dict[str, int]
    year: int | None
    """The last year that the knowledge base speaks of."""


OnSeen = Callable[[int], None]


def discover(
    sources: Sequence[str | Path],
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    settings: ProposeSettings = ProposeSettings(),
    since: str = "",
    n_workers: int = 1,
    encoder: TextEncoder | None = None,
    stdin: BinaryIO | None = None,
    on_seen: OnSeen = lambda n: None,
) -> Discovered:
    """Propose new entities; the result does not depend on the number of workers.

    Args:
        sources: Files, folders, or "-" for standard input.
        kb: The knowledge base.
        trained: A model trained with it.
        settings: What to propose.
        since: Leave out documents with an earlier date (ISO 8601).
        n_workers: Processes.
        encoder: Compares contexts besides their words.
        stdin: What "-" reads.
        on_seen: Called with the number of documents or parts, after each batch.
    """
    observer = make_observer(kb, trained)
    linker, year = observer.linker, observer.year
    parts = _since(read_chunks(sources, linker.window, stdin=stdin), since)
    tally = _count(observer, parts, n_workers, on_seen)
    least = settings.least_documents
    wanted = frozenset(n for n, t in tally.names.items() if t.n_documents >= least)
    articles = islice(article_parts(kb, linker.window), COMPARED_ARTICLES)
    past = _count(Observer(linker, wanted), articles, n_workers, on_seen)
    proposals = propose(tally, Past(past, year), ContextReader(kb, encoder), settings)
    return Discovered(proposals, tally.n_documents, len(tally.names), tally.errors, year)


def make_observer(kb: KnowledgeBase, trained: TrainedModel) -> Observer:
    """Return what sees the names of a stream."""
    linker = Linker(kb, trained, settings=LinkerSettings(mentions="detect"))
    return Observer(linker, year=last_year(kb))


def _count(
    observer: Observer, parts: Iterable[ReadChunk], n_workers: int, on_seen: OnSeen
) -> Tally:
    tally, n = Tally(), 0
    if n_workers > 1:
        observer.warm_up()
    for seen in map_batches(observer.see, parts, observer.linker.settings, n_workers):
        with without_garbage_collection():
            for one in seen:
                tally.add(one)
        n += len(seen)
        on_seen(n)
    return tally


def article_parts(kb: KnowledgeBase, window: int) -> Iterator[ReadChunk]:
    """Yield the counted articles of a knowledge base; the held-out ones are not its own."""
    for batch in kb.articles(held_out=False, columns=["title", "text"]):
        for row in batch.to_pylist():
            yield from split_document(Document(row["title"], row["text"]), window)


def _since(parts: Iterable[ReadChunk], since: str) -> Iterator[ReadChunk]:
    """Leave out documents that have an earlier date; those without a date stay."""
    for part in parts:
        date = part.document.date if isinstance(part, Chunk) else None
        if not (since and date and date < since):
            yield part
