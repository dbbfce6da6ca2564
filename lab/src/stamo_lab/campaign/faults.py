"""Sudden death and full disks: at every file that is opened, flushed, renamed, linked or removed.

The points are found by Python's audit events, by `os.fsync` and by the statements of SQLite. A kill
is `kill -9` of the whole process group. A disk is full because it is small (tmpfs, where root may
mount one), because no file may grow (a limit of the process), or by an error at one of the points.
It is read-only because it is mounted so.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from stamo.errors import StamoError
from stamo.system.files import DISK_FULL
from stamo_lab.campaign.scenarios import SCENARIOS, Scenario, Work
from stamo_lab.campaign.table import Row, last_lines, run_apart

EVENTS = {"open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
LITTER = re.compile(r"\.tmp$|\.part$|stamo-build-")
MAX_CHILD_SECONDS = 900
FREE_KILOBYTES = (0, 4, 12, 32, 64, 128, 256, 512, 1024, 2048)
DISK_MEGABYTES = 24


class Fault(NamedTuple):
    """What happens at which point."""

    at: int
    kind: str
    """`kill`, `error` (no space left), or `limit` (no file beyond `at` bytes)."""


@dataclass
class Outcome:
    """What is known of work in a process of its own."""

    n_points: int = 0
    said: list[Any] = field(default_factory=list)
    end: str = ""
    """`done`, `refused: ...` or `failed: ...`; nothing when it was killed."""
    seconds: float = 0.0
    megabytes: int = 0


class Points:
    """Counts the points below a folder in this process and strikes at one of them."""

    def __init__(self, home: Path, fault: Fault | None) -> None:
        self.owner, self.place, self.fault, self.n = os.getpid(), str(home), fault, 0

    def arm(self) -> None:
        """Begin to count; a process cannot be disarmed."""
        sys.addaudithook(self.on_event)
        fsync, connect = os.fsync, sqlite3.connect

        def counted_fsync(descriptor: int) -> None:
            self.hit()
            fsync(descriptor)

        def counted_connect(*args: Any, **options: Any) -> sqlite3.Connection:
            connection = connect(*args, **options)
            connection.set_trace_callback(lambda statement: self.hit(can_fail=False))
            return connection

        os.fsync = counted_fsync
        sqlite3.connect = counted_connect  # type: ignore[assignment]
        if self.fault is not None and self.fault.kind == "limit":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.fault.at, resource.RLIM_INFINITY))

    def on_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Take an audit event of Python."""
        if event not in EVENTS or (event == "open" and not _is_writing(args)):
            return
        paths = [os.fsdecode(a) for a in args if isinstance(a, str | bytes | os.PathLike)]
        if any(self.place in path for path in paths):
            self.hit(can_fail=event not in ("os.remove", "os.rmdir"))

    def hit(self, can_fail: bool = True) -> None:
        """Count a point, and strike when it is the one."""
        fault = self.fault
        if os.getpid() != self.owner or (fault and fault.kind == "error" and not can_fail):
            return
        self.n += 1
        if fault is None or fault.kind == "limit" or self.n != fault.at:
            return
        if fault.kind == "kill":
            os.killpg(0, signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.place)


def _is_writing(args: tuple[Any, ...]) -> bool:
    _, mode, flags = args
    return any(c in mode for c in "wax+") if isinstance(mode, str) else bool(flags & WRITING)


def in_child(
    scenario: Scenario, home: Path, fault: Fault | None = None, kill_after: float | None = None
) -> Outcome:
    """Do the work in a process of its own, perhaps not to the end."""
    with tempfile.TemporaryFile() as log:
        start = time.perf_counter()
        child = os.fork()
        if not child:
            _be_child(scenario, home, fault, log.fileno())
        usage = _wait(child, kill_after)
        outcome = Outcome(seconds=time.perf_counter() - start)
        outcome.megabytes = usage.ru_maxrss // 1024
        log.seek(0)
        for line in log.read().splitlines():
            name, value = json.loads(line)
            if name == "said":
                outcome.said.append(value)
            elif name == "points":
                outcome.n_points = value
            else:
                outcome.end = value
    return outcome


def _be_child(scenario: Scenario, home: Path, fault: Fault | None, log: int) -> None:
    os.setsid()
    logging.disable()
    sys.dont_write_bytecode = True
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)

    def write(name: str, value: object) -> None:
        os.write(log, json.dumps([name, value]).encode() + b"\n")

    try:
        points = Points(home, fault)
        points.arm()
        try:
            scenario.act(home, partial(write, "said"))
            end = "done"
        except StamoError as error:
            end = f"refused: {error}"
        except OSError as error:  # the command line tells it in one sentence
            is_told = error.errno in {*DISK_FULL, errno.EROFS}
            end = f"refused: {error}" if is_told else f"failed: {last_lines()}"
        except BaseException:
            end = f"failed: {last_lines()}"
        if fault is not None and fault.kind == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        write("points", points.n)
        write("end", end)
    finally:
        os._exit(0)


def _wait(child: int, kill_after: float | None) -> resource.struct_rusage:
    deadline = time.monotonic() + (kill_after or MAX_CHILD_SECONDS)
    while True:
        ended, _, usage = os.wait4(child, os.WNOHANG)
        if ended:
            _kill_group(child)  # what it has started must not write any more
            return usage
        if time.monotonic() > deadline:
            _kill_group(child)
            deadline = time.monotonic() + MAX_CHILD_SECONDS
        time.sleep(0.002)


def _kill_group(child: int) -> None:
    for end in (os.killpg, os.kill):
        try:
            end(child, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:  # ended, but not waited for yet
            return


def judge(scenario: Scenario, home: Path, outcome: Outcome, expected: object) -> None:
    """Fail unless a reader finds the old or the new, and the work ends as if nothing had been."""
    scenario.check(home, outcome.said, expected)
    assert not outcome.end.startswith("failed"), outcome.end
    again = in_child(scenario, home)
    assert again.end == "done", f"done again: {again.end or 'it died'}"
    scenario.check(home, outcome.said + again.said, expected)
    assert scenario.look(home) == expected, "not the same after it was done again"
    litter = [str(p.relative_to(home)) for p in home.rglob("*") if LITTER.search(p.name)]
    assert not litter, f"litter: {litter[:3]}"


def _try(row: Row, what: str, trial: Callable[[], Outcome]) -> None:
    start = time.perf_counter()
    try:
        outcome = trial()
        row.n_refused += outcome.end.startswith("refused")
        row.megabytes = max(row.megabytes, outcome.megabytes)
    except BaseException:
        row.fail(f"{what}: {last_lines()}")
    row.n_trials += 1
    row.worst_seconds = max(row.worst_seconds, time.perf_counter() - start)


def kill_rows(folder: Path, n_kills: int, seed: int, only: str = "") -> Iterator[Row]:
    """Kill every kind of work at its points, and a quarter of the times at any moment."""
    for name in SCENARIOS:
        if only in name:
            attack = partial(_kill, folder, name, n_kills, seed)
            yield run_apart(f"kills, {name}", attack, 3000, max_megabytes=None)


def _kill(
    folder: Path, name: str, n_kills: int, seed: int, row: Row, tell: Callable[[], None]
) -> None:
    work, rng = Work(folder), random.Random(f"{seed}/{name}")
    scenario = SCENARIOS[name](work)
    home = work.fresh_copy(scenario.template, name)
    whole = in_child(scenario, home)
    assert whole.end == "done", whole.end
    expected = scenario.look(home)
    n_timed = n_kills // 4
    points = range(1, whole.n_points + 1)
    n_points = min(n_kills - n_timed, len(points))
    for at in [*sorted(rng.sample(points, n_points)), *[0] * n_timed]:
        home = work.fresh_copy(scenario.template, name)

        def trial(at: int = at, home: Path = home) -> Outcome:
            if at:
                outcome = in_child(scenario, home, Fault(at, "kill"))
                while outcome.end and outcome.n_points < at:  # of threads, no two runs are alike
                    at = rng.randint(1, outcome.n_points)
                    home = work.fresh_copy(scenario.template, name)
                    outcome = in_child(scenario, home, Fault(at, "kill"))
                assert not outcome.end, "it was not killed"
            else:
                outcome = in_child(scenario, home, kill_after=rng.uniform(0, whole.seconds))
            judge(scenario, home, outcome, expected)
            return outcome

        _try(row, f"point {at} of {whole.n_points}", trial)
        tell()


def disk_rows(folder: Path, only: str = "") -> Iterator[Row]:
    """Let every kind of work meet a full disk."""
    for name in SCENARIOS:
        if only in name:
            attack = partial(_fill, folder, name)
            yield run_apart(f"full disk, {name}", attack, 3000, max_megabytes=None)


def _fill(folder: Path, name: str, row: Row, tell: Callable[[], None]) -> None:
    work = Work(folder)
    scenario = SCENARIOS[name](work)
    home = work.fresh_copy(scenario.template, name)
    whole = in_child(scenario, home)
    assert whole.end == "done", whole.end
    expected = scenario.look(home)

    def meet(home: Path, fault: Fault | None) -> Outcome:
        outcome = in_child(scenario, home, fault)
        assert outcome.end, "it died"
        return outcome

    def in_place(fault: Fault) -> Outcome:
        home = work.fresh_copy(scenario.template, name)
        outcome = meet(home, fault)
        judge(scenario, home, outcome, expected)
        return outcome

    def on_small_disk(free: int) -> Outcome:
        with small_disk(folder / "disk") as disk:
            home = disk / "home"
            shutil.copytree(work.template(scenario.template), home)
            _leave_free(disk, free)
            outcome = meet(home, None)
            scenario.check(home, outcome.said, expected)  # while the disk is full
            (disk / "ballast").unlink()
            judge(scenario, home, outcome, expected)
            return outcome

    def on_read_only_disk() -> Outcome:
        with small_disk(folder / "disk") as disk:
            home = disk / "home"
            shutil.copytree(work.template(scenario.template), home)
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            outcome = meet(home, None)
            assert outcome.end.startswith("refused"), outcome.end
            scenario.check(home, outcome.said, expected)
            subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
            judge(scenario, home, outcome, expected)
            return outcome

    trials: list[tuple[str, Callable[[], Outcome]]] = [
        (f"error at point {at}", partial(in_place, Fault(at, "error")))
        for at in range(1, whole.n_points + 1, max(1, whole.n_points // 12))
    ]
    trials += [
        (f"files of {size} bytes", partial(in_place, Fault(size, "limit")))
        for size in (0, 1000, 5000, 20_000)
    ]
    if os.geteuid() == 0:
        trials += [(f"{free} KB free", partial(on_small_disk, free)) for free in FREE_KILOBYTES]
        trials.append(("read-only", on_read_only_disk))
    for what, trial in trials:
        _try(row, what, trial)
        tell()


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """Mount a small file system."""
    path.mkdir(exist_ok=True)
    size = f"size={DISK_MEGABYTES}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def _leave_free(disk: Path, kilobytes: int) -> None:
    room = shutil.disk_usage(disk).free - kilobytes * 1024
    with (disk / "ballast").open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, max(room, 1))
