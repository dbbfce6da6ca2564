"""Time and memory of a command with all the processes it starts.

Memory is that of the whole process tree, sampled ten times a second in two ways: the sum of the
resident sets (pages shared by several processes are counted in each), and the proportional set
(every page is counted once). Sampling reads `/proc`; where that is missing, memory is None.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stamo.errors import SuiteError

SECONDS_BETWEEN_SAMPLES = 0.1
PROC = Path("/proc")


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


def measure(name: str, command: Sequence[str], folder: Path) -> tuple[Usage, str]:
    """Run a command to its end and watch its processes; return also what it printed.

    Args:
        name: What to call the command in a message.
        command: The program and its arguments.
        folder: Where its output is kept meanwhile.

    Raises:
        SuiteError: The command failed.
    """
    resident: int | None = None
    proportional: int | None = None
    with (folder / "stdout").open("w+") as stdout, (folder / "stderr").open("w+") as stderr:
        begin, cpu_before = time.perf_counter(), _cpu_of_children()
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr, start_new_session=True)
        try:
            while process.poll() is None:
                sample = tree_memory(process.pid)
                if sample is not None:
                    resident = max(resident or 0, sample[0])
                    proportional = max(proportional or 0, sample[1])
                _wait(process)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        seconds = time.perf_counter() - begin
        if process.returncode:
            raise SuiteError(_failure(name, process.returncode, stderr))
        stdout.seek(0)
        cpu_seconds = _cpu_of_children() - cpu_before
        return Usage(seconds, resident, proportional, cpu_seconds), stdout.read()


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait(process: subprocess.Popen[Any]) -> None:
    try:
        process.wait(SECONDS_BETWEEN_SAMPLES)
    except subprocess.TimeoutExpired:
        return


def _failure(name: str, status: int, stderr: Any) -> str:
    stderr.seek(0)
    last = (stderr.read().strip().splitlines() or ["no message"])[-1]
    return f"The run of {name} ended with status {status} and said: {last}"


def tree_memory(pid: int) -> tuple[int, int] | None:
    """Return the resident and the proportional bytes of a process and all it started.

    None where the system has no `/proc`.
    """
    if not (PROC / "self" / "smaps_rollup").exists():
        return None
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    resident = proportional = 0
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        waiting += children.get(one, [])
        rollup = _read_rollup(one)
        resident += rollup.get("Rss", 0)
        proportional += rollup.get("Pss", 0)
    return resident, proportional


def _parent(entry: Path) -> int | None:
    try:
        # The name of the program stands in brackets and may hold spaces and brackets itself.
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):  # the process ended meanwhile
        return None


def _read_rollup(pid: int) -> dict[str, int]:
    """Return Rss and Pss of a process in bytes; nothing when it is gone or not ours to see."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.split() for line in lines[1:])
    return {name.rstrip(":"): 1024 * int(kilobytes) for name, kilobytes, *_ in fields}
