"""The collision report: which known entities lose which mentions because of a new one.

The same documents are linked without and with the pack. Whatever differs is what letting the new
entity in would change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stamo.corpus.types import Corpus, Document
from stamo.errors import ArtifactMismatchError, PackError
from stamo.features.encoder import encoder_for, remembering
from stamo.features.mentions import Lexicon, flatten
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.learning.learn import entity_numbers
from stamo.linking.linker import Linker
from stamo.linking.packed import PackScores, score_pack
from stamo.models.store import TrainedModel
from stamo.packs.pack import EntityPack
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import EMERGING_CHOICE, SKIP, LabelEvent
from stamo.workspace.versions import pack_versions
from stamo.workspace.wording import Snippet, cut_context, printable

MAX_SHOWN = 5
_AROUND = 50


@dataclass(frozen=True)
class ScoredMention:
    """One candidate mention of the pile as the pack scores it."""

    document: Document
    index: int
    probability: float
    """That it means the entity, as `link` prints it."""
    linked: bool
    rival: str
    """What it is linked to where it is not the entity; empty for nothing."""
    label: str | None
    """What somebody chose, None without a label."""
    is_free: bool
    """Whether no label speaks for it, also none of its name in its document."""

    @property
    def is_contradicted(self) -> bool:
        """Whether its label says otherwise."""
        return self.label is not None and self.linked != (self.label == EMERGING_CHOICE)


def score_corpus(
    pack: EntityPack,
    corpus: Corpus,
    labels: Sequence[LabelEvent],
    kb: KnowledgeBase,
    trained: TrainedModel,
    encoder: TextEncoder | None = None,
) -> list[ScoredMention]:
    """Score every candidate mention of collected documents with a pack; see `score_pack`."""
    bare = corpus.with_labels({})
    flat = flatten(bare.documents, Lexicon.of(kb), entity_numbers([pack.entity], bare, kb))
    scores = score_pack(pack, flat, kb, trained, encoder=encoder)
    places = [(document, i) for document in bare for i in range(len(document.mentions))]
    chosen = {(e.target.document, e.target.start): e.choice for e in labels if e.choice != SKIP}
    said: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in labels:
        if event.choice != SKIP:
            said[event.target.document, event.target.surface].add(event.choice)
    rivals = _rivals(scores, kb)
    result = []
    for n, row in enumerate(scores.rows.tolist()):
        document, index = places[row]
        mention = document.mentions[index]
        label = chosen.get((document.id, mention.start))
        # Where labels of one name in one document differ, they stand for themselves only.
        is_free = label is None and len(said.get((document.id, mention.surface), ())) != 1
        p, linked = float(scores.probability[n]), bool(scores.odds[n] > 0)
        result.append(ScoredMention(document, index, p, linked, rivals[n], label, is_free))
    return result


def _rivals(scores: PackScores, kb: KnowledgeBase) -> list[str]:
    known = scores.scores[:, :-1]
    if not known.shape[1]:
        return [""] * len(known)
    best = np.take_along_axis(scores.candidates, known.argmax(axis=1)[:, None], axis=1)[:, 0]
    best = np.where(scores.none > 0.5, -1, best)
    titles = dict(zip(best[best >= 0].tolist(), kb.titles(best[best >= 0]), strict=True))
    return [titles.get(entity, "") for entity in best.tolist()]


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
    reader = remembering(encoder_for(after.encoder, trained.adapter), workspace.encodings_path)
    was, now = (
        {
            (seen.document.id, seen.document.mentions[seen.index].start): seen
            for seen in score_corpus(pack, corpus, (), kb, trained, reader)
        }
        for pack in (before, after)
    )
    had, has = ({place for place in some if some[place].linked} for some in (was, now))
    places = dict.fromkeys([*was, *now])
    gained = [now[place] for place in places if place in has - had]
    lost = [was[place] for place in places if place in had - has]
    old, new = (
        dict(zip(p.entity.aliases, p.priors.tolist(), strict=True)) for p in (before, after)
    )
    return PackChange(
        n_mentions=len(places),
        n_before=len(had),
        n_after=len(has),
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
    before, now = (load_comparable(v.path, kb, trained) for v in versions[place - 1 : place + 1])
    if before is None or now is None:
        return None
    return versions[place - 1].number, compare_packs(workspace, before, now, kb, trained)


def load_comparable(path: Path, kb: KnowledgeBase, trained: TrainedModel) -> EntityPack | None:
    """Load a pack if it is there and can be compared with another."""
    try:
        return EntityPack.load(path, kb, trained)
    except (PackError, ArtifactMismatchError):
        return None


def _lines(seen: Sequence[ScoredMention]) -> tuple[str, ...]:
    lines = []
    for one in seen[:MAX_SHOWN]:
        document, mention = one.document, one.document.mentions[one.index]
        around = document.text[max(mention.start - _AROUND, 0) : mention.end + _AROUND]
        lines.append(f"{document.id}: …{printable(' '.join(around.split()))}…")
    return tuple(lines)


NOTHING = "(not linked before)"
N_LOST_SHOWN = 3
"""Lost mentions to show for each entity."""
LOST_WIDTH = 70
"""Characters shown on each side of a mention."""


@dataclass
class Loss:
    """What one known entity loses."""

    entity: str
    n_before: int = 0
    """Mentions with a name of the new entity that were linked to it."""
    n_lost: int = 0
    """Those that now mean the new entity."""
    n_unlinked: int = 0
    """Those that now mean nothing known: the labels said so of mentions like them."""
    examples: list[Snippet] = field(default_factory=list)
    """Some of the mentions that now mean the new entity."""


@dataclass(frozen=True)
class Collisions:
    """What a pack changes in a set of documents."""

    n_documents: int
    n_mentions: int
    """All mentions that were linked or could have been."""
    n_named: int
    """Mentions with a name of the new entity."""
    n_taken: int
    """Those that now mean the new entity."""
    n_unlinked: int
    """Those that meant a known entity and now mean nothing known."""
    n_elsewhere: int
    """Other mentions whose link changed; packs leave them alone, so this is 0."""
    losses: tuple[Loss, ...]
    """The entities that lose most first."""


def find_collisions(
    linker: Linker,
    pack: EntityPack,
    documents: Iterable[Document],
    *,
    encoder: TextEncoder | None = None,
) -> Collisions:
    """Link documents without and with a pack and count what changes.

    Args:
        linker: The linker without the pack.
        pack: The new entity.
        documents: The reference corpus; mentions that documents bring are linked as given.
        encoder: May remember what it read; see `score_pack`.
    """
    packed = Linker(linker.kb, linker.trained, [pack], settings=linker.settings, encoder=encoder)
    names, new = frozenset(pack.entity.aliases), pack.entity.id
    loss_by_entity: dict[str, Loss] = {}
    counts = dict.fromkeys(("documents", "mentions", "named", "elsewhere"), 0)
    for document in packed.link_documents(documents):
        counts["documents"] += 1
        counts["mentions"] += len(document.mentions)
        for m in document.mentions:
            before = m.without_packs if m.in_pack else m.entity
            if m.surface not in names:
                counts["elsewhere"] += m.entity != before
                continue
            counts["named"] += 1
            title = before or NOTHING
            loss = loss_by_entity.setdefault(title, Loss(title))
            loss.n_before += 1
            loss.n_unlinked += before is not None and m.entity is None
            if m.entity == new:
                loss.n_lost += 1
                if len(loss.examples) < N_LOST_SHOWN:
                    loss.examples.append(cut_context(document.text, m.start, m.end, LOST_WIDTH))
    losses = sorted(
        loss_by_entity.values(), key=lambda loss: (-loss.n_lost, -loss.n_unlinked, loss.entity)
    )
    return Collisions(
        n_documents=counts["documents"],
        n_mentions=counts["mentions"],
        n_named=counts["named"],
        n_taken=sum(loss.n_lost for loss in losses),
        n_unlinked=sum(loss.n_unlinked for loss in losses),
        n_elsewhere=counts["elsewhere"],
        losses=tuple(losses),
    )
