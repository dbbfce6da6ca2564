"""How to build a knowledge base."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from stamo.build import SourceKind
from stamo.build.dump import CHUNK_BYTES
from stamo.build.export import StagedArticles
from stamo.build.ids import IdRow
from stamo.build.language import AssumedLanguage, guess_language
from stamo.build.site import LANGUAGE_CODES, Site
from stamo.errors import DumpError, SettingsError
from stamo.kb.manifest import SourceFile
from stamo.system.files import RESULT_DIR
from stamo.system.processes import SpreadsWork

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


_COMPRESSED = frozenset({".bz2", ".gz", ".xz", ".zst"})
_TABLES = frozenset({".csv", ".jsonl", ".ndjson", ".tsv"})
_CODE = re.compile(r"[a-z]{2,3}(-[a-z0-9]{2,8}){0,3}")
DUMP_HELD_OUT = 0.1


@dataclass(frozen=True)
class Source:
    """Something to build from."""

    path: Path
    kind: SourceKind

    @classmethod
    def of(cls, path: Path, kind: str | None = None) -> Source:
        """Tell what a path holds: a folder is notes, .csv, .tsv and .jsonl are tables of entities.

        Raises:
            DumpError: Notes are not in a folder, or something else is one.
        """
        named = Path(path.stem) if path.suffix.lower() in _COMPRESSED else path
        if kind is not None:
            chosen = SourceKind(kind)
        elif path.is_dir():
            chosen = SourceKind.notes
        else:
            is_table = named.suffix.lower() in _TABLES
            chosen = SourceKind.entities if is_table else SourceKind.dump
        if (chosen is SourceKind.notes) != path.is_dir():
            there = "a folder" if path.is_dir() else "no folder"
            raise DumpError(
                f"{str(path)!r} is {there}; notes are given as a folder, dumps and tables as a "
                "file."
            )
        return cls(path, chosen)

    @property
    def is_dump(self) -> bool:
        """Whether it is a dump, which says most of what is to know itself."""
        return self.kind is SourceKind.dump

    def held_out(self, settings: BuildSettings) -> float:
        """Return the share of articles to hold out: of a dump a tenth, unless another is set."""
        if settings.held_out is not None:
            return settings.held_out
        return DUMP_HELD_OUT if self.is_dump else 0.0

    def check(self, settings: BuildSettings) -> None:
        """Refuse settings that another kind of source has.

        Raises:
            SettingsError: One is set.
        """
        code = (settings.language or "en").casefold()
        if code not in LANGUAGE_CODES and not _CODE.fullmatch(code):
            raise SettingsError(
                f"{settings.language!r} is no language code; give one such as pl or pt-br."
            )
        if self.is_dump:
            return
        if settings.index is not None or settings.disambiguation_templates:
            raise SettingsError(
                "--index and --disambiguation-template go with a dump; leave them out for notes "
                "and tables."
            )
        if self.kind is SourceKind.entities and (self.held_out(settings) or settings.ids):
            raise SettingsError(
                "A table of entities has no article to hold out, and its ids are its own column; "
                "leave --held-out and --ids out."
            )


def plain_site(language: str) -> Site:
    """Return the rules of titles where no wiki gives any: they stay as they are written."""
    return Site(language=language, case_first=False, namespaces={}, interwiki=frozenset())


@dataclass
class BuildState:
    """The state of a build under way."""

    source: Source
    settings: BuildSettings
    work: Path
    workers: SpreadsWork
    progress: BuildProgress
    described: dict[str, SourceFile] = field(default_factory=dict)
    """The sources that are read so far, as the manifest names them."""
    ids: Sequence[IdRow] = ()
    """The titles of entities with their ids elsewhere, where the source itself says them."""
    assumed: AssumedLanguage | None = None
    """The language of a source that does not say it, where nobody else said it."""
    counts: dict[str, int] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def result(self) -> Path:
        """The knowledge base that is being made."""
        return self.work / RESULT_DIR

    def language(self, texts: Iterable[str]) -> str:
        """Return the language that was set, else the one that some of the texts tell."""
        if self.settings.language is not None:
            return self.settings.language.casefold()
        self.assumed = guess_language(texts)
        return self.assumed.code

    def staged_names(self, name: str) -> Path:
        """Return where the names of a kind wait to be written."""
        return self.work / f"{name}.arrow"

    def staged_table(self, name: str) -> Path:
        """Return a staged table: a Parquet file, or a folder of them."""
        return self.work / f"{name}.parquet"

    @contextmanager
    def stage(self, name: str) -> Iterator[Report]:
        """Time a stage and report its progress."""
        begin = time.perf_counter()
        self.progress(name, 0.0)
        yield partial(self.progress, name)
        self.progress(name, 1.0)
        self.seconds[name] = time.perf_counter() - begin


@dataclass(frozen=True)
class BuildEngine:
    """Where a build is done; every engine gives the same bytes."""

    workers: SpreadsWork
    read: Callable[[BuildState, Report], Site]
    """Parses and cleans the dump into the staged tables."""
    count: Callable[[BuildState], StagedArticles]
    """Counts, and writes the tables of numbers."""
    write_articles: Callable[[BuildState, StagedArticles, Report], None]
    """Writes the articles and the link probability."""
