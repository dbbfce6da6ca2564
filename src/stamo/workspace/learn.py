"""Learn the entity of a workspace: check by cross-validation, run the slots, write the pack.

Learning is deterministic. A run that was killed finds the folds and slots that it finished, goes on
after them, and ends with the same bytes as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from scipy.special import expit

from stamo.errors import SettingsError
from stamo.features.base import FeatureParams
from stamo.features.encoder_choice import INSTALLED
from stamo.kb.base import KnowledgeBase
from stamo.learning.learn import LearnedEntity, reading_named
from stamo.learning.loop import Learned, Reading, Slot, self_train
from stamo.models.store import TrainedModel
from stamo.packs.pack import EntityPack
from stamo.system.files import to_json, write_atomic
from stamo.workspace.cross_validation import (
    LeftOut,
    Material,
    find_out,
    load_material,
    predict_left_out,
)
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import labels_fingerprint
from stamo.workspace.slots import SlotRecord, SlotStore, collapse_alarm
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
    pile_helped: bool
    used_slot: int
    """The slot that is in the pack, 0 for the labels alone."""
    n_stale: int
    findings: Findings
    verdict: Verdict
    """Whether the pack is fit to be used."""


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
    until: int | None = None,
) -> LearnedPack:
    """Learn the entity of a workspace and write its pack.

    Args:
        workspace: The folder.
        kb: The knowledge base that its documents were linked with.
        trained: The model that linked them.
        settings: How to learn.
        on_step: Sees every fold, the labels alone, and every slot.
        until: End with this slot of the last run, whatever it gave; 0 keeps the labels alone.

    Raises:
        LearningError: The labels do not suffice.
        WorkspaceError: Nothing is collected, or another process learns here; or the last run with
            these labels and documents has no such slot.
    """
    with workspace.lock("learn"):
        reading, is_new = settings.to_reading(), until is None
        material = load_material(
            workspace, kb, trained, reading, [settings.n_folds], settings.encoder
        )
        store = SlotStore(workspace.slots_dir, material.key)
        n_done = store.start() if is_new else 0
        if until:
            store.load(until)

        def on_fold(folds: dict[str, Any], number: int, n_folds: int) -> None:
            if is_new:
                store.save_folds(folds)
            on_step(FoldDone(number, n_folds))

        left_out = predict_left_out(
            material.task, reading.args, settings.n_folds, done=store.load_folds(), on_fold=on_fold
        )
        if until is not None:
            reading = replace(reading, args=reading.args.until(until))
        keeps = store if is_new else None
        run = _Run(workspace, material, trained, reading, left_out, on_step, settings, keeps)
        return run.finish(n_done if reading.args.resumes else 0)


@dataclass
class _Run:
    """The slots on all labels, and the pack at their end."""

    workspace: Workspace
    material: Material
    trained: TrainedModel
    reading: Reading
    left_out: LeftOut
    on_step: OnStep
    settings: LearnSettings
    store: SlotStore | None
    """Keeps the slots, where they are to be kept."""
    records: list[SlotRecord] = field(default_factory=list)
    last: FeatureParams | None = None

    def finish(self, n_done: int) -> LearnedPack:
        """Run the slots behind those that an interrupted run finished, and write the pack."""
        saved = [self.store.load(n) for n in range(1, n_done + 1)] if self.store else []

        def on_first(slot: Slot) -> None:
            self._note(slot)
            for record, checkpoint in saved:
                self.records.append(record)
                self.on_step(record)
                self.last = checkpoint.theta_hat

        learned = self_train(
            self.material.task,
            self.reading.args,
            on_first=on_first,
            on_slot=self._note,
            resume=saved[-1][1] if saved else None,
        )
        alarm = collapse_alarm(self.records[: learned.used_slot + 1])
        findings = find_out(self.material, learned, self.left_out, alarm)
        done = LearnedPack(
            pack=self._pack(learned),
            path=self.workspace.pack_path,
            records=tuple(self.records),
            pile_helped=learned.pile_helped is not False,
            used_slot=learned.used_slot,
            n_stale=self.material.n_stale,
            findings=findings,
            verdict=judge(findings),
        )
        self._write(done)
        return done

    def _note(self, slot: Slot) -> None:
        """Record what a slot did, show it and keep it; slot 0 is the labels alone."""
        number, weights, rest = slot.number, slot.pseudo_labels, ~self.material.task.labelled
        theta = slot.theta_hat if number else slot.theta
        line = float(expit(-slot.shifts[0]))
        share = float((weights[rest, 0] > line).mean()) if rest.any() else 0.0
        n_flipped = slot.n_flipped if number > 1 else 0
        moved = {} if self.last is None else _movement(self.last, theta)
        record = SlotRecord(number, share, n_flipped, moved, self.left_out.rates(number))
        self.last = theta
        self.records.append(record)
        self.on_step(record)
        if number and self.store is not None:
            self.store.save(record, slot)

    def _pack(self, learned: Learned) -> EntityPack:
        """Return the pack, with notes on what it was learned from."""
        task, documents = self.material.task, self.workspace.documents
        names = [Path(str(name)).name for name in documents.manifest.state.get("sources", [])]
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
        return LearnedEntity(learned, task.pile, self.trained).to_pack(
            labels_fingerprint=labels_fingerprint(self.material.labels),
            history=tuple(record.to_json() for record in self.records),
            description=f"Learned from {int(task.labelled.sum())} labelled and "
            f"{int((~task.labelled).sum())} unlabelled mentions.",
            notes=notes,
        )

    def _write(self, done: LearnedPack) -> None:
        """Write the pack, and beside the slots what was found of it."""
        names, pack = self.workspace.entity.aliases, done.pack
        places = [
            (document.id, mention.start)
            for document in self.material.corpus.documents
            for mention in document.mentions
            if mention.surface in names
        ]
        summary = LearnSummary(
            pack.fingerprint,
            pack.labels_fingerprint,
            done.pile_helped,
            done.used_slot,
            done.findings,
            [places[row] for row in self.left_out.rows.tolist()],
            asdict(self.settings),
        )
        data = pack.to_bytes()  # what cannot be written is told before anything is
        self.workspace.slots_dir.mkdir(exist_ok=True)
        write_atomic(self.workspace.slots_dir / SUMMARY, to_json(asdict(summary)))
        write_version(self.workspace, data)


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
    return LearnedEntity(self_train(task, reading.args), task.pile, trained).to_pack()
