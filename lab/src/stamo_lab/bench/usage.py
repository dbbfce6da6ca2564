"""Time and memory of a command with all the processes it starts.

Memory is that of the whole process tree, sampled ten times a second in two ways: the sum of the
resident sets (pages shared by several processes are counted in each), and the proportional set
(every page is counted once), which is None where the system does not tell it. Asking for the
second stops the processes for milliseconds each time, so that seconds are measured unwatched.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from stamo.errors import SuiteError
from stamo.system.processes import Result

MB = 1_000_000
SECONDS_BETWEEN_SAMPLES = 0.1
MAX_PRINTED = 1 << 20
"""Bytes of the end of an output that are handed back."""

Say = Callable[[str], None]
"""Told what is being measured."""


@dataclass(frozen=True)
class Usage:
    """What a run of one or several commands took."""

    seconds: float
    peak_resident: int | None
    """Bytes of the process tree, shared pages counted in every process that maps them."""
    peak_proportional: int | None
    """Bytes of the process tree, every page counted once."""
    cpu_seconds: float
    """Processor time of all processes; hardly depends on what else the machine does."""


def one_after_the_other(usages: Sequence[Usage]) -> Usage:
    """Join steps that ran one after the other: their time adds up, their memory does not."""
    resident = [usage.peak_resident for usage in usages if usage.peak_resident is not None]
    shared = [usage.peak_proportional for usage in usages if usage.peak_proportional is not None]
    return Usage(
        sum(usage.seconds for usage in usages),
        max(resident, default=None),
        max(shared, default=None),
        sum(usage.cpu_seconds for usage in usages),
    )


def timed(work: Callable[[], Result]) -> tuple[Result, Usage]:
    """Do some work in this process; return also what it took, but for memory."""
    begin, cpu_begin = time.perf_counter(), time.process_time()
    done = work()
    cpu_seconds = max(time.process_time() - cpu_begin, 1e-9)
    return done, Usage(time.perf_counter() - begin, None, None, cpu_seconds)


def measure(
    name: str,
    command: Sequence[str],
    folder: Path,
    *,
    source: Path | None = None,
    watched: bool = True,
) -> tuple[Usage, str]:
    """Run a command to its end and watch its processes; return also what it printed at the end.

    Args:
        name: What to call the command in a message.
        command: The program and its arguments.
        folder: Where its output is kept meanwhile, in the file `stdout`.
        source: A folder whose Python packages come before those that are installed.
        watched: Whether memory is measured; that takes time.

    Raises:
        SuiteError: The command failed.
    """
    resident: int | None = None
    proportional: int | None = None
    with (
        (folder / "stdout").open("w+", errors="replace") as stdout,
        (folder / "stderr").open("w+") as stderr,
    ):
        begin, cpu_before = time.perf_counter(), _cpu_of_children()
        own = {} if source is None else {"PYTHONPATH": str(source.resolve())}
        process = subprocess.Popen(
            command, stdout=stdout, stderr=stderr, start_new_session=True, env=os.environ | own
        )
        try:
            while watched and process.poll() is None:
                now, shared = tree_memory(process.pid)
                resident = max(resident or 0, now)
                if shared is not None:
                    proportional = max(proportional or 0, shared)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(SECONDS_BETWEEN_SAMPLES)
            process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        seconds = time.perf_counter() - begin
        if process.returncode:
            stderr.seek(0)
            last = (stderr.read().strip().splitlines() or ["no message"])[-1]
            status = process.returncode
            raise SuiteError(f"The run of {name} ended with status {status} and said: {last}")
        cpu_seconds = _cpu_of_children() - cpu_before
        stdout.seek(max(stdout.seek(0, os.SEEK_END) - MAX_PRINTED, 0))
        return Usage(seconds, resident, proportional, cpu_seconds), stdout.read()


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree_memory(pid: int) -> tuple[int, int | None]:
    """Return the resident and the proportional bytes of a process and all it started.

    The second is None where the system does not tell; a process that ended meanwhile adds nothing.
    """
    resident, proportional = 0, None
    with suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                memory = process.memory_full_info()
                resident += memory.rss
                if hasattr(memory, "pss"):
                    proportional = (proportional or 0) + memory.pss
    return resident, proportional
