"""What one workspace takes from the documents that are read, and how it remembers how far it came.

Documents with an alias wait until they are decided (`workspace.decide`), all of them in their
order; then a part is written, and the position up to which everything is decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.duplicates import NearDuplicates, UInt32
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
        self.parts = workspace.documents
        self.aliases = frozenset(workspace.entity.aliases)
        self.matcher = AliasMatcher(workspace.entity.aliases, casefold=settings.casefold)
        self.forms = find_alias_forms(workspace.entity.aliases, kb)
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
        return len(self.waiting) >= min(self.settings.batch_size, self._n_wanted())

    def _n_wanted(self) -> int:
        most = self.settings.max_documents
        return self.settings.batch_size if most is None else max(most - self.n_kept, 1)

    def has_candidate(self, candidates: Sequence[Mention]) -> bool:
        """Tell whether an alias is a mention of its own in a document that waits."""
        self.decided[LONGER_NAME] += not candidates
        return bool(candidates)

    def is_new(self, document: Document, signature: UInt32) -> bool:
        """Tell whether a document that waits, by its `minhash`, is no copy of an earlier one."""
        is_new = self.copies.add(document, signature) is None
        self.decided[COPY] += not is_new
        return is_new

    def flush(self, kept: list[Document], reached: Reached, *, complete: bool = False) -> None:
        """Write down what was kept of all that waited; `reached` is the position behind it."""
        self.waiting, self.n_characters = [], 0
        if self.settings.max_documents is not None:
            kept = kept[: max(self.settings.max_documents - self.n_kept, 0)]
            complete = complete or self.n_kept + len(kept) >= self.settings.max_documents
        kept = self._with_free_ids(kept)
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

    def _with_free_ids(self, documents: list[Document]) -> list[Document]:
        taken, named = self.ids.copy(), []
        for document in documents:
            name = free_id(document.id, taken)
            taken.add(name)
            named.append(document if name == document.id else replace(document, id=name))
        return named
