"""What learning finds out about its pack: left-out labels, and what it takes from whom.

Labels are left out document by document, so that no mention is judged by a neighbour with the
same sense. Every fold runs the whole of learning again with the other labels.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from stamo.corpus.types import Corpus, EmergingEntity
from stamo.errors import LearningError, WorkspaceError
from stamo.features.base import view_mentions
from stamo.features.encoder_choice import encoder_of, remembering
from stamo.features.pile import TextEncoder
from stamo.features.views import VIEWS
from stamo.features.views_context import Sentence
from stamo.kb.base import KnowledgeBase
from stamo.learning.learn import encode_pile
from stamo.learning.loop import Learned, LoopArgs, Reading, Slot, Task, self_train
from stamo.models.evidence import agree, log_odds, margins_under
from stamo.models.store import TrainedModel
from stamo.system.files import Bools, Float64, Int64
from stamo.system.processes import one_thread
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import (
    EMERGING_CHOICE,
    SKIP,
    LabelEvent,
    find_labelled,
    labels_fingerprint,
)
from stamo.workspace.slots import Rates
from stamo.workspace.verdict import Findings


@dataclass(frozen=True)
class Material:
    """What a workspace learns from."""

    corpus: Corpus
    """The documents; candidate mentions without a label are unlinked."""
    labels: tuple[LabelEvent, ...]
    n_stale: int
    """Labels whose mention is no longer among the documents."""
    task: Task
    key: str
    """A hash of everything that decides what is learned."""


def load_material(
    workspace: Workspace,
    kb: KnowledgeBase,
    trained: TrainedModel,
    reading: Reading,
    settings: Sequence[object] = (),
    encoder: TextEncoder | str | None = None,
) -> Material:
    """Read and encode the documents and labels of a workspace.

    Args:
        workspace: The folder.
        kb: The knowledge base that its documents were linked with.
        trained: The model that linked them.
        reading: How θ(e*) is looked up.
        settings: Further plain values that decide what is learned.
        encoder: Reads the text around mentions, see `encoder_of`; the folder keeps what it read.

    Raises:
        WorkspaceError: Nothing is collected yet, or with another knowledge base or model.
        LearningError: Nothing is labelled, or no label is the entity.
    """
    corpus = read_corpus(workspace, kb, trained)
    events = tuple(workspace.current_labels())
    labels, n_stale = find_labelled(events, corpus, workspace.entity)
    _check_labels(workspace.entity, labels.values())
    labelled = corpus.with_labels(labels)
    reader = remembering(encoder_of(encoder), workspace.readings_path)
    pile = encode_pile([workspace.entity], labelled, kb, trained, encoder=reader)
    task = reading.task(pile)
    if reader is not None:
        view_mentions(task.pile, kb, [Sentence()])
        reader.save()
    parts = {
        "entity": [workspace.entity.id, *workspace.entity.aliases],
        "description": workspace.entity.description,
        "encoder": "" if reader is None else reader.fingerprint,
        "documents": [part.digest for part in workspace.documents.manifest.parts],
        "labels": labels_fingerprint(events),
        "kb": kb.fingerprint,
        "model": trained.fingerprint,
        "reading": [repr(reading), getattr(reading.adapt_model, "__qualname__", "as_it_is")],
        "settings": list(settings),
    }
    return Material(
        corpus=labelled,
        labels=events,
        n_stale=n_stale,
        task=task,
        key=hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest(),
    )


def _check_labels(entity: EmergingEntity, labels: Collection[str]) -> None:
    if entity.description:  # a description can stand for labels; brackets behind its name cannot
        return
    if not labels:
        raise LearningError(
            "Nothing is labelled yet; label about twenty mentions first, or write a line about the "
            "entity."
        )
    if entity.id not in labels:
        raise LearningError(
            f"None of the {len(labels)} labels is {entity.id!r}; label at least one mention that "
            "means it."
        )


def read_corpus(workspace: Workspace, kb: KnowledgeBase, trained: TrainedModel) -> Corpus:
    """Read the documents; refuse those that were linked with other artifacts.

    Raises:
        WorkspaceError: Nothing is collected yet, or with another knowledge base or model.
    """
    manifest = workspace.documents.manifest
    if not manifest.n_documents:
        raise WorkspaceError(
            f"No documents are collected for {workspace.entity.id!r} yet; collect some first."
        )
    used = (manifest.state.get("kb_fingerprint"), manifest.state.get("model_fingerprint"))
    given = (kb.fingerprint, trained.fingerprint)
    if any(old is not None and old != new for old, new in zip(used, given, strict=True)):
        raise WorkspaceError(
            "The documents were collected with another knowledge base or model; use those, or "
            "collect all anew with --fresh."
        )
    return workspace.documents.read()


DOUBTFUL = 3.0
"""A label is doubtful where the run that did not see it gives it less than one in twenty."""
UNSURE = 0.2
"""A mention is unsure between this probability and its opposite."""


@dataclass(frozen=True)
class LeftOut:
    """Predictions for the labelled mentions, slot by slot, each without its own label."""

    rows: Int64  # (n,) mentions of the pile
    labels: Bools  # (n,) whether each means e*
    odds: Mapping[int, Float64]  # slot -> (n,) calibrated log odds
    shifts: Mapping[int, Float64]  # slot -> (n,) what the decision adds to them

    def at(self, slot: int, weight: float = 1.0, line: float = 0.0) -> tuple[Bools, Float64, Bools]:
        """Return labels, log odds and decisions after a slot; nothing where nothing was checked.

        Args:
            slot: The slot.
            weight: What it counts beside the labels alone.
            line: What is added to the log odds of both together.
        """
        there = [t for t in self.odds if t <= slot]
        if not there:
            return np.zeros(0, bool), np.zeros(0), np.zeros(0, bool)
        first, last = min(there), max(there)
        odds, shifts = (
            (1 - weight) * values[first] + weight * values[last]
            for values in (self.odds, self.shifts)
        )
        return self.labels, odds + line, odds + line + shifts > 0

    def rates(self, slot: int) -> Rates | None:
        """Return precision, recall and F1 after a slot; a run that stopped early stays as it is."""
        labels, _, decisions = self.at(slot)
        return rates(decisions, labels) if len(labels) else None


def rates(predicted: Bools, labels: Bools) -> Rates:
    """Return precision, recall, F1 and accuracy of predictions."""
    hits = float((predicted & labels).sum())
    precision = hits / max(float(predicted.sum()), 1.0)
    recall = hits / max(float(labels.sum()), 1.0)
    f1 = 2 * hits / max(float(predicted.sum() + labels.sum()), 1.0)
    return Rates(precision, recall, f1, float((predicted == labels).mean()))


def make_folds(task: Task, n_folds: int) -> list[Int64]:
    """Deal the labelled documents into folds with about the same share of each kind of label."""
    rows = np.flatnonzero(task.labelled)
    documents = task.pile.mentions.documents[rows]
    is_emerging = task.labels[rows, 0] > 0.5
    kinds = {int(d): bool(is_emerging[documents == d].any()) for d in np.unique(documents)}
    ordered = sorted(kinds, key=lambda d: (kinds[d], hashlib.sha256(b"%d" % d).digest()))
    fold_by_document = {d: i % n_folds for i, d in enumerate(ordered)}
    fold = np.array([fold_by_document[d] for d in documents.tolist()])
    return [rows[fold == k] for k in range(min(n_folds, len(ordered))) if (fold == k).any()]


@one_thread()
def predict_left_out(
    task: Task,
    args: LoopArgs,
    n_folds: int,
    *,
    done: Mapping[str, Any] | None = None,
    on_fold: Callable[[dict[str, Any], int, int], None] = lambda folds, i, n: None,
) -> LeftOut:
    """Cross-validate a way of learning.

    Args:
        task: The pile with all labels.
        args: How to learn.
        n_folds: Parts of the labels; fewer when fewer documents are labelled.
        done: Folds that an interrupted run finished, see `on_fold`.
        on_fold: Called after each fold with all folds so far as plain values.
    """
    folds = make_folds(task, n_folds) if n_folds > 1 else []
    # The first mention of each name in each document is judged: the others share its label.
    _, vote, _ = task.pile.votes
    judged = [rows[np.sort(np.unique(vote[rows], return_index=True)[1])] for rows in folds]
    results: dict[str, Any] = dict(done or {})
    for k, rows in enumerate(folds):
        rest = task.labelled.copy()
        rest[rows] = False
        if not rest.any():
            continue
        if str(k) not in results:
            results[str(k)] = _run_fold(task, args, rest, judged[k])
        on_fold(results, k + 1, len(folds))
    return _join(task, judged, results)


def _run_fold(task: Task, args: LoopArgs, rest: Bools, rows: Int64) -> dict[str, list[list[float]]]:
    """Return slot -> [log odds, shift] of each left-out mention."""
    found: dict[str, list[list[float]]] = {}
    # As in linking, the mentions of one name in one document meet half-way.
    _, vote, _ = task.pile.votes
    together = np.flatnonzero(np.isin(vote, vote[rows]))
    asked = np.searchsorted(together, rows)
    part = task.scorer.take(together)
    views = {
        name: view[together] for name, view in view_mentions(task.pile, task.kb, VIEWS).items()
    }

    def see(slot: Slot) -> None:
        margin = margins_under(part, slot.theta, task.temperature)
        every = log_odds(margin, slot.theta, views, task.temperature)
        shift = slot.shifts[0]
        found[str(slot.number)] = [[float(f), shift] for f in agree(every, part.pile)[asked, 0]]

    labels = np.where(rest[:, None], task.labels, np.float32(0))
    self_train(replace(task, labels=labels, labelled=rest), args, on_first=see, on_slot=see)
    return found


def _join(task: Task, folds: Sequence[Int64], results: Mapping[str, Any]) -> LeftOut:
    used = [k for k in range(len(folds)) if str(k) in results]
    rows = np.concatenate([folds[k] for k in used]) if used else np.zeros(0, dtype=np.int64)
    slots = sorted({int(slot) for k in used for slot in results[str(k)]})
    odds, shifts = {}, {}
    for slot in slots:
        pairs: list[list[float]] = []
        for k in used:
            there = sorted(map(int, results[str(k)]))
            # A fold that stopped early keeps its last slot.
            last = max((t for t in there if t <= slot), default=there[0])
            pairs += results[str(k)][str(last)]
        values = np.array(pairs, dtype=np.float64)
        odds[slot], shifts[slot] = values.T
    return LeftOut(rows, task.labels[rows, 0] > 0.5, odds, shifts)


def find_out(
    material: Material, learned: Learned, left_out: LeftOut, alarm: str | None
) -> Findings:
    """Put together what the verdict needs to know, on the pile as it was encoded for learning."""
    # There is one entity.
    weight, line, shift = learned.pile_weight, learned.line[0], learned.shifts[0]
    labels, odds, decisions = left_out.at(learned.used_slot, weight, line)
    choices = [event.choice for event in material.labels if event.choice != SKIP]
    n_emerging = choices.count(EMERGING_CHOICE)
    contradicted = np.flatnonzero(np.where(labels, odds, -odds) < -DOUBTFUL)
    pile_odds, rivals = _link_pile(material, learned)
    free = ~material.task.labelled
    p = expit(pile_odds[free] - shift)
    taken = free & (pile_odds > 0)
    return Findings(
        entity=material.task.pile.entities[0].id,
        n_emerging=n_emerging,
        n_other=len(choices) - n_emerging,
        labels=tuple(labels.tolist()),
        probabilities=tuple(expit(odds).round(6).tolist()),
        decisions=tuple(decisions.tolist()),
        line=float(expit(-shift)),
        n_mentions=int(free.sum()),
        n_taken=int(taken.sum()),
        n_unsure=int(((p > UNSURE) & (p < 1 - UNSURE)).sum()),
        taken_from=_names(material.task.kb, rivals[taken]),
        alarm=alarm,
        doubtful=_doubtful(material, left_out.rows[contradicted]),
    )


def _link_pile(material: Material, learned: Learned) -> tuple[Float64, Int64]:
    """Return the log odds of every mention as linking decides, and its best known candidate."""
    task = material.task
    theta = learned.theta
    margin = margins_under(task.scorer, theta, task.temperature)
    views = view_mentions(task.pile, task.kb, VIEWS)
    odds = agree(log_odds(margin, theta, views, task.temperature), task.pile)[:, 0]
    known = task.scorer(theta).detach().numpy()[:, :-1]
    if not known.shape[1]:
        return odds, np.full(len(odds), -1, dtype=np.int64)
    best = np.take_along_axis(task.pile.mentions.candidates, known.argmax(axis=1)[:, None], axis=1)
    return odds, best[:, 0].astype(np.int64)


def _names(kb: KnowledgeBase, rivals: Int64) -> tuple[tuple[str, int], ...]:
    """Count entities by their titles, "" for none; most first."""
    counts = Counter(rivals.tolist())
    known = [entity for entity in counts if entity >= 0]
    titles = dict(zip(known, kb.titles(np.array(known, dtype=np.int64)), strict=True))
    named = [(titles.get(entity, ""), n) for entity, n in counts.items()]
    return tuple(sorted(named, key=lambda item: (-item[1], item[0])))


def _doubtful(material: Material, rows: Int64) -> tuple[str, ...]:
    """Describe the labels that the run without them contradicts."""
    task, pile = material.task, material.task.pile
    if pile.text is None or not len(rows):
        return ()
    lines = []
    windows = pile.text.take(rows).windows(60)
    for row, window in zip(rows.tolist(), windows, strict=True):
        document = material.corpus.documents[int(pile.mentions.documents[row])]
        said = "is" if task.labels[row, 0] > 0.5 else "is not"
        lines.append(
            f"{document.id}: labelled as what {said} {pile.entities[0].id}, but "
            f"the other labels say otherwise: {' '.join(window.text.split())}"
        )
    return tuple(lines)
