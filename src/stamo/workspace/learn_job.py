"""Learning as a background job: by the workspace's name, with progress, report included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.workspace.folder import Workspace
from stamo.workspace.learn import LearnSettings, OnProgress, last_settings, learn_pack
from stamo.workspace.report import write_report


def learn_job(
    root: Path,
    *,
    kb: KnowledgeBase,
    trained: TrainedModel,
    settings: LearnSettings | None = None,
) -> Callable[[str, OnProgress], str]:
    """Return the work of learning a workspace in a folder, by its name, with its report.

    Without settings it learns with those of its last run.
    """

    def work(name: str, on_progress: OnProgress) -> str:
        workspace = Workspace.open(root / name)
        chosen = settings or last_settings(workspace)
        outcome = learn_pack(workspace, kb, trained, chosen, on_progress=on_progress)
        on_progress(0.95, "Writing the report")
        write_report(workspace, kb, trained)
        return f"Learned. {outcome.verdict.sentence}"

    return work
