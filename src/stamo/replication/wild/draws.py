"""Which judged mentions are labels, and which ones test: by lot, or as the label advisor asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from stamo.corpus.types import Corpus, LabelKey
from stamo.errors import SettingsError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.replication.suites.store import stable_hash
from stamo.replication.wild.load import LoadedWild
from stamo.system.arrays import Bools, Int64
from stamo.workspace.labels.events import EMERGING_CHOICE, NONE, LabelEvent, LabelTarget
from stamo.workspace.labels.queue import LEAST_LABELS, LabelQueue
from stamo.workspace.labels.terminal import ADVISE_EVERY

RANDOM, RANDOM_IN_HALF, ADVISOR = "random", "random in half", "advisor"
DRAWN_ONCE, WHOLE_HALF = "drawn once in half", "the whole half"
IN_HALF = (ADVISOR, RANDOM_IN_HALF, DRAWN_ONCE, WHOLE_HALF)
"""Ways to choose labels in one half of the judged mentions, tested on the other."""
LABELS_BY = (RANDOM, *IN_HALF)
LEAST_TEST = 5
"""Judged mentions that are never labels, however few there are."""


@dataclass(frozen=True)
class LabelDraw:
    """Places among the judged mentions: L, and those to test on."""

    labelled: Int64
    test: Int64


def draw_labels(
    loaded: LoadedWild, n: int, seed: int, labels_by: str, kb: KnowledgeBase, trained: TrainedModel
) -> LabelDraw:
    """Choose labels and test mentions.

    `random` labels are drawn from all judged mentions, and the others test. All others choose in
    one half of the judged mentions and test on the other half: as the advisor asks, by lot until
    both kinds are there, by lot once (who labels cannot draw again), or everything there is.
    """
    if labels_by not in LABELS_BY:
        raise SettingsError(
            f"Labels are given by {labels_by!r}; choose one of: {', '.join(LABELS_BY)}."
        )
    rng = np.random.default_rng([seed, stable_hash(loaded.problem.title, 2**32)])
    everything = np.arange(len(loaded.gold))
    if labels_by == RANDOM:
        n = max(0, min(n, len(everything) - LEAST_TEST))
        chosen = draw_both_kinds(loaded.gold, everything, n, rng)
        return LabelDraw(chosen, np.setdiff1d(everything, chosen))
    half = choose_half(loaded.gold, rng)
    choose: dict[str, Callable[[], Int64]] = {
        ADVISOR: lambda: np.array([*ask_advisor(loaded, half, n, kb, trained)], dtype=np.int64),
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


def ask_advisor(
    loaded: LoadedWild, among: Int64, n: int, kb: KnowledgeBase, trained: TrainedModel
) -> Iterator[int]:
    """Yield the places that the advisor asks for, each answered by what was judged.

    It sees the documents of these places only, and is asked again as often as in the terminal.
    """
    problem, pile = loaded.problem, loaded.pile
    documents = {document.id: document for document in loaded.corpus}
    shown = dict.fromkeys(problem.judged[i].document for i in among.tolist())
    corpus = Corpus(tuple(documents[d] for d in shown))
    queue = LabelQueue(pile.entities[0], corpus, kb, trained, pile.encoder)
    answers: dict[tuple[str, str], int] = {}
    for i in among.tolist():
        judged = problem.judged[i]
        surface = documents[judged.document].mentions[judged.mention].surface
        answers[judged.document, surface] = i
    events: list[LabelEvent] = []
    given: set[int] = set()
    while len(events) < n:
        step = LEAST_LABELS if len(events) < LEAST_LABELS else ADVISE_EVERY
        fresh: dict[int, LabelKey] = {}
        for key in queue.order(events):
            place = answers.get((key[0], queue.corpus_mention(key).surface))
            if place is not None and place not in given:
                fresh.setdefault(place, key)
        if not fresh:
            return
        for place, key in list(fresh.items())[: min(step, n - len(events))]:
            given.add(place)
            events.append(_event(key, queue, len(events), is_entity=bool(loaded.gold[place])))
            yield place


def _event(key: LabelKey, queue: LabelQueue, number: int, *, is_entity: bool) -> LabelEvent:
    target = LabelTarget.of(*key, queue.corpus_mention(key))
    at = datetime.fromtimestamp(number, UTC)
    return LabelEvent(
        f"judged:{number}", "judged", at, target, EMERGING_CHOICE if is_entity else NONE
    )
