"""Collect the candidate documents of workspaces in one pass over the sources.

One automaton over all aliases rules out most of a crawl before it is parsed. What is left goes to
the workspaces whose names it may hold, and each decides as if it were alone.

A file is known by what it holds, whatever it is called: one that was read is not read again, and
one that grew or changed is. Behind whole files, every 32 MB or so, the workspaces write down which
files they have read. A run that was killed goes on behind the last of these and ends with the same
documents as one that was not; one that failed leaves the workspaces as they were.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from stamo.corpus.aliases import AliasGroups, AliasMatcher
from stamo.corpus.duplicates import NearDuplicates, UInt32, minhash
from stamo.corpus.reading import (
    NO_MENTION,
    STDIN,
    InputFile,
    ReadFiles,
    SkipCounter,
    content_key,
    list_files,
    read_files,
    split_document,
)
from stamo.corpus.types import Document, Mention, without_overlaps
from stamo.errors import StamoError, WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.forms import find_alias_forms
from stamo.linking.linker import Linker
from stamo.linking.results import merge_parts
from stamo.models.store import TrainedModel
from stamo.workspace.documents import CollectedParts, DocumentParts, free_id
from stamo.workspace.folder import Workspace, check_origin

LONGER_NAME = "alias only inside longer names"
COPY = "near-duplicate of a document that was kept"
LEAST_CONFIDENCE = 0.5
"""Other mentions linked with at least this confidence become entity context."""
BATCH_SIZE = 64
"""Documents of a workspace that are decided together, and stored as one part."""
MAX_TOGETHER = 2_000_000
"""Characters of documents after which no further workspace is added to those decided together."""
MAX_WAITING = 32_000_000
"""Characters of documents that wait to be decided, of all workspaces together."""
CHECKPOINT_BYTES = 32_000_000
"""Bytes of the sources, as they are stored, after which a file's end is written down."""
CHECKPOINT_SPACES = 32
"""Workspaces that write in the time of reading so many bytes; more of them write less often."""
REPORTED_BYTES = 1_000_000
"""After so many bytes the caller hears how far reading is."""


@dataclass(frozen=True)
class CollectSettings:
    """What is kept, and how."""

    casefold: bool = False
    """Whether an alias in another case is a candidate mention too."""
    max_documents: int | None = None
    """Stop after so many documents were kept."""
    text_column: str = ""
    """The column of tables that holds the texts; `text` and the like by default. An interrupted
    collecting goes on with the one it began with, and with its encoding."""
    encoding: str = ""
    """The encoding of texts, where it is neither UTF-8 nor UTF-16 with a mark."""


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

    @property
    def n_read(self) -> int:
        """Return how many documents were looked at."""
        return self.n_kept + sum(self.skipped.values())


@dataclass(frozen=True)
class CollectProgress:
    """How far a pass over the sources has come."""

    n_kept: int
    """Documents kept, of all workspaces together."""
    n_read: int
    """Documents looked at or ruled out."""
    share: float
    """How much of the sources is read, 0 to 1."""


OnCollect = Callable[[CollectProgress], None]
HOW = ("text_column", "encoding")
"""What a workspace remembers of how its interrupted sources are read."""


def collect(
    workspaces: Sequence[Workspace],
    sources: Sequence[str | Path],
    kb: KnowledgeBase,
    trained: TrainedModel,
    settings: CollectSettings = CollectSettings(),
    *,
    origin: dict[str, str] | None = None,
    fresh: bool = False,
    stdin: BinaryIO | None = None,
    read: ReadFiles = read_files,
    on_progress: OnCollect = lambda progress: None,
) -> list[Collected]:
    """Collect the candidate documents of workspaces; each ends as if it were alone.

    What an interrupted collecting has not read yet is read first. A workspace that has read a file
    stays as it is while others are fed with it. Every file is read once.

    Args:
        workspaces: The folders of the emerging entities.
        sources: Files, folders or "-"; empty goes on with those of an interrupted collecting.
        kb: The knowledge base.
        trained: The linking model that links the other mentions.
        settings: What is kept.
        origin: Kept with the documents: where the knowledge base and the model lie.
        fresh: Forget what was collected before.
        stdin: What "-" reads.
        read: Reads files as `read_files` does, on this machine or many.
        on_progress: Called after each batch and from time to time.

    Raises:
        WorkspaceError: There is nothing to read, or another knowledge base or model was used.
        CorpusFormatError: A source does not exist or cannot be read.
        MissingExtraError: A file needs one. After any of these, the workspaces are as they were.
    """
    if len({workspace.path.resolve() for workspace in workspaces}) < len(workspaces):
        raise WorkspaceError("A workspace is named twice; name each one once.")
    list_files(sources)  # refuses what is missing before anything is changed
    given = [str(source) for source in sources]
    known = {"kb_fingerprint": kb.fingerprint, "model_fingerprint": trained.fingerprint}
    known |= origin or {}
    names = tuple(dict.fromkeys(a for w in workspaces for a in w.entity.aliases))
    with ExitStack() as locks:
        former: list[CollectedParts] = []
        states: list[dict[str, Any]] = []
        how = {name: getattr(settings, name) for name in HOW}
        for workspace in workspaces:
            locks.enter_context(workspace.lock("collect"))
            former.append(workspace.documents.manifest)
            manifest = CollectedParts() if fresh else former[-1]
            if manifest.state:
                check_origin(workspace, kb, trained)
            waiting = [name for name in manifest.state.get("waiting", []) if name != STDIN]
            if not given and not waiting:
                raise WorkspaceError(
                    f"There is nothing to collect from for {workspace.entity.id!r}; name documents "
                    "with --from."
                )
            if waiting:
                how = {name: how[name] or str(manifest.state.get(name, "")) for name in HOW}
            state = dict(manifest.state or known)
            for name, before in (("waiting", waiting), ("sources", state.get("sources", []))):
                state[name] = list(dict.fromkeys([*before, *given]))
            states.append(state)
        choice = LinkerSettings(batch_size=BATCH_SIZE, mentions="detect")
        linker = Linker(kb, trained, settings=choice, extra_aliases=names)
        try:
            spaces = []
            for workspace, state in zip(workspaces, states, strict=True):
                if fresh:
                    workspace.documents.clear()
                space = CollectingSpace(workspace, state | how, names, settings, kb)
                spaces.append(space)
            reader = partial(read, stdin=stdin, **how)
            _Pass(spaces, linker, given, on_progress).run(reader, settings.casefold)
        except StamoError:
            for workspace, manifest in zip(workspaces, former, strict=True):
                workspace.documents.restore(manifest)
            raise
        for workspace in workspaces:
            workspace.documents.tidy()
        return [space.collected() for space in spaces]


class CollectingSpace:
    """One workspace while documents are read."""

    def __init__(
        self,
        workspace: Workspace,
        state: dict[str, Any],
        names: Sequence[str],
        settings: CollectSettings,
        kb: KnowledgeBase,
    ) -> None:
        """Take up where the workspace stands.

        Args:
            workspace: The folder.
            state: What its manifest is to say about the collecting that begins or goes on.
            names: The aliases of all workspaces of a pass.
            settings: What is kept.
            kb: Whose language says in which forms names are written.
        """
        self.workspace, self.state, self.max_documents = workspace, state, settings.max_documents
        self.aliases = workspace.entity.aliases
        self.is_alias = np.array([name in self.aliases for name in names])
        self.matcher = AliasMatcher(self.aliases, casefold=settings.casefold)
        self.forms = find_alias_forms(self.aliases, kb)
        self.documents = DocumentParts(workspace.documents.folder)  # nothing waits in it yet
        self.copies = NearDuplicates()
        self.known = frozenset(state.get("files", []))
        """The files that were read before, by what they hold."""
        self.read = list(state.get("files", []))
        """The same and those that are read now."""
        self.ids: set[str] = set()
        self.texts: set[bytes] = set()
        """Digests of the kept texts: a file that grew repeats them."""
        self.n_by_alias: Counter[str] = Counter()
        self.n_taken = self.n_new = self.n_characters = 0
        self.waiting: list[tuple[Document, list[Mention]]] = []
        self.skipped = Counter(state.get("skipped", {}))
        self.mended = Counter(state.get("mended", {}))
        self.was_complete, self.begun = self.documents.manifest.complete, False
        """Whether nothing waited before; whether its manifest says now that it collects."""
        self.done = False
        """Whether it takes no more documents."""
        for document in self.documents:
            self.copies.add(document)
            self._count(document)

    def take(self, document: Document) -> None:
        """Let a document wait if it holds an alias and was not kept before."""
        if _digest(document.text) in self.texts:
            self.n_taken += 1
            self.skipped[COPY] += 1
            return
        mentions = self.matcher.find(document.text)
        if self.forms is not None:
            more = without_overlaps(self.forms.mentions(document.text), mentions)
            mentions = sorted([*mentions, *more], key=lambda m: m.start)
        if mentions:
            self.n_taken += 1
            self.waiting.append((document, mentions))
            self.n_characters += len(document.text)

    @property
    def n_wanted(self) -> int:
        """How many documents it may still keep; those of a batch where there is no limit."""
        most = self.max_documents
        return BATCH_SIZE if most is None else max(most - len(self.ids), 0)

    def store(self, kept: Sequence[Document]) -> None:
        """Store what was kept of all that waited; it counts once `write` is called."""
        self.waiting, self.n_characters = [], 0
        named = []
        for document in kept[: self.n_wanted] if self.max_documents is not None else kept:
            named.append(replace(document, id=free_id(document.id, self.ids)))
            self._count(named[-1])
        self.n_new += len(named)
        self.documents.append(named)

    def begin(self) -> None:
        """Write down what is about to be collected, once."""
        if not self.begun:
            self.documents.append([], state=self.state)
            self.begun = True

    def settle(self, counter: SkipCounter, n_handed: int) -> None:
        """Count what was left out of documents that were read for it."""
        self.skipped += counter.skipped + Counter({NO_MENTION: n_handed - self.n_taken})
        self.mended += counter.mended
        self.state["examples"] = counter.examples | self.state.get("examples", {})
        self.n_taken = 0

    def write(self, *, complete: bool = False) -> None:
        """Write down what was kept and left out, and which files were read."""
        self.state |= {"skipped": dict(self.skipped), "mended": dict(self.mended)}
        self.state |= {"files": self.read} | ({"waiting": []} if complete else {})
        self.documents.append([], state=self.state, complete=complete)
        self.done = complete

    def collected(self) -> Collected:
        """Say what there is."""
        skipped = self.state.get("skipped", {})
        return Collected(
            n_kept=len(self.ids),
            n_mentions=self.n_by_alias.total(),
            skipped=dict(sorted(skipped.items(), key=lambda item: (-item[1], item[0]))),
            mended=dict(self.state.get("mended", {})),
            examples=dict(self.state.get("examples", {})),
            n_new=self.n_new,
            mentions_by_alias={alias: self.n_by_alias[alias] for alias in self.aliases},
        )

    def _count(self, document: Document) -> None:
        self.ids.add(document.id)
        self.texts.add(_digest(document.text))
        self.n_by_alias.update(m.surface for m in document.mentions if m.entity is None)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()


class _Pass:
    """One reading of all files that a workspace waits for, to their end."""

    def __init__(
        self,
        spaces: Sequence[CollectingSpace],
        linker: Linker,
        given: Sequence[str],
        on_progress: OnCollect,
    ) -> None:
        self.spaces, self.linker, self.on_progress = spaces, linker, on_progress
        self.sources = list(dict.fromkeys(chain(*(s.state["waiting"] for s in spaces), given)))
        self.files = list_files(self.sources, must_exist=False)
        self.counter = SkipCounter()
        self.n_total = sum(file.size for file in self.files)
        self.n_bytes = self.n_read = self.n_handed = self.n_reported = 0
        self.active: set[CollectingSpace] = set()
        """The workspaces that wait for the file that is read."""
        self.waiting_for: dict[InputFile, tuple[str, set[CollectingSpace]]] = {}

    def run(self, read: ReadFiles, casefold: bool) -> None:
        """Read the files; give each document to those whose names it may hold."""
        names = [sorted(space.aliases) for space in self.spaces]
        stems = [space.forms.stems if space.forms else () for space in self.spaces]
        matcher = AliasMatcher(
            sorted(set(chain.from_iterable(names))),
            casefold=casefold,
            stems=list(chain.from_iterable(stems)),
        )
        owners = AliasGroups(names, casefold=casefold, stems=stems)
        n_written = 0
        between = CHECKPOINT_BYTES * max(1, len(self.spaces) // CHECKPOINT_SPACES)
        how = repr((casefold, *(self.spaces[0].state[name] for name in HOW)))
        for file, documents in read(
            self._unread(how), matcher=matcher, on_skip=self.counter, on_bytes=self._add_bytes
        ):
            key, active = self.waiting_for.pop(file)
            if active != self.active:
                self._settle()
                self.active = active
            for space in active:
                space.begin()
            for document in documents:
                self.n_handed += 1
                for space in map(self.spaces.__getitem__, owners.of(document.text)):
                    if space in active and not space.done:
                        space.take(document)
                        if len(space.waiting) >= max(min(space.n_wanted, BATCH_SIZE), 1):
                            self._keep([space])
                            if not space.n_wanted:
                                space.settle(self.counter, self.n_handed)
                                space.write(complete=True)
                if all(space.done for space in self.spaces):
                    return
                if sum(space.n_characters for space in self.spaces) > MAX_WAITING:
                    self._keep(self.spaces)
            for space in active:
                space.read += [key] if key else []
            if self.n_bytes - n_written >= between:
                n_written = self.n_bytes
                self._write()
        self._write(complete=True)
        self._report(share=1.0)

    def _unread(self, how: str) -> Iterator[InputFile]:
        """Yield the files that a workspace waits for and has not read before."""
        for file in self.files:
            source, key = self.sources[file.source], content_key(file, how)
            active = {
                space
                for space in self.spaces
                if not space.done and source in space.state["waiting"] and key not in space.known
            }
            if active:
                self.waiting_for[file] = key, active
                yield file
            else:
                self._add_bytes(file.size)

    def _settle(self) -> None:
        for space in self.active:
            if not space.done:
                space.settle(self.counter, self.n_handed)
        self.n_read += self.n_handed + self.counter.skipped.total()
        for counted in (self.counter.skipped, self.counter.mended, self.counter.examples):
            counted.clear()
        self.n_handed = 0

    def _write(self, *, complete: bool = False) -> None:
        """Decide on all that waits, and write down that files were read to their end."""
        self._keep(self.spaces)
        self._settle()
        for space in self.spaces:
            if not space.done and (space.begun or (complete and not space.was_complete)):
                space.write(complete=complete)

    def _keep(self, spaces: Sequence[CollectingSpace]) -> None:
        keep([space for space in spaces if space.waiting], self.linker)
        self._report()

    def _add_bytes(self, n: int) -> None:
        self.n_bytes += n
        if self.n_bytes - self.n_reported >= REPORTED_BYTES:
            self._report()

    def _report(self, share: float | None = None) -> None:
        self.n_reported = self.n_bytes
        n_kept = sum(len(space.ids) for space in self.spaces)
        n_read = self.n_read + self.n_handed + self.counter.skipped.total()
        if share is None:
            share = min(1.0, self.n_bytes / max(self.n_total, 1))
        self.on_progress(CollectProgress(n_kept, n_read, share))


def keep(spaces: Sequence[CollectingSpace], linker: Linker) -> None:
    """Decide which of the documents that wait are kept; store them, other mentions linked.

    An alias inside a longer name that is known is no candidate mention. A document without one is
    left out, and so is a near-duplicate.
    """
    group: list[CollectingSpace] = []
    for number, space in enumerate(spaces, start=1):
        group.append(space)
        if number < len(spaces) and sum(one.n_characters for one in group) < MAX_TOGETHER:
            continue
        waiting = [(one, document, found) for one in group for document, found in one.waiting]
        chunks = [
            (one, chunk)
            for one, document, _ in waiting
            for chunk in split_document(replace(document, mentions=()), linker.window)
        ]
        is_alias = np.stack([one.is_alias for one, _ in chunks])
        linked = merge_parts(linker.link_parts([chunk for _, chunk in chunks], is_alias))
        signatures: dict[str, UInt32] = {}
        kept = defaultdict(list)
        for (one, document, candidates), result in zip(waiting, linked, strict=True):
            spans = [(m.start, m.end) for m in result.mentions]
            candidates = outside_longer(candidates, spans)
            if not candidates:
                one.skipped[LONGER_NAME] += 1
                continue
            if document.text not in signatures:  # another workspace may want it too
                signatures[document.text] = minhash(document.text)
            if one.copies.add(document, signatures[document.text]) is not None:
                one.skipped[COPY] += 1
                continue
            # Names that are no candidates and have no sure link are left out.
            sure = [
                Mention(m.surface, m.start, m.end, m.entity)
                for m in result.mentions
                if m.entity is not None and m.confidence >= LEAST_CONFIDENCE
            ]
            mentions = [*candidates, *without_overlaps(sure, candidates)]
            ordered = tuple(sorted(mentions, key=lambda m: (m.start, m.end)))
            kept[one].append(replace(document, mentions=ordered))
        for one in group:
            one.store(kept[one])
        group = []


def outside_longer(
    candidates: Sequence[Mention], names: Sequence[tuple[int, int]]
) -> list[Mention]:
    """Leave out candidates that lie inside a longer name ("Rey" in "Rey Island").

    Candidates and names are in order, each free of overlaps.
    """
    ends = [end for _, end in names]
    kept = []
    for candidate in candidates:
        at = bisect_right(ends, candidate.start)
        start, end = names[at] if at < len(names) else (candidate.end, candidate.end)
        is_inside = start <= candidate.start and candidate.end <= end
        if not (is_inside and end - start > candidate.end - candidate.start):
            kept.append(candidate)
    return kept
