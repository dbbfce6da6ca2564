"""A build under way, and the three steps that an engine of its own does in its own way."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stamo.build.dump.site import Site
from stamo.build.export import StagedArticles
from stamo.build.external_ids import IdRow
from stamo.build.language import AssumedLanguage, guess_language
from stamo.build.settings import BuildProgress, BuildSettings, Report
from stamo.build.source import Source
from stamo.kb.manifest import SourceFile
from stamo.system.files import RESULT_DIR
from stamo.system.processes import SpreadsWork


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
