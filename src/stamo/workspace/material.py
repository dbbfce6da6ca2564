"""The documents and labels of a workspace, encoded for learning."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stamo.corpus.types import Corpus, EmergingEntity
from stamo.errors import LearningError, WorkspaceError
from stamo.features.encoder_choice import encoder_of, remembering
from stamo.features.pile import TextEncoder
from stamo.features.views.base import view_mentions
from stamo.features.views.context import Sentence
from stamo.kb.base import KnowledgeBase
from stamo.learning.learn import encode_pile
from stamo.learning.loop import Reading, Task
from stamo.models.store import TrainedModel
from stamo.workspace.folder import Workspace
from stamo.workspace.labels.events import LabelEvent
from stamo.workspace.labels.store import find_labelled, labels_fingerprint


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
        "about": workspace.entity.about,
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
    if entity.about:  # a line about it can stand for labels; brackets behind its name cannot
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
