"""Run methods over the problems of a suite: on all cores, deterministic, and resumable.

Every result is one line of `results.jsonl`; what is there already is not run again. The linking
models are trained once and kept beside the results.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path

import torch

from stamo.errors import LearningError, SettingsError, SuiteError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import MODELS, TrainedModel, load_model
from stamo_lab.bert import BertArgs, load_tuned
from stamo_lab.methods import METHODS, Trial, run_method
from stamo_lab.published import QUIRKS
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
from stamo_lab.suites.encode import LoadedProblem, SuiteData, load_problem
from stamo_lab.suites.report import CONVERGENCE_ROWS
from stamo_lab.suites.store import Suite, open_suite
from stamo_lab.suites.texts import Reader, Texts
from stamo_lab.suites.training import (
    BERT,
    LEARNED_FEATURES,
    OnModel,
    train_models,
)
from stamo_lab.tables import INTER_ROWS

logger = logging.getLogger(__name__)

LABEL_SIZES = (5, 10, 20, 50, 100, 250)
SIZED_METHODS = (
    "estimation",
    "estimation+bias",
    "estimation+correction",
    "stamo",
    "default",
    "estimation+correction+encoder",
    "default+encoder",
)
WATCHED = (*range(1, 11), *range(15, 101, 5))
WATCHED_METHODS = (*CONVERGENCE_ROWS, *INTER_ROWS, "default")


@dataclass(frozen=True)
class RunSettings(CellSettings):
    """What is run on each problem."""

    methods: tuple[str, ...] = expand_names(["all"], METHODS)
    models: tuple[str, ...] = ("deeped", "yamada")
    n_seeds: int = 3
    """Draws of labels; one for methods with many slots of intra-slot optimisation."""
    n_labels: int = 20
    """|L|."""
    label_sizes: tuple[int, ...] = LABEL_SIZES
    """|L| of the figure on the labelled size; empty leaves it out."""
    split: str = "held-out"
    bert: BertArgs = field(default_factory=BertArgs)
    """How BERT is fine-tuned, where it is among the methods."""

    def __post_init__(self) -> None:
        check_names("methods", self.methods, METHODS)
        check_names("models", self.models, MODELS)
        if min(self.n_seeds, self.n_labels) < 1:
            raise SettingsError("Give at least one seed and one label.")
        if self.n_problems is not None and self.n_problems < 1:
            raise SettingsError(f"Give at least one entity to run, not {self.n_problems}.")
        if self.split not in {"development", "held-out", "all"}:
            raise SettingsError(
                f"The split is {self.split!r}; choose development, held-out or all."
            )


@dataclass(frozen=True)
class Cell:
    """One run of one method on one problem."""

    method: str
    model: str
    seed: int
    n_labels: int


def plan(settings: RunSettings) -> list[Cell]:
    """Return what is run on each problem, cheap and common things first."""
    cells = [
        Cell(name, model if METHODS[name].uses_model else "", seed, n_labels)
        for model in settings.models
        for name in settings.methods
        if model == "deeped" or not METHODS[name].ablates
        for n_labels in [settings.n_labels if METHODS[name].uses_labels else 0]
        for seed in _seeds(METHODS[name], settings)
    ]
    if "deeped" in settings.models:  # the paper shows the figure for DeepED
        cells += [
            Cell(name, "deeped", seed, n_labels)
            for n_labels in settings.label_sizes
            for name in SIZED_METHODS
            if name in settings.methods
            for seed in _seeds(METHODS[name], settings)
        ]
    return list(dict.fromkeys(cells))


def _seeds(method: Method, settings: RunSettings) -> range:
    return range(settings.n_seeds if method.uses_labels and not method.is_slow else 1)


@cache
def _open(place: Place) -> tuple[SuiteData, Mapping[str, TrainedModel]]:
    """Open suite, knowledge base and models once in each process."""
    torch.set_num_threads(1)
    kb = KnowledgeBase.open(place.kb_path)
    data = SuiteData.load(open_suite(place.suite_path, kb), kb)
    models = {path.stem: load_model(path) for path in sorted(place.out.glob("*.safetensors"))}
    return data, models


@cache
def _open_reader(place: Place) -> Reader:
    """Open BERT once in each process, and only where it is asked for."""
    return load_tuned(place.out / BERT), Texts(_open(place)[0])


def run_work(place: Place, work: CellWork[Cell, RunSettings]) -> list[Row]:
    """Run the cells of one problem; runs in worker processes.

    A method that diverges or cannot learn here is recorded, and the others go on.
    """
    data, models = _open(place)
    problem = data.suite.problems[work.number]
    loaded = _load(place, work.number)
    reads = any(METHODS[cell.method].reads for cell in work.cells)
    wanted = work.settings.encoder if reads else None
    rows: list[Row] = []
    with kept_encodings(
        next(iter(models.values())), data.kb, wanted, place.suite_path, work.number
    ) as encoder:
        for cell in work.cells:
            if cell.n_labels > loaded.learning.pile.n_documents:
                continue  # there is no such L in a W this small
            name = cell.model or next(iter(models))
            is_figure = cell.method in WATCHED_METHODS and cell.model == "deeped"
            is_watched = is_figure and cell.seed == 0 and cell.n_labels == 20
            trial = Trial(
                data,
                loaded,
                loaded.choose_labels(cell.n_labels, cell.seed),
                models[name],
                {f: models[k] for f in LEARNED_FEATURES if (k := f"{name}-without-{f}") in models},
                work.settings.n_slots,
                _open_reader(place) if cell.method == "bert" else None,
                encoder,
                WATCHED if is_watched else (),
            )
            row: Row = {"problem": problem.title, "split": problem.split, **vars(cell)}
            try:
                row |= run_method(METHODS[cell.method], trial)
            except LearningError as error:
                logger.warning("%s failed on %s: %s", cell.method, problem.title, error)
                row |= {"error": str(error), "outcomes": {}, "seconds": 0.0, **_NO_SLOTS}
            rows.append(row)
    return rows


_NO_SLOTS: Row = {"n_slots": 0, "slot_seconds": 0.0, "pile_helped": None, "curve": {}}


@lru_cache(maxsize=1)
def _load(place: Place, number: int) -> LoadedProblem:
    """Encode a problem; the parts of its work follow one another."""
    data, models = _open(place)
    found = {f.name: f for t in models.values() for f in t.model.features}
    return load_problem(data, data.suite.problems[number], features=tuple(found.values()))


def run_suite(
    suite: Suite,
    kb: KnowledgeBase,
    out: Path,
    settings: RunSettings = RunSettings(),
    *,
    n_workers: int | None = None,
    on_model: OnModel = lambda name: None,
    on_problem: OnProblem = lambda done, total: None,
) -> Path:
    """Run the methods on every problem of a split; return the path of the results.

    Args:
        suite: The suite.
        kb: The knowledge base it was made with.
        out: A directory; an interrupted run in it goes on.
        settings: Methods, models, seeds.
        n_workers: Processes; by default one for each core.
        on_model: Called before a linking model is trained.
        on_problem: Called with the problems done so far and their total.
    """
    chosen = {
        number: problem.title
        for number, problem in enumerate(suite.problems)
        if problem.split != "training" and settings.split in {problem.split, "all"}
    }
    if not chosen:
        raise SuiteError(f"The suite has no problems in the split {settings.split!r}.")
    return run_cells(
        suite,
        kb,
        out,
        settings,
        plan(settings),
        dict(list(chosen.items())[: settings.n_problems]),
        run_work,
        {},
        part=lambda cell: (cell.model, METHODS[cell.method].is_slow and cell.method),
        prepare=partial(train_models, suite, kb, out, settings, on_model, n_workers),
        n_workers=n_workers,
        on_problem=on_problem,
    )


def expand_methods(names: Sequence[str]) -> tuple[str, ...]:
    """Return the methods that some words name.

    `all` is everything but BERT, what reads with the encoder, and the published quirks one by one,
    which `quirks` names.
    """
    quirks = [name for name in METHODS if name.endswith(tuple(f" with {q}" for q in QUIRKS))]
    return expand_names(names, METHODS, quirks=quirks)
