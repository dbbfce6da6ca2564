"""A problem of real text as arrays: its pile encoded once, its judged mentions, labels and tests.

Which judged mentions are labels, and which ones test, is drawn by lot or as the label advisor asks.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

import numpy as np

from stamo.corpus.types import Corpus, Document, LabelKey, Mention
from stamo.features.mentions import EMERGING, OTHER, UNKNOWN
from stamo.features.pile import Pile, TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.learning.learn import encode_pile
from stamo.models.store import TrainedModel
from stamo.system.files import Bools, Int32, Int64
from stamo.workspace.labels import EMERGING_CHOICE, NONE, LabelEvent
from stamo.workspace.queue import LEAST_LABELS, LabelQueue
from stamo_lab.suites.store import stable_hash
from stamo_lab.wild.suite import WildProblem, WildSuite

_END_OF_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])|\n+")
CHARACTERS_BESIDE = 400
"""Of each sentence on either side: a table has no full stops."""


RANDOM, RANDOM_IN_HALF, ADVISOR = "random", "random in half", "advisor"
DRAWN_ONCE, WHOLE_HALF = "drawn once in half", "the whole half"
IN_HALF = (ADVISOR, RANDOM_IN_HALF, DRAWN_ONCE, WHOLE_HALF)
"""Ways to choose labels in one half of the judged mentions, tested on the other."""
LABELS_BY = (RANDOM, *IN_HALF)
ANSWERS_AT_ONCE = 2
"""Answers after which the advisor is asked again; it takes a posterior each time."""
_CHOICES = {True: EMERGING_CHOICE, False: NONE}
LEAST_TEST = 5
"""Judged mentions that are never labels, however few there are."""


@dataclass(frozen=True)
class LoadedWild:
    """The pile of one problem, without any label, and what was judged of its pile."""

    problem: WildProblem
    corpus: Corpus
    pile: Pile
    rows: Int64  # (n,) mention of the pile that was judged
    gold: Bools  # (n,) whether it means the entity
    senses: Int32  # (n,) the emerging entity, a known candidate, or neither
    trained: TrainedModel

    def label(self, chosen: Int64) -> Pile:
        """Return the pile with some of the judged mentions labelled, and all that share their vote.

        Args:
            chosen: Places among the judged mentions.
        """
        gold = np.full(len(self.pile), UNKNOWN, dtype=np.int32)
        gold[self.rows[chosen]] = self.senses[chosen]
        return self.pile.labelled_as(gold)

    @cached_property
    def places(self) -> list[tuple[Document, Mention]]:
        """The document and the mention of each place that was judged."""
        documents = {document.id: document for document in self.corpus}
        found = [(documents[j.document], j.mention) for j in self.problem.judged]
        return [(document, document.mentions[mention]) for document, mention in found]

    def windows(self, n_beside: int) -> list[str]:
        """Return the sentence of each judged mention, with some sentences on each side."""
        return [sentence_window(d.text, m.start, m.end, n_beside) for d, m in self.places]


def load_wild(
    suite: WildSuite,
    number: int,
    kb: KnowledgeBase,
    encoder: TextEncoder | None = None,
    *,
    description: bool = True,
) -> LoadedWild:
    """Read and encode the pile of one problem, with or without the description of its entity."""
    problem, corpus = suite.problems[number], suite.corpus(number)
    entity = problem.entity if description else replace(problem.entity, description="")
    pile = encode_pile([entity], corpus, kb, suite.trained, encoder=encoder)
    asked = (
        (document.id, index)
        for document in corpus
        for index, mention in enumerate(document.mentions)
        if mention.surface in problem.aliases
    )
    row_by_key = {key: row for row, key in enumerate(asked)}
    rows = np.array([row_by_key[j.document, j.mention] for j in problem.judged], dtype=np.int64)
    gold = np.array([j.is_entity for j in problem.judged], dtype=bool)
    named = kb.entity_ids([j.sense for j in problem.judged])
    known = (pile.mentions.candidates[rows] == named[:, None]).any(axis=1) & (named >= 0)
    senses = np.where(gold, EMERGING, np.where(known, named, OTHER)).astype(np.int32)
    return LoadedWild(problem, corpus, pile, rows, gold, senses, suite.trained)


def sentence_window(text: str, start: int, end: int, n_beside: int = 1) -> str:
    """Return the sentence of a mention, with some sentences on each side."""
    most = CHARACTERS_BESIDE * (n_beside + 1)
    first, last = max(0, start - 2 * most), min(len(text), end + 2 * most)
    ends = (match.end() + first for match in _END_OF_SENTENCE.finditer(text[first:last]))
    cuts = [first, *ends, last]
    low = cuts[max(0, bisect_right(cuts, start) - 1 - n_beside)]
    high = cuts[min(len(cuts) - 1, bisect_left(cuts, end) + n_beside)]
    return text[max(low, start - most) : min(high, end + most)].strip()


@dataclass(frozen=True)
class LabelDraw:
    """Places among the judged mentions: L, and those to test on."""

    labelled: Int64
    test: Int64


def draw_labels(loaded: LoadedWild, n: int, seed: int, labels_by: str) -> LabelDraw:
    """Choose labels and test mentions.

    `random` labels are drawn from all judged mentions, and the others test. All others choose in
    one half of the judged mentions and test on the other half: as the advisor asks, by lot until
    both kinds are there, by lot once (who labels cannot draw again), or everything there is.
    """
    rng = np.random.default_rng([seed, stable_hash(loaded.problem.title, 2**32)])
    everything = np.arange(len(loaded.gold))
    if labels_by == RANDOM:
        n = max(0, min(n, len(everything) - LEAST_TEST))
        chosen = draw_both_kinds(loaded.gold, everything, n, rng)
        return LabelDraw(chosen, np.setdiff1d(everything, chosen))
    half = choose_half(loaded.gold, rng)
    choose: dict[str, Callable[[], Int64]] = {
        ADVISOR: lambda: np.array([*ask_advisor(loaded, half, n)], dtype=np.int64),
        RANDOM_IN_HALF: lambda: draw_both_kinds(loaded.gold, half, min(n, len(half)), rng),
        DRAWN_ONCE: lambda: rng.permutation(half)[:n],
        WHOLE_HALF: lambda: half,
    }
    return LabelDraw(choose[labels_by](), np.setdiff1d(everything, half))


def draw_both_kinds(gold: Bools, among: Int64, n: int, rng: np.random.Generator) -> Int64:
    """Draw n places, anew until both kinds are there, as far as there are both and room for both.

    A user would not stop labelling before having seen one mention of each kind either.
    """
    kinds = min(len(np.unique(gold[among])), n)
    while True:
        chosen = rng.permutation(among)[:n]
        if len(np.unique(gold[chosen])) >= kinds:
            return np.asarray(chosen, dtype=np.int64)


def choose_half(gold: Bools, rng: np.random.Generator) -> Int64:
    """Choose half of the places of each kind; of an odd number the larger half."""
    kinds = [rng.permutation(np.flatnonzero(gold == kind)) for kind in (True, False)]
    return np.sort(np.concatenate([places[: (len(places) + 1) // 2] for places in kinds]))


def ask_advisor(loaded: LoadedWild, among: Int64, n: int) -> Iterator[int]:
    """Yield the places that the advisor asks for, each answered by what was judged.

    It sees the documents of these places only.
    """
    places = {i: loaded.places[i] for i in among.tolist()}
    shown = {document.id: document for document, _ in places.values()}
    answers = {(document.id, mention.surface): i for i, (document, mention) in places.items()}
    pile, corpus = loaded.pile, Corpus(tuple(shown.values()))
    queue = LabelQueue(pile.entities[0], corpus, pile.kb, loaded.trained, pile.encoder)
    events: list[LabelEvent] = []
    given: set[int] = set()
    while len(events) < n:
        step = LEAST_LABELS if len(events) < LEAST_LABELS else ANSWERS_AT_ONCE
        fresh: dict[int, LabelKey] = {}
        for key in queue.order(events):
            place = answers.get((key[0], queue.targets[key].surface))
            if place is not None and place not in given:
                fresh.setdefault(place, key)
        if not fresh:
            return
        for place, key in list(fresh.items())[: min(step, n - len(events))]:
            given.add(place)
            number, choice = len(events), _CHOICES[bool(loaded.gold[place])]
            at = datetime.fromtimestamp(number, UTC)
            target = queue.targets[key]
            events.append(LabelEvent(f"judged:{number}", "judged", at, target, choice))
            yield place
