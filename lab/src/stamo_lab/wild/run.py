"""Run methods on real new entities: on all cores, deterministic, and resumable.

A method turns labels and a pile into a probability of each judged mention.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from scipy.special import expit, logit

from stamo.errors import LearningError, SettingsError
from stamo.features.mentions import OTHER
from stamo.features.pile import Pile
from stamo.kb.base import KnowledgeBase
from stamo.learning.algorithm1 import StamoArgs
from stamo.learning.default import DefaultArgs
from stamo.learning.learn import METHODS as LEARNING
from stamo.learning.learn import Method as LearningMethod
from stamo.models.correction import BIAS, VIEWS, margins, none_odds
from stamo.system.files import Bools, Float32, Float64
from stamo.workspace.learn import LearnSettings, cross_validate
from stamo_lab.baselines import description_probabilities, regression_probabilities
from stamo_lab.suites.cells import (
    CellSettings,
    CellWork,
    Method,
    OnProblem,
    Place,
    Row,
    check_names,
    expand_names,
    kept_encodings,
    run_cells,
)
from stamo_lab.wild.load import (
    ADVISOR,
    LABELS_BY,
    RANDOM,
    LabelDraw,
    LoadedWild,
    draw_labels,
    load_wild,
)
from stamo_lab.wild.suite import WildSuite, open_wild


@dataclass(frozen=True)
class WildTrial:
    """One problem with a draw of labels: what every method gets."""

    loaded: LoadedWild
    draw: LabelDraw
    n_slots: int = 100
    """T at most."""

    @cached_property
    def pile(self) -> Pile:
        """What learning works on."""
        return self.loaded.label(self.draw.labelled)

    def encode(self, texts: Sequence[str]) -> Float32:
        """Turn texts into vectors of unit length, (n, d)."""
        encoder = self.loaded.pile.encoder
        if encoder is None:
            raise LearningError(
                "The method reads text with a sentence encoder, and there is none; install "
                "stamo[encoder] or name a folder with --encoder."
            )
        return encoder.encode(texts)


@dataclass(frozen=True)
class WildAnswer:
    """What a method says of the judged mentions."""

    probability: Float64  # (n,)
    linked: Bools  # (n,)
    pile_helped: bool | None = None
    none: Bools | None = None
    """Which of them would be "none of these", if they are not the entity, (n,)."""
    left_out: tuple[int, int, int] | None = None
    """Of the labels, each predicted without itself: right links, links, and mentions of e*."""

    @classmethod
    def of(cls, probability: Float64, shift: float = 0.0) -> WildAnswer:
        """Link what is more likely than not, after adding a shift to the log odds."""
        with np.errstate(divide="ignore"):
            return cls(probability, logit(probability) + shift > 0)


def _learn(method: LearningMethod, trial: WildTrial) -> WildAnswer:
    """Learn by a method; the pile's own posterior answers."""
    if isinstance(method.args, StamoArgs):
        method = method.with_slots(min(method.args.n_slots, trial.n_slots))
    trained, rows = trial.loaded.trained, trial.loaded.rows
    learned = method.learn(trial.pile, trained)
    if BIAS not in learned.theta:
        # What the calibrated model says of each mention, averaged over each vote.
        temperature, frozen = trained.calibration.temperature, learned.model.freeze(learned.pile)
        margin = margins(frozen, learned.theta, temperature)[:, 0] / temperature
        _, vote, size = learned.pile.votes
        return WildAnswer.of(expit((np.bincount(vote, weights=margin) / size)[vote])[rows])
    answer = WildAnswer.of(learned.posterior[rows, 0].astype(np.float64), learned.shifts[0])
    odds = none_odds(trial.pile, learned.theta)
    none = None if odds is None else odds[rows, 0] > 0
    return replace(answer, pile_helped=learned.pile_helped, none=none)


def _check(method: LearningMethod, trial: WildTrial) -> WildAnswer:
    """Learn, and cross-validate on the labels as `stamo learn` does for its verdict."""
    if not len(trial.draw.labelled):
        raise LearningError("Cross-validation needs labels; there are none.")
    trained = trial.loaded.trained
    learned = method.learn(trial.pile, trained)
    found = cross_validate(trial.pile, trained, method, LearnSettings().n_folds)
    _, links = found.at(learned.used_slot, learned.pile_weight, learned.threshold[0])
    labels = found.labels
    counts = (int((labels & links).sum()), int(links.sum()), int(labels.sum()))
    answer = WildAnswer.of(learned.posterior[trial.loaded.rows, 0].astype(np.float64))
    return replace(answer, left_out=counts)


def _minilm(trial: WildTrial) -> WildAnswer:
    """Classify the context as most people would."""
    if not len(trial.draw.labelled):
        raise LearningError("A regression needs labels; there are none.")
    vectors, gold = trial.encode(trial.loaded.windows(0)), trial.loaded.gold
    labelled = np.isin(np.arange(len(gold)), trial.draw.labelled)
    return WildAnswer.of(regression_probabilities(vectors, labelled, gold))


def _description(trial: WildTrial) -> WildAnswer:
    """Compare the context with the description of the entity."""
    description = trial.encode([trial.loaded.problem.about])[0]
    contexts = trial.encode(trial.loaded.windows(1))
    return WildAnswer.of(description_probabilities(contexts, description))


ABLATIONS = {
    f"default without {view.name}": replace(
        LEARNING["default"], args=DefaultArgs(views=tuple(v for v in VIEWS if v != view))
    )
    for view in VIEWS
}
"""The default without each view of a mention."""
_IN_ALL = {"default", "estimation+correction", "estimation+bias", "estimation", "self-training"}
_LEARNED = {
    **LEARNING,
    **{f"{n}+f1": LEARNING[n].with_decision("f1") for n in ("default", "estimation+correction")},
    **ABLATIONS,
}

WILD_METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        *(Method(name, partial(_learn, m), in_all=name in _IN_ALL) for name, m in _LEARNED.items()),
        Method(
            "default+check", partial(_check, LEARNING["default"]), needs_labels=True, in_all=False
        ),
        Method("minilm", _minilm, needs_labels=True),
        Method("description", _description, uses_labels=False),
    )
}
"""Every method by name; `all` leaves out those with many slots, and the ablations."""

WILD_SIZES = (0, 5, 20)


@dataclass(frozen=True)
class WildSettings(CellSettings):
    """What is run on each entity."""

    methods: tuple[str, ...] = expand_names(["all"], WILD_METHODS)
    sizes: tuple[int, ...] = WILD_SIZES
    """|L|; none asks what is known before any label."""
    n_draws: int = 5
    labels_by: tuple[str, ...] = (RANDOM,)
    description: bool = True
    """Whether learning sees the description of each entity; the baseline of that name does."""

    def __post_init__(self) -> None:
        check_names("methods", self.methods, WILD_METHODS)
        check_names("ways to choose labels", self.labels_by, LABELS_BY)
        if self.n_draws < 1 or min(self.sizes, default=0) < 0:
            raise SettingsError("Give at least one draw, and sizes of 0 labels or more.")


@dataclass(frozen=True)
class WildCell:
    """One run of one method on one entity."""

    method: str
    labels_by: str
    n_labels: int
    seed: int


def wild_cells(settings: WildSettings) -> list[WildCell]:
    """Return what is run on each entity; a draw of labels after the other."""
    cells: dict[WildCell, None] = {}
    seeds = range(settings.n_draws)
    for labels_by, seed, size, name in product(
        settings.labels_by, seeds, settings.sizes, settings.methods
    ):
        method = WILD_METHODS[name]
        n_labels = size if method.uses_labels else 0
        if n_labels or (not method.needs_labels and labels_by == RANDOM):
            # Without labels every draw is the same.
            cells[WildCell(name, labels_by, n_labels, seed if n_labels else 0)] = None
    return list(cells)


@cache
def _open(place: Place) -> tuple[KnowledgeBase, WildSuite]:
    """Open what the entities of a run share once in each process."""
    torch.set_num_threads(1)
    kb = KnowledgeBase.open(place.kb_path)
    return kb, open_wild(place.suite_path, kb)


def run_wild_work(place: Place, work: CellWork[WildCell, WildSettings]) -> list[Row]:
    """Run the cells of one entity; runs in worker processes."""
    kb, suite = _open(place)
    with kept_encodings(
        suite.trained, kb, work.settings.encoder, place.suite_path, work.number
    ) as encoder:
        loaded = load_wild(suite, work.number, kb, encoder, description=work.settings.description)
        trials = _trials(work, loaded)
        about = {"problem": loaded.problem.title}
        return [about | vars(cell) | _attempt(cell, trial) for cell, trial in trials]


def _trials(
    work: CellWork[WildCell, WildSettings], loaded: LoadedWild
) -> Iterator[tuple[WildCell, WildTrial]]:
    most = max(work.settings.sizes)

    @cache
    def draw(labels_by: str, n_labels: int, seed: int) -> LabelDraw:
        if labels_by == ADVISOR and n_labels < most:  # its first questions are always the same
            whole = draw(labels_by, most, seed)
            return replace(whole, labelled=whole.labelled[:n_labels])
        return draw_labels(loaded, n_labels, seed, labels_by)

    for cell in work.cells:
        chosen = draw(cell.labels_by, cell.n_labels, cell.seed)
        yield cell, WildTrial(loaded, chosen, work.settings.n_slots)


def _attempt(cell: WildCell, trial: WildTrial) -> Row:
    """Run a method; one that cannot learn from these labels is recorded, and the others go on."""
    test, start = trial.draw.test, time.perf_counter()
    row: Row = {"test": test.tolist(), "gold": trial.loaded.gold[test].astype(int).tolist()}
    row["n_positive"] = trial.loaded.problem.n_positive
    row["n_labelled"] = len(trial.draw.labelled)
    row["n_labelled_positive"] = int(trial.loaded.gold[trial.draw.labelled].sum())
    try:
        answer: WildAnswer = WILD_METHODS[cell.method].answer(trial)
    except LearningError as error:
        return row | {"error": str(error)}
    return row | {
        "probability": np.round(answer.probability[test], 5).tolist(),
        "linked": answer.linked[test].astype(int).tolist(),
        "pile_helped": answer.pile_helped,
        "left_out": answer.left_out,
        "none": None if answer.none is None else answer.none[test].astype(int).tolist(),
        "is_none": (trial.loaded.senses[test] == OTHER).astype(int).tolist(),
        "seconds": round(time.perf_counter() - start, 4),
    }


def run_wild(
    suite: WildSuite,
    kb: KnowledgeBase,
    out: Path,
    settings: WildSettings = WildSettings(),
    *,
    n_workers: int | None = None,
    on_problem: OnProblem = lambda done, total: None,
) -> Path:
    """Run the methods on every entity; return the path of the results.

    Args:
        suite: The suite.
        kb: The knowledge base it was made with.
        out: A directory; an interrupted run in it goes on.
        settings: Methods, numbers of labels, draws.
        n_workers: Processes; by default one for each core.
        on_problem: Called with the entities done so far and their total.
    """
    titles = {i: problem.title for i, problem in enumerate(suite.problems[: settings.n_problems])}
    return run_cells(
        suite,
        kb,
        out,
        settings,
        wild_cells(settings),
        titles,
        run_wild_work,
        {"description": settings.description},
        n_workers=n_workers,
        on_problem=on_problem,
    )


def expand_wild_methods(names: Sequence[str]) -> tuple[str, ...]:
    """Return the methods that some words name; `ablations` leave out one view of a mention each."""
    return expand_names(names, WILD_METHODS, ablations=[*ABLATIONS])
