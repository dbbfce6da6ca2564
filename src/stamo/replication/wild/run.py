"""Run methods on real new entities: on all cores, deterministic, and resumable."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import torch

from stamo.errors import LearningError, SettingsError
from stamo.features.encoder_choice import INSTALLED
from stamo.features.encoding import OTHER
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.replication.suites.cells import (
    CellRun,
    CellWork,
    OnProblem,
    Place,
    Row,
    check_names,
    expand_names,
    kept_readings,
)
from stamo.replication.wild.draws import ADVISOR, LABELS_BY, RANDOM, LabelDraw, draw_labels
from stamo.replication.wild.load import LoadedWild, load_wild
from stamo.replication.wild.methods import ABLATIONS, WILD_METHODS, WildTrial
from stamo.replication.wild.suite import WILD, WildSuite, open_wild

WILD_SIZES = (0, 5, 20)


@dataclass(frozen=True)
class WildSettings:
    """What is run on each entity."""

    methods: tuple[str, ...] = tuple(name for name, m in WILD_METHODS.items() if m.in_all)
    sizes: tuple[int, ...] = WILD_SIZES
    """|L|; none asks what is known before any label."""
    n_draws: int = 5
    seed: int = 0
    """The first draw of labels; the others follow it."""
    labels_by: tuple[str, ...] = (RANDOM,)
    n_slots: int = 100
    """T at most."""
    n_problems: int | None = None
    """Entities at most, the first ones; None runs all."""
    encoder: str | None = INSTALLED
    """The folder of a sentence encoder; by default the installed one, None for none."""
    about: bool = True
    """Whether learning sees the line about each entity; the baseline `about` always does."""

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
    seeds = range(settings.seed, settings.seed + settings.n_draws)
    for labels_by, seed, size, name in product(
        settings.labels_by, seeds, settings.sizes, settings.methods
    ):
        method = WILD_METHODS[name]
        n_labels = size if method.uses_labels else 0
        if n_labels or (not method.needs_labels and labels_by == RANDOM):
            # Without labels every draw is the same.
            own_seed = seed if n_labels else settings.seed
            cells[WildCell(name, labels_by, n_labels, own_seed)] = None
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
    with kept_readings(work.settings.encoder, place.suite_path, work.number) as encoder:
        loaded = load_wild(suite, work.number, kb, encoder, about=work.settings.about)
        return _run_cells(work, loaded, kb, suite.trained)


def _run_cells(
    work: CellWork[WildCell, WildSettings],
    loaded: LoadedWild,
    kb: KnowledgeBase,
    trained: TrainedModel,
) -> list[Row]:
    most = max(work.settings.sizes)

    @cache
    def draw(labels_by: str, n_labels: int, seed: int) -> LabelDraw:
        if labels_by == ADVISOR and n_labels < most:  # its first questions are always the same
            whole = draw(labels_by, most, seed)
            return replace(whole, labelled=whole.labelled[:n_labels])
        return draw_labels(loaded, n_labels, seed, labels_by, kb, trained)

    rows = []
    for cell in work.cells:
        chosen = draw(cell.labels_by, cell.n_labels, cell.seed)
        trial = WildTrial(loaded, chosen, kb, trained, work.settings.n_slots)
        rows.append({"problem": loaded.problem.title, **asdict(cell)} | _attempt(cell, trial))
    return rows


def _attempt(cell: WildCell, trial: WildTrial) -> Row:
    """Run a method; one that cannot learn from these labels is recorded, and the others go on."""
    test, start = trial.draw.test, time.perf_counter()
    row: Row = {"test": test.tolist(), "gold": trial.loaded.gold[test].astype(int).tolist()}
    row["n_positive"] = trial.loaded.problem.n_positive
    row["n_labelled"] = len(trial.draw.labelled)
    row["n_labelled_positive"] = int(trial.loaded.gold[trial.draw.labelled].sum())
    try:
        answer = WILD_METHODS[cell.method].answer(trial)
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
    run = CellRun(
        Place(suite.path, kb.path, out),
        settings,
        wild_cells(settings),
        {i: problem.title for i, problem in enumerate(suite.problems[: settings.n_problems])},
        run_wild_work,
        fixed={
            "suite": suite.checksum,
            "n_slots": settings.n_slots,
            "encoder": settings.encoder,
            "about": settings.about,
        },
        about={"suite": WILD, "problems": suite.manifest["counts"]},
    )
    return run.start(n_workers, on_problem)


def expand_wild_methods(names: Sequence[str]) -> tuple[str, ...]:
    """Return the methods that some words name; `ablations` leave out one view of a mention each."""
    everything = [name for name, method in WILD_METHODS.items() if method.in_all]
    return expand_names(names, {"all": everything, "ablations": [*ABLATIONS]})
