"""Many who change one workspace and one folder of packs at once, in random interleavings."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

from stamo import EntityPack, Workspace
from stamo.errors import StamoError
from stamo.workspace.labels import LabelTarget
from stamo_lab.campaign.artifacts import (
    FOUND,
    LATER_PACK,
    LEARN,
    LEARNED,
    NAME,
    PACK,
    TEMPLATES,
    fresh,
)
from stamo_lab.campaign.faults import LITTER
from stamo_lab.campaign.table import Row, Target, command, last_lines, processor_seconds

N_WORKERS = 4
N_CHANGES = 4
"""Of each worker in a round."""
RARE = 0.02
"""Share of the changes that take a second and more."""


def _label(folder: Path, home: Path, rng: random.Random) -> list[str]:
    """Label a mention; return what was acknowledged."""
    document = f"raced-{rng.getrandbits(40)}"
    with Workspace.open(home / NAME).open_labels() as store:
        target = LabelTarget(document, 0, "Rey", 0, 3)
        store.add(target, "@none", labeller="bob", at=datetime.now(UTC))
    return [document]


def _remove(folder: Path, home: Path, rng: random.Random) -> None:
    for path in (home / "packs").glob("*.stamo"):
        command("packs", "remove", home / "packs", path.stem)


def _accept(folder: Path, home: Path, rng: random.Random) -> None:
    command("found", "accept", home / FOUND, "1", home / "accepted", "--who", "ada")


Change = Callable[[Path, Path, random.Random], list[str] | None]


def _command(*words: str) -> Change:
    """Return a command, with places for what is there."""

    def change(folder: Path, home: Path, rng: random.Random) -> None:
        version = rng.choice("12")
        command(*(word.format(folder=folder, home=home, version=version) for word in words))

    return change


CHANGES: tuple[Change, ...] = (
    _command("packs", "add", "{home}/packs", "{folder}/" + PACK),
    _command("packs", "replace", "{home}/packs", "{folder}/" + LATER_PACK),
    _command("history", "rollback", "{home}/" + NAME, "{version}"),
    _command("status", "{home}/" + NAME),
    _remove,
    _label,
    _label,
)
SLOW: tuple[Change, ...] = (
    _command("update", "{home}/" + NAME, "--from", "{folder}/later.jsonl", "--folds", "2"),
    _command("learn", "{home}/" + NAME, *LEARN),
    _accept,
)


def _work(folder: Path, home: Path, rng: random.Random, log: int) -> None:
    """Do some changes one after the other; write down what was acknowledged, and what failed."""
    for _ in range(N_CHANGES):
        change = rng.choice(SLOW if rng.random() < RARE else CHANGES)
        time.sleep(rng.choice((0, 0.002, 0.01)))
        said, failed = None, ""
        try:
            said = change(folder, home, rng)
        except StamoError:  # somebody else was faster
            failed = "told"
        except BaseException as error:
            failed = "" if type(error).__name__ == "Exit" else last_lines()
        os.write(log, json.dumps([said or [], failed]).encode() + b"\n")


def race(folder: Path, home: Path, seed: str) -> int:
    """Let several processes change one folder at once; return how often one was told to wait."""
    fresh(folder / TEMPLATES / LEARNED, home)
    fresh(folder / FOUND, home / FOUND)
    (home / "packs").mkdir()
    with tempfile.TemporaryFile() as log:
        children = []
        for number in range(N_WORKERS):
            child = os.fork()
            if not child:
                try:
                    _work(folder, home, random.Random(f"{seed}/{number}"), log.fileno())
                finally:
                    os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        log.seek(0)
        told = [json.loads(line) for line in log.read().splitlines()]
    assert len(told) == N_WORKERS * N_CHANGES, "a worker has died"
    failures = [failed for _, failed in told if failed not in ("", "told")]
    assert not failures, failures[0]
    packs = [path.read_bytes() for path in (home / "packs").glob("*.stamo")]
    whole = [(folder / name).read_bytes() for name in (PACK, LATER_PACK)]
    assert len(packs) <= 1, "twins"
    assert all(pack in whole for pack in packs), "a pack that nobody added"
    space = Workspace.open(home / NAME)
    versions = space.pack_versions()
    assert sum(version.is_current for version in versions) == 1, "the pack is no version"
    assert not any(version.problem for version in versions), "a version is damaged"
    EntityPack.load(space.pack_path)
    with space.read_labels() as store:
        found = {event.target.document for event in store.events()}
    lost = {document for said, _ in told for document in said} - found
    assert not lost, f"lost: {sorted(lost)}"
    litter = [path.name for path in home.rglob("*") if LITTER.search(path.name)]
    assert not litter, f"litter: {litter[:3]}"
    return sum(failed == "told" for _, failed in told)


def races(folder: Path, seed: str, row: Row) -> Iterator[None]:
    """Race again and again."""
    for number in count():
        start = processor_seconds()
        try:
            row.n_refused += race(folder, folder / "racing", f"{seed}/{number}")
        except BaseException:
            row.fail(last_lines())
        row.took(processor_seconds() - start, 60)
        yield


def targets(folder: Path, seed: str) -> Iterator[Target]:
    """Yield the rounds."""
    yield Target("interleavings", partial(races, folder, seed), 8, max_megabytes=None)
