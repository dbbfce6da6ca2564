"""The knowledge base and the model that a workspace works with; both stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stamo.errors import ArtifactMismatchError, WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel, load_model, without_training
from stamo.workspace.folder import Workspace


@dataclass(frozen=True)
class Artifacts:
    """An opened knowledge base and model, and where they lie."""

    kb: KnowledgeBase
    trained: TrainedModel
    kb_path: Path
    model_path: Path | None
    """None where no model was trained: counts and vectors decide."""

    @property
    def origin(self) -> dict[str, str]:
        """Return where they lie, to be kept with collected documents."""
        model = "" if self.model_path is None else str(self.model_path.resolve())
        return {"kb": str(self.kb_path.resolve()), "model": model}


def open_artifacts(
    workspaces: Sequence[Workspace],
    kb_path: Path | None = None,
    model_path: Path | None = None,
) -> Artifacts:
    """Open the knowledge base and model that workspaces work with; those of collecting by default.

    Where there is no model, what links without one takes its place.

    Raises:
        WorkspaceError: None is given and none is known yet, or they work with different ones.
    """
    states = [space.documents.manifest.state for space in workspaces]
    for name, given in (("kb", kb_path), ("model", model_path)):
        known = {state[name] for state in states if name in state}
        if given is None and len(known) > 1:
            raise WorkspaceError(
                f"The workspaces work with different ones: {', '.join(sorted(known))}; give one "
                f"with --{name}, or run the command for some of them at a time."
            )
    place = next((i for i, state in enumerate(states) if state), 0)
    path, state = workspaces[place].path, states[place]
    if kb_path is None and "kb" not in state:
        raise WorkspaceError(
            f"The workspace {str(path)!r} knows no kb yet; collect documents with one: "
            f"stamo collect {path} --kb KB --model MODEL --from FILE"
        )
    kb_path = Path(state["kb"]) if kb_path is None else kb_path
    if model_path is None and state.get("model"):
        model_path = Path(state["model"])
    kb = KnowledgeBase.open(kb_path)
    trained = without_training(kb) if model_path is None else load_model(model_path)
    trained.check(kb)
    return Artifacts(kb, trained, kb_path, model_path)


def verify_unchanged(workspaces: Sequence[Workspace], artifacts: Artifacts) -> dict[str, str]:
    """Check all files of the knowledge base and the model against the fingerprints of collecting.

    The files are read once, however many workspaces there are.

    Returns:
        The fingerprints, by "kb" and "model".

    Raises:
        ArtifactMismatchError: One of them changed.
        KnowledgeBaseError: A file of the knowledge base does not match its own manifest.
    """
    artifacts.kb.verify()
    found = {"kb": artifacts.kb.fingerprint, "model": artifacts.trained.fingerprint}
    for space in workspaces:
        state = space.documents.manifest.state
        for name, fingerprint in found.items():
            expected = state.get(f"{name}_fingerprint", fingerprint)
            if expected != fingerprint:
                raise ArtifactMismatchError(
                    f"The {name} is {fingerprint[:12]}, but the documents of {str(space.path)!r} "
                    f"were collected with {expected[:12]}; use that one."
                )
    return found
