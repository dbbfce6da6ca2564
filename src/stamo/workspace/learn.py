"""Learn the entity of a workspace: check by cross-validation, run the slots, write the pack.

Learning is deterministic. A run that was killed finds the folds and slots that it finished, goes on
after them, and ends with the same bytes as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import expit

from stamo.errors import SettingsError
from stamo.features.base import FeatureParams
from stamo.features.encoder_choice import INSTALLED
from stamo.kb.base import KnowledgeBase
from stamo.learning.learn import LearnedEntity
from stamo.learning.loop import Checkpoint, Learned, Slot, self_train
from stamo.learning.readings import Reading, reading_named
from stamo.models.store import TrainedModel
from stamo.packs.pack import EntityPack
from stamo.system.files import to_json, write_atomic
from stamo.workspace.folder import Workspace
from stamo.workspace.labels.events import labels_fingerprint
from stamo.workspace.left_out import (
    LABELS_ALONE,
    LeftOut,
    find_out,
    predict_left_out,
)
from stamo.workspace.material import Material, load_material
from stamo.workspace.slots import SavedSlot, SlotRecord, SlotStore, collapse_alarm
from stamo.workspace.verdict import (
    SUMMARY,
    Findings,
    LearnSummary,
    Verdict,
    judge,
    read_summary,
)
from stamo.workspace.versions import write_version


@dataclass(frozen=True)
class LearnSettings:
    """How a workspace learns."""

    reading: str = "default"
    """`default` is ours, `paper` the paper as printed, `published` what its experiments did."""
    n_slots: int | None = None
    """Slots at most; None takes the reading's own number. A reading without slots has none."""
    n_folds: int = 5
    """Parts of the labels for cross-validation; 0 leaves it out."""
    encoder: str | None = INSTALLED
    """The folder of a sentence encoder; by default the installed one, None for none."""
    decision: str = ""
    """`even` links what is more probable than not, `f1` draws the line for F1; the reading's own
    where nothing is said."""

    def __post_init__(self) -> None:
        reading_named(self.reading)
        if self.n_folds < 0 or self.n_folds == 1 or (self.n_slots or 0) < 0:
            raise SettingsError("Give 0 or more slots, and 0, 2 or more folds.")

    def to_reading(self) -> Reading:
        """Return the reading, with another number of slots where one is given."""
        reading = reading_named(self.reading)
        if self.decision:
            reading = reading.with_decision(self.decision)
        return reading if self.n_slots is None else reading.with_slots(self.n_slots)


@dataclass(frozen=True)
class LearnedPack:
    """The pack that learning wrote, and how it came to it."""

    pack: EntityPack
    path: Path
    records: tuple[SlotRecord, ...]
    """The labels alone, then each slot."""
    left_out: LeftOut
    pile_helped: bool
    used_slot: int
    """The slot that is in the pack, 0 for the labels alone."""
    n_stale: int
    findings: Findings
    verdict: Verdict
    """Whether the pack is fit to be used."""
    stopped: str
    """Why the slots ended: `max slots` or `no change`."""


@dataclass(frozen=True)
class FoldDone:
    """One fold of the cross-validation has ended."""

    number: int
    n_folds: int


OnStep = Callable[[FoldDone | SlotRecord], None]


def last_settings(workspace: Workspace) -> LearnSettings:
    """Return what the last run in a workspace learned with; the usual settings before any run."""
    summary = read_summary(workspace.slots_dir)
    try:
        return LearnSettings(**summary.settings) if summary else LearnSettings()
    except (TypeError, SettingsError):  # of another version
        return LearnSettings()


def learn_pack(
    workspace: Workspace,
    kb: KnowledgeBase,
    trained: TrainedModel,
    settings: LearnSettings = LearnSettings(),
    *,
    on_step: OnStep = lambda step: None,
) -> LearnedPack:
    """Learn the entity of a workspace and write its pack.

    Raises:
        LearningError: The labels do not suffice.
        WorkspaceError: Nothing is collected, or another process learns here.
    """
    with workspace.lock("learn"):
        reading = settings.to_reading()
        material = load_material(
            workspace, kb, trained, reading, [settings.n_folds], settings.encoder
        )
        store = SlotStore(workspace.slots_dir, material.key)
        n_done = store.start()

        def on_fold(folds: dict[str, Any], number: int, n_folds: int) -> None:
            store.save_folds(folds)
            on_step(FoldDone(number, n_folds))

        left_out = predict_left_out(
            material.task,
            reading.args,
            settings.n_folds,
            done=store.load_folds(),
            on_fold=on_fold,
        )
        packing = _Packing(workspace, material, trained, reading, left_out, on_step, settings)
        return packing.finish(store, n_done)


def rollback(
    workspace: Workspace,
    kb: KnowledgeBase,
    trained: TrainedModel,
    slot: int,
    settings: LearnSettings = LearnSettings(),
) -> LearnedPack:
    """Write the pack as if learning had ended after a slot; 0 keeps the labels alone.

    Raises:
        WorkspaceError: The last run with these labels and documents has no such slot.
    """
    with workspace.lock("learn"):
        full = settings.to_reading()
        material = load_material(workspace, kb, trained, full, [settings.n_folds], settings.encoder)
        store = SlotStore(workspace.slots_dir, material.key)
        if slot:
            store.load(slot)
        reading = replace(full, args=full.args.until(slot))
        left_out = predict_left_out(
            material.task, full.args, settings.n_folds, done=store.load_folds()
        )
        packing = _Packing(
            workspace, material, trained, reading, left_out, lambda step: None, settings
        )
        return packing.finish(None, 0)


@dataclass
class _Packing:
    """The slots on all labels, and the pack at their end."""

    workspace: Workspace
    material: Material
    trained: TrainedModel
    reading: Reading
    left_out: LeftOut
    on_step: OnStep
    settings: LearnSettings
    records: list[SlotRecord] = field(default_factory=list)
    last: FeatureParams | None = None

    def finish(self, store: SlotStore | None, n_done: int) -> LearnedPack:
        """Run what is left of the slots and write the pack."""
        task, args = self.material.task, self.reading.args
        alone = args.labels_alone()
        learned = self_train(task, alone)
        self._note(LABELS_ALONE, learned.theta, learned.posterior, 0)
        resume = None
        if store is not None and n_done and args.resumes:
            resume = self._take_up([store.load(number) for number in range(1, n_done + 1)])

        def on_slot(slot: Slot) -> None:
            n_flipped = slot.n_flipped if slot.number > 1 else 0
            theta_hat = slot.checkpoint.theta_hat
            record = self._note(slot.number, theta_hat, slot.pseudo_labels, n_flipped)
            if store is not None:
                store.save(SavedSlot(record, slot.checkpoint))

        if args != alone:
            learned = self_train(task, args, on_slot=on_slot, resume=resume)
        done = self._pack(learned)
        data, checked = done.pack.to_bytes(), self._checked(done.used_slot)
        summary = LearnSummary(
            done.pack.fingerprint,
            done.pack.labels_fingerprint,
            done.pile_helped,
            done.used_slot,
            done.findings,
            checked,
            asdict(self.settings),
        )
        self.workspace.slots_dir.mkdir(exist_ok=True)
        write_atomic(self.workspace.slots_dir / SUMMARY, to_json(asdict(summary)))
        write_version(self.workspace, data)
        return done

    def _take_up(self, saved: list[SavedSlot]) -> Checkpoint:
        """Show the slots of an interrupted run again; return what it goes on from."""
        for slot in saved:
            self.records.append(slot.record)
            self.on_step(slot.record)
        self.last = saved[-1].checkpoint.theta_hat
        return saved[-1].checkpoint

    def _note(
        self,
        number: int,
        theta: FeatureParams,
        weights: np.ndarray[Any, Any],
        n_flipped: int,
    ) -> SlotRecord:
        rest = ~self.material.task.labelled
        line = float(expit(-self.reading.args.shifts(weights)[0]))
        share = float((weights[rest, 0] > line).mean()) if rest.any() else 0.0
        moved = {} if self.last is None else _movement(self.last, theta)
        record = SlotRecord(number, share, n_flipped, moved, self.left_out.rates(number))
        self.last = theta
        self.records.append(record)
        self.on_step(record)
        return record

    def _pack(self, learned: Learned) -> LearnedPack:
        task, used, notes = self.material.task, learned.used_slot, self._notes(learned)
        alarm = collapse_alarm(self.records[: used + 1])
        findings = find_out(self.material, learned, self.left_out, alarm)
        verdict = judge(findings)
        pack = LearnedEntity.of(learned, task.pile, self.trained).to_pack(
            labels_fingerprint=labels_fingerprint(self.material.labels),
            history=tuple(record.to_json() for record in self.records),
            description=f"Learned from {int(task.labelled.sum())} labelled and "
            f"{int((~task.labelled).sum())} unlabelled mentions.",
            notes=notes,
        )
        return LearnedPack(
            pack=pack,
            path=self.workspace.pack_path,
            records=tuple(self.records),
            left_out=self.left_out,
            pile_helped=learned.pile_helped is not False,
            used_slot=used,
            n_stale=self.material.n_stale,
            findings=findings,
            verdict=verdict,
            stopped=learned.stopped,
        )

    def _checked(self, slot: int) -> list[tuple[str, int]]:
        """Return where the left-out labels are."""
        aliases = self.workspace.entity.aliases
        places = [
            (document.id, mention.start)
            for document in self.material.corpus.documents
            for mention in document.mentions
            if mention.surface in aliases
        ]
        n = len(self.left_out.at(slot)[0])
        return [places[row] for row in self.left_out.rows[:n].tolist()]

    def _notes(self, learned: Learned) -> Mapping[str, str]:
        state = self.workspace.documents.manifest.state
        names = [Path(str(source)).name for source in state.get("sources", [])]
        people = sorted({event.labeller for event in self.material.labels})
        notes = {
            "reading": self.reading.name,
            "slot": str(learned.used_slot),
            "documents": f"{len(self.material.corpus.documents)} from {', '.join(names)}"[:2000],
            "labelled by": ", ".join(people)[:2000],
        }
        if learned.left_out_likelihood is not None:
            alone, with_pile = learned.left_out_likelihood
            weight = f"helped, and is {learned.pile_weight:.0%} of the pack"
            notes["pile"] = weight if learned.pile_helped else "did not help"
            notes["left-out likelihood"] = f"{alone:.4f} labels alone, {with_pile:.4f} with pile"
        return notes


def _movement(before: FeatureParams, after: FeatureParams) -> dict[str, float]:
    """Return how far each group moved, relative to its norm before where that is above 1."""
    moved = {}
    for name, values in after.groups.items():
        if values.numel() and name in before.groups:
            size = max(float(torch.linalg.vector_norm(before[name])), 1.0)
            moved[name] = float(torch.linalg.vector_norm(values - before[name])) / size
    return moved


def estimation_pack(workspace: Workspace, kb: KnowledgeBase, trained: TrainedModel) -> EntityPack:
    """Return a pack with the features estimated on the labels alone, to compare with.

    Nothing is written.
    """
    reading = reading_named("estimation")
    task = load_material(workspace, kb, trained, reading).task
    return LearnedEntity.of(self_train(task, reading.args), task.pile, trained).to_pack()
