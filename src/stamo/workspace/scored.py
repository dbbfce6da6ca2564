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
from stamo.features.mentions import Lexicon, flatten
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.learning.learn import entity_numbers
from stamo.linking.linker import Linker
from stamo.linking.packed import score_pack
from stamo.models.store import TrainedModel, encoder_of_pack
from stamo.packs.pack import EntityPack
from stamo.system.files import Float64
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import EMERGING_CHOICE, SKIP, LabelEvent
from stamo.workspace.wording import Snippet, cut_context, printable

MAX_SHOWN = 5
AROUND = 50


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

    def snippet(self, width: int) -> Snippet:
        """Return it in its context, with at most `width` characters on each side."""
        mention = self.document.mentions[self.index]
        return cut_context(self.document.text, mention.start, mention.end, width)


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
    if scores is None:
        return []
    places = [(document, i) for document in bare for i in range(len(document.mentions))]
    chosen = {(e.target.document, e.target.start): e.choice for e in labels if e.choice != SKIP}
    said: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in labels:
        if event.choice != SKIP and not event.only:
            said[event.target.document, event.target.surface].add(event.choice)
    known = scores.scores[:, :-1]
    best = np.full(len(known), -1)
    if known.shape[1]:
        places_of_best = known.argmax(axis=1)[:, None]
        best = np.take_along_axis(scores.candidates, places_of_best, axis=1)[:, 0]
        best = np.where(scores.none > 0.5, -1, best)
    titles = dict(zip(best[best >= 0].tolist(), kb.titles(best[best >= 0]), strict=True))
    result = []
    for n, row in enumerate(scores.rows.tolist()):
        document, index = places[row]
        mention = document.mentions[index]
        label = chosen.get((document.id, mention.start))
        # Where labels of one name in one document differ, they stand for themselves only.
        is_free = label is None and len(said.get((document.id, mention.surface), ())) != 1
        p, linked = float(scores.probability[n]), bool(scores.odds[n] > 0)
        rival = titles.get(int(best[n]), "")
        result.append(ScoredMention(document, index, p, linked, rival, label, is_free))
    return result


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
    reader = encoder_of_pack(after.encoder, trained, kb, workspace.encodings_path)
    scored = [score_corpus(pack, corpus, (), kb, trained, reader) for pack in (before, after)]
    was, now = (
        {(one.document.id, one.document.mentions[one.index].start): one for one in some}
        for some in scored
    )
    had, has = ({place for place in some if some[place].linked} for some in (was, now))
    places = dict.fromkeys([*was, *now])
    lines: list[list[str]] = []
    for some, changed in ((now, has - had), (was, had - has)):
        shown = [some[place] for place in places if place in changed][:MAX_SHOWN]
        around = ((one.document.id, "".join(one.snippet(AROUND))) for one in shown)
        lines.append([printable(f"{id}: {text}") for id, text in around])
    old, new = (
        dict(zip(p.entity.aliases, p.priors.tolist(), strict=True)) for p in (before, after)
    )
    return PackChange(
        n_mentions=len(places),
        n_before=len(had),
        n_after=len(has),
        n_gained=len(has - had),
        n_lost=len(had - has),
        gained=tuple(lines[0]),
        lost=tuple(lines[1]),
        priors={alias: (float(old.get(alias, 0.0)), float(prior)) for alias, prior in new.items()},
    )


def change_since_last(
    workspace: Workspace, kb: KnowledgeBase, trained: TrainedModel
) -> tuple[int, PackChange] | None:
    """Compare the current pack with the version before it; None where there is none to compare.

    Returns:
        The number of the version before, and what changed since.
    """
    versions = workspace.pack_versions()
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
    n_named: int
    """Mentions with a name of the new entity."""
    n_taken: int
    """Those that now mean the new entity."""
    n_unlinked: int
    """Those that meant a known entity and now mean nothing known."""
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
    n_documents = 0
    for document in packed.link_documents(documents):
        n_documents += 1
        for m in document.mentions:
            if m.surface not in names:
                continue  # packs leave it alone
            before = m.without_packs if m.in_pack else m.entity
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
        n_documents=n_documents,
        n_named=sum(loss.n_before for loss in losses),
        n_taken=sum(loss.n_lost for loss in losses),
        n_unlinked=sum(loss.n_unlinked for loss in losses),
        losses=tuple(losses),
    )


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
