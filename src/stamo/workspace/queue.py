"""The label advisor: which mention to ask next, and when more labels stop helping.

Which mention comes first depends on every answer so far. While a person reads, the queue works out
what would come first after each answer that they may give, so that nobody waits for it. On wish it
asks for mentions that probably are the entity, or for those of which it is least sure.

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
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from itertools import chain, zip_longest

import numpy as np

from stamo.corpus.types import Corpus, EmergingEntity, LabelKey
from stamo.features.base import Rows
from stamo.features.encoder import CachedEncoder
from stamo.features.pile import Pile, TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.learning.default import DefaultArgs, learn_default, products
from stamo.learning.learn import CLOSED_FORM, encode_pile
from stamo.models.correction import VIEWS
from stamo.models.store import TrainedModel, open_encoder
from stamo.system.files import Closing, Float64, Int64
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import EMERGING_CHOICE, NONE, SKIP, LabelEvent, LabelTarget
from stamo.workspace.verdict import Ask, Outlook

LEAST_POSITIVE = 3
"""Until so many labels are the entity, every other question is one that probably is it."""
LEAST_LABELS = 6
"""From here on there is a posterior worth asking."""
N_AHEAD = 10
"""Questions of which the advisor says which come first."""
MAX_COVERED = 1500
"""Mentions that questions should stand for; of a larger pile, a sample."""
OTHER_NAME = 0.5
"""How much a mention stands for mentions of another alias."""
N_LAST = 5
"""Labels of which the advisor says what they changed."""
N_KEPT = 32
"""Posteriors that are kept: those of the last labels, and of the answers that may come next."""

Decided = frozenset[tuple[int, str]]
"""Rows of the pile that somebody decided on, each with `@emerging`, `@none` for anything else, or
`@skip`."""


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
        alike = _similarity(pile, views, asked, covered)  # (asked, covered)
    else:  # the same for every question
        if "alike" not in pile.kept:
            pile.kept["alike"] = _similarity(pile, views, asked, covered)
        alike = pile.kept["alike"]
    matters = np.ones(len(covered)) if weight is None else weight[covered]
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


class LabelQueue(Closing):
    """Orders the candidate mentions of one workspace; its documents are encoded once."""

    def __init__(
        self,
        entity: EmergingEntity,
        corpus: Corpus,
        kb: KnowledgeBase,
        trained: TrainedModel,
        encoder: TextEncoder | None = None,
    ) -> None:
        self.entity, self._trained = entity, trained
        self.pile = encode_pile([entity], corpus.with_labels({}), kb, trained, encoder=encoder)
        self.views = [self.pile.rows(view) for view in VIEWS]
        self.targets: dict[LabelKey, LabelTarget] = {}
        """The candidate mentions by document and index, in the order of the pile."""
        for document in corpus:
            for index, mention in enumerate(document.mentions):
                if mention.surface in entity.aliases:
                    target = LabelTarget.of(document.id, index, mention)
                    self.targets[document.id, index] = target
        self.keys = list(self.targets)
        self._row_by_place = {t.place: row for row, t in enumerate(self.targets.values())}
        # Documents come in the order of a hash: neighbours in a crawl are often alike.
        n_asked: Counter[str] = Counter()
        turns: list[tuple[int, bytes, int]] = []
        for row, (name, _) in enumerate(self.keys):
            turns.append((n_asked[name], hashlib.sha256(name.encode()).digest(), row))
            n_asked[name] += 1
        self._in_turn = np.array([row for *_, row in sorted(turns)], dtype=np.int64)
        self._posterior_by = lru_cache(N_KEPT)(self._posterior)
        self._ranked_by = lru_cache(N_KEPT)(self._rank)
        self._lock = threading.RLock()
        self._ahead: list[Future[Int64]] = []
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="stamo-queue")

    def close(self) -> None:
        """Stop looking ahead."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def order(self, events: Sequence[LabelEvent], ask: Ask = "") -> list[LabelKey]:
        """Return all mentions that nobody has decided on, the one to ask now first.

        Where the labels of a name in a document differ, or hold for one mention only, its other
        mentions come before all else.

        Args:
            events: What is labelled as what now.
            ask: What is wished for; without any posterior yet, what teaches most.
        """
        keys = [self.keys[row] for row in self._ranked(self._decided(events), ask).tolist()]
        apart = asked_apart(events)
        return sorted(keys, key=lambda key: self.targets[key].name not in apart) if apart else keys

    def look_ahead(self, events: Sequence[LabelEvent], key: LabelKey, ask: Ask = "") -> None:
        """Begin to work out, in the background, what comes first after any answer to a mention."""
        decided, row = self._decided(events), self._row_by_place[self.targets[key].place]
        for future in self._ahead:
            future.cancel()
        self._ahead = [
            self._pool.submit(self._ranked, decided | {(row, choice)}, ask)
            for choice in (NONE, EMERGING_CHOICE, SKIP)
        ]

    def outlook(self, events: Sequence[LabelEvent]) -> Outlook | None:
        """Tell what the last labels changed, and what is expected of the rest of the pile."""
        ordered = sorted(events, key=lambda event: event.at)
        now, before = (self._labelled(self._decided(e)) for e in (ordered, ordered[:-N_LAST]))
        if now is None or before is None or len(before) < LEAST_LABELS:
            return None
        free = np.ones(len(self.pile), dtype=bool)
        free[[row for row, _ in now]] = False
        if not free.any():
            return None
        with self._lock:
            p, was = self._posterior_by(now)[free], self._posterior_by(before)[free]
        return Outlook(float(((p > 0.5) != (was > 0.5)).mean()), float(p.sum()), N_LAST)

    def _decided(self, events: Iterable[LabelEvent]) -> Decided:
        short = {EMERGING_CHOICE: EMERGING_CHOICE, self.entity.id: EMERGING_CHOICE, SKIP: SKIP}
        rows = ((self._row_by_place.get(e.target.place), e.choice) for e in events)
        return frozenset((row, short.get(choice, NONE)) for row, choice in rows if row is not None)

    def _labelled(self, decided: Decided) -> Decided | None:
        """Return what is no skip; None where nothing tells of the entity."""
        labels = frozenset((row, choice) for row, choice in decided if choice != SKIP)
        is_told = self.entity.line or any(choice == EMERGING_CHOICE for _, choice in labels)
        return labels if is_told else None

    def _ranked(self, decided: Decided, ask: Ask) -> Int64:
        with self._lock:  # who comes while it is worked out waits for it
            return self._ranked_by(decided, ask)

    def _rank(self, decided: Decided, ask: Ask) -> Int64:
        """Order the rows that nobody has decided on.

        Behind the first `N_AHEAD`, each document is asked once before any is asked again.
        """
        labels, rows = self._labelled(decided), np.array(sorted(row for row, _ in decided), int)
        enough = labels is not None and (len(labels) >= LEAST_LABELS or bool(self.entity.line))
        p = self._posterior_by(labels) if labels is not None and (enough or ask) else None
        if ask and p is not None:
            # One mention for each name in a document first, as one label speaks for all.
            again = np.ones(len(p), dtype=bool)
            again[self.pile.votes[0]] = False
            worth = p if ask == "probable" else -np.abs(p - 0.5)
            order = np.lexsort((np.arange(len(p)), -worth, again))
            return order[~np.isin(order, rows)]
        wishes: list[Float64 | None] = [None]
        if p is not None:
            wishes = [np.asarray(4 * p * (1 - p) + 0.1)]
            positive = [row for row, choice in labels or () if choice == EMERGING_CHOICE]
            if len(np.unique(self.pile.votes[1][positive])) < LEAST_POSITIVE:
                wishes.insert(0, np.asarray(p + 0.02))
        rng = np.random.default_rng(0)
        turns: list[list[int]] = []  # where several wishes compete, they take turns
        for weight in wishes:
            asked = np.array([*rows, *chain.from_iterable(turns)], dtype=np.int64)
            n = -(-N_AHEAD // len(wishes))
            found = choose_documents(self.pile, self.views, n, rng, chosen=asked, weight=weight)
            turns.append(found.tolist())
        first = [row for turn in zip_longest(*turns) for row in turn if row is not None][:N_AHEAD]
        later = self._in_turn[~np.isin(self._in_turn, [*first, *rows.tolist()])]
        return np.array([*first, *later.tolist()], dtype=np.int64)

    def _posterior(self, labels: Decided) -> Float64:
        """Return the probability that each mention means the entity, (M,)."""
        given = np.zeros((len(self.pile), 1), dtype=np.float32)
        labelled = np.zeros(len(self.pile), dtype=bool)
        for row, choice in labels:
            labelled[row], given[row, 0] = True, choice == EMERGING_CHOICE
        learned = learn_default(
            replace(self.pile, labels=given, labelled=labelled),
            self._trained.model,
            CLOSED_FORM,
            DefaultArgs(n_slots=0, weights=self._trained.weights),
            temperature=self._trained.calibration.temperature,
        )
        return learned.posterior[:, 0].astype(np.float64)


def asked_apart(events: Iterable[LabelEvent]) -> set[tuple[str, str]]:
    """Return the names, with their documents, of which no label speaks for all mentions.

    Their labels differ, or each holds for its mention only.
    """
    said: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in events:
        if event.choice != SKIP:
            said[event.target.name].update(() if event.only else (event.choice,))
    return {name for name, choices in said.items() if len(choices) != 1}


def open_queue(
    workspace: Workspace, corpus: Corpus, kb: KnowledgeBase, trained: TrainedModel
) -> LabelQueue:
    """Return the queue of a workspace, by the installed encoder where there is one."""
    reader = open_encoder(trained, kb, path=workspace.encodings_path)
    queue = LabelQueue(workspace.entity, corpus, kb, trained, reader)
    if isinstance(reader, CachedEncoder):
        reader.save()
    return queue
