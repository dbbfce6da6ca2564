"""Accepting as a background job: a request is written down, and outlives the process.

found/accepting/WORKSPACE.json ─▶ the workspace with its documents ─▶ the request is removed
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from stamo.discovery.accept import accept
from stamo.discovery.found import FoundFolder
from stamo.errors import StamoError, WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.system.files import read_json, to_json, write_atomic
from stamo.workspace.collect import CollectProgress
from stamo.workspace.learn_job import OnProgress


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
        names = [path.stem for path in sorted(self.folder.path.glob("accepting/*.json"))]
        waiting = {}
        for name in names:
            with suppress(WorkspaceError):  # its job says what is wrong
                if (request := self.get(name)) is not None:
                    waiting[str(request.proposal)] = name
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
