"""Learn the entity of a workspace: check by cross-validation, run the slots, write the pack.

Learning is deterministic. A run that was killed finds the folds and slots that it finished, goes on
after them, and ends with the same bytes as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stamo.errors import SettingsError
from stamo.features.params import FeatureParams
from stamo.kb.base import KnowledgeBase
from stamo.learning.algorithm import RELATEDNESS_SCALE, Slot, StamoArgs, Task, link
from stamo.learning.corrected import CorrectedArgs, f1_shift
from stamo.learning.readings import Outcome as ReadingOutcome
from stamo.learning.readings import Reading, reading_named, run_reading
from stamo.models.store import TrainedModel
from stamo.packs.pack import EntityPack
from stamo.packs.pack_bytes import PACK_SUFFIX
from stamo.packs.theta import make_pack
from stamo.system.files import read_json, to_json, write_atomic
from stamo.workspace.folder import Workspace
from stamo.workspace.labels.events import labels_fingerprint
from stamo.workspace.left_out import LeftOut, RunSlots, predict_left_out
from stamo.workspace.material import Material, load_material
from stamo.workspace.slots import SlotRecord, SlotStore, collapse_alarm

SUMMARY = ".summary.json"
LABELS_ALONE = 0
"""The slot before the first one: what the labels say without the pile."""


@dataclass(frozen=True)
class LearnSettings:
    """How a workspace learns."""

    reading: str = "default"
    """`default` is ours, `paper` the paper as printed, `published` what its experiments did."""
    n_slots: int | None = None
    """Slots at most; None takes the reading's own number."""
    n_folds: int = 5
    """Parts of the labels for cross-validation; 0 leaves it out."""

    def __post_init__(self) -> None:
        reading_named(self.reading)
        if self.n_folds < 0 or self.n_folds == 1 or (self.n_slots or 0) < 0:
            raise SettingsError("Give 0 or more slots, and 0, 2 or more folds.")

    def to_reading(self, n_slots: int | None = None) -> Reading:
        """Return the reading, with another number of slots where one is given."""
        reading, n = reading_named(self.reading), self.n_slots if n_slots is None else n_slots
        if n is None or reading.args is None:
            return reading
        return replace(reading, args=replace(reading.args, n_slots=n))


@dataclass(frozen=True)
class Outcome:
    """What learning gave."""

    pack: EntityPack
    path: Path
    records: tuple[SlotRecord, ...]
    """The labels alone, then each slot."""
    left_out: LeftOut
    pile_helped: bool
    used_slot: int
    """The slot that is in the pack, 0 for the labels alone."""
    alarm: str | None
    n_stale: int


@dataclass(frozen=True)
class LearnSummary:
    """What is kept of an outcome beside its pack, for the report."""

    pack: str
    """The fingerprint of the pack that it belongs to."""
    pile_helped: bool
    used_slot: int
    alarm: str | None
    labels: list[bool]
    """Whether each left-out label is the entity."""
    odds: list[float]
    """Its log odds, calibrated, from a run that did not see it."""
    decisions: list[bool]

    @classmethod
    def of(cls, outcome: Outcome) -> LearnSummary:
        """Take what is kept of an outcome."""
        left_out, slot = outcome.left_out, outcome.used_slot
        there = [t for t in left_out.odds if t <= slot]
        last = max(there) if there else None
        return cls(
            pack=outcome.pack.fingerprint,
            pile_helped=outcome.pile_helped,
            used_slot=slot,
            alarm=outcome.alarm,
            labels=left_out.labels.tolist() if last is not None else [],
            odds=[] if last is None else left_out.odds[last].tolist(),
            decisions=[] if last is None else left_out.decisions[last].tolist(),
        )


def read_summary(workspace: Workspace, pack: EntityPack) -> LearnSummary | None:
    """Return what was kept of the run that wrote a pack; None where it is another's or missing."""
    path = workspace.slots_dir / SUMMARY
    if not path.exists():
        return None
    try:
        summary = LearnSummary(**read_json(path))
    except TypeError:
        return None
    return summary if summary.pack == pack.fingerprint else None


@dataclass(frozen=True)
class FoldDone:
    """One fold of the cross-validation has ended."""

    number: int
    n_folds: int


OnStep = Callable[[FoldDone | SlotRecord], None]


def learn(
    workspace: Workspace,
    kb: KnowledgeBase,
    trained: TrainedModel,
    settings: LearnSettings = LearnSettings(),
    *,
    on_step: OnStep = lambda step: None,
) -> Outcome:
    """Learn the entity of a workspace and write its pack.

    Raises:
        LearningError: The labels do not suffice.
        WorkspaceError: Nothing is collected, or another process learns here.
    """
    with workspace.lock("learn"):
        reading = settings.to_reading()
        material = load_material(workspace, kb, trained, reading, [settings.n_folds])
        store = SlotStore(workspace.slots_dir, material.key)
        n_done = store.start()

        def on_fold(folds: dict[str, Any], number: int, n_folds: int) -> None:
            store.save_folds(folds)
            on_step(FoldDone(number, n_folds))

        left_out = predict_left_out(
            material.task,
            material.temperature,
            _slots(reading, material.temperature),
            settings.n_folds,
            done=store.load_folds(),
            on_fold=on_fold,
        )
        run = _Run(workspace, material, kb, trained, reading, left_out, on_step)
        return run.finish(store, n_done)


def rollback(
    workspace: Workspace,
    kb: KnowledgeBase,
    trained: TrainedModel,
    slot: int,
    settings: LearnSettings = LearnSettings(),
) -> Outcome:
    """Write the pack as if learning had ended after a slot; 0 keeps the labels alone.

    Raises:
        WorkspaceError: The last run with these labels and documents has no such slot.
    """
    with workspace.lock("learn"):
        full = settings.to_reading()
        material = load_material(workspace, kb, trained, full, [settings.n_folds])
        store = SlotStore(workspace.slots_dir, material.key)
        if slot:
            store.load(slot)
        reading = settings.to_reading(slot)
        if isinstance(reading.args, CorrectedArgs):
            reading = replace(reading, args=replace(reading.args, choose=False))
        left_out = predict_left_out(
            material.task,
            material.temperature,
            _slots(full, material.temperature),
            settings.n_folds,
            done=store.load_folds(),
        )
        run = _Run(workspace, material, kb, trained, reading, left_out, lambda step: None)
        return run.finish(None, 0)


def _alone(reading: Reading) -> Reading:
    """Return the reading without any slot: what the labels alone say."""
    if isinstance(reading.args, CorrectedArgs):
        return replace(reading, args=replace(reading.args, n_slots=0, decision="accuracy"))
    if isinstance(reading.args, StamoArgs):
        return replace(reading, args=replace(reading.args, n_slots=0))
    return reading


def _shift(reading: Reading, posterior: np.ndarray[Any, Any] | None) -> float:
    """Return what a reading adds to the log odds to draw the line for F1."""
    is_f1 = isinstance(reading.args, CorrectedArgs) and reading.args.decision == "f1"
    return f1_shift(posterior[:, 0]) if is_f1 and posterior is not None else 0.0


def _slots(reading: Reading, temperature: float) -> RunSlots:
    """Return how one fold learns: every slot's θ̂, and the shift of the decision."""

    def run(task: Task, see: Callable[[int, FeatureParams, float], None]) -> None:
        def on_slot(slot: Slot) -> None:
            see(slot.number, _fold(slot.theta_hat), _shift(reading, slot.pseudo_labels))

        alone = run_reading(task, _alone(reading), temperature)
        see(LABELS_ALONE, _fold(alone.theta), _shift(reading, alone.posterior))
        if reading.args is not None:
            run_reading(task, reading, temperature, on_slot=on_slot)

    return run


def _fold(theta: FeatureParams) -> FeatureParams:
    """Multiply a learned scale of the relatedness into its row, as looking up expects."""
    if RELATEDNESS_SCALE not in theta.groups:
        return theta
    scaled = theta.replace(relatedness=theta["relatedness"] * theta[RELATEDNESS_SCALE])
    return FeatureParams({n: v for n, v in scaled.groups.items() if n != RELATEDNESS_SCALE})


class _Run:
    """The slots on all labels, and the pack at their end."""

    def __init__(
        self,
        workspace: Workspace,
        material: Material,
        kb: KnowledgeBase,
        trained: TrainedModel,
        reading: Reading,
        left_out: LeftOut,
        on_step: OnStep,
    ) -> None:
        self.workspace, self.material, self.kb, self.trained = workspace, material, kb, trained
        self.reading, self.left_out, self.on_step = reading, left_out, on_step
        self.records: list[SlotRecord] = []
        self.last: FeatureParams | None = None

    def finish(self, store: SlotStore | None, n_done: int) -> Outcome:
        """Run what is left of the slots and write the pack."""
        task, temperature = self.material.task, self.material.temperature
        alone = run_reading(task, _alone(self.reading), temperature)
        posterior = alone.posterior
        if posterior is None:
            posterior = link(task, task.model.prepare(task.pile, task.tables), _fold(alone.theta))
        self._note(LABELS_ALONE, alone.theta, posterior, 0)
        resume = self._take_up(store, n_done)

        def on_slot(slot: Slot) -> None:
            n_flipped = slot.n_flipped if slot.number > 1 else 0
            record = self._note(slot.number, slot.theta_hat, slot.pseudo_labels, n_flipped)
            if store is not None:
                store.save(record, slot)

        learned = alone
        if self.reading.args is not None:
            learned = run_reading(task, self.reading, temperature, on_slot=on_slot, resume=resume)
        outcome = self._outcome(learned)
        self.workspace.packs_dir.mkdir(exist_ok=True)
        self.workspace.slots_dir.mkdir(exist_ok=True)
        summary = LearnSummary.of(outcome)
        write_atomic(self.workspace.slots_dir / SUMMARY, to_json(asdict(summary)))
        write_atomic(outcome.path, outcome.pack.to_bytes())
        return outcome

    def _take_up(self, store: SlotStore | None, n_done: int) -> Slot | None:
        """Return the last slot of an interrupted run, where the reading can go on from one."""
        # The default's few slots take less time than reading the documents: they run again.
        if store is None or not n_done or not isinstance(self.reading.args, StamoArgs):
            return None
        saved = [store.load(number) for number in range(1, n_done + 1)]
        for slot in saved:
            self.records.append(slot.record)
            self.on_step(slot.record)
        self.last = saved[-1].slot.theta_hat
        return saved[-1].slot

    def _note(
        self,
        number: int,
        theta: FeatureParams,
        weights: np.ndarray[Any, Any],
        n_flipped: int,
    ) -> SlotRecord:
        rest = ~self.material.task.labelled
        share = float((weights[rest, 0] > 0.5).mean()) if rest.any() else 0.0
        moved = {} if self.last is None else _movement(self.last, theta)
        record = SlotRecord(number, share, n_flipped, moved, self.left_out.rates(number))
        self.last = theta
        self.records.append(record)
        self.on_step(record)
        return record

    def _outcome(self, learned: ReadingOutcome) -> Outcome:
        task = self.material.task
        helped = learned.pile_helped is not False
        stays = isinstance(self.reading.args, CorrectedArgs) and not self.reading.args.choose
        used = self.records[-1].number if helped or stays else LABELS_ALONE
        pack = make_pack(
            learned.theta,
            task.pile,
            self.kb,
            self.trained,
            shift=_shift(self.reading, learned.posterior),
            odds=self.reading.name == "published",
            labels=labels_fingerprint(self.material.labels),
            history=[record.to_json() for record in self.records],
            description=f"Learned from {int(task.labelled.sum())} labelled and "
            f"{int((~task.labelled).sum())} unlabelled mentions.",
            notes=self._notes(learned, used),
        )
        return Outcome(
            pack=pack,
            path=pack_path(self.workspace),
            records=tuple(self.records),
            left_out=self.left_out,
            pile_helped=helped,
            used_slot=used,
            alarm=collapse_alarm(self.records[: used + 1]),
            n_stale=self.material.n_stale,
        )

    def _notes(self, learned: ReadingOutcome, used: int) -> Mapping[str, str]:
        state = self.workspace.documents.manifest.state
        names = [Path(str(source)).name for source in state.get("sources", [])]
        people = sorted({event.labeller for event in self.material.labels})
        notes = {
            "reading": self.reading.name,
            "slot": str(used),
            "documents": f"{len(self.material.corpus)} from {', '.join(names)}"[:2000],
            "labelled by": ", ".join(people)[:2000],
        }
        if learned.left_out_likelihood is not None:
            alone, with_pile = learned.left_out_likelihood
            notes["pile"] = "helped" if learned.pile_helped else "did not help"
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


def pack_path(workspace: Workspace) -> Path:
    """Return where the pack of a workspace is written; the folder's own name names it."""
    return workspace.packs_dir / f"{workspace.path.resolve().name}{PACK_SUFFIX}"


def estimation_pack(workspace: Workspace, kb: KnowledgeBase, trained: TrainedModel) -> EntityPack:
    """Return a pack with the features estimated on the labels alone, to compare with.

    Nothing is written.
    """
    reading = reading_named("estimation")
    material = load_material(workspace, kb, trained, reading)
    learned = run_reading(material.task, reading, material.temperature)
    return make_pack(learned.theta, material.task.pile, kb, trained)
