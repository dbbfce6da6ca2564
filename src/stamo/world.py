"""The embedded world: an invented encyclopaedia, later documents about it, and the answers.

Everything in it is made up. It is kept as one file, which the generator of `stamo-lab` writes.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from stamo.corpus.types import EmergingEntity
from stamo.errors import SettingsError
from stamo.system.files import in_use, sweep


@dataclass(frozen=True)
class WorldPaths:
    """Where the files of a world are."""

    dump_path: Path
    pile_path: Path
    gold_path: Path
    description_path: Path


@dataclass(frozen=True)
class World:
    """A world on disk."""

    paths: WorldPaths
    emerging: tuple[EmergingEntity, ...]

    @classmethod
    def open(cls, directory: Path) -> World:
        """Open a world that `generate_world` has written."""
        description_path = directory / "world.json"
        if not description_path.exists():
            raise SettingsError(
                f"{directory} holds no complete world; write one with: stamo world {directory}."
            )
        description = json.loads(description_path.read_text(encoding="utf-8"))
        paths = WorldPaths(
            dump_path=directory / description["dump"],
            pile_path=directory / "pile.jsonl",
            gold_path=directory / "gold.jsonl",
            description_path=description_path,
        )
        entries = description["emerging"]
        emerging = tuple(EmergingEntity(e["id"], tuple(e["aliases"])) for e in entries)
        return cls(paths, emerging)

    def describe(self) -> list[dict[str, Any]]:
        """Return what `world.json` says of each emerging entity."""
        text = self.paths.description_path.read_text(encoding="utf-8")
        entries: list[dict[str, Any]] = json.loads(text)["emerging"]
        return entries


def unpack_world(out_dir: Path) -> World:
    """Write the dump, the pile, the gold and `world.json` of the embedded world into a folder."""
    archive = resources.files("stamo") / "world.tar.xz"
    with (
        fresh_world(out_dir) as folder,
        archive.open("rb") as file,
        tarfile.open(fileobj=file, mode="r:xz") as members,
    ):
        members.extractall(folder, filter="data")
    return World.open(out_dir)


@contextmanager
def fresh_world(out_dir: Path) -> Iterator[Path]:
    """Give a folder for the files of a world; they replace those of `out_dir` when all are there.

    `world.json` is moved last, so a folder that has it holds the other files of the same world.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    sweep(out_dir, ".world-*")
    with (
        tempfile.TemporaryDirectory(prefix=".world-", dir=out_dir) as scratch,
        in_use(Path(scratch)),
    ):
        folder = Path(scratch)
        yield folder
        for stale in ("world.json", "dump.xml", "dump.xml.bz2"):
            (out_dir / stale).unlink(missing_ok=True)
        for path in sorted(folder.iterdir(), key=lambda path: path.name == "world.json"):
            path.replace(out_dir / path.name)
