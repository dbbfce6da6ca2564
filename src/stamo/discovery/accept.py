"""From a proposal to work: a workspace with its names, its line, its documents and first labels.

As a background job, a request is written down and outlives the process:

    found/accepting/WORKSPACE.json ─▶ the workspace with its documents ─▶ the request is removed
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from stamo.corpus.reading import STDIN
from stamo.corpus.types import EmergingEntity
from stamo.discovery.proposals import FoundFolder, Proposal
from stamo.errors import StamoError, WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.system.files import read_json, to_json, write_atomic
from stamo.workspace.collect import Collected, CollectProgress, OnCollect, collect
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import EMERGING_CHOICE, LabelTarget
from stamo.workspace.learn import OnProgress

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
    resume: bool = False,
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
        resume: Use the workspace that an interrupted call left there; its documents are collected
            anew.
        on_progress: Called while documents are collected.

    Raises:
        WorkspaceError: The folder is in use, or the documents are not there any more.
    """
    origin = folder.origin
    wanted = list(sources) or origin["sources"]
    _check_sources(wanted)
    entity = EmergingEntity(name or entity_name(proposal, kb), proposal.aliases, proposal.about)
    if resume and (Path(path) / "entity.json").exists():
        workspace = Workspace.open(path)
    else:
        workspace = Workspace.create(path, entity, created_by=by, at=at)
    places = {key: origin[key] for key in ("kb", "model")}
    collected = collect(
        workspace, wanted, kb, trained, origin=places, fresh=resume, on_progress=on_progress
    )
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


def _check_sources(sources: Sequence[str]) -> None:
    if not sources or STDIN in sources:
        raise WorkspaceError(
            "The proposal was found on standard input, which cannot be read again; name the "
            "documents with --from."
        )
    missing = [source for source in sources if not Path(source).exists()]
    if missing:
        raise WorkspaceError(
            f"The documents {missing[0]!r} are not there any more; name them with --from."
        )


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


@dataclass(frozen=True)
class AcceptRequest:
    """Who wants a workspace of which proposal."""

    proposal: str
    """Its id."""
    by: str
    at: str
    """When, ISO 8601 with a time zone."""
    take_labels: bool


class AcceptRequests:
    """The requests of a folder of proposals, by the workspace that they ask for.

    Args:
        folder: The proposals.
        root: The folder that holds the workspaces.
    """

    def __init__(self, folder: FoundFolder, root: Path) -> None:
        self.folder = folder
        self.root = root

    def add(self, workspace: str, request: AcceptRequest) -> None:
        """Write a request down.

        Raises:
            WorkspaceError: The folder is in use, or the proposal is not open.
            UnknownEntityError: There is no such proposal.
        """
        if self.folder.with_id(request.proposal).decision != "open":
            raise WorkspaceError("This proposal was decided on before; load the list again.")
        if (self.root / workspace).exists() or self._path(workspace).exists():
            raise WorkspaceError(f"{workspace!r} is in use; give the workspace another name.")
        self._path(workspace).parent.mkdir(exist_ok=True)
        write_atomic(self._path(workspace), to_json(asdict(request)))

    def get(self, workspace: str) -> AcceptRequest | None:
        """Return the request for a workspace, where there is one.

        Raises:
            WorkspaceError: Its file is damaged.
        """
        path = self._path(workspace)
        if not path.exists():
            return None
        try:
            request = AcceptRequest(**read_json(path))
            datetime.fromisoformat(request.at)
        except (TypeError, ValueError) as error:
            raise WorkspaceError(f"{path} is no request ({error}); remove it.") from error
        return request

    def remove(self, workspace: str) -> None:
        """Forget a request."""
        self._path(workspace).unlink(missing_ok=True)

    def waiting(self) -> dict[str, str]:
        """Return the workspaces under way, by the id of their proposal."""
        waiting = {}
        for path in sorted(self.folder.path.glob("accepting/*.json")):
            with suppress(WorkspaceError):  # its job says what is wrong
                if (request := self.get(path.stem)) is not None:
                    waiting[str(request.proposal)] = path.stem
        return waiting

    def _path(self, workspace: str) -> Path:
        return self.folder.path / "accepting" / f"{workspace}.json"


def accept_job(
    requests: AcceptRequests,
    kb: KnowledgeBase,
    trained: TrainedModel,
    otherwise: Callable[[str, OnProgress], str],
) -> Callable[[str, OnProgress], str]:
    """Return work that makes a requested workspace, and does something else for all others.

    It may be killed at any time: called again, it ends the same. What fails is asked for no more.
    """

    def work(name: str, on_progress: OnProgress) -> str:
        request = requests.get(name)
        if request is None:
            return otherwise(name, on_progress)

        def show(progress: CollectProgress) -> None:
            line = f"{progress.n_read:,} documents read, {progress.n_kept:,} kept"
            on_progress(progress.share, line)

        on_progress(0.0, "Opening the documents")
        try:
            done = accept(
                requests.folder,
                requests.folder.with_id(request.proposal),
                requests.root / name,
                kb,
                trained,
                by=request.by,
                at=datetime.fromisoformat(request.at),
                take_labels=request.take_labels,
                resume=True,
                on_progress=show,
            )
        except StamoError:
            requests.remove(name)
            raise
        requests.remove(name)
        verb = "kept" if request.take_labels else "suggested"
        n = done.collected.n_kept
        return f"Accepted: {n:,} documents, {len(done.suggested)} labels {verb}. Label some more."

    return work
