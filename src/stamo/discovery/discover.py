"""Discover new entities in a stream: one pass over the documents, proposals, and their acceptance.

    documents ─▶ sightings (in several processes) ─▶ tally ─┐
    the knowledge base's own articles ─▶ the same names ────┴▶ groups, clusters ─▶ proposals

The knowledge base's articles are the past that the stream is compared with. Nothing is linked to
what is proposed: a proposal becomes an entity only when somebody accepts it, which makes a
workspace with its names, description, documents and first labels.

A sighting of a known name says how well its context fits the best of its known meanings; only
those that fit badly, or that speak of a later time than the knowledge base, keep their context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from stamo.corpus.reading import STDIN, Chunk, ReadChunk, read_chunks, split_document
from stamo.corpus.types import Document, EmergingEntity
from stamo.discovery.meanings import ContextReader, ContextVectors
from stamo.discovery.names import (
    EXPLAINED_FIT,
    LATER,
    DocumentNames,
    FoundNames,
    FrequentWords,
    NamedYears,
    PackedSighting,
    Seen,
    Sighting,
    Tally,
    companions,
    find_names,
    full_names,
    last_year,
    pack,
    small_words,
)
from stamo.discovery.proposals import FoundFolder, Proposal
from stamo.discovery.propose import Past, ProposeSettings, propose
from stamo.errors import WorkspaceError
from stamo.features.mentions import context_words
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import N_SHOWN, Linker, map_batches
from stamo.linking.texts import join_texts
from stamo.models.store import TrainedModel
from stamo.system.files import Float64, Int32, Int64, to_json, write_atomic
from stamo.system.processes import without_garbage_collection
from stamo.workspace.collect import Collected, OnCollect, collect
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import EMERGING_CHOICE, LabelTarget

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
    encoding: str = "",
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
        encoding: That of texts which are neither UTF-8 nor UTF-16 with a mark.
        stdin: What "-" reads.
        on_seen: Called with the number of documents or parts, after each batch.
    """
    observer = make_observer(kb, trained)
    linker, year = observer.linker, observer.year
    parts = (
        part
        for part in read_chunks(sources, linker.window, stdin=stdin, encoding=encoding)
        # Documents without a date stay.
        if not (since and isinstance(part, Chunk) and (part.document.date or since) < since)
    )
    tally = _count(observer, parts, n_workers, on_seen)
    least = settings.least_documents
    wanted = frozenset(n for n, t in tally.names.items() if t.n_documents >= least)
    past_parts = (
        part
        # The held-out articles are not the knowledge base's own.
        for batch in kb.articles(held_out=False, columns=["title", "text"])
        for row in batch.to_pylist()
        for part in split_document(Document(row["title"], row["text"]), linker.window)
    )
    articles = islice(past_parts, COMPARED_ARTICLES)
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


SIGHT = 200
"""Characters on each side of a name that are kept."""
N_CONTEXT_WORDS = 50
"""Content words around a name that its fit is measured on."""
LINKED_SHARE = 0.5
"""Other mentions linked with at least this share count as what a name comes with."""


@dataclass(frozen=True)
class Observer:
    """Sees the names of documents, batch by batch."""

    linker: Linker
    wanted: frozenset[str] | None = None
    """See only these names, whatever they mean: no context is measured; None sees all."""
    year: int | None = None
    """The last year that the knowledge base speaks of, where it is known."""

    @cached_property
    def contexts(self) -> ContextVectors:
        """Turns context words into vectors."""
        return ContextVectors(self.linker.kb)

    @cached_property
    def frequent(self) -> FrequentWords:
        """Knows which words begin sentences without being names."""
        return FrequentWords.of(self.linker.kb)

    def warm_up(self) -> None:
        """Make everything that is made on first use."""
        self.linker.warm_up()
        _ = self.contexts, self.frequent

    def see(self, sources: Sequence[ReadChunk]) -> list[Seen]:
        """See the names of a batch of documents; one that cannot be read gives its error."""
        parts = [source for source in sources if isinstance(source, Chunk)]
        seen = iter(self._see(parts) if parts else [])
        return [
            next(seen) if isinstance(s, Chunk) else Seen(s.id, [], [], s.error) for s in sources
        ]

    def _see(self, parts: Sequence[Chunk]) -> list[Seen]:
        joined = join_texts([part.document.text for part in parts])
        small = small_words(joined)
        found = find_names(joined, self.linker, self.frequent, set().union(*small))
        names, fits, linked = self._bring_together(found)
        first, is_known = names.rows, found.aliases[names.names] >= 0
        years = NamedYears.of(joined, self.year)
        begins, ends = found.located.starts[first] - SIGHT, found.located.ends[first] + SIGHT
        times = years.times_of(names.documents, begins, ends)
        fits_known = (fits[first] >= EXPLAINED_FIT) & (times != LATER)
        is_explained = is_known & (fits_known | (found.numbers[first] != names.names))
        wanted = [self.wanted is None or name in self.wanted for name in found.names]
        is_wanted = np.array(wanted, dtype=np.bool_)[names.names]
        explained = np.flatnonzero(is_explained & is_wanted)
        chosen = np.flatnonzero(~is_explained & is_wanted)
        near = companions(names, chosen, linked, found.numbers, found.documents)
        seen = [Seen(part.id, [], []) for part in parts]
        where, which = names.documents[explained].tolist(), names.names[explained].tolist()
        for document, name in zip(where, which, strict=True):
            seen[document].explained.append(found.names[name])
        for document, sighting in _sightings(parts, found, names, chosen, fits, times, near, small):
            seen[document].sightings.append(sighting)
        return seen

    def _bring_together(self, found: FoundNames) -> tuple[DocumentNames, Float64, Int32]:
        """Bring the mentions of each name together, short names with full names.

        Returns:
            The names of the documents; how well the context of each mention fits a known meaning,
            1 where none is known, (M,); what each mention is linked to, -1 for nothing, (M,).
        """
        rows = np.flatnonzero(found.is_capital)
        documents, own = found.documents[rows], found.numbers[rows]
        full = full_names(documents, own, found.names, found.aliases)
        n = len(found.numbers)
        fits, linked = np.zeros(n), np.full(n, -1, dtype=np.int32)
        if self.wanted is None:
            keys = documents.astype(np.int64) * len(found.names) + own
            matters = own != full
            matters[np.unique(keys, return_index=True)[1]] = True  # the first of its name
            fits, linked = self._score(found, rows[matters])
        # A short name that fits a known meaning stands for itself: "America" in "Bank of America".
        is_itself = (found.aliases[own] >= 0) & (fits[rows] >= EXPLAINED_FIT)
        full = np.where(is_itself, own, full)
        return DocumentNames.of(documents, rows, own, full), fits, linked

    def _score(self, found: FoundNames, rows: Int64) -> tuple[Float64, Int32]:
        """Link all mentions, and measure how well the contexts of some fit."""
        # Where all candidates are kept, what fits best does not depend on their order.
        is_cut = np.append(self.linker.kb.by_alias.n_candidates > N_SHOWN, False)  # -1 has none
        is_scored = found.is_detected.copy()
        is_scored[rows] |= is_cut[found.aliases[found.numbers[rows]]]
        ranking = self.linker.rank(found.located, is_scored)
        is_linked = found.is_detected & (ranking.shares[:, 0] >= LINKED_SHARE)
        linked = np.where(is_linked, ranking.candidates[:, 0], -1).astype(np.int32)
        fits = np.ones(len(linked), dtype=np.float64)
        rows = rows[ranking.candidates[rows, 0] >= 0]
        if len(rows):
            corpus = found.located.corpus
            contexts = self.contexts.of(context_words(corpus, rows, N_CONTEXT_WORDS))
            candidates = ranking.candidates[rows]
            cosines = np.einsum("md,mcd->mc", contexts, self.contexts.entities(candidates))
            cosines[candidates < 0] = -1
            fits[rows] = cosines.max(axis=1)
        return fits, linked


def _sightings(
    parts: Sequence[Chunk],
    found: FoundNames,
    names: DocumentNames,
    chosen: Int64,
    fits: Float64,
    times: Int64,
    near: Sequence[tuple[int, ...]],
    small: Sequence[set[str]],
) -> Iterator[tuple[int, PackedSighting]]:
    """Yield the chosen names of documents, each with the number of its document."""
    heads = [(part.id, part.document.date or "", part.offset, part.document.text) for part in parts]
    shorts = names.short_by_name(found.names)
    aliases, located, rows = found.aliases[names.names], found.located, names.rows[chosen]
    columns = names.documents, names.names, aliases, names.n_mentions, times
    values = [column[chosen].tolist() for column in columns]
    values += [column[rows].tolist() for column in (located.starts, located.ends, fits)]
    for group, entities, i, number, alias, n, time, start, end, fit in zip(
        chosen.tolist(), near, *values, strict=True
    ):
        document, date, offset, text = heads[i]
        begin, name = max(0, start - SIGHT), found.names[number]
        where = document, date, start + offset, end + offset
        window = text[begin : end + SIGHT], start - begin
        # Common is what the document writes small too, word by word; numbers are always small.
        words = name.lower().split(" ")
        is_common = all([word in small[i] or word.isdigit() for word in words])
        said = entities, is_common, fit, time
        yield i, pack(Sighting(name, alias, *where, n, shorts.get(group, ()), *window, *said))


SUGGESTED_FILE = "suggested.json"


@dataclass(frozen=True)
class Accepted:
    """What became of a proposal."""

    workspace: Workspace
    collected: Collected
    suggested: tuple[LabelTarget, ...]
    """Mentions that the proposal was made from: most likely the new entity."""


def accept(
    folder: FoundFolder,
    proposal: Proposal,
    path: str | Path,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    by: str,
    at: datetime,
    name: str = "",
    sources: Sequence[str] = (),
    take_labels: bool = False,
    on_progress: OnCollect = lambda collected: None,
) -> Accepted:
    """Make the workspace of a proposal; the decision is kept when all is done.

    Args:
        folder: Where the proposal was found.
        proposal: The proposal.
        path: The folder of the workspace, new or empty.
        kb: The knowledge base.
        trained: A model trained with it.
        by: Who accepts.
        at: When, with a time zone.
        name: What the entity is called; see `entity_name` otherwise.
        sources: Where to collect from; where the proposal was found by default.
        take_labels: Keep the suggested labels as labels of the one who accepts.
        on_progress: Called while documents are collected.

    Raises:
        WorkspaceError: The folder is in use, or the documents are not there any more.
    """
    origin = folder.origin
    wanted = list(sources) or origin["sources"]
    if not wanted or STDIN in wanted:
        raise WorkspaceError(
            "The proposal was found on standard input, which cannot be read again; name the "
            "documents with --from."
        )
    missing = [source for source in wanted if not Path(source).exists()]
    if missing:
        raise WorkspaceError(
            f"The documents {missing[0]!r} are not there any more; name them with --from."
        )
    entity = EmergingEntity(name or entity_name(proposal, kb), proposal.aliases, proposal.about)
    workspace = Workspace.create(path, entity, created_by=by, at=at)
    places = {key: origin[key] for key in ("kb", "model")}
    (collected,) = collect([workspace], wanted, kb, trained, origin=places, on_progress=on_progress)
    suggested = suggest_labels(workspace, proposal)
    fields = "document", "start", "end", "surface"
    named = [{f: getattr(s, f) for f in fields} | {"choice": EMERGING_CHOICE} for s in suggested]
    write_atomic(workspace.path / SUGGESTED_FILE, to_json(named))
    if take_labels:
        with workspace.open_labels() as store:
            for target in suggested:
                store.add(target, EMERGING_CHOICE, labeller=by, at=at)
    folder.decide(proposal, "accepted", by=by, at=at)
    return Accepted(workspace, collected, suggested)


def entity_name(proposal: Proposal, kb: KnowledgeBase) -> str:
    """Return a title that no known entity has: the name, or the name with a word about it."""
    if proposal.kind == "name" and kb.entity_ids([proposal.name])[0] < 0:
        return proposal.name
    for word in proposal.words:
        title = f"{proposal.name} ({word})"
        if kb.entity_ids([title])[0] < 0:
            return title
    return f"{proposal.name} (new)"


def suggest_labels(workspace: Workspace, proposal: Proposal) -> tuple[LabelTarget, ...]:
    """Return the collected mentions that the proposal was made from."""
    places = {o.document: o for o in proposal.occurrences}
    found: list[LabelTarget] = []
    for document in workspace.documents:
        if place := places.get(document.id):
            free = ((i, m) for i, m in enumerate(document.mentions) if m.entity is None)
            meets = ((i, m) for i, m in free if m.start < place.end and place.start < m.end)
            found += [LabelTarget.of(document.id, i, m) for i, m in islice(meets, 1)]
    return tuple(found)
