"""What a world is made from, and what comes out of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stamo.corpus.types import EmergingEntity
from stamo.errors import SettingsError

MIN_ARTICLES = 250
ARTICLES_PER_EMERGING = 50


@dataclass(frozen=True)
class WorldSettings:
    """The size and the seed of a world; the same settings always give the same bytes."""

    seed: int = 7
    """Seed of every random choice."""
    n_articles: int = 700
    """Articles of the dump; redirects, disambiguations and other pages come on top."""
    n_emerging: int = 6
    """Emerging entities, which the pile mentions and the dump does not know."""
    documents_per_entity: int = 300
    """Documents of the pile written around the name of one emerging entity."""
    background_documents: int = 300
    """Documents of the pile that are written around none of them."""
    compress: bool = True
    """Write `dump.xml.bz2` and not `dump.xml`."""

    def __post_init__(self) -> None:
        if self.n_articles < MIN_ARTICLES:
            raise SettingsError(
                f"A world of {self.n_articles} articles is too small; "
                f"ask for at least {MIN_ARTICLES}."
            )
        most = self.n_articles // ARTICLES_PER_EMERGING
        if not 0 <= self.n_emerging <= most:
            raise SettingsError(
                f"{self.n_articles} articles have room for 0 to {most} emerging entities, "
                f"not {self.n_emerging}; change one of the two."
            )
        if min(self.documents_per_entity, self.background_documents) < 0:
            raise SettingsError("The number of documents is negative; give zero or more.")


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
