"""The versions of a workspace's pack: each one that was learned stays, and can come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from stamo.corpus.duplicates import NearDuplicates
from stamo.corpus.types import MAX_ALIASES, Document, EmergingEntity
from stamo.errors import PackError, WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.packs.pack import PACK_SUFFIX, EntityPack, read_bytes
from stamo.packs.theta import strongest_neighbours
from stamo.system.files import Float64, sweep, write_atomic
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import LabelEvent

VERSIONS = "versions"


@dataclass(frozen=True)
class PackVersion:
    """A pack that was learned once."""

    number: int
    path: Path
    written_at: datetime
    fingerprint: str
    is_current: bool
    description: str
    problem: str = ""


def write_version(workspace: Workspace, data: bytes) -> int:
    """Write a pack as the current one, and keep it as a version; return the version's number.

    The same bytes as an earlier version are that version. A pack from before there were versions
    becomes the first one.
    """
    folder = workspace.packs_dir / VERSIONS
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)
    numbers = _numbers(folder)
    if not numbers and workspace.pack_path.exists():
        write_atomic(_path(folder, 1), read_bytes(workspace.pack_path))
        numbers = [1]
    number = next((n for n in numbers if read_bytes(_path(folder, n)) == data), None)
    if number is None:
        number = max(numbers, default=0) + 1
        write_atomic(_path(folder, number), data)
    write_atomic(workspace.pack_path, data)
    return number


def pack_versions(workspace: Workspace) -> list[PackVersion]:
    """List the versions, the oldest first."""
    folder = workspace.packs_dir / VERSIONS
    current = read_bytes(workspace.pack_path) if workspace.pack_path.exists() else b""
    versions = []
    for number in _numbers(folder):
        path = _path(folder, number)
        at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        data = read_bytes(path)
        try:
            pack = EntityPack.from_bytes(data, path.name)
            said = (pack.fingerprint, data == current, pack.description, "")
        except PackError as error:
            said = ("", data == current, "", str(error))
        versions.append(PackVersion(number, path, at, *said))
    return versions


def restore_version(workspace: Workspace, number: int) -> EntityPack:
    """Make an earlier version the current pack.

    Raises:
        WorkspaceError: There is no such version.
        PackError: Its file is damaged.
    """
    with workspace.lock("learn"):
        path = _path(workspace.packs_dir / VERSIONS, number)
        if not path.exists():
            there = ", ".join(map(str, _numbers(workspace.packs_dir / VERSIONS))) or "none yet"
            raise WorkspaceError(
                f"There is no version {number} of the pack in {str(workspace.path)!r}; there are: "
                f"{there}."
            )
        data = read_bytes(path)
        pack = EntityPack.from_bytes(data, path.name)
        write_atomic(workspace.pack_path, data)
        return pack


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    stems = (path.name.removesuffix(PACK_SUFFIX) for path in folder.glob(f"*{PACK_SUFFIX}"))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}{PACK_SUFFIX}"


DOCUMENTS_PER_PART = 500
ARTIFACTS = ("kb_fingerprint", "model_fingerprint")


@dataclass(frozen=True)
class Merged:
    """A workspace that holds the documents and labels of others."""

    workspace: Workspace
    n_documents: int
    n_copies: int
    """Documents left out because another folder holds them too."""
    n_events: int


def merge_workspaces(path: str | Path, workspaces: Sequence[Workspace], *, at: datetime) -> Merged:
    """Join workspaces of one entity into a new one; the old ones stay as they are.

    A document that several folders hold is taken once, from the first; its labels are joined.

    Raises:
        WorkspaceError: They are of different entities, or collected with different artifacts.
    """
    entity = _common_entity(workspaces)
    state = _common_state(workspaces)
    documents, n_copies, labels = _join(workspaces)
    merged = Workspace.create(path, entity, created_by=workspaces[0].created_by, at=at)
    for i in range(0, len(documents), DOCUMENTS_PER_PART):
        merged.documents.append(documents[i : i + DOCUMENTS_PER_PART], state=state)
    merged.documents.append([], state=state, complete=True)
    with merged.open_labels() as store:
        n_events = store.merge(labels)
    return Merged(merged, len(documents), n_copies, n_events)


def _common_entity(workspaces: Sequence[Workspace]) -> EmergingEntity:
    names = {workspace.entity.id for workspace in workspaces}
    if len(names) != 1:
        raise WorkspaceError(
            f"The folders are of {', '.join(map(repr, sorted(names))) or 'no entity'}; merge "
            "folders of one entity."
        )
    aliases = dict.fromkeys(a for workspace in workspaces for a in workspace.entity.aliases)
    if len(aliases) > MAX_ALIASES:
        raise WorkspaceError(
            f"Together the folders have {len(aliases)} aliases; an entity has at most "
            f"{MAX_ALIASES}: collect one of them again with fewer."
        )
    ids = {w.entity.external_id for w in workspaces if w.entity.external_id}
    if len(ids) > 1:
        raise WorkspaceError(
            f"The folders have one name but the ids {', '.join(sorted(ids))}; merge folders of one "
            "entity."
        )
    # What one folder does not say, another may.
    rest = {
        field: next((v for w in workspaces if (v := getattr(w.entity, field))), "")
        for field in ("description", "external_id", "type", "url")
    }
    return EmergingEntity(names.pop(), tuple(aliases), **rest)


def _common_state(workspaces: Sequence[Workspace]) -> dict[str, object]:
    states = []
    for workspace in workspaces:
        manifest = workspace.documents.manifest
        states.append(manifest.state)
        if not manifest.complete:
            raise WorkspaceError(
                f"Collecting in {str(workspace.path)!r} has not ended; finish it before merging."
            )
    if len({tuple(map(state.get, ARTIFACTS)) for state in states}) > 1:
        raise WorkspaceError(
            "The folders were collected with different knowledge bases or models; collect one "
            "of them again."
        )
    sources = dict.fromkeys(source for state in states for source in state.get("sources", []))
    kept = {n: states[0][n] for n in (*ARTIFACTS, "kb", "model") if n in states[0]}
    return {**kept, "sources": list(sources), "position": [len(sources), "", 0]}


def _join(workspaces: Sequence[Workspace]) -> tuple[list[Document], int, list[LabelEvent]]:
    documents: dict[str, Document] = {}
    labels: list[LabelEvent] = []
    copies, n_copies = NearDuplicates(), 0
    for workspace in workspaces:
        with workspace.read_labels() as store:
            events = store.events()
        labelled = {event.target.document for event in events}
        labels += events
        for document in workspace.documents:
            held = documents.get(document.id)
            if held is not None and held.text != document.text:
                raise WorkspaceError(
                    f"Two different documents have the id {document.id!r}; collect one of the "
                    "folders again from sources with ids of their own."
                )
            # A labelled document is never left out as a copy of another one: its labels need it.
            if held is None and (copies.add(document) is None or document.id in labelled):
                documents[document.id] = document
            else:
                n_copies += 1
    return list(documents.values()), n_copies, labels


@dataclass(frozen=True)
class PriorPair:
    """P(e | alias) as it was learned, and as a later knowledge base counted it."""

    alias: str
    learned: float
    later: float | None
    """None where the later knowledge base does not know the alias."""


@dataclass(frozen=True)
class Graduation:
    """What was learned of an entity beside what a later knowledge base says of it."""

    title: str
    id: str
    """Its id in the later knowledge base, or the pack's own; empty where there is none."""
    priors: tuple[PriorPair, ...]
    cosine: float | None
    """Of the vectors; None where the two knowledge bases do not share a space."""
    shared: tuple[str, ...]
    """Titles among the most related ones in both."""
    n_related: int
    """How many of the most related ones were compared."""


def compare_with_kb(
    pack: EntityPack,
    later: KnowledgeBase,
    *,
    title: str | None = None,
    former: KnowledgeBase | None = None,
    n_related: int = 20,
) -> Graduation:
    """Compare a pack with a later knowledge base that contains its entity.

    Args:
        pack: What was learned.
        later: The later knowledge base.
        title: The entity's title there; by default it is found by its id, or by its name.
        former: The knowledge base of the pack. Vectors of two knowledge bases are compared through
            the words that both know, so the cosine needs it.
        n_related: How many of the most related entities to compare.

    Raises:
        UnknownEntityError: The later knowledge base does not know the title.
    """
    entity = _find_later(pack, later, title)
    priors = []
    for alias, learned in zip(pack.entity.aliases, pack.priors.tolist(), strict=True):
        found = later.candidates(alias)
        place = np.flatnonzero(found.ids == entity)
        known = (float(found.priors[place[0]]) if len(place) else 0.0) if len(found.ids) else None
        priors.append(PriorPair(alias, float(learned), known))
    ids, _ = later.related(entity, n_related)
    there = later.titles(ids)
    mine = {title for title, value in strongest_neighbours(pack, n_related) if value > 0}
    return Graduation(
        title=later.title(entity),
        id=later.external_ids([entity])[0] or pack.entity.external_id,
        priors=tuple(priors),
        cosine=_cosine(pack, later, entity, former),
        shared=tuple(title for title in there if title in mine),
        n_related=min(len(there), len(mine)),
    )


def _find_later(pack: EntityPack, later: KnowledgeBase, title: str | None) -> int:
    """Return the entity there: by the title given, by the pack's id, or by its name."""
    if title is None and pack.entity.external_id:
        (found,) = later.entities_with_ids([pack.entity.external_id]).tolist()
        if found >= 0:
            return int(found)
    return later.entity_id(pack.entity.id if title is None else title)


def _cosine(
    pack: EntityPack, later: KnowledgeBase, entity: int, former: KnowledgeBase | None
) -> float | None:
    """Return the cosine of the vectors, after turning the former space onto the later one."""
    vector = np.asarray(later.entity_vectors()[np.array([entity])], dtype=np.float64)[0]
    learned = pack.vector.astype(np.float64)
    if former is not None:
        turn = _rotation(former, later)
        if turn is None:
            return None
        learned = learned @ turn
    elif later.fingerprint != pack.kb_fingerprint:
        return None
    norms = float(np.linalg.norm(vector) * np.linalg.norm(learned))
    return float(vector @ learned / norms) if norms > 0 else None


def _rotation(former: KnowledgeBase, later: KnowledgeBase) -> Float64 | None:
    """Return the orthogonal map between the spaces that fits the shared words best (Procrustes)."""
    order = np.argsort(-np.asarray(former.word_counts), kind="stable")[:5000]
    words = former.words.texts(order)
    there = later.word_ids(words)
    known = there >= 0
    if int(known.sum()) < 50:
        return None
    source = np.asarray(former.word_vectors[order[known]], dtype=np.float64)
    target = np.asarray(later.word_vectors[there[known]], dtype=np.float64)
    left, _, right = np.linalg.svd(source.T @ target, full_matrices=False)
    return np.asarray(left @ right)
