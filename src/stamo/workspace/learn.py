"""Learn the entity of a workspace: from documents and labels to a pack with a verdict.

Learning takes about a second and is deterministic: a run that was killed is started again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from stamo.corpus.types import Corpus
from stamo.errors import LearningError, SettingsError
from stamo.evaluation.intervals import Rates
from stamo.features.encoder import INSTALLED, encoder_of, remembering
from stamo.features.pile import Pile
from stamo.features.views_context import Sentence
from stamo.kb.base import KnowledgeBase
from stamo.learning.algorithm1 import Learned, Slot
from stamo.learning.learn import LearnedEntity, Method, encode_pile, method_named
from stamo.models.correction import agree, log_odds, margins
from stamo.models.store import TrainedModel
from stamo.packs.pack import EntityPack
from stamo.system.files import Float32, Float64, Int64, to_json, write_atomic
from stamo.workspace.cross_validation import CrossValidation, cross_validate
from stamo.workspace.folder import Workspace, read_corpus
from stamo.workspace.labels import (
    EMERGING_CHOICE,
    SKIP,
    LabelEvent,
    find_labelled,
    labels_fingerprint,
)
from stamo.workspace.verdict import Findings, LearnSummary, Verdict, judge, read_summary
from stamo.workspace.versions import write_version

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

    def to_method(self) -> Method:
        """Return the method, with another number of slots where one is given."""
        method = method_named(self.method)
        if self.decision:
            method = method.with_decision(self.decision)
        return method if self.n_slots is None else method.with_slots(self.n_slots)


@dataclass(frozen=True)
class SlotRecord:
    """What one slot did; slot 0 is the labels alone."""

    number: int
    share: float
    """Share of the unlabelled mentions that would link to e*."""
    n_flipped: int
    """Pseudo-labels that changed since the slot before."""
    moved: Mapping[str, float] = field(default_factory=dict)
    """How far each group of θ(e*) moved, relative to its size."""
    left_out: Rates | None = None
    """How well labels were predicted by runs that did not see them."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values, rounded so that they read well."""
        value: dict[str, Any] = asdict(self)
        value["share"] = round(self.share, 6)
        for name in ("moved", "left_out"):
            value[name] = value[name] and {k: round(x, 6) for k, x in value[name].items()}
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SlotRecord:
        """Read back what `to_json` gave."""
        left_out = value["left_out"]
        return cls(**{**value, "left_out": None if left_out is None else Rates(**left_out)})


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
        method = settings.to_method()
        on_progress(0.0, "Reading documents and labels")
        corpus, events, n_stale, pile = read_material(workspace, kb, trained, settings.encoder)
        checked = cross_validate(
            pile,
            trained,
            method,
            settings.n_folds,
            lambda k, n: on_progress(k / (n + 1), f"Checking on left-out labels, part {k} of {n}"),
        )
        records: list[SlotRecord] = []
        thetas: list[Mapping[str, Float32]] = []

        def note(slot: Slot) -> None:
            thetas[:] = [*thetas[-1:], slot.theta]
            records.append(_record(slot, pile, thetas, checked.rates(slot.number)))

        on_progress(0.9, "Learning from all labels")
        learned = method.learn(pile, trained, note)
        alarm = collapse_alarm(records[: learned.used_slot + 1])
        findings = _find_out(trained, corpus, events, learned, checked, alarm)
        pack = LearnedEntity.of(learned, trained).to_pack(
            labels_fingerprint=labels_fingerprint(events),
            history=tuple(record.to_json() for record in records),
            description=f"Learned from {int(pile.labelled.sum())} labelled and "
            f"{int((~pile.labelled).sum())} unlabelled mentions.",
            notes=_notes(workspace, settings.method, learned, corpus, events),
        )
        done = LearnedPack(
            pack=pack,
            path=workspace.pack_path,
            records=tuple(records),
            pile_helped=learned.pile_helped is not False,
            used_slot=learned.used_slot,
            n_stale=n_stale,
            findings=findings,
            verdict=judge(findings),
        )
        _write(workspace, done, corpus, checked, settings)
        return done


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
    labels, n_stale = find_labelled(events, corpus, entity)
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
    reader = remembering(encoder_of(encoder), workspace.encodings_path)
    pile = encode_pile([entity], corpus, kb, trained, encoder=reader)
    if reader is not None:
        pile.rows(Sentence())
        reader.save()
    return corpus, events, n_stale, pile


def estimation_pack(workspace: Workspace, kb: KnowledgeBase, trained: TrainedModel) -> EntityPack:
    """Return a pack with the features estimated on the labels alone, to compare with.

    Nothing is written.
    """
    *_, pile = read_material(workspace, kb, trained)
    return LearnedEntity.of(method_named("estimation").learn(pile, trained), trained).to_pack()


def _record(
    slot: Slot, pile: Pile, thetas: Sequence[Mapping[str, Float32]], left_out: Rates | None
) -> SlotRecord:
    """Say what a slot did; the last of the thetas is its own, the one before of the slot before."""
    rest = ~pile.labelled
    threshold = float(expit(-slot.shifts[0]))
    share = float((slot.pseudo_labels[rest, 0] > threshold).mean()) if rest.any() else 0.0
    before, after = thetas[0], thetas[-1]
    moved = {}
    for name, values in after.items():
        if len(thetas) > 1 and values.size and name in before:
            size = max(float(np.linalg.norm(before[name])), 1.0)
            moved[name] = float(np.linalg.norm(values - before[name])) / size
    return SlotRecord(slot.number, share, slot.n_flipped if slot.number > 1 else 0, moved, left_out)


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
    contradicted = np.flatnonzero(np.where(checked.labels, odds, -odds) < -DOUBTFUL)
    pile_odds, rivals = _link_pile(trained, learned)
    free = ~pile.labelled
    p = expit(pile_odds[free] - shift)
    taken = free & (pile_odds > 0)
    counts = Counter(rivals[taken].tolist())
    known = [entity for entity in counts if entity >= 0]
    titles = dict(zip(known, pile.kb.titles(np.array(known, dtype=np.int64)), strict=True))
    taken_from = [(titles.get(entity, ""), n) for entity, n in counts.items()]
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
        doubtful=_doubtful(pile, corpus, checked.rows[contradicted]),
    )


def _link_pile(trained: TrainedModel, learned: Learned) -> tuple[Float64, Int64]:
    """Return the log odds of every mention as linking decides, and its best known candidate."""
    pile, theta, temperature = learned.pile, learned.theta, trained.calibration.temperature
    frozen = learned.model.freeze(pile)
    every, _ = log_odds(margins(frozen, theta, temperature), pile, theta, temperature)
    odds, known = agree(every, pile)[:, 0], frozen.scores(theta)[:, :-1]
    if not known.shape[1]:
        return odds, np.full(len(odds), -1, dtype=np.int64)
    best = np.take_along_axis(pile.mentions.candidates, known.argmax(axis=1)[:, None], axis=1)
    return odds, best[:, 0].astype(np.int64)


def _doubtful(pile: Pile, corpus: Corpus, rows: Int64) -> tuple[str, ...]:
    """Describe the labels that the run without them contradicts."""
    if pile.text is None or not len(rows):
        return ()
    lines = []
    for row, window in zip(rows.tolist(), pile.text.take(rows).windows(60), strict=True):
        document = corpus.documents[int(pile.mentions.documents[row])]
        said = "is" if pile.labels[row, 0] > 0.5 else "is not"
        lines.append(
            f"{document.id}: labelled as what {said} {pile.entities[0].id}, but "
            f"the other labels say otherwise: {' '.join(window.text.split())}"
        )
    return tuple(lines)


def _notes(
    workspace: Workspace,
    method: str,
    learned: Learned,
    corpus: Corpus,
    events: Sequence[LabelEvent],
) -> dict[str, str]:
    """Say what a pack was learned from."""
    sources = workspace.documents.manifest.state.get("sources", [])
    names = ", ".join(Path(str(name)).name for name in sources)
    notes = {
        "method": method,
        "slot": str(learned.used_slot),
        "documents": f"{len(corpus.documents)} from {names}"[:2000],
        "labelled by": ", ".join(sorted({event.labeller for event in events}))[:2000],
    }
    if learned.left_out_likelihood is not None:
        alone, with_pile = learned.left_out_likelihood
        weight = f"helped, and is {learned.pile_weight:.0%} of the pack"
        notes["pile"] = weight if learned.pile_helped else "did not help"
        notes["left-out likelihood"] = f"{alone:.4f} labels alone, {with_pile:.4f} with pile"
    return notes


def _write(
    workspace: Workspace,
    done: LearnedPack,
    corpus: Corpus,
    checked: CrossValidation,
    settings: LearnSettings,
) -> None:
    """Write the pack, and beside it what was found of it."""
    places = [
        (document.id, mention.start)
        for document in corpus.documents
        for mention in document.mentions
        if mention.surface in workspace.entity.aliases
    ]
    summary = LearnSummary(
        done.pack.fingerprint,
        done.pack.labels_fingerprint,
        done.pile_helped,
        done.used_slot,
        done.findings,
        [places[row] for row in checked.rows.tolist()],
        asdict(settings),
    )
    data = done.pack.to_bytes()  # what cannot be written is told before anything is
    write_atomic(workspace.summary_path, to_json(asdict(summary)))
    write_version(workspace, data)
