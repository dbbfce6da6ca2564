"""What every kind of suite shares in a run: cells of methods on problems, and those still to run.

A cell is a frozen dataclass; its fields and the title of the problem identify a result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stamo.errors import SettingsError
from stamo.replication.suites.results import (
    OnProblem,
    Row,
    claim_results,
    read_results,
    results_lock,
    run_works,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C", bound="DataclassInstance")
S = TypeVar("S", bound="DataclassInstance")


@dataclass(frozen=True)
class CellWork(Generic[C, S]):
    """Cells of one problem that lack a result; an interruption loses no more than these."""

    number: int
    cells: tuple[C, ...]
    settings: S


@dataclass(frozen=True)
class Place:
    """What a worker process opens: paths only, since it is sent to it."""

    suite_path: Path
    kb_path: Path
    out: Path


@dataclass(frozen=True)
class CellRun(Generic[C, S]):
    """Everything that is run in one directory of results."""

    place: Place
    settings: S
    cells: Sequence[C]
    """What is run on each problem."""
    problems: Mapping[int, str]
    """The title of each problem, by its place in the suite."""
    run: Callable[[Place, CellWork[C, S]], Sequence[Row]]
    """Runs in worker processes."""
    fixed: Mapping[str, Any]
    """What the results in one directory have in common."""
    about: Mapping[str, Any]
    """What else is noted of the run."""
    part: Callable[[C], Hashable] = lambda cell: None
    """Cells of a problem with the same part are run together."""

    def start(
        self,
        n_workers: int | None,
        on_problem: OnProblem,
        prepare: Callable[[], None] = lambda: None,
    ) -> Path:
        """Run what has no result yet; return the path of the results.

        Raises:
            SuiteError: Another run writes there.
            ArtifactMismatchError: Results of another suite or other settings are there.
        """
        out = self.place.out
        with results_lock(out):
            claim_results(out, self.fixed, {"settings": asdict(self.settings), **self.about})
            prepare()
            works, run = self.missing(read_results(out)), partial(self.run, self.place)
            n_workers = n_workers or os.cpu_count() or 1
            return run_works(out, run, works, len(self.problems), n_workers, on_problem)

    def missing(self, rows: Iterable[Row]) -> list[CellWork[C, S]]:
        """Return what has no result among some rows."""
        names = [field.name for field in fields(self.cells[0])] if self.cells else []
        done = {(row["problem"], *(row[name] for name in names)) for row in rows}
        works = []
        for number, title in self.problems.items():
            parts: dict[Hashable, list[C]] = {}
            for cell in self.cells:
                if (title, *astuple(cell)) not in done:
                    parts.setdefault(self.part(cell), []).append(cell)
            works += [CellWork(number, tuple(part), self.settings) for part in parts.values()]
        return works


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names that are not known."""
    known = list(known)
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SettingsError(
            f"There are no {what} {', '.join(map(repr, unknown))}; choose from: {', '.join(known)}."
        )


def expand_names(names: Iterable[str], groups: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return what some words name, in order and once: each a group of names, or a name."""
    return tuple(dict.fromkeys(found for name in names for found in groups.get(name, [name])))
