"""Learning as a background job: by the workspace's name, with progress, report included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.workspace.folder import Workspace
from stamo.workspace.learn import FoldDone, LearnSettings, last_settings, learn_pack
from stamo.workspace.report import write_report
from stamo.workspace.slots import SlotRecord

OnProgress = Callable[[float, str], None]
"""Called with the share that is done, 0 to 1, and a line for people."""

FOLDS_SHARE = 0.5
SLOTS_SHARE = 0.9


def learn_job(
    root: Path,
    *,
    kb: KnowledgeBase,
    trained: TrainedModel,
    settings: LearnSettings | None = None,
) -> Callable[[str, OnProgress], str]:
    """Return the work of learning the workspaces in a folder.

    The work gets a workspace's name, learns it, with the settings of its last run where none are
    given, writes its report and returns a closing line. It
    may be killed at any time: called again, it goes on and ends with the same pack.
    """

    def work(name: str, on_progress: OnProgress) -> str:
        workspace = Workspace.open(root / name)
        chosen = settings or last_settings(workspace)
        n_slots = max(1, chosen.to_reading().args.n_slots)

        def show(step: FoldDone | SlotRecord) -> None:
            if isinstance(step, FoldDone):
                text = f"Checking on left-out labels, part {step.number} of {step.n_folds}"
                on_progress(FOLDS_SHARE * step.number / step.n_folds, text)
            else:
                done = min(1.0, step.number / n_slots)
                on_progress(FOLDS_SHARE + (SLOTS_SHARE - FOLDS_SHARE) * done, _line(step))

        on_progress(0.0, "Reading documents and labels")
        outcome = learn_pack(workspace, kb, trained, chosen, on_step=show)
        on_progress(SLOTS_SHARE, "Writing the report")
        write_report(workspace, kb, trained)
        return f"Learned. {outcome.verdict.sentence}"

    return work


def _line(record: SlotRecord) -> str:
    if not record.number:
        return f"The labels alone: {record.share:.0%} of the mentions mean it"
    return f"Slot {record.number}: {record.n_flipped} pseudo-labels changed"
