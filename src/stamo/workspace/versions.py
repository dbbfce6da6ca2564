"""The versions of a workspace's pack: each one that was learned stays, and can come back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from stamo.errors import PackError, WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.packs.pack import PACK_SUFFIX, EntityPack, read_bytes
from stamo.system.files import Float64, sweep, write_atomic
from stamo.workspace.folder import Workspace

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
    if not _paths(folder) and workspace.pack_path.exists():
        write_atomic(folder / f"00001{PACK_SUFFIX}", read_bytes(workspace.pack_path))
    paths = _paths(folder)
    number = next((n for n, path in paths.items() if read_bytes(path) == data), None)
    if number is None:
        number = max(paths, default=0) + 1
        write_atomic(folder / f"{number:05d}{PACK_SUFFIX}", data)
    write_atomic(workspace.pack_path, data)
    return number


def pack_versions(workspace: Workspace) -> list[PackVersion]:
    """List the versions, the oldest first."""
    current = read_bytes(workspace.pack_path) if workspace.pack_path.exists() else b""
    versions = []
    for number, path in _paths(workspace.packs_dir / VERSIONS).items():
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
        paths = _paths(workspace.packs_dir / VERSIONS)
        path = paths.get(number)
        if path is None:
            there = ", ".join(map(str, paths)) or "none yet"
            raise WorkspaceError(
                f"There is no version {number} of the pack in {str(workspace.path)!r}; there are: "
                f"{there}."
            )
        data = read_bytes(path)
        pack = EntityPack.from_bytes(data, path.name)
        write_atomic(workspace.pack_path, data)
        return pack


def _paths(folder: Path) -> dict[int, Path]:
    """Return the file of each version by its number, the oldest first."""
    stems = (path.name.removesuffix(PACK_SUFFIX) for path in folder.glob(f"*{PACK_SUFFIX}"))
    numbers = sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())
    return {number: folder / f"{number:05d}{PACK_SUFFIX}" for number in numbers}


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
    entity = -1
    if title is None and pack.entity.external_id:
        (entity,) = later.entities_with_ids([pack.entity.external_id]).tolist()
    if entity < 0:
        entity = later.entity_id(pack.entity.id if title is None else title)
    priors = []
    for alias, learned in zip(pack.entity.aliases, pack.priors.tolist(), strict=True):
        found = later.candidates(alias)
        prior_by_id = dict(zip(found.ids.tolist(), found.priors.tolist(), strict=True))
        known = float(prior_by_id.get(entity, 0.0)) if prior_by_id else None
        priors.append(PriorPair(alias, float(learned), known))
    there = later.titles(later.related(entity, n_related)[0])
    mine = {title for title, value in pack.strongest_neighbours(n_related) if value > 0}
    vector = np.asarray(later.entity_vectors()[np.array([entity])], dtype=np.float64)[0]
    turned: Float64 | None = pack.vector.astype(np.float64)
    if former is not None:
        turn = _rotation(former, later)
        turned = None if turn is None else pack.vector.astype(np.float64) @ turn
    elif later.fingerprint != pack.kb_fingerprint:
        turned = None
    norms = 0.0 if turned is None else float(np.linalg.norm(vector) * np.linalg.norm(turned))
    return Graduation(
        title=later.title(entity),
        id=later.external_ids([entity])[0] or pack.entity.external_id,
        priors=tuple(priors),
        cosine=float(vector @ turned / norms) if turned is not None and norms > 0 else None,
        shared=tuple(title for title in there if title in mine),
        n_related=min(len(there), len(mine)),
    )


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
