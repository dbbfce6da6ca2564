"""What one workspace takes from the documents that are read, and how it remembers how far it came.

Documents with an alias wait until they are decided (`workspace.decide`), all of them in their
order; then a part is written, and the position up to which everything is decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.duplicates import NearDuplicates
from stamo.corpus.readers import Position
from stamo.corpus.skips import NO_MENTION
from stamo.corpus.types import Document, Mention, without_overlaps
from stamo.kb.base import KnowledgeBase
from stamo.linking.alias_forms import find_alias_forms
from stamo.workspace.documents import free_id
from stamo.workspace.folder import Workspace

LONGER_NAME = "alias only inside longer names"
COPY = "near-duplicate of a document that was kept"


@dataclass(frozen=True)
class CollectSettings:
    """What is kept, and how."""

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
        kb: KnowledgeBase,
    ) -> None:
        """Take up where the workspace stands.

        Args:
            workspace: The folder.
            state: What its manifest says about the collecting that begins or goes on.
            settings: What is kept.
            kb: Whose language says in which forms names are written.
        """
        self.entity, self.state, self.settings = workspace.entity, state, settings
        self.begun = int(state.get("begun", 0))
        """The first of the sources that this collecting reads; those before it are complete."""
        self.sources: list[str] = list(state["sources"][self.begun :])
        self.text_column = str(state.get("text_column", ""))
        position = Position.from_json(state["position"])
        self.start = replace(position, source=position.source - self.begun)
        """Where among the sources of this collecting it goes on."""
        self.parts = workspace.documents
        self.aliases = frozenset(workspace.entity.aliases)
        self.matcher = AliasMatcher(workspace.entity.aliases, casefold=settings.casefold)
        self.forms = find_alias_forms(workspace.entity.aliases, kb)
        self.copies = NearDuplicates()
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
        if self.forms is not None:
            more = without_overlaps(self.forms.mentions(document.text), mentions)
            mentions = sorted([*mentions, *more], key=lambda m: m.start)
        if mentions:
            self._n_taken += 1
            self.waiting.append((document, mentions))
            self.n_characters += len(document.text)

    @property
    def is_full(self) -> bool:
        """Whether what waits is to be decided now."""
        size, most = self.settings.batch_size, self.settings.max_documents
        return len(self.waiting) >= min(size, size if most is None else max(most - self.n_kept, 1))

    def flush(self, kept: list[Document], reached: Reached, *, complete: bool = False) -> None:
        """Write down what was kept of all that waited; `reached` is the position behind it."""
        self.waiting, self.n_characters = [], 0
        if self.settings.max_documents is not None:
            kept = kept[: max(self.settings.max_documents - self.n_kept, 0)]
            complete = complete or self.n_kept + len(kept) >= self.settings.max_documents
        named = []
        for document in kept:
            named.append(self._named(document))
            self._count(named[-1])
        self.n_new += len(named)
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
        self.parts.append(named, state=state, complete=complete)

    def as_it_was(self) -> Collected:
        """Say what there is where nothing is left to read."""
        self._until = Reached(self.start)
        return self.collected(self._until)

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

    def _named(self, document: Document) -> Document:
        """Return a document under an id that no other has."""
        name = free_id(document.id, self.ids)
        return document if name == document.id else replace(document, id=name)
