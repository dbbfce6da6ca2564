"""Collect the candidate documents of one or many workspaces in one pass over the sources.

One automaton over all aliases rules out most of a crawl before it is parsed. What is left goes to
the workspaces whose names it may hold, and each decides as if it were alone.

Every workspace writes down which files it has read whole. A run that was killed goes on behind the
last of them and ends with the same documents as one that was not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from stamo.corpus.aliases import AliasGroups, AliasMatcher
from stamo.corpus.duplicates import NearDuplicates, UInt32, minhash
from stamo.corpus.reading import (
    NO_MENTION,
    STDIN,
    Chunk,
    InputFile,
    ReadFiles,
    SkipCounter,
    list_files,
    read_files,
    split_document,
)
from stamo.corpus.types import Document, Mention, without_overlaps
from stamo.errors import WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.forms import find_alias_forms
from stamo.linking.linker import Linker
from stamo.linking.results import merge_parts
from stamo.linking.texts import Detected
from stamo.models.store import TrainedModel
from stamo.workspace.documents import CollectedParts, free_id
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


Position = tuple[int, str]
"""The last file that was read whole: index of its source, and its name; files come so ordered."""


@dataclass(frozen=True)
class Reached:
    """Reading as it was behind a file, from where it can go on."""

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
        source, file = state["position"]
        self.start: Position = (int(source) - self.begun, str(file))
        """The last of the files of this collecting that it has read."""
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

    def flush(
        self, kept: list[Document], reached: Reached, *, is_whole: bool, complete: bool = False
    ) -> None:
        """Write down what was kept of all that waited.

        Args:
            kept: The documents.
            reached: Where reading is.
            is_whole: Whether that is the end of a file, from where an interrupted run goes on.
            complete: Whether this is all.
        """
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
        if is_whole or complete:
            state = self.state | {
                "position": [reached.position[0] + self.begun, reached.position[1]],
                "n_bytes": reached.n_bytes,
                "skipped": self._total("skipped", reached),
                "mended": self._total("mended", reached),
                "examples": dict(reached.examples) | self.state.get("examples", {}),
                "decided": self._decided(reached),
            }
            self.parts.append(named, state=state, complete=complete)
        else:
            self.parts.append(named)

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


LEAST_CONFIDENCE = 0.5
"""Other mentions linked with at least this confidence become entity context."""
MAX_TOGETHER = 2_000_000
"""Characters of documents after which no further workspace is added to those decided together."""


@dataclass(frozen=True)
class _Found:
    """A document that a workspace waits for, in parts, with all names that were found in them."""

    intake: Intake
    document: Document
    candidates: list[Mention]
    parts: Sequence[Chunk]
    names: Sequence[Detected]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The places of all names in the document."""
        return [
            (start + part.offset, end + part.offset)
            for part, some in zip(self.parts, self.names, strict=True)
            for start, end in zip(some.starts.tolist(), some.ends.tolist(), strict=True)
        ]


class Decider:
    """Finds and links the mentions of documents for all workspaces of a pass."""

    def __init__(
        self,
        intakes: Sequence[Intake],
        kb: KnowledgeBase,
        trained: TrainedModel,
        settings: CollectSettings,
    ) -> None:
        names = tuple(dict.fromkeys(a for intake in intakes for a in intake.entity.aliases))
        choice = LinkerSettings(batch_size=settings.batch_size, mentions="detect")
        self._linker = Linker(kb, trained, settings=choice, extra_aliases=names)
        self._is_alias = {
            intake: np.array([name in intake.aliases for name in names]) for intake in intakes
        }

    def decide(self, intakes: Sequence[Intake]) -> Iterator[tuple[Intake, list[Document]]]:
        """Yield each workspace with the documents that it keeps of those that wait in it."""
        for group in _groups(intakes):
            kept: dict[Intake, list[Document]] = {intake: [] for intake in group}
            wanted = list(self._without_copies(self._detect(group)))
            for found, document in zip(wanted, self._link(wanted), strict=True):
                kept[found.intake].append(document)
            yield from kept.items()

    def _detect(self, intakes: Sequence[Intake]) -> Iterator[_Found]:
        """Find all names; an alias inside a longer name that is known is no candidate."""
        waiting = [(i, document, found) for i in intakes for document, found in i.waiting]
        cut = [list(split_document(d, self._linker.window)) for _, d, _ in waiting]
        owners = [intake for (intake, _, _), parts in zip(waiting, cut, strict=True) for _ in parts]
        if not owners:
            return
        is_alias = np.stack([self._is_alias[intake] for intake in owners])
        names = iter(self._linker.detect([part for parts in cut for part in parts], is_alias))
        for (intake, document, candidates), parts in zip(waiting, cut, strict=True):
            some = list(islice(names, len(parts)))
            found = _Found(intake, document, candidates, parts, some)
            yield replace(found, candidates=outside_longer(candidates, found.spans))

    def _without_copies(self, every: Iterator[_Found]) -> Iterator[_Found]:
        signatures: dict[str, UInt32] = {}
        for found in every:
            intake, text = found.intake, found.document.text
            intake.decided[LONGER_NAME] += not found.candidates
            if found.candidates:
                if text not in signatures:  # another workspace may want it too
                    signatures[text] = minhash(text)
                is_new = intake.copies.add(found.document, signatures[text]) is None
                intake.decided[COPY] += not is_new
                if is_new:
                    yield found

    def _link(self, wanted: Sequence[_Found]) -> Iterator[Document]:
        """Link the names that are no candidates; those without a sure link are left out."""
        parts = [part for found in wanted for part in found.parts]
        names = [some for found in wanted for some in found.names]
        linked = merge_parts(self._linker.link_found(parts, names))
        for found, result in zip(wanted, linked, strict=True):
            text = found.document.text
            sure = [
                Mention(text[start:end], start, end, entity)
                for start, end, entity, confidence in result.links()
                if entity is not None and confidence >= LEAST_CONFIDENCE
            ]
            others = without_overlaps(sure, found.candidates)
            mentions = sorted([*found.candidates, *others], key=lambda m: (m.start, m.end))
            yield replace(found.document, mentions=tuple(mentions))


def _groups(intakes: Sequence[Intake]) -> Iterator[list[Intake]]:
    """Put workspaces together until what waits in them is enough to be decided at once."""
    group: list[Intake] = []
    for intake in intakes:
        group.append(intake)
        if sum(one.n_characters for one in group) >= MAX_TOGETHER:
            yield group
            group = []
    if group:
        yield group


def outside_longer(
    candidates: Sequence[Mention], names: Sequence[tuple[int, int]]
) -> list[Mention]:
    """Leave out candidates that lie inside a longer name ("Rey" in "Rey Island").

    Candidates and names are in order, each free of overlaps.
    """
    ends = [end for _, end in names]

    def is_inside(candidate: Mention) -> bool:
        at = bisect_right(ends, candidate.start)
        start, end = names[at] if at < len(names) else (candidate.end, candidate.end)
        return (
            start <= candidate.start
            and candidate.end <= end
            and (end - start > candidate.end - candidate.start)
        )

    return [candidate for candidate in candidates if not is_inside(candidate)]


CHECKPOINT_BYTES = 32_000_000
"""After so many bytes of the sources, as they are stored, all workspaces write down where they
stand."""
REPORTED_BYTES = 1_000_000
"""After so many bytes the caller hears how far reading is."""
MAX_WAITING = 32_000_000
"""Characters of documents that wait to be decided, of all workspaces together."""


@dataclass(frozen=True)
class CollectProgress:
    """How far a pass over the sources has come."""

    n_kept: int
    """Documents kept, of all workspaces together."""
    n_read: int
    """Documents looked at or ruled out."""
    share: float
    """How much of the sources is read, 0 to 1."""
    complete: bool = False


OnCollect = Callable[[CollectProgress], None]


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
    on_progress: OnCollect = lambda progress: None,
) -> Collected:
    """Collect the candidate documents of one workspace; see `collect_many`."""
    (collected,) = collect_many(
        [workspace],
        sources,
        kb,
        trained,
        origin=origin,
        settings=settings,
        fresh=fresh,
        stdin=stdin,
        on_progress=on_progress,
    )
    return collected


def collect_many(
    workspaces: Sequence[Workspace],
    sources: Sequence[str | Path],
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    origin: dict[str, str] | None = None,
    settings: CollectSettings = CollectSettings(),
    fresh: bool = False,
    stdin: BinaryIO | None = None,
    read: ReadFiles = read_files,
    on_progress: OnCollect = lambda progress: None,
) -> list[Collected]:
    """Collect the candidate documents of workspaces; each ends as if it were alone.

    An interrupted collecting goes on when it is given the same sources, or none. After a complete
    one, further sources are added; a workspace that has them all stays as it is while the others
    are fed. The sources are read once, unless the workspaces wait for different ones.

    Args:
        workspaces: The folders of the emerging entities.
        sources: Files, folders or "-"; empty goes on with those of an interrupted collecting.
        kb: The knowledge base.
        trained: The linking model that links the other mentions.
        origin: Kept with the documents: where the knowledge base and the model lie.
        settings: What is kept.
        fresh: Forget what was collected before.
        stdin: What "-" reads.
        read: How files are read; by this process by default.
        on_progress: Called after each batch and from time to time.

    Raises:
        WorkspaceError: There is nothing to read, or other sources wait to be finished.
        CorpusFormatError: A source does not exist; nothing is changed then.
    """
    if len({workspace.path.resolve() for workspace in workspaces}) < len(workspaces):
        raise WorkspaceError("A workspace is named twice; name each one once.")
    if isinstance(sources, str):
        list_files(sources)  # refuses it
    given = [str(source) for source in sources]
    with ExitStack() as locks:
        for workspace in workspaces:
            locks.enter_context(workspace.lock("collect"))
        artifacts = {"kb_fingerprint": kb.fingerprint, "model_fingerprint": trained.fingerprint}
        known = artifacts | (origin or {}) | {"text_column": settings.text_column}
        states = [
            _next_state(CollectedParts() if fresh else w.documents.manifest, w, given, known)
            for w in workspaces
        ]
        sources_of = [s for state in states for s in state["sources"][state["begun"] :]]
        if states and not sources_of:
            _refuse_collected(workspaces, states[0]["sources"])
        list_files(list(dict.fromkeys(sources_of)))  # before anything is changed
        if fresh:
            for workspace in workspaces:
                workspace.documents.clear()
        intakes = [
            Intake(workspace, state, settings, kb)
            for workspace, state in zip(workspaces, states, strict=True)
        ]
        decider = Decider(intakes, kb, trained, settings)
        collected: dict[int, Collected] = {}
        for group in _groups_collect(intakes):
            some = [intakes[number] for number in group]
            if some[0].sources:
                results = _Pass(some, decider, settings, read, on_progress).run(stdin)
            else:
                results = [intake.as_it_was() for intake in some]
            collected |= dict(zip(group, results, strict=True))
        return [collected[number] for number in range(len(intakes))]


def _refuse_collected(workspaces: Sequence[Workspace], known: Sequence[str]) -> NoReturn:
    many = f"all {len(workspaces)} workspaces"
    whose = many if len(workspaces) > 1 else repr(workspaces[0].entity.id)
    raise WorkspaceError(
        f"All of {', '.join(known)} is collected for {whose}; name other documents with "
        "--from, or start anew with --fresh."
    )


def _groups_collect(intakes: Sequence[Intake]) -> list[list[int]]:
    """Put workspaces together that read the same sources."""
    groups: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for number, intake in enumerate(intakes):
        groups.setdefault((intake.text_column, tuple(intake.sources)), []).append(number)
    return list(groups.values())


def _next_state(
    manifest: CollectedParts,
    workspace: Workspace,
    sources: list[str],
    origin: dict[str, str],
) -> dict[str, Any]:
    """Return where to begin: a new state, the old one, or the old one with what it lacks."""
    old, name = dict(manifest.state), workspace.entity.id
    if not old:
        if not sources:
            raise WorkspaceError(
                f"There is nothing to collect from for {name!r}; name documents with --from."
            )
        start = {"sources": sources, "begun": 0, "position": [0, ""]}
        return start | origin
    if any(old.get(key) != origin[key] for key in ("kb_fingerprint", "model_fingerprint")):
        raise WorkspaceError(
            f"The documents of {name!r} were collected with another knowledge base or model; use "
            "those, or collect all anew with --fresh."
        )
    known: list[str] = list(old["sources"])
    begun = int(old.get("begun", 0))
    if not manifest.complete:
        if sources and sources not in (known, known[begun:]):
            raise WorkspaceError(
                f"Collecting for {name!r} from {', '.join(known[begun:])} was interrupted; finish "
                "it without --from, or start anew with --fresh."
            )
        return old | {"begun": begun}
    more = [source for source in sources if source == STDIN or source not in known]
    return old | {
        "sources": known + more,
        "begun": len(known),
        "position": [len(known), ""],
        "n_bytes": 0,
        "text_column": origin["text_column"],
    }


class _Pass:
    """One reading of the sources, from where the first of the workspaces stands to the end."""

    def __init__(
        self,
        intakes: Sequence[Intake],
        decider: Decider,
        settings: CollectSettings,
        read: ReadFiles,
        on_progress: OnCollect,
    ) -> None:
        self.intakes, self.decider, self.on_progress = list(intakes), decider, on_progress
        self.read = read
        self.files = list_files(intakes[0].sources)
        names = [sorted(intake.aliases) for intake in intakes]
        union = sorted({alias for group in names for alias in group})
        stems = [intake.forms.stems if intake.forms else () for intake in intakes]
        self.matcher = AliasMatcher(
            union, casefold=settings.casefold, stems=[stem for some in stems for stem in some]
        )
        self.owners = AliasGroups(names, casefold=settings.casefold, stems=stems)
        self.n_bytes_total = sum(file.size for file in self.files)
        self.counter = SkipCounter()
        first = min(intakes, key=lambda intake: intake.start)
        self.reached = Reached(first.start, int(first.state.get("n_bytes", 0)))
        self.asleep = list(intakes)
        self.n_handed = self.turn = 0
        self.n_bytes = self.n_checked = self.n_reported = self.reached.n_bytes

    def run(self, stdin: BinaryIO | None) -> list[Collected]:
        """Read the files to their end."""
        for intake in self.intakes:
            intake.remember()
        self._wake()
        left = [f for f in self.files if (f.source, f.name) > self.reached.position]
        files = self.read(
            left,
            on_skip=self.counter,
            on_bytes=self._count_bytes,
            matcher=self.matcher,
            stdin=stdin,
            text_column=self.intakes[0].text_column,
        )
        for file, documents in files:
            for document in documents:
                if sum(intake.n_characters for intake in self.intakes) > MAX_WAITING:
                    self._flush(self.intakes)
                self._hand(document)
                if all(intake.done for intake in self.intakes):
                    break
            if all(intake.done for intake in self.intakes):
                break
            self._end_file(file)
        self._wake(everyone=True)
        self._flush(self.intakes, is_whole=True, complete=True)
        return [intake.collected(self.reached) for intake in self.intakes]

    def _hand(self, document: Document) -> None:
        """Give a document to the workspaces whose names it may hold."""
        for number in self.owners.of(document.text):
            intake = self.intakes[number]
            if intake.done or intake in self.asleep:
                continue
            if intake.is_full:
                self._flush([intake])
            if not intake.done:
                intake.take(document)
        self.n_handed += 1

    def _wake(self, *, everyone: bool = False) -> None:
        """Let those begin whose position is reached; the others had read this already."""
        for intake in [i for i in self.asleep if everyone or i.start <= self.reached.position]:
            intake.begin_at(replace(self.reached, n_handed=self.n_handed))
            self.asleep.remove(intake)

    def _reach(self, position: Position) -> None:
        """Take down where reading is."""
        counted = {name: dict(counts) for name, counts in vars(self.counter).items()}
        self.reached = Reached(position, self.n_bytes, self.n_handed, **counted)

    def _end_file(self, file: InputFile) -> None:
        """Let workspaces write down that a file is read."""
        self._reach((file.source, file.name))
        self._wake()
        if self.n_bytes // CHECKPOINT_BYTES > self.n_checked // CHECKPOINT_BYTES:
            self.n_checked = self.n_bytes
            self._flush(self._due(), is_whole=True)

    def _count_bytes(self, n: int) -> None:
        self.n_bytes += n
        if self.n_bytes - self.n_reported >= REPORTED_BYTES:
            self._report()

    def _due(self) -> list[Intake]:
        """Return who writes down where it stands: who has documents waiting, the others in turn.

        All of them together would take longer to write than to read what lies between. Going on
        after a kill, what was read since the oldest position is read again, but not decided again.
        """
        self.turn = (self.turn + 1) % len(self.intakes)
        in_turn = self.intakes[self.turn]
        return [i for i in self.intakes if (i.waiting or i is in_turn) and i not in self.asleep]

    def _flush(
        self, intakes: Sequence[Intake], *, is_whole: bool = False, complete: bool = False
    ) -> None:
        open_ones = [intake for intake in intakes if not intake.done]
        if not is_whole:
            self._reach(self.reached.position)
        for intake, kept in self.decider.decide(open_ones):
            intake.flush(kept, self.reached, is_whole=is_whole, complete=complete)
        self._report(complete=complete)

    def _report(self, *, complete: bool = False) -> None:
        self.n_reported = self.n_bytes
        share = min(1.0, self.n_bytes / max(self.n_bytes_total, 1))
        n_kept = sum(intake.n_kept for intake in self.intakes)
        n_read = self.n_handed + self.counter.skipped.total()
        self.on_progress(CollectProgress(n_kept, n_read, 1.0 if complete else share, complete))
