"""Run methods on real new entities: on all cores, deterministic, and resumable."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stamo.errors import LearningError, SettingsError
from stamo.kb.base import KnowledgeBase
from stamo.replication.suites.results import (
    OnProblem,
    Row,
    claim_results,
    read_results,
    results_lock,
    run_works,
)
from stamo.replication.suites.training import Place
from stamo.replication.wild.draws import ADVISOR, LABELS_BY, RANDOM, LabelDraw, draw_labels
from stamo.replication.wild.load import load_wild
from stamo.replication.wild.methods import WILD_METHODS, WildMethod, WildTrial
from stamo.replication.wild.suite import WILD, WildSuite, open_wild
from stamo.system.arrays import Float32

WILD_SIZES = (0, 5, 20)
WildKey = tuple[str, str, str, int, int]


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
    encoder: str = ""
    """The sentence encoder of the baselines; the packaged one by default."""

    def __post_init__(self) -> None:
        for name, known in (("methods", tuple(WILD_METHODS)), ("labels_by", LABELS_BY)):
            unknown = [m for m in getattr(self, name) if m not in known]
            if unknown:
                raise SettingsError(
                    f"There is no {', '.join(map(repr, unknown))} for real text; choose from: "
                    f"{', '.join(known)}."
                )
        if self.n_draws < 1 or min(self.sizes, default=0) < 0:
            raise SettingsError("Give at least one draw, and sizes of 0 labels or more.")


@dataclass(frozen=True)
class WildCell:
    """One run of one method on one entity."""

    method: str
    labels_by: str
    n_labels: int
    seed: int

    def key(self, problem: str) -> WildKey:
        """Return what identifies the result."""
        return (problem, self.method, self.labels_by, self.n_labels, self.seed)


def wild_cells(settings: WildSettings) -> list[WildCell]:
    """Return what is run on each entity; a draw of labels after the other."""
    cells: dict[WildCell, None] = {}
    for labels_by in settings.labels_by:
        for seed in range(settings.seed, settings.seed + settings.n_draws):
            for n_labels in settings.sizes:
                for name in settings.methods:
                    for cell in _cells_of(WILD_METHODS[name], labels_by, n_labels, seed, settings):
                        cells[cell] = None
    return list(cells)


def _cells_of(
    method: WildMethod, labels_by: str, n_labels: int, seed: int, settings: WildSettings
) -> Iterator[WildCell]:
    if not method.uses_labels:
        n_labels = 0
    if not n_labels and (method.needs_labels or labels_by != RANDOM):
        return
    # Without labels every draw is the same.
    yield WildCell(method.name, labels_by, n_labels, seed if n_labels else settings.seed)


@dataclass(frozen=True)
class WildWork:
    """The cells of one entity that lack a result; an interruption loses no more than these."""

    number: int
    cells: tuple[WildCell, ...]
    settings: WildSettings


class WildData:
    """What the entities of a run share, opened once in each process."""

    def __init__(self, place: Place, encoder: str) -> None:
        torch.set_num_threads(1)
        self.kb = KnowledgeBase.open(place.kb_path)
        self.suite = open_wild(place.suite_path, self.kb)
        self._encoder_name = encoder

    @cached_property
    def encoder(self) -> Any:
        """The sentence encoder, loaded where a method asks for it."""
        module = importlib.import_module("stamo.features.encoder")
        return module.load_encoder(self._encoder_name or None)


@cache
def _open(place: Place, encoder: str) -> WildData:
    return WildData(place, encoder)


class _Reader:
    """Encodes texts, the same ones once: every draw asks for those of the entity again."""

    def __init__(self, data: WildData) -> None:
        self._data = data
        self._known: dict[tuple[str, ...], Float32] = {}

    def __call__(self, texts: Sequence[str]) -> Float32:
        key = tuple(texts)
        if key not in self._known:
            self._known[key] = self._data.encoder.encode(texts)
        return self._known[key]


def run_wild_work(place: Place, work: WildWork) -> list[Row]:
    """Run the cells of one entity; runs in worker processes."""
    data = _open(place, work.settings.encoder)
    loaded = load_wild(data.suite, work.number, data.kb)
    reader, most = _Reader(data), max(work.settings.sizes)

    @cache
    def draw(labels_by: str, n_labels: int, seed: int) -> LabelDraw:
        if labels_by == ADVISOR and n_labels < most:  # its first questions are always the same
            whole = draw(labels_by, most, seed)
            return replace(whole, labelled=whole.labelled[:n_labels])
        trained = data.suite.trained
        return draw_labels(loaded, n_labels, seed, labels_by, data.kb, trained)

    rows = []
    for cell in work.cells:
        chosen = draw(cell.labels_by, cell.n_labels, cell.seed)
        trial = WildTrial(
            loaded, chosen, data.kb, data.suite.trained, reader, work.settings.n_slots
        )
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
    with results_lock(out):
        fixed = {
            "suite": suite.checksum,
            "n_slots": settings.n_slots,
            "encoder": settings.encoder,
        }
        about = {"suite": WILD, "settings": asdict(settings), "problems": suite.manifest["counts"]}
        claim_results(out, fixed, about)
        done = {_key_of(row) for row in read_results(out)}
        chosen = suite.problems[: settings.n_problems]
        cells = wild_cells(settings)
        works = [
            WildWork(number, missing, settings)
            for number, problem in enumerate(chosen)
            if (missing := tuple(c for c in cells if c.key(problem.title) not in done))
        ]
        run = partial(run_wild_work, Place(suite.path, kb.path, out))
        n_workers = n_workers or os.cpu_count() or 1
        return run_works(out, run, works, len(chosen), n_workers, on_problem)


def _key_of(row: Row) -> WildKey:
    return (row["problem"], row["method"], row["labels_by"], row["n_labels"], row["seed"])


def expand_wild_methods(names: Sequence[str]) -> tuple[str, ...]:
    """Return the methods that some words name; `all` leaves out those with many slots."""
    everything = [name for name, method in WILD_METHODS.items() if method.in_all]
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys(everything if name == "all" else [name])
    return tuple(found)
