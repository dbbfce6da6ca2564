"""How to build a knowledge base."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stamo.build.dump.reader import CHUNK_BYTES
from stamo.errors import SettingsError

Report = Callable[[float | None], None]
"""Told how much of a stage is done, from 0 to 1, or None while that is unknown."""

BuildProgress = Callable[[str, float | None], None]
"""Told the name of the stage and how much of it is done."""


@dataclass(frozen=True)
class BuildSettings:
    """How to build a knowledge base."""

    vectors: Path | None = None
    """Word vectors to import; None learns them from the dump's own text."""

    dimensions: int = 100
    """Q of learned word vectors; 0 leaves all vectors out."""

    source: str | None = None
    """What is built from: dump, notes or entities; None tells it by the path."""

    language: str | None = None
    """Language code of notes, tables and dumps that do not say it; None guesses that of notes and
    tables by their text, and takes such a dump for English."""

    held_out: float | None = None
    """Share of the articles kept out of every statistic, for training and evaluation; by default
    a tenth of a dump's articles, and none of others."""

    missing_targets: bool = True
    """Whether a link target without a page is an entity too."""

    guess_redirects: bool = True
    """Whether a title without a page that is another spelling of one counts as its redirect."""

    ids: Path | None = None
    """The ids of entities elsewhere: page_props or wb_items_per_site as SQL, or two columns."""

    disambiguation_templates: frozenset[str] = frozenset()
    """Names of further templates that mark a disambiguation page."""

    index: Path | None = None
    """Index of a multistream archive."""

    workers: int = 1
    """Processes; the result does not depend on it."""

    memory: str | None = None
    """What DuckDB may use before it spills to disk; None finds what is enough."""

    chunk_bytes: int = CHUNK_BYTES
    """Wikitext handed to a worker at a time."""

    keep_staged: Path | None = None
    """Folder to make for the staged tables, which are removed otherwise."""

    overwrite: bool = False
    """Whether a knowledge base at the target may be replaced."""

    def __post_init__(self) -> None:
        if self.held_out is not None and not 0 <= self.held_out < 1:
            raise SettingsError(
                f"The held-out share is {self.held_out}; it must be at least 0 and below 1."
            )
        if self.workers < 1:
            raise SettingsError(f"The number of workers is {self.workers}; use at least one.")
        if self.dimensions < 0:
            raise SettingsError(
                f"Vectors of {self.dimensions} dimensions were asked for; use 0 "
                "for none or a positive number."
            )

    def of_result(self, held_out: float) -> dict[str, Any]:
        """Return the settings that shape the result, for the manifest."""
        return {
            "dimensions": self.dimensions,
            "disambiguation_templates": sorted(self.disambiguation_templates),
            "guess_redirects": self.guess_redirects,
            "held_out": held_out,
            "missing_targets": self.missing_targets,
        }
