"""Discover new entities in a stream: one pass over the documents, then proposals.

    documents ─▶ sightings (in several processes) ─▶ tally ─┐
    the knowledge base's own articles ─▶ the same names ────┴▶ groups, clusters ─▶ proposals

The knowledge base's articles are the past that the stream is compared with. Nothing is linked to
what is proposed: a proposal becomes an entity only when somebody accepts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from stamo.corpus.parts import Part, ReadPart, split_document
from stamo.corpus.readers import read_parts
from stamo.corpus.types import Document
from stamo.discovery.contexts import ContextReader
from stamo.discovery.observer import Observer
from stamo.discovery.proposal import Proposal
from stamo.discovery.propose import ProposeSettings, propose
from stamo.discovery.score import Past
from stamo.discovery.sightings import EXPLAINED_FIT, Seen
from stamo.discovery.tally import Tally, TallySettings
from stamo.discovery.time import last_year
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker, batched
from stamo.linking.settings import LinkerSettings
from stamo.models.store import TrainedModel
from stamo.system.processes import Workers
from stamo.system.runtime import one_thread, without_garbage_collection

EVERYTHING = 2.0
"""A fit that no context reaches."""


@dataclass(frozen=True)
class DiscoverSettings:
    """How a stream is read, and what is proposed."""

    least_fit: float = EXPLAINED_FIT
    """A mention whose context is so near to a known meaning is explained by it."""
    since: str = ""
    """Leave out documents with an earlier date (ISO 8601)."""
    max_articles: int = 20_000
    """Articles of the knowledge base that the stream is compared with."""
    n_workers: int = 1
    tally: TallySettings = field(default_factory=TallySettings)
    propose: ProposeSettings = field(default_factory=ProposeSettings)


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
    settings: DiscoverSettings = DiscoverSettings(),
    encoder: TextEncoder | None = None,
    stdin: BinaryIO | None = None,
    on_seen: OnSeen = lambda n: None,
) -> Discovered:
    """Propose new entities; the result does not depend on the number of workers.

    Args:
        sources: Files, folders, or "-" for standard input.
        kb: The knowledge base.
        trained: A model trained with it.
        settings: How to read and what to propose.
        encoder: Compares contexts besides their words.
        stdin: What "-" reads.
        on_seen: Called with the number of documents or parts, after each batch.
    """
    observer = make_observer(kb, trained, settings)
    linker, year = observer.linker, observer.year
    parts = _since(read_parts(sources, linker.window, stdin=stdin), settings.since)
    tally = _count(observer, parts, settings, on_seen)
    least = settings.propose.least_documents
    wanted = frozenset(n for n, t in tally.names.items() if t.n_documents >= least)
    articles = islice(article_parts(kb, linker.window), settings.max_articles)
    past = _count(Observer(linker, EVERYTHING, wanted), articles, settings, on_seen)
    proposals = propose(tally, Past(past, year), ContextReader(kb, encoder), settings.propose)
    return Discovered(proposals, tally.n_documents, len(tally.names), tally.errors, year)


def make_observer(kb: KnowledgeBase, trained: TrainedModel, settings: DiscoverSettings) -> Observer:
    """Return what sees the names of a stream."""
    linker = Linker(kb, trained, settings=LinkerSettings(mentions="detect"))
    return Observer(linker, settings.least_fit, year=last_year(kb))


def _count(
    observer: Observer, parts: Iterable[ReadPart], settings: DiscoverSettings, on_seen: OnSeen
) -> Tally:
    tally = Tally(settings.tally)
    n = 0
    for seen in see_in_processes(observer, parts, settings.n_workers):
        with without_garbage_collection():
            for one in seen:
                tally.add(one)
        n += len(seen)
        on_seen(n)
    return tally


def see_in_processes(
    observer: Observer, parts: Iterable[ReadPart], n_workers: int
) -> Iterator[list[Seen]]:
    """See the names of a stream batch by batch, in order."""
    linker = observer.linker
    batches = batched(parts, linker.settings.batch_size, linker.window)

    def see(batch: Sequence[ReadPart]) -> list[Seen]:
        with without_garbage_collection(), one_thread():
            return observer.see(batch)

    if n_workers == 1:
        yield from map(see, batches)
        return
    observer.warm_up()
    with Workers(n_workers, inherited=see) as workers:
        yield from workers.map(see, batches)


def article_parts(kb: KnowledgeBase, window: int) -> Iterator[ReadPart]:
    """Yield the counted articles of a knowledge base; the held-out ones are not its own."""
    for batch in kb.articles(held_out=False, columns=["title", "text"]):
        titles, texts = (batch[name].to_pylist() for name in ("title", "text"))
        for title, text in zip(titles, texts, strict=True):
            yield from split_document(Document(title, text), window)


def _since(parts: Iterable[ReadPart], since: str) -> Iterator[ReadPart]:
    """Leave out documents that have an earlier date; those without a date stay."""
    for part in parts:
        date = part.document.date if isinstance(part, Part) else None
        if not (since and date and date < since):
            yield part
