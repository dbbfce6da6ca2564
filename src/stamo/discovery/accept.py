"""From a proposal to work: a workspace with its names, description, documents and first labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from stamo.corpus.reading import STDIN
from stamo.corpus.types import EmergingEntity
from stamo.discovery.proposals import FoundFolder, Proposal
from stamo.errors import WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.system.files import to_json, write_atomic
from stamo.workspace.collect import Collected, OnCollect, collect
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import EMERGING_CHOICE, LabelTarget

SUGGESTED_FILE = "suggested.json"


@dataclass(frozen=True)
class Accepted:
    """What became of a proposal."""

    workspace: Workspace
    collected: Collected
    suggested: tuple[LabelTarget, ...]
    """Mentions that the proposal was made from: most likely the new entity."""


def accept(
    folder: FoundFolder,
    proposal: Proposal,
    path: str | Path,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    by: str,
    at: datetime,
    name: str = "",
    sources: Sequence[str] = (),
    take_labels: bool = False,
    on_progress: OnCollect = lambda collected: None,
) -> Accepted:
    """Make the workspace of a proposal; the decision is kept when all is done.

    Args:
        folder: Where the proposal was found.
        proposal: The proposal.
        path: The folder of the workspace, new or empty.
        kb: The knowledge base.
        trained: A model trained with it.
        by: Who accepts.
        at: When, with a time zone.
        name: What the entity is called; see `entity_name` otherwise.
        sources: Where to collect from; where the proposal was found by default.
        take_labels: Keep the suggested labels as labels of the one who accepts.
        on_progress: Called while documents are collected.

    Raises:
        WorkspaceError: The folder is in use, or the documents are not there any more.
    """
    origin = folder.origin
    wanted = list(sources) or origin["sources"]
    if not wanted or STDIN in wanted:
        raise WorkspaceError(
            "The proposal was found on standard input, which cannot be read again; name the "
            "documents with --from."
        )
    missing = [source for source in wanted if not Path(source).exists()]
    if missing:
        raise WorkspaceError(
            f"The documents {missing[0]!r} are not there any more; name them with --from."
        )
    entity = EmergingEntity(name or entity_name(proposal, kb), proposal.aliases, proposal.about)
    workspace = Workspace.create(path, entity, created_by=by, at=at)
    places = {key: origin[key] for key in ("kb", "model")}
    (collected,) = collect([workspace], wanted, kb, trained, origin=places, on_progress=on_progress)
    suggested = suggest_labels(workspace, proposal)
    fields = "document", "start", "end", "surface"
    named = [{f: getattr(s, f) for f in fields} | {"choice": EMERGING_CHOICE} for s in suggested]
    write_atomic(workspace.path / SUGGESTED_FILE, to_json(named))
    if take_labels:
        with workspace.open_labels() as store:
            for target in suggested:
                store.add(target, EMERGING_CHOICE, labeller=by, at=at)
    folder.decide(proposal, "accepted", by=by, at=at)
    return Accepted(workspace, collected, suggested)


def entity_name(proposal: Proposal, kb: KnowledgeBase) -> str:
    """Return a title that no known entity has: the name, or the name with a word about it."""
    if proposal.kind == "name" and kb.entity_ids([proposal.name])[0] < 0:
        return proposal.name
    for word in proposal.words:
        title = f"{proposal.name} ({word})"
        if kb.entity_ids([title])[0] < 0:
            return title
    return f"{proposal.name} (new)"


def suggest_labels(workspace: Workspace, proposal: Proposal) -> tuple[LabelTarget, ...]:
    """Return the collected mentions that the proposal was made from."""
    places = {o.document: o for o in proposal.occurrences}
    found: list[LabelTarget] = []
    for document in workspace.documents:
        if place := places.get(document.id):
            free = ((i, m) for i, m in enumerate(document.mentions) if m.entity is None)
            meets = ((i, m) for i, m in free if m.start < place.end and place.start < m.end)
            found += [LabelTarget.of(document.id, i, m) for i, m in islice(meets, 1)]
    return tuple(found)
