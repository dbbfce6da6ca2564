"""What a newly learned pack decides otherwise than the one before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stamo.errors import ArtifactMismatchError, PackError
from stamo.features.encoder_choice import encoder_for, remembering
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.packs.pack import EntityPack
from stamo.workspace.folder import Workspace
from stamo.workspace.seen import SeenMention, score_corpus
from stamo.workspace.versions import pack_versions
from stamo.workspace.wording import printable

MAX_SHOWN = 5
_AROUND = 50


@dataclass(frozen=True)
class PackChange:
    """How two packs of one entity decide on the documents of its workspace."""

    n_mentions: int
    n_before: int
    """Mentions that meant the entity by the former pack."""
    n_after: int
    n_gained: int
    """Mentions that mean it only now."""
    n_lost: int
    gained: tuple[str, ...]
    """Some of them, as lines to read."""
    lost: tuple[str, ...]
    priors: dict[str, tuple[float, float]]
    """P(e* | alias) before and after, by alias."""


def compare_packs(
    workspace: Workspace,
    before: EntityPack,
    after: EntityPack,
    kb: KnowledgeBase,
    trained: TrainedModel,
) -> PackChange:
    """Score the candidate mentions of a workspace with two packs of its entity."""
    corpus = workspace.documents.read()
    reader = remembering(encoder_for(after.encoder), workspace.readings_path)
    was, now = (
        {_place(seen): seen for seen in score_corpus(pack, corpus, (), kb, trained, reader)}
        for pack in (before, after)
    )
    places = list(dict.fromkeys([*was, *now]))
    gained = [now[p] for p in places if _is_linked(now, p) and not _is_linked(was, p)]
    lost = [was[p] for p in places if _is_linked(was, p) and not _is_linked(now, p)]
    old, new = (
        dict(zip(p.entity.aliases, p.priors.tolist(), strict=True)) for p in (before, after)
    )
    return PackChange(
        n_mentions=len(places),
        n_before=sum(seen.linked for seen in was.values()),
        n_after=sum(seen.linked for seen in now.values()),
        n_gained=len(gained),
        n_lost=len(lost),
        gained=_lines(gained),
        lost=_lines(lost),
        priors={alias: (float(old.get(alias, 0.0)), float(prior)) for alias, prior in new.items()},
    )


def change_since_last(
    workspace: Workspace, kb: KnowledgeBase, trained: TrainedModel
) -> tuple[int, PackChange] | None:
    """Compare the current pack with the version before it; None where there is none to compare.

    Returns:
        The number of the version before, and what changed since.
    """
    versions = pack_versions(workspace)
    place = next((i for i, v in enumerate(versions) if v.is_current), 0)
    if place == 0:
        return None
    before, now = (
        _loaded(v.path, kb, trained.fingerprint) for v in versions[place - 1 : place + 1]
    )
    if before is None or now is None:
        return None
    return versions[place - 1].number, compare_packs(workspace, before, now, kb, trained)


def former_pack(workspace: Workspace, kb: KnowledgeBase, model: str) -> EntityPack | None:
    """Return the pack of a workspace as it is now, if it can be compared with another."""
    return _loaded(workspace.pack_path, kb, model)


def _loaded(path: Path, kb: KnowledgeBase, model: str) -> EntityPack | None:
    try:
        return EntityPack.load(path, kb, model)
    except (PackError, ArtifactMismatchError):
        return None


_Place = tuple[str, int]


def _place(seen: SeenMention) -> _Place:
    return seen.document.id, seen.document.mentions[seen.index].start


def _is_linked(seen: dict[_Place, SeenMention], place: _Place) -> bool:
    return place in seen and seen[place].linked


def _lines(seen: Iterable[SeenMention]) -> tuple[str, ...]:
    return tuple(map(_line, list(seen)[:MAX_SHOWN]))


def _line(seen: SeenMention) -> str:
    document, mention = seen.document, seen.document.mentions[seen.index]
    start, end = max(mention.start - _AROUND, 0), mention.end + _AROUND
    return f"{document.id}: …{printable(' '.join(document.text[start:end].split()))}…"
