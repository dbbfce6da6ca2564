"""The label advisor: which mention to ask next, and when more labels stop helping.

The first questions are the ones that stand for most of the pile: each covers the mentions that are
like it, and the next one covers what is still far from all before (greedy facility location). From
the sixth label on, mentions count by how unsure the current posterior is about them. A real new
entity is rare under its name: as long as fewer than three labels are the entity, every other
question counts mentions by how probable it is there, which a line about the entity, or what stands
in brackets behind its name, tells before the first label. Only every other one: labels that are
nearly all the entity say nothing of the rest.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

import numpy as np

from stamo.corpus.types import Corpus, EmergingEntity, LabelKey, Mention
from stamo.features.base import Rows
from stamo.features.encoder import INSTALLED, encoder_of, remembering
from stamo.features.pile import Pile, TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.learning.default import DefaultArgs, learn_default, products
from stamo.learning.learn import CLOSED_FORM, encode_pile
from stamo.models.correction import VIEWS
from stamo.models.store import TrainedModel
from stamo.system.files import Float64, Int64
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import EMERGING_CHOICE, SKIP, LabelEvent

LEAST_POSITIVE = 3
"""Until so many labels are the entity, every other question is one that probably is it."""
LEAST_LABELS = 6
"""From here on there is a posterior worth asking."""
N_AHEAD = 10
"""Questions chosen before the advisor is asked again."""
MAX_COVERED = 1500
"""Mentions that questions should stand for; of a larger pile, a sample."""
OTHER_NAME = 0.5
"""How much a mention stands for mentions of another alias."""
LEAST_CHANGE = 0.02
"""When the last labels changed less than this share of the pile, more hardly help."""
N_LAST = 5


def choose_documents(
    pile: Pile,
    views: Sequence[Rows],
    n: int,
    rng: np.random.Generator,
    *,
    chosen: Int64 | None = None,
    weight: Float64 | None = None,
) -> Int64:
    """Choose the mentions whose labels teach most, one for each document.

    Args:
        pile: The candidate mentions.
        views: The rows of their views.
        n: How many to choose; fewer where there are fewer documents.
        rng: Draws the mentions to stand for where the pile is large.
        chosen: Mentions that are labelled already; their documents are not asked again.
        weight: How much each mention matters, such as how unsure its posterior is, (M,).

    Returns:
        Rows of the pile, the most telling first.
    """
    if not len(pile):
        return np.zeros(0, dtype=np.int64)
    asked, _, _ = pile.votes  # the first mention of each name in each document
    covered = asked
    if len(covered) > MAX_COVERED:
        covered = np.sort(rng.choice(covered, MAX_COVERED, replace=False))
    matters = np.ones(len(covered)) if weight is None else weight[covered]
    alike = _similarity(pile, views, asked, covered)  # (asked, covered)
    best = np.zeros(len(covered))
    documents = pile.mentions.documents
    free = np.ones(len(asked), dtype=bool)
    if chosen is not None and len(chosen):
        best = _similarity(pile, views, chosen, covered).max(axis=0)
        free = ~np.isin(documents[asked], documents[chosen])
    # Rare names are asked too: each gets its share of questions by the root of its frequency.
    names, n_names = pile.alias[asked], int(pile.alias.max(initial=0)) + 1
    share = np.sqrt(np.bincount(names, minlength=n_names))
    share /= share.sum()
    known = pile.alias[:0] if chosen is None else pile.alias[chosen]
    given = np.bincount(known, minlength=n_names).astype(np.float64)
    rows: list[int] = []
    while len(rows) < n and free.any():
        gain = np.maximum(alike - best, 0.0) @ matters
        # A name that is a whole question behind comes first.
        late = free & ((share * (given.sum() + 1) - given)[names] >= 1.0)
        place = int(np.where(late if late.any() else free, gain, -1.0).argmax())
        rows.append(int(asked[place]))
        given[names[place]] += 1
        best = np.maximum(best, alike[place])
        free &= documents[asked] != documents[asked[place]]
    return np.array(rows, dtype=np.int64)


def _similarity(pile: Pile, views: Sequence[Rows], a: Int64, b: Int64) -> Float64:
    filled = [rows for rows in views if rows.shape[1]]
    total = sum(products(rows[a], rows[b]) for rows in filled)
    like_name = np.where(pile.alias[a][:, None] == pile.alias[b], 1.0, OTHER_NAME)
    return np.asarray(np.maximum(total, 0.0) * like_name / max(len(filled), 1))


@dataclass(frozen=True)
class Advice:
    """Whether more labels help."""

    changed: float | None
    """Share of the pile whose answer the last labels changed; None while there are too few."""
    enough: bool
    text: str


class LabelQueue:
    """Orders the candidate mentions of one workspace; its documents are encoded once."""

    def __init__(
        self,
        entity: EmergingEntity,
        corpus: Corpus,
        kb: KnowledgeBase,
        trained: TrainedModel,
        encoder: TextEncoder | None = None,
    ) -> None:
        self.entity, self.corpus, self._trained = entity, corpus, trained
        self.pile = encode_pile([entity], corpus.with_labels({}), kb, trained, encoder=encoder)
        self.views = [self.pile.rows(view) for view in VIEWS]
        self.keys: list[LabelKey] = [
            (document.id, index)
            for document in corpus
            for index, mention in enumerate(document.mentions)
            if mention.surface in entity.aliases
        ]
        self.documents = {document.id: document for document in corpus}
        mentions = map(self.corpus_mention, self.keys)
        self._row_by_place = {  # indices of mentions may change when collected anew
            (id, mention.start, mention.end): row
            for row, ((id, _), mention) in enumerate(zip(self.keys, mentions, strict=True))
        }

    def corpus_mention(self, key: LabelKey) -> Mention:
        """Return the mention that a key names."""
        return self.documents[key[0]].mentions[key[1]]

    def order(self, events: Sequence[LabelEvent], n: int = N_AHEAD) -> list[LabelKey]:
        """Return all mentions that nobody has decided on, those that teach most first.

        Behind the first `n`, each document is asked once before any is asked again.
        """
        decided = np.array(sorted(self._decided(events)), dtype=np.int64)
        keys = [self.keys[row] for row in self._first(self._labelled(events), decided, n)]
        taken = {*keys, *(self.keys[row] for row in decided.tolist())}
        return [*keys, *(key for key in one_per_document(self.keys) if key not in taken)]

    def _first(self, pile: Pile | None, decided: Int64, n: int) -> list[int]:
        """Return the rows to ask first; where several wishes compete, they take turns."""
        rng, wishes = np.random.default_rng(0), self._wanted(pile)
        turns: list[list[int]] = []
        share = -(-n // len(wishes))
        for weight in wishes:
            asked = np.array([*decided, *chain.from_iterable(turns)], dtype=np.int64)
            rows = choose_documents(self.pile, self.views, share, rng, chosen=asked, weight=weight)
            turns.append(rows.tolist())
        return [row for turn in zip_longest(*turns) for row in turn if row is not None][:n]

    def _wanted(self, pile: Pile | None) -> list[Float64 | None]:
        """Return how much each mention is worth asking, by each wish; None where nothing tells."""
        enough = pile is not None and int(pile.labelled.sum()) >= LEAST_LABELS
        if pile is None or not (enough or self.entity.line):
            return [None]
        p = self._posterior(pile)
        unsure = np.asarray(4 * p * (1 - p) + 0.1)
        if self._n_positive(pile) < LEAST_POSITIVE:
            return [np.asarray(p + 0.02), unsure]
        return [unsure]

    def _n_positive(self, pile: Pile) -> int:
        _, vote, _ = self.pile.votes
        return len(np.unique(vote[pile.labels[:, 0] > 0.5]))

    def advise(self, events: Sequence[LabelEvent]) -> Advice:
        """Tell whether more labels help, by what the last ones changed."""
        ordered = sorted(events, key=lambda event: event.at)
        now = self._labelled(ordered)
        n = 0 if now is None else int(now.labelled.sum())
        before = self._labelled(ordered[:-N_LAST])
        if now is None or before is None or int(before.labelled.sum()) < LEAST_LABELS:
            return Advice(None, False, f"{n} labels so far; more will help.")
        rest = ~now.labelled
        positive = self._n_positive(now)
        if not positive and rest.any():
            expected = float(self._posterior(now)[rest].sum())
            text = f"None of {n} labels is {self.entity.id!r}, and about {expected:.0f} more are "
            return Advice(None, False, text + "expected here: the documents hardly mention it.")
        if not rest.any():
            return Advice(0.0, True, "All candidate mentions are labelled.")
        moved = (self._posterior(now) > 0.5) != (self._posterior(before) > 0.5)
        changed = float(moved[rest].mean())
        enough = changed < LEAST_CHANGE
        text = f"The last {N_LAST} labels changed {changed:.1%} of the answers"
        text += ": enough for now." if enough else "; more will help."
        return Advice(changed, enough, text)

    def _decided(self, events: Sequence[LabelEvent]) -> dict[int, str]:
        """Return the choice for each row of the pile that has one."""
        targets = ((event.target, event.choice) for event in events)
        found = (
            (self._row_by_place.get((target.document, target.start, target.end)), choice)
            for target, choice in targets
        )
        return {row: choice for row, choice in found if row is not None}

    def _labelled(self, events: Sequence[LabelEvent]) -> Pile | None:
        """Return the pile with some labels; None where no label is the entity."""
        labels = np.zeros((len(self.pile), 1), dtype=np.float32)
        labelled = np.zeros(len(self.pile), dtype=bool)
        for row, choice in self._decided(events).items():
            labelled[row] = choice != SKIP
            labels[row, 0] = choice in (EMERGING_CHOICE, self.entity.id)
        if not labels.any() and not self.entity.line:
            return None
        return replace(self.pile, labels=labels, labelled=labelled)

    def _posterior(self, pile: Pile) -> Float64:
        learned = learn_default(
            pile,
            self._trained.model,
            CLOSED_FORM,
            DefaultArgs(n_slots=1, choose=False),
            temperature=self._trained.calibration.temperature,
        )
        return learned.posterior[:, 0].astype(np.float64)


def open_queue(
    workspace: Workspace, corpus: Corpus, kb: KnowledgeBase, trained: TrainedModel
) -> LabelQueue:
    """Return the queue of a workspace, by the installed encoder where there is one."""
    reader = remembering(encoder_of(INSTALLED, trained.adapter), workspace.encodings_path)
    queue = LabelQueue(workspace.entity, corpus, kb, trained, reader)
    if reader is not None:
        reader.save()
    return queue


def one_per_document(keys: Iterable[LabelKey]) -> list[LabelKey]:
    """Order mentions so that each document is asked once before any is asked again.

    Documents come in the order of a hash: neighbours in a crawl are often alike.
    """
    n_seen: Counter[str] = Counter()
    ranked: list[tuple[int, bytes, LabelKey]] = []
    for key in keys:
        ranked.append((n_seen[key[0]], hashlib.sha256(key[0].encode()).digest(), key))
        n_seen[key[0]] += 1
    return [key for _, _, key in sorted(ranked)]
