"""Sudden death and full disks: at every file that is opened, flushed, renamed, linked or removed.

The points are found by Python's audit events, by `os.fsync` and by the statements of SQLite. A kill
is `kill -9` of the whole process group. A disk is full because no file may grow (a limit of the
process), or by an error at one of the points. After each of them a reader finds the old or the new,
and the same command again ends as if nothing had been.
"""

from __future__ import annotations

import csv
import errno
import json
import logging
import os
import random
import re
import resource
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import typer

from stamo import EntityPack, KnowledgeBase, Workspace
from stamo.errors import StamoError, WorkspaceError
from stamo.system.files import DISK_FULL
from stamo.world import World
from stamo_lab.campaign.artifacts import (
    COLLECTED,
    KB,
    LABELLED,
    LATER_PACK,
    LEARN,
    LEARNED,
    MODEL,
    NAME,
    NEW,
    PACK,
    TEMPLATES,
    WORLD,
    fresh,
    write_labels,
)
from stamo_lab.campaign.table import Attack, Row, Target, command, last_lines

Say = Callable[[list[str]], None]
"""Called with the labels that were acknowledged; they must never be lost after that."""


@dataclass(frozen=True)
class Scenario:
    """One kind of work below a folder, which can be done again after anything that happened."""

    folder: Path
    """What `prepare` made."""

    def act(self, home: Path, say: Say) -> None:
        """Do the work, or what is left of it."""
        raise NotImplementedError

    def look(self, home: Path) -> Any:
        """Return what a reader finds."""
        raise NotImplementedError

    def check(self, home: Path, said: list[str], expected: Any) -> None:
        """Fail when a reader at this moment finds anything but the old or the new."""
        raise NotImplementedError


class Build(Scenario):
    """Build a knowledge base in the place of another one."""

    def act(self, home: Path, say: Say) -> None:
        """Build it."""
        source, options = self.folder / WORLD / "dump.xml", ("--dimensions", 4, "--workers", 1)
        command("build", source, home / KB, *options, "--overwrite")

    def look(self, home: Path) -> Any:
        """Return its fingerprint."""
        return KnowledgeBase.open(home / KB).fingerprint if (home / KB).exists() else None

    def check(self, home: Path, said: list[str], expected: Any) -> None:
        """There is none, or the new one."""
        assert self.look(home) in (None, expected)


class Collect(Scenario):
    """Collect documents from several files."""

    def act(self, home: Path, say: Say) -> None:
        """Collect, or go on with it."""
        both = ("--kb", self.folder / KB, "--model", self.folder / MODEL)
        files = [w for p in sorted((self.folder / "pile").iterdir()) for w in ("--from", p)]
        try:
            command("collect", home / NAME, *both, *files)
        except WorkspaceError as error:
            if "is collected" not in str(error):  # by the time that it was killed
                raise

    def look(self, home: Path) -> Any:
        """Return the documents."""
        printed = command("labels", "export", home / NAME, "-", "--as", "label-studio", "--all")
        return [task["data"]["document_id"] for task in json.loads(printed)]

    def check(self, home: Path, said: list[str], expected: Any) -> None:
        """What is there are the first of all documents."""
        if (home / NAME / "documents").exists():
            found = self.look(home)
            assert found == expected[: len(found)]


class Label(Scenario):
    """Import labels one by one, then others together."""

    def act(self, home: Path, say: Say) -> None:
        """Add the labels."""
        world, table = World.open(self.folder / WORLD), home / "labels.csv"
        for numbers in (*(range(i, i + 1) for i in range(6)), range(6, 12)):
            who = "bob" if len(numbers) > 1 else "ada"
            documents = write_labels(world, table, numbers, who)
            command("labels", "import", home / NAME, table)
            say(documents)
        table.unlink()

    def look(self, home: Path) -> Any:
        """Return what is labelled, and by whom."""
        printed = command("labels", "export", home / NAME, "-", "--as", "csv")
        rows = csv.DictReader(printed.splitlines())
        return sorted((row["document"], row["choice"], row["labeller"]) for row in rows)

    def check(self, home: Path, said: list[str], expected: Any) -> None:
        """Nothing acknowledged is lost, and the last import is there as a whole or not at all."""
        found = self.look(home)
        lost = set(said) - {document for document, _, _ in found}
        assert not lost, f"lost: {sorted(lost)}"
        n_together = sum(who == "bob" for _, _, who in found)
        assert n_together in (0, 6), f"{n_together} of 6 imported labels"


class Train(Scenario):
    """Train a model."""

    def act(self, home: Path, say: Say) -> None:
        """Train it."""
        out = ("--out", home / MODEL, "--pairs", 60, "--epochs", 1)
        command("train", "--kb", self.folder / KB, *out)

    def look(self, home: Path) -> Any:
        """Return the model's bytes."""
        return (home / MODEL).read_bytes() if (home / MODEL).exists() else None

    def check(self, home: Path, said: list[str], expected: Any) -> None:
        """There is none, or the whole one."""
        assert self.look(home) in (None, expected)


class Update(Scenario):
    """Add new documents and learn again."""

    def act(self, home: Path, say: Say) -> None:
        """Update; what was collected before it was killed is learned from."""
        try:
            command("update", home / NAME, "--from", self.folder / "later.jsonl", "--folds", 2)
        except (typer.Exit, WorkspaceError) as error:
            if isinstance(error, WorkspaceError) and "is collected" not in str(error):
                raise  # else by the time that it was killed all documents were there
            command("learn", home / NAME, *LEARN)

    def look(self, home: Path) -> Any:
        """Return how many documents there are, and what the pack was learned from."""
        space = Workspace.open(home / NAME)
        pack = EntityPack.load(space.pack_path)
        return space.documents.manifest.n_documents, pack.labels_fingerprint, pack.titles

    def check(self, home: Path, said: list[str], expected: Any) -> None:
        """There is a whole pack, and every version is whole."""
        assert not any(version.problem for version in Workspace.open(home / NAME).pack_versions())
        self.look(home)


class Learn(Scenario):
    """Learn a pack."""

    def act(self, home: Path, say: Say) -> None:
        """Learn it."""
        command("learn", home / NAME, *LEARN)

    def look(self, home: Path) -> Any:
        """Return the pack's bytes."""
        return [path.read_bytes() for path in (home / NAME / "packs").glob("*.stamo")]

    def check(self, home: Path, said: list[str], expected: Any) -> None:
        """There is no pack, or the whole one."""
        assert self.look(home) in ([], expected)
        command("status", home / NAME)


class Packs(Scenario):
    """Add, replace and remove packs."""

    def act(self, home: Path, say: Say) -> None:
        """Go through a pack's life."""
        (home / "packs").mkdir(exist_ok=True)
        for _ in range(2):
            command("packs", "replace", home / "packs", self.folder / PACK)
            command("packs", "replace", home / "packs", self.folder / LATER_PACK)
            command("packs", "remove", home / "packs", next((home / "packs").glob("*.stamo")).stem)
        command("packs", "replace", home / "packs", self.folder / LATER_PACK)

    def look(self, home: Path) -> Any:
        """Return the bytes of all packs."""
        return [path.read_bytes() for path in (home / "packs").glob("*.stamo")]

    def check(self, home: Path, said: list[str], expected: Any) -> None:
        """A pack is there whole or not at all."""
        whole = [[(self.folder / name).read_bytes()] for name in (PACK, LATER_PACK)]
        assert self.look(home) in ([], *whole)


SCENARIOS: dict[str, tuple[type[Scenario], str]] = {
    "build": (Build, ""),
    "collect": (Collect, NEW),
    "label": (Label, COLLECTED),
    "train": (Train, ""),
    "learn": (Learn, LABELLED),
    "update": (Update, LEARNED),
    "packs": (Packs, ""),
}

EVENTS = {"open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
LITTER = re.compile(r"\.tmp$|\.part$|stamo-build-")
MAX_CHILD_SECONDS = 120


class Fault(NamedTuple):
    """What happens at which point."""

    at: int
    kind: str
    """`kill`, `error` (no space left), or `limit` (no file beyond `at` bytes)."""


@dataclass
class Outcome:
    """What is known of work in a process of its own."""

    n_points: int = 0
    said: list[str] = field(default_factory=list)
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
            connection: sqlite3.Connection = connect(*args, **options)
            connection.set_trace_callback(lambda statement: self.hit(can_fail=False))
            return connection

        os.fsync = counted_fsync  # type: ignore[assignment]
        sqlite3.connect = counted_connect  # type: ignore[assignment]
        if self.fault is not None and self.fault.kind == "limit":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.fault.at, resource.RLIM_INFINITY))

    def on_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Take an audit event of Python."""
        if event not in EVENTS:
            return
        if event == "open":
            _, mode, flags = args
            is_text = isinstance(mode, str)
            if not (set("wax+") & set(mode) if is_text else flags & WRITING):
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
                outcome.said += value
            else:
                outcome.n_points, outcome.end = value
    return outcome


def _be_child(scenario: Scenario, home: Path, fault: Fault | None, log: int) -> None:
    os.setsid()
    logging.disable()
    sys.dont_write_bytecode = True

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
            is_told = error.errno in DISK_FULL
            end = f"refused: {error}" if is_told else f"failed: {last_lines()}"
        except BaseException:
            end = f"failed: {last_lines()}"
        if fault is not None and fault.kind == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        write("end", [points.n, end])
    finally:
        os._exit(0)


def _wait(child: int, kill_after: float | None) -> resource.struct_rusage:
    deadline = time.monotonic() + (kill_after or MAX_CHILD_SECONDS)
    while True:
        ended, _, usage = os.wait4(child, os.WNOHANG)
        if ended or time.monotonic() > deadline:
            # What it has started must not write any more.
            for end in (os.killpg, os.kill):
                try:
                    end(child, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue
            deadline = time.monotonic() + MAX_CHILD_SECONDS
        if ended:
            return usage
        time.sleep(0.002)


def judge(scenario: Scenario, home: Path, outcome: Outcome, expected: Any) -> Outcome:
    """Fail unless a reader finds the old or the new, and the work ends as if nothing had been."""
    scenario.check(home, outcome.said, expected)
    assert not outcome.end.startswith("failed"), outcome.end
    again = in_child(scenario, home)
    assert again.end == "done", f"done again: {again.end or 'it died'}"
    scenario.check(home, outcome.said + again.said, expected)
    assert scenario.look(home) == expected, "not the same after it was done again"
    litter = [str(p.relative_to(home)) for p in home.rglob("*") if LITTER.search(p.name)]
    assert not litter, f"litter: {litter[:3]}"
    return outcome


Trial = tuple[str, Callable[[], Outcome]]


class Striker:
    """Lets faults meet one kind of work."""

    def __init__(self, folder: Path, name: str, rng: random.Random) -> None:
        kind, template = SCENARIOS[name]
        self.scenario, self.folder, self.rng = kind(folder), folder, rng
        self.template, self.home = folder / TEMPLATES / (template or "empty"), folder / f"at-{name}"
        self.template.mkdir(exist_ok=True)
        self.whole = in_child(self.scenario, self.begin())
        assert self.whole.end == "done", self.whole.end
        self.expected = self.scenario.look(self.home)

    def begin(self) -> Path:
        """Return the folder as it is before the work."""
        return fresh(self.template, self.home)

    def kills(self) -> Iterator[Trial]:
        """Yield kills at every point in random order, and a quarter of the times at any moment."""
        points = self.rng.sample(range(1, self.whole.n_points + 1), self.whole.n_points)
        for number, at in enumerate(points):
            if number % 4 == 3:
                yield "kill at any moment", partial(self.kill, None)
            yield f"kill at point {at} of {self.whole.n_points}", partial(self.kill, at)

    def kill(self, at: int | None) -> Outcome:
        """Kill the work at a point or at any moment."""
        home, moment = self.begin(), self.rng.uniform(0.01, self.whole.seconds)
        fault = None if at is None else Fault(at, "kill")
        outcome = in_child(self.scenario, home, fault, None if at else moment)
        return judge(self.scenario, home, outcome, self.expected)

    def full_disks(self) -> Iterator[Trial]:
        """Yield an error at some of the points, and limits of how large a file may be."""
        n = self.whole.n_points
        faults = [Fault(at, "error") for at in range(1, n + 1, max(1, n // 12))]
        faults += [Fault(size, "limit") for size in (0, 1000, 5000, 20_000)]
        trials: list[Trial] = [(str(fault), partial(self.meet, fault)) for fault in faults]
        yield from self.rng.sample(trials, len(trials))

    def meet(self, fault: Fault) -> Outcome:
        """Let the work meet an error or a limit."""
        home = self.begin()
        outcome = in_child(self.scenario, home, fault)
        assert outcome.end, "it died"
        return judge(self.scenario, home, outcome, self.expected)


def strike(
    folder: Path, name: str, seed: str, choose: Callable[[Striker], Iterator[Trial]]
) -> Attack:
    """Return what lets faults meet one kind of work."""

    def attack(row: Row) -> Iterator[None]:
        for what, trial in choose(Striker(folder, name, random.Random(f"{seed}/{row.target}"))):
            start = time.perf_counter()
            try:
                outcome = trial()
                row.n_refused += outcome.end.startswith("refused")
                row.megabytes = max(row.megabytes, outcome.megabytes)
            except BaseException:
                row.fail(f"{what}: {last_lines()}")
            row.took(time.perf_counter() - start, MAX_CHILD_SECONDS)
            yield

    return attack


def targets(folder: Path, seed: str) -> Iterator[Target]:
    """Yield every kind of work, to be killed and to meet full disks."""
    for name in SCENARIOS:
        kills = strike(folder, name, seed, Striker.kills)
        yield Target(f"kills, {name}", kills, 3, max_megabytes=None)
    for name in SCENARIOS:
        disks = strike(folder, name, seed, Striker.full_disks)
        yield Target(f"full disk, {name}", disks, 3, max_megabytes=None)
