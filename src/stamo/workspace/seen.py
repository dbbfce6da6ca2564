"""The candidate mentions of collected documents as a pack sees them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stamo.corpus.types import Corpus, Document
from stamo.features.encoding import Lexicon, flatten
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.learning.learn import entity_numbers
from stamo.linking.packed import PackScores, score_pack
from stamo.models.store import TrainedModel
from stamo.packs.pack import EntityPack
from stamo.workspace.labels.events import EMERGING_CHOICE, SKIP, LabelEvent


@dataclass(frozen=True)
class SeenMention:
    """One candidate mention of the pile as the pack sees it."""

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
) -> list[SeenMention]:
    """Score every candidate mention of collected documents with a pack; see `score_pack`."""
    bare = corpus.with_labels({})
    flat = flatten(bare, Lexicon.of(kb), entity_numbers([pack.entity], bare, kb))
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
        result.append(SeenMention(document, index, p, linked, rivals[n], label, is_free))
    return result


def _rivals(scores: PackScores, kb: KnowledgeBase) -> list[str]:
    known = scores.scores[:, :-1]
    if not known.shape[1]:
        return [""] * len(known)
    best = np.take_along_axis(scores.candidates, known.argmax(axis=1)[:, None], axis=1)[:, 0]
    best = np.where(scores.none > 0.5, -1, best)
    titles = dict(zip(best[best >= 0].tolist(), kb.titles(best[best >= 0]), strict=True))
    return [titles.get(entity, "") for entity in best.tolist()]
