"""What happened to each target, and how it is shown."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

import psutil

from stamo.corpus import web as html_process

MAX_SECONDS = 10.0
MAX_MEGABYTES = 500
CHILDREN = resource.RUSAGE_CHILDREN


@dataclass
class Row:
    """What happened to one target."""

    target: str
    n_trials: int = 0
    n_refused: int = 0
    n_failed: int = 0
    worst_seconds: float = 0.0
    megabytes: int = 0
    first_failure: str = ""
    note: str = ""
    """What else was measured."""

    def fail(self, what: str) -> None:
        """Count a failure and keep the first one's description."""
        self.n_failed += 1
        self.first_failure = self.first_failure or f"trial {self.n_trials}: {what}"

    def took(self, seconds: float) -> None:
        """Count a trial; one that was too slow has failed."""
        if seconds > MAX_SECONDS:
            self.fail(f"took {seconds:.1f} s")
        self.n_trials += 1
        self.worst_seconds = max(self.worst_seconds, seconds)

    def remember_memory(self) -> None:
        """Note the most memory that this process, or one that it started and ended, has had."""
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, CHILDREN)]
        self.megabytes = max(self.megabytes, *(u.ru_maxrss // 1024 for u in usage))


def processor_seconds() -> float:
    """Return what this process, those that it ended and the one that parses pages have computed.

    Time on the clock would say how busy the machine is; what hangs is ended by `run_apart`.
    """
    ended, child = resource.getrusage(CHILDREN), html_process._child
    seconds = time.process_time() + ended.ru_utime + ended.ru_stime
    if child is not None and child.owner == os.getpid() and child._process is not None:
        with suppress(psutil.Error):
            times = psutil.Process(child._process.pid).cpu_times()
            seconds += times.user + times.system
    return seconds


def last_lines() -> str:
    """Return the end of the trace of what is being handled."""
    return " / ".join(traceback.format_exc().strip().splitlines()[-3:])


Attack = Callable[[Row, Callable[[], None]], None]
"""Fills a row; calls the second argument after each trial."""


def run_apart(
    name: str, attack: Attack, seconds: float, max_megabytes: int | None = MAX_MEGABYTES
) -> Row:
    """Attack one target in a process of its own, so that a crash is a row of the table.

    Args:
        name: What is attacked.
        attack: Attacks it.
        seconds: It hangs a minute after that.
        max_megabytes: What an input may take; None where whole jobs are done and not an input.
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_send_rows, args=(name, attack, sender))
    process.start()
    sender.close()
    row = Row(name)
    deadline = time.monotonic() + seconds + 60
    try:
        while receiver.poll(max(deadline - time.monotonic(), 0)):
            row = receiver.recv()
        row.fail("it hangs")
        process.kill()
    except EOFError:
        pass
    process.join()
    if process.exitcode and not row.first_failure:
        row.fail(f"the process ended with {process.exitcode}")
    if max_megabytes is not None and row.megabytes > max_megabytes:
        row.fail(f"took {row.megabytes} MB")
    return row


def _send_rows(name: str, attack: Attack, results: Connection) -> None:
    row = Row(name)
    attack(row, lambda: results.send(row))
    if not row.megabytes:
        row.remember_memory()
    results.send(row)


def show(rows: Iterable[Row]) -> bool:
    """Print rows as they come; return whether nothing failed."""
    say = sys.stdout.write
    say("| target | trials | refused | failures | worst s | MB |\n| --- |" + " --- |" * 5 + "\n")
    seen = []
    for row in rows:
        seen.append(row)
        say(
            f"| {row.target} | {row.n_trials:,} | {row.n_refused:,} | {row.n_failed} | "
            f"{row.worst_seconds:.2f} | {row.megabytes or ''} |\n"
        )
        sys.stdout.flush()
    n_trials, n_failed = sum(r.n_trials for r in seen), sum(r.n_failed for r in seen)
    say(f"| all | {n_trials:,} | | {n_failed} | | |\n")
    for row in seen:
        for line in filter(None, (row.note, row.first_failure)):
            say(f"{row.target}: {line}\n")
    return not n_failed
