"""Build a knowledge base from a dump: read, count, write, move into place.

    dump ─chunks─▶ workers (parse, clean) ─▶ Parquet ─SQL─▶ tables ─▶ arrays, articles
           names ─▶ workers ─▶ tries        articles ─▶ workers ─▶ link probability, vectors

Memory is bounded by the chunks in flight, by DuckDB's limit and by the tables of entities and
aliases; texts and links stream from file to file.
"""

from __future__ import annotations

import logging
import re
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, starmap
from pathlib import Path
from typing import Any

import duckdb

from stamo.build import SourceKind, counting
from stamo.build.export import (
    LISTED_FILE,
    NAME_TABLES,
    stage_mentions,
    write_articles,
    write_lists,
    write_matcher,
    write_names,
    write_strings,
)
from stamo.build.fetch import LATEST, fetch_dump, is_wiki
from stamo.build.occurrences import count_occurrences, counted_texts, write_link_probability
from stamo.build.site import LANGUAGE_CODES
from stamo.build.staging import Build, read_dump
from stamo.errors import DumpError, KnowledgeBaseError, SettingsError
from stamo.kb.manifest import Manifest, SourceFile, describe_files, is_knowledge_base
from stamo.kb.search import write_search
from stamo.kb.storage import open_array
from stamo.system.files import RESULT_DIR, DirectoryKind, Int64, staged_directory
from stamo.system.processes import Workers, give_back_memory, plain_allocator

logger = logging.getLogger(__name__)

KIND = DirectoryKind("knowledge base", is_knowledge_base, KnowledgeBaseError)
DUMP_HELD_OUT = 0.1
MEMORY_TO_TRY = (50, 100, 200, 400, 800)
"""Megabytes for each thread of the database, tried one after the other."""
_COMPRESSED = frozenset({".bz2", ".gz", ".xz", ".zst"})
_TABLES = frozenset({".csv", ".jsonl", ".ndjson", ".tsv"})
_CODE = re.compile(r"[a-z]{2,3}(-[a-z0-9]{2,8}){0,3}")

BuildProgress = Callable[[str, float | None], None]
"""Told the name of the step and how much of it is done, from 0 to 1, or None while unknown."""

MapChunks = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Maps a function over chunks of a dump and gives the results in their order."""


@dataclass(frozen=True)
class BuildSettings:
    """How to build a knowledge base."""

    vectors: Path | None = None
    """Word vectors to import; None learns them from the dump's own text."""

    dimensions: int = 100
    """Q of learned word vectors; 0 leaves all vectors out."""

    source: str | None = None
    """What is built from: dump, notes or entities; None tells it by the path."""

    date: str = LATEST
    """Which dump of a wiki to fetch, such as 20260101."""

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

    workers: int = 1
    """Processes; the result does not depend on it."""

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
        if self.date != LATEST and not re.fullmatch(r"\d{8}", self.date):
            raise SettingsError(f"The date of a dump is written as 20260101, not {self.date!r}.")
        code = (self.language or "en").casefold()
        if code not in LANGUAGE_CODES and not _CODE.fullmatch(code):
            raise SettingsError(
                f"{self.language!r} is no language code; give one such as pl or pt-br."
            )


@dataclass(frozen=True)
class BuildSummary:
    """What a build did."""

    path: Path
    fingerprint: str
    counts: Mapping[str, int]
    skipped: Mapping[str, int]
    seconds: Mapping[str, float]
    """Seconds of wall time by step."""
    peak_memory: int
    """Bytes of the main process at its largest."""
    peak_memory_worker: int
    """Bytes of the largest worker, 0 without workers."""
    assumed_language: str = ""
    """What was assumed of the language of a source that does not say it, in a sentence."""


def build_knowledge_base(
    source_path: str | Path,
    kb_path: str | Path,
    settings: BuildSettings | None = None,
    progress: BuildProgress = lambda step, done: None,
    map_chunks: MapChunks | None = None,
) -> BuildSummary:
    """Build a knowledge base from a MediaWiki XML dump, Markdown notes or a table of entities.

    The target is written in one step at the end: it is the old one or a complete new one.

    Args:
        source_path: The dump, plain or compressed; the short name of a wiki, whose dump is fetched
            into the folder of the knowledge base; a folder of notes; a .csv, .tsv or .jsonl of
            entities.
        kb_path: The directory to make.
        settings: How to build; the default suits a Wikipedia.
        progress: Told what is going on.
        map_chunks: Reads the chunks of a dump elsewhere, such as in tasks of Spark; the processes
            of this machine by default.

    Raises:
        DumpError: The source cannot be read at all.
        KnowledgeBaseError: The target may not be replaced or cannot be written.
    """
    settings = settings or BuildSettings()
    path, target = Path(source_path), Path(kb_path)
    kind = _kind_of(path, settings.source)
    held_out = settings.held_out
    if held_out is None:
        held_out = DUMP_HELD_OUT if kind is SourceKind.dump else 0.0
    if kind is not SourceKind.dump:
        _check_no_dump(kind, settings, elsewhere=map_chunks is not None)
    if settings.ids is not None and not settings.ids.is_file():
        raise DumpError(f"There is no file of ids {str(settings.ids)!r}; check its path.")
    with (
        staged_directory(target.absolute(), KIND, overwrite=settings.overwrite) as work,
        Workers(settings.workers, may_fork=True) as workers,
        plain_allocator(),
        _database_errors(target),
    ):
        map_here = map_chunks or workers.map
        build = Build(path, work, settings, held_out, workers, map_here, progress)
        if is_wiki(path):
            with build.step("fetching the dump"):
                here = target.absolute().parent
                build.path = path = fetch_dump(str(path), here, settings.date, build.report)
        elif settings.date != LATEST:
            raise SettingsError("A date goes with the short name of a wiki, such as simplewiki.")
        with build.step(f"reading the {kind}"):
            # What reads notes and tables is loaded only for them: a tenth of a second.
            if kind is SourceKind.notes:
                from stamo.build.notes import read_notes as read
            elif kind is SourceKind.entities:
                from stamo.build.entities import read_entities as read
            else:
                read = read_dump
            site = read(build)
        give_back_memory()
        positions = _count(build)
        give_back_memory()
        with build.step("articles and link probability"):
            _write_articles(build, positions)
        sources = build.described or {str(kind): SourceFile.of(path)}
        if settings.ids is not None:
            sources["ids"] = SourceFile.of(settings.ids)
        if settings.ids is not None or build.ids:
            from stamo.build.entities import write_ids

            write_ids(build, site)
        if settings.vectors is not None:
            sources["vectors"] = SourceFile.of(settings.vectors)
        build.counts["dimensions"] = build.counts["words"] = 0
        if settings.dimensions or settings.vectors is not None:
            # Imported here, since it takes a while and a build without vectors does not need it.
            from stamo.build.entity_vectors import write_vectors

            write_vectors(build, is_dump=kind is SourceKind.dump)
        with build.step("index of names"):
            write_search(work / RESULT_DIR, work / RESULT_DIR)
        with build.step("manifest"):
            manifest = Manifest(
                sources=sources,
                settings={
                    "dimensions": settings.dimensions,
                    "disambiguation_templates": sorted(settings.disambiguation_templates),
                    "guess_redirects": settings.guess_redirects,
                    "held_out": held_out,
                    "missing_targets": settings.missing_targets,
                },
                site={"language": site.language, "case_first": site.case_first},
                counts=build.counts,
                skipped=dict(sorted(build.skipped.items())),
                files=describe_files(work / RESULT_DIR),
            )
            manifest.save(work / RESULT_DIR)
    return BuildSummary(
        path=target,
        fingerprint=manifest.fingerprint,
        counts=build.counts,
        skipped=dict(build.skipped),
        seconds=build.seconds,
        peak_memory=_peak_memory(resource.RUSAGE_SELF),
        peak_memory_worker=_peak_memory(resource.RUSAGE_CHILDREN) if settings.workers > 1 else 0,
        assumed_language=str(build.assumed or ""),
    )


def _kind_of(path: Path, kind: str | None) -> SourceKind:
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
            f"{str(path)!r} is {there}; notes are given as a folder, dumps and tables as a file."
        )
    return chosen


def _check_no_dump(kind: SourceKind, settings: BuildSettings, *, elsewhere: bool) -> None:
    """Refuse for notes and tables what only dumps have."""
    if elsewhere:
        raise SettingsError("Spark builds from dumps; build from notes and tables without it.")
    if settings.disambiguation_templates:
        raise SettingsError(
            "--disambiguation-template goes with a dump; leave it out for notes and tables."
        )
    if kind is SourceKind.entities and (settings.held_out or settings.ids):
        raise SettingsError(
            "A table of entities has no article to hold out, and its ids are its own column; "
            "leave --held-out and --ids out."
        )


def _count(build: Build) -> Int64:
    """Count in the database, with as little memory as does; return the documents' positions.

    Most of what a query needs can wait on disk, but not all, and how much that is shows only when
    it runs.
    """
    for megabytes in MEMORY_TO_TRY:
        memory = f"{megabytes * build.settings.workers}MB"
        with suppress(duckdb.OutOfMemoryException):
            return _count_within(build, memory)
        logger.info("%s are not enough to count in; trying with more.", memory)
    return _count_within(build, "80%")


def _count_within(build: Build, memory: str) -> Int64:
    settings, work, result = build.settings, build.work, build.work / RESULT_DIR
    with counting.open_database(work, memory=memory, threads=settings.workers) as connection:
        with build.step("counting"):
            build.counts, omitted = counting.count(
                connection,
                missing_targets=settings.missing_targets,
                guess_redirects=settings.guess_redirects,
            )
        with build.step("writing tables"), ExitStack() as waiting:
            # Workers write names as soon as they are staged; whatever happens, they are waited for.
            start = build.workers.start
            for name in NAME_TABLES:
                staged = work / f"{name}.arrow"
                build.counts[name] = write_names(connection, name, staged, result)
                if name == "aliases":
                    waiting.callback(start(write_matcher, staged, result))
                waiting.callback(start(write_strings, staged, result, name))
            write_lists(connection, result, build.counts)
            counting.drop(connection, "entity", "redirect", "alias_entity", "occurs_in")
            positions = stage_mentions(connection, work / "mention.npy")
    counting.remove_database(work)
    build.skipped.update(omitted)
    return positions


def _write_articles(build: Build, positions: Int64) -> None:
    """Write the articles; workers look for aliases in each row group as soon as it is there."""
    work, result = build.work, build.work / RESULT_DIR
    n_counted = max(build.counts["counted articles"], 1)
    groups = write_articles(work / "text.parquet", work / "mention.npy", positions, result)
    chunks = chain.from_iterable(starmap(counted_texts, groups))
    counts = build.workers.map(partial(count_occurrences, result=result), chunks)
    listed = open_array(work / LISTED_FILE)
    write_link_probability(counts, result, listed, lambda n_done: build.report(n_done / n_counted))


@contextmanager
def _database_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        if "No space left" in str(error) or "File too large" in str(error):
            raise KIND.disk_full(target) from error
        raise KnowledgeBaseError(
            f"Counting for {str(target)!r} failed ({error}); give more memory or free some disk "
            "space."
        ) from error


def _peak_memory(who: int) -> int:
    peak = resource.getrusage(who).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
