"""The knowledge base and the model that a workspace works with; both stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stamo.errors import ArtifactMismatchError, WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel, load_model
from stamo.workspace.folder import Workspace


@dataclass(frozen=True)
class Artifacts:
    """An opened knowledge base and model, and where they lie."""

    kb: KnowledgeBase
    trained: TrainedModel
    kb_path: Path
    model_path: Path

    @property
    def fingerprints(self) -> dict[str, str]:
        """Return their fingerprints, by "kb" and "model"."""
        return {"kb": self.kb.fingerprint, "model": self.trained.fingerprint}

    @property
    def origin(self) -> dict[str, str]:
        """Return where they lie, to be kept with collected documents."""
        return {"kb": str(self.kb_path.resolve()), "model": str(self.model_path.resolve())}


def open_artifacts(
    workspace: Workspace, kb_path: Path | None = None, model_path: Path | None = None
) -> Artifacts:
    """Open the knowledge base and model of a workspace; those of its collecting by default.

    Raises:
        WorkspaceError: The workspace does not know them yet and none are given.
    """
    state = workspace.documents.manifest.state
    paths = []
    for name, given in (("kb", kb_path), ("model", model_path)):
        if given is None and name not in state:
            raise WorkspaceError(
                f"The workspace {str(workspace.path)!r} knows no {name} yet; collect documents "
                f"with one: stamo collect {workspace.path} --kb KB --model MODEL --from FILE"
            )
        paths.append(Path(state[name]) if given is None else given)
    kb, trained = KnowledgeBase.open(paths[0]), load_model(paths[1])
    trained.check(kb)
    return Artifacts(kb, trained, paths[0], paths[1])


def verify_unchanged(workspace: Workspace, artifacts: Artifacts) -> dict[str, str]:
    """Check all files of the knowledge base and the model against the fingerprints of collecting.

    Returns:
        The fingerprints, by "kb" and "model".

    Raises:
        ArtifactMismatchError: One of them changed.
        KnowledgeBaseError: A file of the knowledge base does not match its own manifest.
    """
    artifacts.kb.verify()
    state = workspace.documents.manifest.state
    found = artifacts.fingerprints
    for name, fingerprint in found.items():
        expected = state.get(f"{name}_fingerprint", fingerprint)
        if expected != fingerprint:
            raise ArtifactMismatchError(
                f"The {name} is {fingerprint[:12]}, but the documents were collected with "
                f"{expected[:12]}; use that one."
            )
    return found
