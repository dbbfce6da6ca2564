"""One row for each target: what happened to it, how long it may be attacked, how it is shown."""

from __future__ import annotations

import io
import logging
import math
import multiprocessing
import random
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import psutil

from stamo.cli.main import create_app, modules_for
from stamo.corpus import web
from stamo.errors import StamoError

MAX_SECONDS = 10.0
"""Of the processor, that one trial may take."""
MAX_MEGABYTES = 500
SILENCE = 120.0
"""Seconds after which a trial that says nothing hangs; other processes may have the processor."""


@dataclass
class Row:
    """What happened to one target."""

    target: str
    n_trials: int = 0
    n_refused: int = 0
    n_failed: int = 0
    worst_seconds: float = 0.0
    megabytes: int = -1
    """Most memory; -1 where it is not measured."""
    slowest: str = ""
    largest: str = ""
    """The target of a kind with the slowest trial, and with the most memory."""
    first_failure: str = ""
    note: str = ""
    """What else was measured."""

    def fail(self, what: str) -> None:
        """Count a failure and keep the first one's description."""
        self.n_failed += 1
        self.first_failure = self.first_failure or f"trial {self.n_trials}: {what}"

    def took(self, seconds: float, most: float = MAX_SECONDS) -> None:
        """Count a trial; one that was too slow has failed."""
        if seconds > most:
            self.fail(f"took {seconds:.1f} s")
        self.n_trials += 1
        self.worst_seconds = max(self.worst_seconds, seconds)


Attack = Callable[[Row], Iterator[None]]
"""Fills a row; yields after each trial, and is closed when its time is over."""


class Target(NamedTuple):
    """What is attacked."""

    name: str
    attack: Attack
    share: float = 1.0
    """Of the time."""
    max_megabytes: int | None = MAX_MEGABYTES
    """What an input may take; None where whole jobs are done and not an input."""


def command(*words: object) -> str:
    """Run a `stamo` command in this process; return what it printed.

    Raises:
        StamoError: What the command would tell in one line.
    """
    given, printed = [str(word) for word in words], io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        create_app(modules_for(given))(given, standalone_mode=False)
        printed.flush()
    return printed.buffer.getvalue().decode()


def processor_seconds() -> float:
    """Return what this process, its ended and its living children have computed.

    Time on the clock would say how busy the machine is.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.process_time() + ended.ru_utime + ended.ru_stime
    for pid in Path("/proc/thread-self/children").read_text().split():
        with suppress(psutil.Error):
            times = psutil.Process(int(pid)).cpu_times()
            seconds += times.user + times.system
    return seconds


def last_lines() -> str:
    """Return the end of the trace of what is being handled."""
    return " / ".join(traceback.format_exc().strip().splitlines()[-3:])


def in_trials(trial: Callable[[random.Random], object], seed: str) -> Attack:
    """Return what tries one trial after the other: it works, or one of our errors refuses it."""

    def attack(row: Row) -> Iterator[None]:
        for number in count():
            start = processor_seconds()
            try:
                trial(random.Random(f"{seed}/{row.target}/{number}"))
            except StamoError:
                row.n_refused += 1
            except BaseException:
                row.fail(last_lines())
            row.took(processor_seconds() - start)
            yield

    return attack


def run(targets: Iterable[Target], seconds: float) -> Iterator[Row]:
    """Attack one target after the other, each for its share of the time that is left.

    What a target takes beyond its share, the others lack; a sixth of the time more is the very end,
    at which what is under way is cut off and what comes after it is not tried.
    """
    start, left = time.monotonic(), list(targets)
    end, last = start + seconds, start + max(seconds * 7 / 6, seconds + 10)
    while left:
        target, total = left[0], sum(target.share for target in left)
        if time.monotonic() > last:
            yield Row(target.name, note="not tried: no time was left")
        else:
            share = max(end - time.monotonic(), 0) * target.share / total
            yield run_apart(target, share, last)
        left = left[1:]


def run_apart(target: Target, seconds: float, last: float = math.inf) -> Row:
    """Attack a target in a process of its own, so that a crash is a row of the table.

    Args:
        target: What is attacked.
        seconds: For how long; the trial that is under way then comes to its end.
        last: When it is cut off, on the clock.
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_attack, args=(target, seconds, sender))
    process.start()
    sender.close()
    row = Row(target.name)
    try:
        while receiver.poll(min(seconds + SILENCE, max(last - time.monotonic(), 0.1))):
            row = receiver.recv()
        if time.monotonic() < last:
            row.fail("it hangs")
        else:
            row.note = "cut off at the end of the time"
        end_family(process.pid)
    except EOFError:
        pass
    process.join()
    if process.exitcode and not (row.first_failure or row.note.startswith("cut off")):
        row.fail(f"the process ended with {process.exitcode}")
    if target.max_megabytes is not None and row.megabytes > target.max_megabytes:
        row.fail(f"took {row.megabytes} MB more than at rest")
    return row


def end_family(pid: int | None) -> None:
    """Kill a process and all that it has started."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in (*parent.children(recursive=True), parent):
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _attack(target: Target, seconds: float, results: Connection) -> None:
    logging.disable()
    # A fork begins with all that its parent ever took: what counts is what comes on top.
    at_rest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row, end, told = Row(target.name), time.monotonic() + seconds, 0.0
    trials = target.attack(row)
    for _ in trials:
        if time.monotonic() > told + 0.2:
            results.send(row)
            told = time.monotonic()
        if time.monotonic() > end:
            break
    trials.close()  # type: ignore[attr-defined]
    web.close()  # only a process that has ended tells how much memory it took
    if row.megabytes < 0:
        sizes = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        row.megabytes = max(0, *(usage.ru_maxrss - at_rest for usage in sizes)) // 1024
    results.send(row)


def joined(rows: Iterable[Row]) -> list[Row]:
    """Return one row for all targets of a kind: what stands before the comma of a name."""
    kinds: dict[str, Row] = {}
    for row in rows:
        kind = kinds.setdefault(row.target.partition(",")[0], Row(row.target.partition(",")[0]))
        kind.n_trials += row.n_trials
        kind.n_refused += row.n_refused
        kind.n_failed += row.n_failed
        if row.worst_seconds >= kind.worst_seconds:
            kind.worst_seconds, kind.slowest = row.worst_seconds, row.target
        if row.megabytes >= kind.megabytes:
            kind.megabytes, kind.largest = row.megabytes, row.target
    return list(kinds.values())


def show(rows: Iterable[Row]) -> bool:
    """Tell of each target as it ends, then print one table; return whether nothing failed."""
    seen = []
    for row in rows:
        seen.append(row)
        said = f"{row.n_trials:,} trials, {row.n_failed} failures"
        details = "; ".join(filter(None, (row.note, row.first_failure)))
        sys.stderr.write(f"{row.target}: {said}{details and f'; {details}'}\n")
        sys.stderr.flush()
    say = sys.stdout.write
    head = ("what", "trials", "refused", "failures", "slowest s", "", "most MB", "")
    say(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}\n")
    for kind in joined(seen):
        places = (name.partition(", ")[2] for name in (kind.slowest, kind.largest))
        slowest, largest = (place.replace("|", " ") for place in places)
        memory = "" if kind.megabytes < 0 else str(kind.megabytes)
        cells = [f"{kind.n_trials:,}", f"{kind.n_refused:,}", str(kind.n_failed)]
        cells += [f"{kind.worst_seconds:.2f}", slowest, memory, largest]
        say(f"| {kind.target} | {' | '.join(cells)} |\n")
    n_trials, n_failed = sum(r.n_trials for r in seen), sum(r.n_failed for r in seen)
    say(f"| all | {n_trials:,} | | {n_failed} | | | | |\n")
    for row in seen:
        if row.first_failure or row.note:
            say(f"{row.target}: {row.first_failure or row.note}\n")
    return not n_failed
