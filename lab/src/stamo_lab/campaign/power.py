"""Power cuts for the label log: what was not synced is dropped, in part or as a whole.

Labels are added in a process whose system calls `strace` writes down. The files are then made anew
up to any of these calls: what was synced by then is there, of what was written since only a random
part, perhaps torn. Every label that was acknowledged by then must be found.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stamo.workspace.labels import LabelStore
from stamo_lab.campaign.table import Row, Target, last_lines, processor_seconds

CALLS = "openat,pwrite64,write,ftruncate,fsync,fdatasync,unlink"
ADD = """
import os, sys
from datetime import UTC, datetime
from stamo.workspace.labels import LabelStore, LabelTarget
for turn in range(4):
    with LabelStore.open(sys.argv[1]) as store:
        for number in range(8 * turn, 8 * turn + 8):
            target = LabelTarget(f"d{number}", 0, "Rey", 0, 3)
            store.add(target, "@emerging", labeller="ada", at=datetime.now(UTC))
            os.write(1, b"said d%d." % number)
"""
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (\d+)")
_FILE = re.compile(r"\d+<([^>]*)>")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass
class Disk:
    """A folder as it would be behind a power cut, and what a program was told until then."""

    synced: dict[str, bytes] = field(default_factory=dict)
    entries: set[str] = field(default_factory=set)
    """The files whose names are on the disk."""
    now: dict[str, bytes] = field(default_factory=dict)
    pending: dict[str, list[tuple[int, bytes | None]]] = field(default_factory=dict)
    """What was written to each file and not synced: its place and the bytes, or a new length."""
    said: set[str] = field(default_factory=set)

    def run(self, call: str, given: str, result: int, home: str) -> None:
        """Take one system call."""
        texts = list(map(_plain, _TEXT.findall(given)))
        named = _FILE.match(given)
        path = _plain(named[1]).decode() if named else ""
        if call == "write" and texts and texts[0].startswith(b"said "):
            self.said.update(re.findall(r"said (\w+)\.", texts[0].decode()))
        elif call == "openat" and "O_CREAT" in given and texts:
            opened = texts[0].decode()
            if opened.startswith(home):
                self.now.setdefault(opened, b"")
        elif call in ("pwrite64", "ftruncate") and path in self.now:
            at = int(re.findall(r", (\d+)$", given)[0])
            change = (at, texts[0][:result] if call == "pwrite64" else None)
            self.now[path] = _changed(self.now[path], *change)
            self.pending.setdefault(path, []).append(change)
        elif call in ("fsync", "fdatasync"):
            if path in self.now:
                self.synced[path], self.pending[path] = self.now[path], []
            elif path == home:  # the folder: the names in it
                self.entries = set(self.now)
        elif call == "unlink" and texts:
            for kept in (self.now, self.pending):
                kept.pop(texts[0].decode(), None)

    def cut(self, rng: random.Random) -> dict[str, bytes]:
        """Return the files as they are found when the power is back."""
        found = {}
        share = rng.choice((0, 0.3, 0.7))
        for path in self.entries | {p for p in self.now if rng.random() < share}:
            data = self.synced.get(path, b"")
            for at, change in self.pending.get(path, []):
                if rng.random() < share:
                    torn = change[: rng.choice((512, len(change)))] if change else change
                    data = _changed(data, at, torn)
            found[path] = data
        return found


def _plain(written: str) -> bytes:
    """Return the bytes that `strace` has written as numbers."""
    return bytes.fromhex(written.replace("\\x", ""))


def _changed(data: bytes, at: int, change: bytes | None) -> bytes:
    if change is None:
        return data[:at].ljust(at, b"\0")
    return data[:at].ljust(at, b"\0") + change + data[at + len(change) :]


def trace(home: Path) -> list[tuple[str, str, int]]:
    """Add labels in a process of its own; return its system calls."""
    log = home.with_suffix(".trace")
    words = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}", "-o", log]
    adding = [sys.executable, "-c", ADD, home / "labels.sqlite"]
    subprocess.run([*map(str, words), *map(str, adding)], check=True, stdout=subprocess.DEVNULL)
    found = map(_CALL.match, log.read_text(errors="replace").splitlines())
    return [(call[1], call[2], int(call[3])) for call in found if call]


def attack(folder: Path, seed: str, row: Row) -> Iterator[None]:
    """Cut the power at every call, then again with other parts of what was not synced."""
    if shutil.which("strace") is None:
        row.note = "not tried: there is no strace"
        return
    home = folder / "power"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    calls = trace(home)
    whole, turn = Disk(), 0
    for call in calls:
        whole.run(*call, str(home))
    if len(whole.said) < 32:
        row.fail(f"only {len(whole.said)} of 32 labels were seen in the trace")
    while True:
        rng, disk, turn = random.Random(f"{seed}/{turn}"), Disk(), turn + 1
        for number, call in enumerate(calls):
            disk.run(*call, str(home))
            if not disk.now:
                continue
            start = processor_seconds()
            try:
                look(folder / "powerless", home, disk, rng)
            except BaseException:
                row.fail(f"cut at call {number}: {last_lines()}")
            row.took(processor_seconds() - start)
            yield


def look(target: Path, home: Path, disk: Disk, rng: random.Random) -> None:
    """Make the files that a cut leaves, and open them."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for path, data in disk.cut(rng).items():
        (target / Path(path).relative_to(home)).write_bytes(data)
    with LabelStore.open(target / "labels.sqlite") as store:
        found = {event.target.document for event in store.events()}
    lost = disk.said - found
    assert not lost, f"lost: {sorted(lost)}"
    with sqlite3.connect(target / "labels.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def targets(folder: Path, seed: str) -> Iterator[Target]:
    """Yield the cuts."""
    yield Target("power cuts, labels", partial(attack, folder, seed), 2, max_megabytes=None)
