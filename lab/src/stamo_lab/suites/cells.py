"""What every kind of suite shares in a run: cells of methods on problems, and their results.

The results are lines of JSON in a directory that one process writes at a time. What is there
already is not run again, so an interrupted run goes on where it stopped. A cell is a frozen
dataclass; its fields and the title of the problem identify a result.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from stamo.errors import ArtifactMismatchError, SettingsError, SuiteError
from stamo.features.encoder import CachedEncoder
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.models.store import INSTALLED, TrainedModel, open_encoder
from stamo.system.files import append_line, try_lock, whole_lines
from stamo.system.processes import Workers
from stamo_lab.suites.store import OpenedSuite

RESULTS, RUN, LOCK = "results.jsonl", "run.json", ".run.lock"
ENCODINGS = "encodings"
"""Where a suite keeps what the sentence encoder made of its texts; it may be deleted."""

Row = dict[str, Any]
OnProblem = Callable[[int, int], None]
"""Called with the problems done so far and their total."""


@contextmanager
def results_lock(out: Path) -> Iterator[None]:
    """Make a directory of results and keep other runs out of it; a killed run loses its lock.

    Raises:
        SuiteError: Another run writes there.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("a") as file:
        if not try_lock(file.fileno()):
            raise SuiteError(
                f"Another run writes its results to {str(out)!r}; wait until it has ended, or "
                "choose another directory."
            )
        yield


def read_run(out: Path) -> dict[str, Any]:
    """Return what was noted of the last run in a directory."""
    about: dict[str, Any] = json.loads((out / RUN).read_text())
    return about


def read_results(out: Path) -> list[Row]:
    """Return the results so far, without a last line that is not complete."""
    path = out / RESULTS
    return [json.loads(line) for line in whole_lines(path)] if path.is_file() else []


@contextmanager
def kept_encodings(
    trained: TrainedModel, kb: KnowledgeBase, encoder: str | None, suite: Path, number: int
) -> Iterator[TextEncoder | None]:
    """Yield the encoder that reads one problem; what it read stays beside the suite if it can."""
    path = suite / ENCODINGS / f"{number:04d}.safetensors"
    kept = open_encoder(trained, kb, encoder, path)
    yield kept
    if not isinstance(kept, CachedEncoder):
        return
    with suppress(OSError):  # a suite that may only be read is read again
        (suite / ENCODINGS).mkdir(exist_ok=True)
        kept.save()


def to_line(row: Row) -> str:
    """Return a result as a line of JSON."""
    return json.dumps(finite(row), ensure_ascii=False, allow_nan=False)


def finite(value: Any) -> Any:
    """Return plain values with None for NaN (an AUC without both kinds), which JSON lacks."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Method:
    """A row of a table."""

    name: str
    answer: Callable[[Any], Any]
    """Turns a trial into what the method makes of it."""
    uses_labels: bool = True
    """Whether it looks at labels, and another draw of them changes it."""
    needs_labels: bool = False
    """Whether it says nothing without any label."""
    uses_model: bool = True
    is_slow: bool = False
    """Whether it runs on fewer seeds."""
    reads: bool = False
    """Whether it reads the text with a sentence encoder."""
    ablates: bool = False
    """Whether it belongs to an ablation, which the paper shows for DeepED only."""
    in_all: bool = True
    """Whether the word `all` names it."""


def expand_names(
    words: Iterable[str], methods: Mapping[str, Method], **groups: Sequence[str]
) -> tuple[str, ...]:
    """Return the methods that some words name, in order and once: `all`, a group, or a method."""
    groups["all"] = [name for name, method in methods.items() if method.in_all]
    return tuple(dict.fromkeys(name for word in words for name in groups.get(word, [word])))


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names that are not known."""
    known = list(known)
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SettingsError(
            f"There are no {what} {', '.join(map(repr, unknown))}; choose from: {', '.join(known)}."
        )


@dataclass(frozen=True)
class CellSettings:
    """What is run on each problem."""

    methods: tuple[str, ...] = ()
    n_slots: int = 100
    """T at most."""
    n_problems: int | None = None
    """Problems at most, the first ones; None runs all."""
    encoder: str | None = INSTALLED
    """The folder of a sentence encoder; by default the installed one, None for none."""


C = TypeVar("C")
S = TypeVar("S", bound=CellSettings)


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


def run_cells(
    suite: OpenedSuite[Any],
    kb: KnowledgeBase,
    out: Path,
    settings: S,
    cells: Sequence[C],
    problems: Mapping[int, str],
    run: Callable[[Place, CellWork[C, S]], Sequence[Row]],
    fixed: Mapping[str, Any],
    *,
    part: Callable[[C], Hashable] = lambda cell: None,
    prepare: Callable[[], None] = lambda: None,
    n_workers: int | None,
    on_problem: OnProblem,
) -> Path:
    """Run what has no result yet in a directory of results; return the path of the results.

    Args:
        suite: The suite.
        kb: The knowledge base it was made with.
        out: The directory.
        settings: What is run.
        cells: What is run on each problem.
        problems: The title of each problem, by its place in the suite.
        run: Runs some cells of a problem, in worker processes.
        fixed: What else the results in one directory have in common.
        part: Cells of a problem with the same part are run together.
        prepare: Called when the directory is ours, before anything runs.
        n_workers: Processes; by default one for each core.
        on_problem: Called with the problems done so far and their total.

    Raises:
        SuiteError: Another run writes there.
        ArtifactMismatchError: Results of another suite or other settings are there.
    """
    with results_lock(out):
        shared = {"n_slots": settings.n_slots, "encoder": settings.encoder, **fixed}
        shared["suite"] = suite.checksum
        if (out / RUN).is_file() and read_run(out).get("fixed") != shared:
            raise ArtifactMismatchError(
                f"{out} holds results of another suite or with other settings; choose another "
                "directory."
            )
        about = {"fixed": shared, "settings": asdict(settings), "suite": suite.name}
        about["problems"] = suite.manifest.get("counts", {})
        (out / RUN).write_text(json.dumps(about, indent=1, sort_keys=True))
        prepare()
        names = list(vars(cells[0])) if cells else []
        done = {(r["problem"], *(r[name] for name in names)) for r in read_results(out)}
        works: list[CellWork[C, S]] = []
        for number, title in problems.items():
            parts: dict[Hashable, list[C]] = {}
            for cell in cells:
                if (title, *vars(cell).values()) not in done:
                    parts.setdefault(part(cell), []).append(cell)
            works += [CellWork(number, tuple(chosen), settings) for chosen in parts.values()]
        left, n = Counter(work.number for work in works), len(problems)
        on_problem(n - len(left), n)
        n_workers = min(n_workers or os.cpu_count() or 1, max(len(left), 1))
        with Workers(n_workers) as workers:
            results = workers.map(partial(run, Place(suite.path, kb.path, out)), works)
            for work, rows in zip(works, results, strict=True):
                for row in rows:
                    append_line(out / RESULTS, to_line(row))
                left -= Counter({work.number: 1})
                on_problem(n - len(left), n)
    return out / RESULTS
