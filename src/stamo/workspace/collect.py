"""Collect the candidate documents of one or many workspaces in one pass over the sources.

One automaton over all aliases rules out most of a crawl before it is parsed. What is left goes to
the workspaces whose names it may hold, and each decides as if it were alone.

Every workspace writes down how far it came: after each batch, and after so many bytes for all of
them. A run that was killed goes on there and ends with the same documents as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from stamo.corpus.aliases import AliasGroups, AliasMatcher
from stamo.corpus.readers import STDIN, Position, Progress, SourceReader, refuse_one_text
from stamo.corpus.skips import SkipCounter
from stamo.corpus.types import Document
from stamo.errors import WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.workspace.decide import Decider
from stamo.workspace.documents import CollectedParts
from stamo.workspace.folder import Workspace
from stamo.workspace.intake import Collected, CollectSettings, Intake, Reached

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
    reader: SourceReader = SourceReader(),
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
        reader: How the sources are read; by this process by default.
        on_progress: Called after each batch and from time to time.

    Raises:
        WorkspaceError: There is nothing to read, or other sources wait to be finished.
        CorpusFormatError: A source does not exist; nothing is changed then.
    """
    if len({workspace.path.resolve() for workspace in workspaces}) < len(workspaces):
        raise WorkspaceError("A workspace is named twice; name each one once.")
    refuse_one_text(sources)
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
        reader.check(list(dict.fromkeys(sources_of)))  # before anything is changed
        if fresh:
            for workspace in workspaces:
                workspace.documents.clear()
        intakes = [
            Intake(workspace, state, settings, kb)
            for workspace, state in zip(workspaces, states, strict=True)
        ]
        decider = Decider(intakes, kb, trained, settings)
        collected: dict[int, Collected] = {}
        for group in _groups(intakes):
            some = [intakes[number] for number in group]
            if some[0].sources:
                results = _Pass(some, decider, settings, reader, on_progress).run(stdin)
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


def _groups(intakes: Sequence[Intake]) -> list[list[int]]:
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
        start = {"sources": sources, "begun": 0, "position": Position().to_json()}
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
        "position": Position(len(known)).to_json(),
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
        reader: SourceReader,
        on_progress: OnCollect,
    ) -> None:
        self.intakes, self.decider, self.on_progress = list(intakes), decider, on_progress
        self.reader = reader
        self.sources = intakes[0].sources
        names = [sorted(intake.aliases) for intake in intakes]
        union = sorted({alias for group in names for alias in group})
        stems = [intake.forms.stems if intake.forms else () for intake in intakes]
        self.matcher = AliasMatcher(
            union, casefold=settings.casefold, stems=[stem for some in stems for stem in some]
        )
        self.owners = AliasGroups(names, casefold=settings.casefold, stems=stems)
        self.n_bytes_total = reader.count([s for s in self.sources if s != STDIN])
        self.counter = SkipCounter()
        first = min(intakes, key=lambda intake: intake.start)
        self.reached = Reached(first.start, int(first.state.get("n_bytes", 0)))
        self.asleep = list(intakes)
        self.n_handed = self.turn = 0
        self.n_checked = self.n_reported = self.reached.n_bytes

    def run(self, stdin: BinaryIO | None) -> list[Collected]:
        """Read the sources to their end."""
        documents = self.reader.read(
            self.sources,
            on_skip=self.counter,
            on_progress=self._note,
            matcher=self.matcher,
            start=self.reached.position,
            stdin=stdin,
            text_column=self.intakes[0].text_column,
        )
        for intake in self.intakes:
            intake.remember()
        self._wake()
        for document in documents:
            # `reached` covers exactly the documents before this one.
            if sum(intake.n_characters for intake in self.intakes) > MAX_WAITING:
                self._flush(self.intakes)
            self._hand(document)
            if all(intake.done for intake in self.intakes):
                break
        else:
            self.reached = self._reach(self.reached.position, self.reached.n_bytes)
        self._wake(everyone=True)
        self._flush(self.intakes, complete=True)
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

    def _reach(self, position: Position, n_bytes: int) -> Reached:
        counted = {name: dict(counts) for name, counts in vars(self.counter).items()}
        return Reached(position, n_bytes, self.n_handed, **counted)

    def _note(self, progress: Progress) -> None:
        """Take down where reading is; all documents before it were handed out."""
        self.reached = self._reach(progress.position, progress.n_bytes)
        self._wake()
        if progress.n_bytes // CHECKPOINT_BYTES > self.n_checked // CHECKPOINT_BYTES:
            self.n_checked = progress.n_bytes
            self._flush(self._due())
        elif progress.n_bytes - self.n_reported >= REPORTED_BYTES:
            self._report()

    def _due(self) -> list[Intake]:
        """Return who writes down where it stands: who has documents waiting, the others in turn.

        All of them together would take longer to write than to read what lies between. Going on
        after a kill, what was read since the oldest position is read again, but not decided again.
        """
        self.turn = (self.turn + 1) % len(self.intakes)
        in_turn = self.intakes[self.turn]
        return [i for i in self.intakes if (i.waiting or i is in_turn) and i not in self.asleep]

    def _flush(self, intakes: Sequence[Intake], *, complete: bool = False) -> None:
        open_ones = [intake for intake in intakes if not intake.done]
        for intake, kept in self.decider.decide(open_ones):
            intake.flush(kept, self.reached, complete=complete)
        self._report(complete=complete)

    def _report(self, *, complete: bool = False) -> None:
        self.n_reported = self.reached.n_bytes
        share = min(1.0, self.reached.n_bytes / max(self.n_bytes_total, 1))
        n_kept = sum(intake.n_kept for intake in self.intakes)
        n_read = self.reached.n_handed + sum(self.reached.skipped.values())
        self.on_progress(CollectProgress(n_kept, n_read, 1.0 if complete else share, complete))
