"""What one workspace takes from the documents that are read, and how it remembers how far it came.

    document ─alias?─▶ mentions ─longer name?─▶ copy? ─▶ link the other mentions ─▶ part on disk

Documents wait in a batch; a flush decides all of them in their order, writes a part and the
position up to which everything is decided.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.duplicates import NearDuplicates
from stamo.corpus.readers import Position
from stamo.corpus.skips import NO_MENTION
from stamo.corpus.types import Document, Mention
from stamo.errors import WorkspaceError
from stamo.linking.linker import Linker
from stamo.workspace.documents import free_id
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
    text_column: str = ""
    """The column of tables that holds the texts; `text` and the like by default. An interrupted
    collecting goes on with the one it began with."""


@dataclass(frozen=True)
class Collected:
    """What a workspace has collected."""

    n_kept: int
    n_mentions: int
    """Candidate mentions of the kept documents."""
    skipped: dict[str, int]
    """Documents left out, by reason."""
    mended: dict[str, int]
    """Documents kept after repair, by what was repaired."""
    examples: dict[str, str]
    """Where each reason was met first."""
    n_new: int
    """Documents kept since collecting began or went on."""
    mentions_by_alias: dict[str, int]
    """Candidate mentions of each alias."""
    complete: bool = False

    @property
    def n_read(self) -> int:
        """Return how many documents were looked at."""
        return self.n_kept + sum(self.skipped.values())


@dataclass(frozen=True)
class Reached:
    """Reading as it was at a position from which it can go on."""

    position: Position
    n_bytes: int = 0
    n_handed: int = 0
    """Documents that were handed out and looked at."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    mended: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)


class Intake:
    """One workspace while documents are read."""

    def __init__(
        self,
        workspace: Workspace,
        state: dict[str, Any],
        settings: CollectSettings,
        finder: Linker,
        linker: Linker,
    ) -> None:
        """Take up where the workspace stands.

        Args:
            workspace: The folder.
            state: What its manifest says about the collecting that begins or goes on.
            settings: What is kept.
            finder: Detects mentions; shared, the aliases are added to it.
            linker: Links given mentions; shared.
        """
        self.entity, self.state, self.settings, self.linker = (
            workspace.entity,
            state,
            settings,
            linker,
        )
        self.parts = workspace.documents
        self.aliases = frozenset(workspace.entity.aliases)
        self.matcher = AliasMatcher(workspace.entity.aliases, casefold=settings.casefold)
        self.finder = finder.with_names(workspace.entity.aliases)
        self.copies = NearDuplicates(settings.duplicate_threshold)
        self.ids: set[str] = set()
        self.n_kept = self.n_new = 0
        self.n_by_alias: Counter[str] = Counter()
        for document in self.parts:
            self.copies.add(document)
            self._count(document)
        self.decided = Counter(state.get("decided", {}))
        self.waiting: list[tuple[Document, list[Mention]]] = []
        self.n_characters = 0
        self._n_taken = 0
        self._since: Reached | None = None
        self._until: Reached | None = None

    @property
    def begun(self) -> int:
        """The first of the sources that this collecting reads; those before it are complete."""
        return int(self.state.get("begun", 0))

    @property
    def sources(self) -> list[str]:
        """What this collecting reads."""
        return list(self.state["sources"][self.begun :])

    @property
    def text_column(self) -> str:
        """The column of tables that this collecting reads."""
        return str(self.state.get("text_column", ""))

    @property
    def start(self) -> Position:
        """Where among the sources of this collecting it goes on."""
        position = Position.from_json(self.state["position"])
        return replace(position, source=position.source - self.begun)

    @property
    def done(self) -> bool:
        """Whether it takes no more documents."""
        return self._until is not None

    def remember(self) -> None:
        """Write down what is about to be collected, with which artifacts."""
        self.parts.append([], state=self.state)

    def begin_at(self, reached: Reached) -> None:
        """Take documents from here on."""
        self._since = reached

    def take(self, document: Document) -> None:
        """Let a document wait if it holds an alias."""
        mentions = self.matcher.find(document.text)
        if mentions:
            self._n_taken += 1
            self.waiting.append((document, mentions))
            self.n_characters += len(document.text)

    @property
    def is_full(self) -> bool:
        """Whether what waits is to be decided now."""
        return len(self.waiting) >= min(self.settings.batch_size, self._n_wanted())

    def _n_wanted(self) -> int:
        most = self.settings.max_documents
        return self.settings.batch_size if most is None else max(most - self.n_kept, 1)

    def flush(self, reached: Reached, *, complete: bool = False) -> None:
        """Decide what waits; `reached` is the position behind all of it."""
        kept = list(self._link(self._without_copies(self._with_mentions())))
        self.waiting, self.n_characters = [], 0
        if self.settings.max_documents is not None:
            kept = kept[: max(self.settings.max_documents - self.n_kept, 0)]
            complete = complete or self.n_kept + len(kept) >= self.settings.max_documents
        for document in kept:
            self._count(document)
            self.n_new += 1
        if complete:
            self._until = reached
        position = replace(reached.position, source=reached.position.source + self.begun)
        state = self.state | {
            "position": position.to_json(),
            "n_bytes": reached.n_bytes,
            "skipped": self._total("skipped", reached),
            "mended": self._total("mended", reached),
            "examples": dict(reached.examples) | self.state.get("examples", {}),
            "decided": self._decided(reached),
        }
        self.parts.append(kept, state=state, complete=complete)

    def collected(self, reached: Reached) -> Collected:
        """Say what there is."""
        reached = self._until or reached
        skipped = Counter(self._total("skipped", reached)) + Counter(self._decided(reached))
        return Collected(
            n_kept=self.n_kept,
            n_mentions=self.n_by_alias.total(),
            skipped=dict(sorted(skipped.items(), key=lambda item: (-item[1], item[0]))),
            mended=self._total("mended", reached),
            examples=dict(reached.examples) | self.state.get("examples", {}),
            n_new=self.n_new,
            mentions_by_alias={a: self.n_by_alias[a] for a in self.entity.aliases},
            complete=self.done,
        )

    def _total(self, what: str, reached: Reached) -> dict[str, int]:
        """Return what was counted before this collecting, and by the reader since it began."""
        before = Counter(self.state.get(what, {}))
        if self._since is not None:
            before += Counter(getattr(reached, what))
            before -= Counter(getattr(self._since, what))
        return dict(before)

    def _decided(self, reached: Reached) -> dict[str, int]:
        decided = self.decided.copy()
        if self._since is not None:
            decided[NO_MENTION] += reached.n_handed - self._since.n_handed - self._n_taken
        return dict(+decided)

    def _count(self, document: Document) -> None:
        self.ids.add(document.id)
        self.n_kept += 1
        self.n_by_alias.update(m.surface for m in document.mentions if m.entity is None)

    def _with_mentions(self) -> Iterator[Document]:
        """Find all mentions; an alias inside a longer name that is known is no candidate."""
        found = self.waiting
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
