"""Collect candidate documents: scan, keep those with a candidate mention, link the rest of them.

    documents ─alias in the bytes?─▶ mentions ─copy?─▶ link the other mentions ─▶ parts on disk

Everything is decided batch by batch, in the order of the documents. After a part is written, the
manifest says how far reading came; a run that was killed goes on there and ends with the same
documents as one that was not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.duplicates import NearDuplicates
from stamo.corpus.readers import Position, Progress, count_bytes, read_documents
from stamo.corpus.skips import NO_MENTION, SkipCounter
from stamo.corpus.types import Document, Mention
from stamo.errors import WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from stamo.linking.settings import LinkerSettings
from stamo.models.store import TrainedModel
from stamo.workspace.documents import CollectedParts, DocumentParts
from stamo.workspace.folder import Workspace

LONGER_NAME = "alias only inside longer names"
COPY = "near-duplicate of a document that was kept"


@dataclass(frozen=True)
class CollectSettings:
    """What is kept, and how."""

    context_confidence: float = 0.5
    """Other mentions linked with at least this confidence become entity context."""
    duplicate_threshold: float = 0.8
    """Documents this similar to one that was kept are left out; 1 leaves out exact copies."""
    casefold: bool = False
    """Whether an alias in another case is a candidate mention too."""
    batch_size: int = 64
    """Documents decided together; a part is written after each batch that kept some."""
    max_documents: int | None = None
    """Stop after so many documents were kept."""


@dataclass(frozen=True)
class Collected:
    """How far collecting has come."""

    n_kept: int
    n_mentions: int
    """Candidate mentions of the kept documents."""
    skipped: dict[str, int]
    """Documents left out, by reason."""
    mended: dict[str, int]
    """Documents kept after repair, by what was repaired."""
    examples: dict[str, str]
    """Where each reason was met first."""
    n_bytes: int
    n_bytes_total: int
    complete: bool = False

    @property
    def n_read(self) -> int:
        """Return how many documents were looked at."""
        return self.n_kept + sum(self.skipped.values())

    @property
    def share(self) -> float:
        """Return how much of the sources is read, 0 to 1."""
        return 1.0 if self.complete else min(1.0, self.n_bytes / max(self.n_bytes_total, 1))


OnCollect = Callable[[Collected], None]


def collect(
    workspace: Workspace,
    sources: Sequence[str | Path],
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    origin: dict[str, str] | None = None,
    settings: CollectSettings = CollectSettings(),
    fresh: bool = False,
    stdin: BinaryIO | None = None,
    on_progress: OnCollect = lambda collected: None,
) -> Collected:
    """Collect the candidate documents of a workspace.

    An interrupted collecting goes on when it is given the same sources, or none. After a complete
    one, further sources are added.

    Args:
        workspace: The folder of the emerging entity.
        sources: Files, folders or "-"; empty goes on with those of an interrupted collecting.
        kb: The knowledge base.
        trained: The linking model that links the other mentions.
        origin: Kept with the documents: where the knowledge base and the model lie.
        settings: What is kept.
        fresh: Forget what was collected before.
        stdin: What "-" reads.
        on_progress: Called after each batch.

    Raises:
        WorkspaceError: There is nothing to read, or other sources wait to be finished.
    """
    with workspace.lock("collect"):
        parts = workspace.documents
        if fresh:
            parts.clear()
        manifest = parts.manifest
        state = _next_state(manifest, [str(s) for s in sources], kb, trained, origin)
        run = _Run(workspace, parts, kb, trained, settings, state, on_progress)
        return run.finish(stdin)


def _next_state(
    manifest: CollectedParts,
    sources: list[str],
    kb: KnowledgeBase,
    trained: TrainedModel,
    origin: dict[str, str] | None,
) -> dict[str, Any]:
    """Return where to begin: a new state, the old one, or the old one with more sources."""
    fingerprints = {"kb_fingerprint": kb.fingerprint, "model_fingerprint": trained.fingerprint}
    old = dict(manifest.state)
    if not old:
        if not sources:
            raise WorkspaceError("There is nothing to collect from; name documents with --from.")
        start = Position().to_json()
        return {"sources": sources, "position": start} | fingerprints | (origin or {})
    if any(old.get(name) != value for name, value in fingerprints.items()):
        raise WorkspaceError(
            "The documents were collected with another knowledge base or model; use those, or "
            "collect all anew with --fresh."
        )
    known: list[str] = list(old["sources"])
    if not manifest.complete:
        if sources and sources != known:
            raise WorkspaceError(
                f"Collecting from {', '.join(known)} was interrupted; finish it without --from, or "
                "start anew with --fresh."
            )
        return old
    more = [source for source in sources if source not in known]
    if not more:
        raise WorkspaceError(
            f"All of {', '.join(known)} is collected; name other documents with --from, or start "
            "anew with --fresh."
        )
    return old | {"sources": known + more, "position": Position(len(known)).to_json()}


@dataclass
class _Snapshot:
    """Reading as it was at a position from which it can go on."""

    position: Position
    n_bytes: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    mended: dict[str, int] = field(default_factory=dict)


class _Run:
    """One collecting from its start, or where it was left, to its end."""

    def __init__(
        self,
        workspace: Workspace,
        parts: DocumentParts,
        kb: KnowledgeBase,
        trained: TrainedModel,
        settings: CollectSettings,
        state: dict[str, Any],
        on_progress: OnCollect,
    ) -> None:
        self.parts, self.settings, self.state, self.on_progress = (
            parts,
            settings,
            state,
            on_progress,
        )
        self.aliases = frozenset(workspace.entity.aliases)
        self.matcher = AliasMatcher(workspace.entity.aliases, casefold=settings.casefold)
        choice = LinkerSettings(batch_size=settings.batch_size)
        extra = workspace.entity.aliases
        self.finder = Linker(
            kb, trained, settings=replace(choice, mentions="detect"), extra_aliases=extra
        )
        self.linker = Linker(kb, trained, settings=replace(choice, mentions="given"))
        self.copies = NearDuplicates(settings.duplicate_threshold)
        self.ids: set[str] = set()
        self.n_kept = self.n_mentions = 0
        for document in parts:
            self.copies.add(document)
            self._count(document)
        self.counter = SkipCounter(
            Counter(state.get("skipped", {})),
            Counter(state.get("mended", {})),
            dict(state.get("examples", {})),
        )
        self.decided = Counter(state.get("decided", {}))
        self.n_bytes_total = count_bytes([s for s in state["sources"] if s != "-"])

    def _count(self, document: Document) -> None:
        self.ids.add(document.id)
        self.n_kept += 1
        self.n_mentions += sum(m.entity is None for m in document.mentions)

    def finish(self, stdin: BinaryIO | None) -> Collected:
        """Read the sources to their end."""
        start = Position.from_json(self.state["position"])
        reached = _Snapshot(start, int(self.state.get("n_bytes", 0)), *self._counts())

        def note(progress: Progress) -> None:
            nonlocal reached
            reached = _Snapshot(progress.position, progress.n_bytes, *self._counts())

        reader = read_documents(
            self.state["sources"],
            on_skip=self.counter,
            on_progress=note,
            matcher=self.matcher,
            start=start,
            stdin=stdin,
        )
        batch: list[Document] = []
        for document in reader:
            # `reached` covers exactly the documents before this one.
            if len(batch) == self.settings.batch_size:
                self._keep(batch, reached)
                batch = []
                if self._is_enough():
                    break
            batch.append(document)
        reached = _Snapshot(reached.position, reached.n_bytes, *self._counts())
        self._keep(batch, reached, complete=True)
        return self._collected(reached, complete=True)

    def _is_enough(self) -> bool:
        most = self.settings.max_documents
        return most is not None and self.n_kept >= most

    def _counts(self) -> tuple[dict[str, int], dict[str, int]]:
        return dict(self.counter.skipped), dict(self.counter.mended)

    def _keep(self, batch: list[Document], reached: _Snapshot, *, complete: bool = False) -> None:
        kept = list(self._link(self._without_copies(self._with_mentions(batch))))
        for document in kept:
            self._count(document)
        state = self.state | {
            "position": reached.position.to_json(),
            "n_bytes": reached.n_bytes,
            "skipped": reached.skipped,
            "mended": reached.mended,
            "examples": self.counter.examples,
            "decided": dict(self.decided),
        }
        self.parts.append(kept, state=state, complete=complete)
        self.on_progress(self._collected(reached, complete=complete))

    def _collected(self, reached: _Snapshot, *, complete: bool) -> Collected:
        skipped = Counter(reached.skipped) + self.decided
        return Collected(
            n_kept=self.n_kept,
            n_mentions=self.n_mentions,
            skipped=dict(sorted(skipped.items(), key=lambda item: (-item[1], item[0]))),
            mended=reached.mended,
            examples=self.counter.examples,
            n_bytes=reached.n_bytes,
            n_bytes_total=self.n_bytes_total,
            complete=complete,
        )

    def _with_mentions(self, batch: list[Document]) -> Iterator[Document]:
        """Find all mentions; an alias inside a longer name that is known is no candidate."""
        found = [(d, m) for d in batch if (m := self.matcher.find(d.text))]
        self.decided[NO_MENTION] += len(batch) - len(found)
        if not found:
            return
        located = self.finder.locate([replace(d, mentions=()) for d, _ in found])
        edges = np.searchsorted(located.documents, np.arange(len(found) + 1)).tolist()
        for i, (document, candidates) in enumerate(found):
            rows = slice(edges[i], edges[i + 1])
            spans = zip(located.starts[rows].tolist(), located.ends[rows].tolist(), strict=True)
            mentions = join_mentions(document.text, candidates, list(spans))
            if any(m.surface in self.aliases and m.entity is None for m in mentions):
                yield replace(document, mentions=mentions)
            else:
                self.decided[LONGER_NAME] += 1

    def _without_copies(self, documents: Iterator[Document]) -> Iterator[Document]:
        for document in documents:
            if self.copies.add(document) is None:
                yield document
            else:
                self.decided[COPY] += 1

    def _link(self, documents: Iterator[Document]) -> Iterator[Document]:
        """Link the mentions that are no candidates; those without a sure link are left out."""
        waiting = list(documents)
        shown = [
            replace(d, mentions=tuple(_as_written(m, d.text) for m in d.mentions)) for d in waiting
        ]
        taken = self.ids.copy()
        least = self.settings.context_confidence
        for document, linked in zip(waiting, self.linker.link_documents(shown), strict=True):
            if linked.error is not None:
                raise WorkspaceError(f"Linking {document.id!r} failed: {linked.error}")
            sure = {
                (m.start, m.end): m.entity
                for m in linked.mentions
                if m.entity is not None and m.confidence >= least
            }
            mentions = tuple(
                m if m.surface in self.aliases else replace(m, entity=sure[m.start, m.end])
                for m in document.mentions
                if m.surface in self.aliases or (m.start, m.end) in sure
            )
            name = free_id(document.id, taken)
            taken.add(name)
            yield replace(document, id=name, mentions=mentions)


def join_mentions(
    text: str, candidates: Sequence[Mention], others: Sequence[tuple[int, int]]
) -> tuple[Mention, ...]:
    """Join candidate mentions with the spans of all names that were detected.

    A candidate that lies inside a longer name is left out ("Rey" in "Rey Island"), and so is a
    name that overlaps a candidate otherwise. Both are in order and free of overlaps.
    """
    starts, ends = [s for s, _ in others], [e for _, e in others]
    kept: list[Mention] = []
    hidden: set[int] = set()
    for candidate in candidates:
        first = bisect_right(ends, candidate.start)
        over = list(range(first, bisect_left(starts, candidate.end, lo=first)))
        length = candidate.end - candidate.start
        if any(
            starts[i] <= candidate.start
            and candidate.end <= ends[i]
            and ends[i] - starts[i] > length
            for i in over
        ):
            continue
        kept.append(candidate)
        hidden.update(over)
    free = [Mention(text[s:e], s, e) for i, (s, e) in enumerate(others) if i not in hidden]
    return tuple(sorted([*kept, *free], key=lambda m: (m.start, m.end)))


def _as_written(mention: Mention, text: str) -> Mention:
    # A candidate's surface is the declared alias; linking wants what the text says.
    return replace(mention, surface=text[mention.start : mention.end])


def free_id(name: str, taken: set[str]) -> str:
    """Return a document id that is not taken: two sources may use the same ones."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}~{number}"
    return free
