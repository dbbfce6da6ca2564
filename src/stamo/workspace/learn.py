"""Learn the entity of a workspace: from documents and labels to a pack with a verdict.

Learning takes about a second and is deterministic: a run that was killed is started again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from stamo.corpus.types import Corpus
from stamo.errors import LearningError, SettingsError
from stamo.evaluation.intervals import Rates, rates
from stamo.features.encoder import CachedEncoder
from stamo.features.pile import Pile
from stamo.features.views import Sentence
from stamo.kb.base import KnowledgeBase
from stamo.learning.algorithm1 import Learned, Slot
from stamo.learning.learn import LearnedEntity, Method, encode_pile, method_named
from stamo.models.correction import agree, log_odds, margins
from stamo.models.store import INSTALLED, TrainedModel, open_encoder
from stamo.packs.pack import EntityPack
from stamo.system.files import Bools, Float32, Float64, Int64, to_json, write_atomic
from stamo.system.processes import one_thread
from stamo.workspace.folder import Workspace, read_corpus
from stamo.workspace.labels import (
    EMERGING_CHOICE,
    SKIP,
    LabelEvent,
    find_labelled,
    labels_fingerprint,
)
from stamo.workspace.verdict import Findings, LearnSummary, Verdict, judge, read_summary

MAX_FALL = 0.15
"""Precision on left-out labels may fall this far over the slots: with twenty, less is noise."""
DOUBTFUL = 3.0
"""A label is doubtful where the run that did not see it gives it less than one in twenty."""
UNSURE = 0.2
"""A mention is unsure between this probability and its opposite."""

OnProgress = Callable[[float, str], None]
"""Called with the share that is done, 0 to 1, and a line for people."""


@dataclass(frozen=True)
class LearnSettings:
    """How a workspace learns."""

    method: str = "default"
    """`default` is ours, `paper` the paper as printed, `published` what its experiments did."""
    n_slots: int | None = None
    """Slots at most; None takes the method's own number. A method without slots has none."""
    n_folds: int = 5
    """Parts of the labels for cross-validation; 0 leaves it out."""
    encoder: str | None = INSTALLED
    """The folder of a sentence encoder; by default the installed one, None for none."""
    decision: str = ""
    """`even` links what is more probable than not, `f1` sets the threshold for F1; the method's
    own where nothing is said."""

    def __post_init__(self) -> None:
        method_named(self.method)
        if self.n_folds < 0 or self.n_folds == 1 or (self.n_slots or 0) < 0:
            raise SettingsError("Give 0 or more slots, and 0, 2 or more folds.")


@dataclass(frozen=True)
class SlotRecord:
    """What one slot did; slot 0 is the labels alone. Numbers are rounded so that they read well."""

    number: int
    share: float
    """Share of the unlabelled mentions that would link to e*."""
    n_flipped: int
    """Pseudo-labels that changed since the slot before."""
    moved: Mapping[str, float] = field(default_factory=dict)
    """How far each group of θ(e*) moved, relative to its size."""
    left_out: Rates | None = None
    """How well labels were predicted by runs that did not see them."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SlotRecord:
        """Read back the plain values that a pack keeps."""
        left_out = value["left_out"]
        return cls(**{**value, "left_out": None if left_out is None else Rates(**left_out)})


@dataclass(frozen=True)
class LearnedPack:
    """The pack that learning wrote, and how it came to it."""

    pack: EntityPack
    path: Path
    version: int
    """Its number among the packs that were learned here."""
    records: tuple[SlotRecord, ...]
    """The labels alone, then each slot."""
    pile_helped: bool
    used_slot: int
    """The slot that is in the pack, 0 for the labels alone."""
    n_stale: int
    """Labels whose mention is no longer among the documents."""
    findings: Findings
    verdict: Verdict
    """Whether the pack is fit to be used."""


def last_settings(workspace: Workspace) -> LearnSettings:
    """Return what the last run in a workspace learned with; the usual settings before any run."""
    summary = read_summary(workspace.summary_path)
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
    on_progress: OnProgress = lambda share, text: None,
) -> LearnedPack:
    """Learn the entity of a workspace and write its pack.

    Args:
        workspace: The folder.
        kb: The knowledge base that its documents were linked with.
        trained: The model that linked them.
        settings: How to learn.
        on_progress: Hears of every fold and every slot.

    Raises:
        LearningError: The labels do not suffice.
        WorkspaceError: Nothing is collected, or another process learns here.
    """
    with workspace.lock("learn"):
        method = method_named(settings.method)
        if settings.decision:
            method = method.with_decision(settings.decision)
        if settings.n_slots is not None:
            method = method.with_slots(settings.n_slots)
        on_progress(0.0, "Reading documents and labels")
        corpus, events, n_stale, pile = read_material(workspace, kb, trained, settings.encoder)
        checked = cross_validate(
            pile,
            trained,
            method,
            settings.n_folds,
            lambda k, n: on_progress(k / (n + 1), f"Checking on left-out labels, part {k} of {n}"),
        )
        on_progress(0.9, "Learning from all labels")
        slots: list[Slot] = []
        learned = method.learn(pile, trained, slots.append)
        records = slot_records(slots, pile, checked)
        alarm = collapse_alarm(records[: learned.used_slot + 1])
        findings = _find_out(trained, corpus, events, learned, checked, alarm)
        sources = workspace.documents.manifest.state.get("sources", [])
        names = ", ".join(Path(str(name)).name for name in sources)
        notes = {
            "method": settings.method,
            "slot": str(learned.used_slot),
            "documents": f"{len(corpus.documents)} from {names}"[:2000],
            "labelled by": ", ".join(sorted({event.labeller for event in events}))[:2000],
        }
        if learned.left_out_likelihood is not None:
            alone, with_pile = learned.left_out_likelihood
            weight = f"helped, and is {learned.pile_weight:.0%} of the pack"
            notes["pile"] = weight if learned.pile_helped else "did not help"
            notes["left-out likelihood"] = f"{alone:.4f} labels alone, {with_pile:.4f} with pile"
        pack = LearnedEntity(**vars(learned), trained=trained).to_pack(
            labels_fingerprint=labels_fingerprint(events),
            history=tuple(asdict(record) for record in records),
            description=f"Learned from {int(pile.labelled.sum())} labelled and "
            f"{int((~pile.labelled).sum())} unlabelled mentions.",
            notes=notes,
        )
        places = [
            (document.id, mention.start)
            for document in corpus.documents
            for mention in document.mentions
            if mention.surface in workspace.entity.aliases
        ]
        summary = LearnSummary(
            pack=pack.fingerprint,
            pile_helped=learned.pile_helped is not False,
            findings=findings,
            checked=[places[row] for row in checked.rows.tolist()],
            settings=asdict(settings),
        )
        data = pack.to_bytes()  # what cannot be written is told before anything is
        write_atomic(workspace.summary_path, to_json(asdict(summary)))
        version = workspace.write_pack(data)
        return LearnedPack(
            pack=pack,
            path=workspace.pack_path,
            version=version,
            records=records,
            pile_helped=summary.pile_helped,
            used_slot=learned.used_slot,
            n_stale=n_stale,
            findings=findings,
            verdict=judge(findings),
        )


def read_material(
    workspace: Workspace,
    kb: KnowledgeBase,
    trained: TrainedModel,
    encoder: str | None = None,
) -> tuple[Corpus, list[LabelEvent], int, Pile]:
    """Read and encode what a workspace learns from.

    Returns:
        The documents with their labels, the labels, how many of them have no mention any more,
        and the pile.

    Raises:
        WorkspaceError: Nothing is collected yet, or with another knowledge base or model.
        LearningError: Nothing is labelled, or no label is the entity.
    """
    entity, corpus = workspace.entity, read_corpus(workspace, kb, trained)
    events = workspace.current_labels()
    labels, alone, n_stale = find_labelled(events, corpus, entity)
    # A description can stand for labels; brackets behind the entity's name cannot.
    if not labels and not entity.description:
        raise LearningError(
            "Nothing is labelled yet; label about twenty mentions first, or write a description of "
            "the entity."
        )
    if entity.id not in labels.values() and not entity.description:
        raise LearningError(
            f"None of the {len(labels)} labels is {entity.id!r}; label at least one mention that "
            "means it."
        )
    corpus = corpus.with_labels(labels)
    reader = open_encoder(trained, kb, encoder, workspace.encodings_path)
    pile = encode_pile([entity], corpus, kb, trained, encoder=reader, alone=alone)
    if isinstance(reader, CachedEncoder):
        pile.rows(Sentence())
        reader.save()
    return corpus, events, n_stale, pile


def estimation_pack(workspace: Workspace, kb: KnowledgeBase, trained: TrainedModel) -> EntityPack:
    """Return a pack with the features estimated on the labels alone, to compare with.

    Nothing is written.
    """
    *_, pile = read_material(workspace, kb, trained)
    learned = method_named("estimation").learn(pile, trained)
    return LearnedEntity(**vars(learned), trained=trained).to_pack()


def slot_records(
    slots: Sequence[Slot], pile: Pile, checked: CrossValidation
) -> tuple[SlotRecord, ...]:
    """Say what each slot did, and how well the left-out labels were predicted after it."""
    records, rest = [], ~pile.labelled
    before: Mapping[str, Float32] = {}
    for slot in slots:
        threshold = float(expit(-slot.shifts[0]))
        share = float((slot.pseudo_labels[rest, 0] > threshold).mean()) if rest.any() else 0.0
        moved, left_out = {}, None
        for name, values in slot.theta.items():
            if values.size and name in before:
                size = max(float(np.linalg.norm(before[name])), 1.0)
                moved[name] = round(float(np.linalg.norm(values - before[name])) / size, 6)
        if len(checked.labels):
            found = asdict(rates(checked.at(slot.number)[1], checked.labels))
            left_out = Rates(**{name: round(rate, 6) for name, rate in found.items()})
        before, n_flipped = slot.theta, slot.n_flipped if slot.number > 1 else 0
        records.append(SlotRecord(slot.number, round(share, 6), n_flipped, moved, left_out))
    return tuple(records)


def collapse_alarm(records: Sequence[SlotRecord]) -> str | None:
    """Say when self-training runs away: e* takes over or dies out, or precision decays.

    Args:
        records: The labels alone, then each slot.
    """
    if len(records) < 2:
        return None
    first, last = records[0], records[-1]
    is_out = last.share < first.share / 2
    if is_out or last.share > max(2 * first.share, first.share + 0.1):
        return (
            f"The share of mentions that link to it {'fell' if is_out else 'rose'} from "
            f"{first.share:.0%} to {last.share:.0%} over the slots; learn with fewer --slots."
        )
    precisions = [(r.left_out.precision, r.number) for r in records if r.left_out is not None]
    best, number = max(precisions, key=lambda pair: pair[0], default=(0.0, 0))
    if precisions and best - precisions[-1][0] > MAX_FALL:
        return (
            f"Precision on left-out labels fell from {best:.2f} in slot {number} to "
            f"{precisions[-1][0]:.2f}; learn with --slots {number}."
        )
    return None


def _find_out(
    trained: TrainedModel,
    corpus: Corpus,
    events: Sequence[LabelEvent],
    learned: Learned,
    checked: CrossValidation,
    alarm: str | None,
) -> Findings:
    """Put together what the verdict needs to know, on the pile as it was encoded for learning."""
    pile, shift = learned.pile, learned.shifts[0]  # there is one entity
    odds, decisions = checked.at(learned.used_slot, learned.pile_weight, learned.threshold[0])
    choices = [event.choice for event in events if event.choice != SKIP]
    n_emerging = choices.count(EMERGING_CHOICE)
    # The log odds of every mention as linking decides, and its best known candidate.
    theta, temperature = learned.theta, trained.calibration.temperature
    frozen = learned.model.freeze(pile)
    every, _ = log_odds(margins(frozen, theta, temperature), pile, theta, temperature)
    pile_odds, known = agree(every, pile)[:, 0], frozen.scores(theta)[:, :-1]
    rivals = np.full((len(pile_odds), 1), -1, dtype=np.int64)
    if known.shape[1]:
        best = known.argmax(axis=1)[:, None]
        rivals = np.take_along_axis(pile.mentions.candidates, best, axis=1).astype(np.int64)
    free = ~pile.labelled
    p = expit(pile_odds[free] - shift)
    taken = free & (pile_odds > 0)
    counts = Counter(rivals[taken, 0].tolist())
    numbers = [entity for entity in counts if entity >= 0]
    titles = dict(zip(numbers, pile.kb.titles(np.array(numbers, dtype=np.int64)), strict=True))
    taken_from = [(titles.get(entity, ""), n) for entity, n in counts.items()]
    # Labels that the run without them contradicts.
    rows = checked.rows[np.where(checked.labels, odds, -odds) < -DOUBTFUL]
    doubtful = []
    if pile.text is not None and len(rows):
        for row, window in zip(rows.tolist(), pile.text.take(rows).windows(60), strict=True):
            document = corpus.documents[int(pile.mentions.documents[row])]
            said = "is" if pile.labels[row, 0] > 0.5 else "is not"
            doubtful.append(
                f"{document.id}: labelled as what {said} {pile.entities[0].id}, but "
                f"the other labels say otherwise: {' '.join(window.text.split())}"
            )
    return Findings(
        entity=pile.entities[0].id,
        n_emerging=n_emerging,
        n_other=len(choices) - n_emerging,
        labels=tuple(checked.labels.tolist()),
        probabilities=tuple(expit(odds).round(6).tolist()),
        decisions=tuple(decisions.tolist()),
        threshold=float(expit(-shift)),
        n_mentions=int(free.sum()),
        n_taken=int(taken.sum()),
        n_unsure=int(((p > UNSURE) & (p < 1 - UNSURE)).sum()),
        taken_from=tuple(sorted(taken_from, key=lambda item: (-item[1], item[0]))),
        alarm=alarm,
        doubtful=tuple(doubtful),
    )


@dataclass(frozen=True)
class CrossValidation:
    """Predictions for the labelled mentions after each slot, each without its own label.

    Labels are left out document by document, so that no mention is judged by a neighbour with the
    same sense. Every fold runs the whole of learning again with the other labels.
    """

    rows: Int64  # (n,) mentions of the pile
    labels: Bools  # (n,) whether each means e*
    odds: Float64  # (T + 1, n) calibrated log odds after each slot; slot 0 is the labels alone
    shifts: Float64  # (T + 1, n) what the decision adds to them

    def at(self, slot: int, weight: float = 1.0, shift: float = 0.0) -> tuple[Float64, Bools]:
        """Return log odds and decisions after a slot; a run that stopped earlier stays as it is.

        Args:
            slot: The slot.
            weight: What it counts beside the labels alone.
            shift: What is added to the log odds of both together.
        """
        last = min(slot, len(self.odds) - 1)
        odds, shifts = (
            (1 - weight) * values[0] + weight * values[last] for values in (self.odds, self.shifts)
        )
        return odds + shift, odds + shift + shifts > 0


@one_thread()
def cross_validate(
    pile: Pile,
    trained: TrainedModel,
    method: Method,
    n_folds: int,
    on_fold: Callable[[int, int], None] = lambda number, n_folds: None,
) -> CrossValidation:
    """Learn once for each part of the labels, without it, and predict it.

    Args:
        pile: The candidate mentions with all labels.
        trained: The linking model.
        method: How to learn.
        n_folds: Parts of the labels; fewer when fewer documents are labelled, 0 for no check.
        on_fold: Called after each fold with its number and that of all folds.
    """
    folds = make_folds(pile, n_folds) if n_folds > 1 else []
    temperature = trained.calibration.temperature
    _, vote, _ = pile.votes
    checked: list[Int64] = []
    runs: list[list[tuple[Float64, float]]] = []  # log odds and shift after each slot
    for number, left_out in enumerate(folds, start=1):
        rest = pile.labelled.copy()
        rest[left_out] = False
        if not rest.any():
            continue
        # The first mention of each name in each document is judged: the others share its label.
        rows = left_out[np.sort(np.unique(vote[left_out], return_index=True)[1])]
        # As in linking, the mentions of one name in one document meet half-way.
        together = np.flatnonzero(np.isin(vote, vote[rows]))
        asked = np.searchsorted(together, rows)
        part = trained.model.with_features(method.features).freeze(pile).take(together)
        labels = np.where(rest[:, None], pile.labels, np.float32(0))
        slots: list[Slot] = []
        method.learn(replace(pile, labels=labels, labelled=rest), trained, slots.append)
        run = []
        for slot in slots:
            margin = margins(part, slot.theta, temperature)
            every, _ = log_odds(margin, part.pile, slot.theta, temperature)
            run.append((agree(every, part.pile)[asked, 0], slot.shifts[0]))
        checked.append(rows)
        runs.append(run)
        on_fold(number, len(folds))
    if not checked:
        nothing = np.zeros((1, 0))
        return CrossValidation(np.zeros(0, np.int64), np.zeros(0, bool), nothing, nothing)
    rows = np.concatenate(checked)
    odds, shifts = [], []
    for t in range(max(map(len, runs))):
        last = [run[min(t, len(run) - 1)] for run in runs]  # some may have stopped earlier
        odds.append(np.concatenate([values for values, _ in last]))
        shifts.append(np.concatenate([np.full(len(values), shift) for values, shift in last]))
    return CrossValidation(rows, pile.labels[rows, 0] > 0.5, np.stack(odds), np.stack(shifts))


def make_folds(pile: Pile, n_folds: int) -> list[Int64]:
    """Deal the labelled documents into folds with about the same share of each kind of label."""
    rows = np.flatnonzero(pile.labelled)
    documents = pile.mentions.documents[rows]
    is_emerging = pile.labels[rows, 0] > 0.5
    kinds = {int(d): bool(is_emerging[documents == d].any()) for d in np.unique(documents)}
    ordered = sorted(kinds, key=lambda d: (kinds[d], hashlib.sha256(b"%d" % d).digest()))
    fold_by_document = {d: i % n_folds for i, d in enumerate(ordered)}
    fold = np.array([fold_by_document[d] for d in documents.tolist()])
    return [rows[fold == k] for k in range(min(n_folds, len(ordered))) if (fold == k).any()]
