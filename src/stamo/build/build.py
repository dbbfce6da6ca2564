"""Build a knowledge base from a dump: read, count, write, move into place.

    dump ─chunks─▶ workers (parse, clean) ─▶ Parquet ─SQL─▶ tables ─▶ arrays, articles
           names ─▶ workers ─▶ tries        articles ─▶ workers ─▶ link probability, vectors

Memory is bounded by the chunks in flight, by DuckDB's limit and by the tables of entities and
aliases; texts and links stream from file to file.
"""

from __future__ import annotations

import logging
import resource
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import duckdb

from stamo.build import SourceKind, counting
from stamo.build.dump import DumpReader
from stamo.build.export import (
    LISTED_FILE,
    NAME_TABLES,
    StagedArticles,
    stage_articles,
    write_articles,
    write_lists,
    write_matcher,
    write_names,
    write_strings,
)
from stamo.build.ids import write_external_ids, write_ids
from stamo.build.occurrences import (
    OccurrenceCounts,
    count_occurrences,
    counted_texts,
    write_link_probability,
)
from stamo.build.settings import (
    BuildEngine,
    BuildProgress,
    BuildSettings,
    BuildState,
    Report,
    Source,
)
from stamo.build.site import Site
from stamo.build.staging import (
    MAX_SURFACE,
    STAGED_TABLES,
    ExtractSettings,
    StagedWriter,
    extract_chunk,
)
from stamo.errors import DumpError, KnowledgeBaseError, SettingsError
from stamo.kb.manifest import Manifest, SourceFile, describe_files, is_knowledge_base
from stamo.kb.storage import open_array
from stamo.system.files import DirectoryKind, staged_directory
from stamo.system.processes import Workers, give_back_memory, plain_allocator

logger = logging.getLogger(__name__)

KIND = DirectoryKind("knowledge base", is_knowledge_base, KnowledgeBaseError)

LINKS_DROPPED = {
    "disambiguation": "link to a disambiguation page",
    "cycle": "link to a redirect in a cycle",
    "missing": "link to a title without a page",
}

MEMORY_TO_TRY = (50, 100, 200, 400, 800)
"""Megabytes for each thread of the database, tried one after the other."""

IN_TEXT, ELSEWHERE = "links in running text", "links in tables, captions, notes"
TO_ARTICLES, TO_MISSING = "links to articles", "links to titles without a page"
COUNTED, HELD_OUT = "counted links", "links of held-out articles"
LINK_KINDS = (IN_TEXT, ELSEWHERE, TO_ARTICLES, TO_MISSING, COUNTED, HELD_OUT)


@dataclass(frozen=True)
class BuildSummary:
    """What a build did."""

    path: Path
    fingerprint: str
    counts: Mapping[str, int]
    skipped: Mapping[str, int]
    seconds: Mapping[str, float]
    """Seconds of wall time by stage."""
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
    progress: BuildProgress = lambda stage, done: None,
    engine: BuildEngine | None = None,
) -> BuildSummary:
    """Build a knowledge base from a MediaWiki XML dump, Markdown notes or a table of entities.

    The target is written in one step at the end: it is the old one or a complete new one.

    Args:
        source_path: The dump, plain or compressed; a folder of notes; a .csv, .tsv or .jsonl of
            entities.
        kb_path: The directory to make.
        settings: How to build; the default suits a Wikipedia.
        progress: Told what is going on.
        engine: Where it is done; processes of this machine by default.

    Raises:
        DumpError: The source cannot be read at all.
        KnowledgeBaseError: The target may not be replaced or cannot be written.
    """
    settings = settings or BuildSettings()
    target = Path(kb_path)
    source = Source.of(Path(source_path), settings.source)
    source.check(settings)
    if engine is not None and not source.is_dump:
        raise SettingsError("Spark builds from dumps; build from notes and tables without it.")
    if settings.ids is not None and not settings.ids.is_file():
        raise DumpError(f"There is no file of ids {str(settings.ids)!r}; check its path.")
    with (
        _kept_tables(settings.keep_staged),
        staged_directory(target.absolute(), KIND, overwrite=settings.overwrite) as work,
        Workers(settings.workers if engine is None else 1, may_fork=True) as workers,
        plain_allocator(),
        _database_errors(target),
    ):
        engine = engine or BuildEngine(workers, _read, _count, _write_articles)
        build = BuildState(source, settings, work, engine.workers, progress)
        manifest = _run(build, engine)
        if settings.keep_staged is not None:
            for name in STAGED_TABLES:
                shutil.move(build.staged_table(name), settings.keep_staged)
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


@contextmanager
def _kept_tables(folder: Path | None) -> Iterator[None]:
    """Make the folder for staged tables, and remove it again where the build fails.

    Raises:
        KnowledgeBaseError: It is there already.
    """
    if folder is None:
        yield
        return
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise KnowledgeBaseError(
            f"The staged tables cannot be kept in {str(folder)!r} ({error.strerror}); name a "
            "folder that does not exist yet."
        ) from error
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(build: BuildState, engine: BuildEngine) -> Manifest:
    settings = build.settings
    with build.stage(f"reading the {build.source.kind}") as report:
        site = engine.read(build, report)
    give_back_memory()
    staged = engine.count(build)
    give_back_memory()
    with build.stage("articles and link probability") as report:
        engine.write_articles(build, staged, report)
    sources = build.described or {str(build.source.kind): SourceFile.of(build.source.path)}
    if settings.ids is not None:
        sources["ids"] = SourceFile.of(settings.ids)
    if settings.ids is not None or build.ids:
        _write_ids(build, site)
    if settings.vectors is not None:
        sources["vectors"] = SourceFile.of(settings.vectors)
    build.counts["dimensions"] = build.counts["words"] = 0
    if settings.dimensions or settings.vectors is not None:
        # Imported here, since it takes a while and a build without vectors does not need it.
        from stamo.build.entity_vectors import write_vectors

        build.counts |= write_vectors(build)
    with build.stage("manifest"):
        files = describe_files(build.result, (path.name for path in build.result.iterdir()))
        manifest = Manifest(
            sources=sources,
            settings=settings.of_result(build.source.held_out(settings)),
            site={"language": site.language, "case_first": site.case_first},
            counts=build.counts,
            skipped=dict(sorted(build.skipped.items())),
            files=files,
        )
        manifest.save(build.result)
    return manifest


def _write_ids(build: BuildState, site: Site) -> None:
    n_entities = build.counts["entities"]
    with build.stage("ids"):
        if build.settings.ids is not None:
            ids = write_external_ids(build.settings.ids, build.result, site, n_entities)
        else:
            ids = write_ids(build.ids, build.result, n_entities)
    build.counts["entities with an id"] = ids.n_entities
    if ids.n_unknown:
        build.skipped["id of a title or page that is no entity"] = ids.n_unknown


def _read(build: BuildState, report: Report) -> Site:
    # What reads notes and tables is loaded only for them: a tenth of a second.
    if build.source.kind is SourceKind.notes:
        from stamo.build.notes import read_notes

        return read_notes(build, report)
    if build.source.kind is SourceKind.entities:
        from stamo.build.entities import stage_entities

        return stage_entities(build, report)
    return _read_dump(build, report)


def _read_dump(build: BuildState, report: Report) -> Site:
    """Parse and clean the dump in workers; append what they find in the order of the dump."""
    settings = build.settings
    with (
        DumpReader(
            build.source.path,
            index_path=settings.index,
            chunk_bytes=settings.chunk_bytes,
            language=settings.language,
        ) as reader,
        StagedWriter(build.work) as writer,
    ):
        site = reader.site
        extract = partial(extract_chunk, settings=extract_settings(build, site))
        for part in build.workers.map(extract, reader.chunks()):
            for name, batch in (("page", part.pages), ("text", part.texts), ("link", part.links)):
                writer.append(name, batch)
            build.skipped.update(part.skipped)
            report(reader.progress())
        build.skipped.update(reader.skipped)
    return site


def extract_settings(build: BuildState, site: Site) -> ExtractSettings:
    """Return what workers need to know to parse a dump."""
    settings = build.settings
    return ExtractSettings(site, build.source.held_out(settings), settings.disambiguation_templates)


def _count(build: BuildState) -> StagedArticles:
    """Count in the database, with as little memory as does; without a limit given, try with more.

    Most of what a query needs can wait on disk, but not all, and how much that is shows only when
    it runs.
    """
    settings = build.settings
    if settings.memory is not None:
        return _count_within(build, settings.memory)
    for megabytes in MEMORY_TO_TRY:
        skipped = build.skipped.copy()
        memory = f"{megabytes * settings.workers}MB"
        with suppress(duckdb.OutOfMemoryException):
            return _count_within(build, memory)
        logger.info("%s are not enough to count in; trying with more.", memory)
        build.skipped = skipped
    return _count_within(build, "80%")


def _count_within(build: BuildState, memory: str) -> StagedArticles:
    settings = build.settings
    with counting.open_database(build.work, memory=memory, threads=settings.workers) as connection:
        staged = count_with(build, connection, counting.number_by_window)
    counting.remove_database(build.work)
    return staged


def count_with(
    build: BuildState, connection: duckdb.DuckDBPyConnection, number_rows: counting.NumberRows
) -> StagedArticles:
    """Count what is staged with a database, and write the tables of numbers from it."""
    with build.stage("counting"):
        counting.count(
            connection,
            missing_targets=build.settings.missing_targets,
            max_surface=MAX_SURFACE,
            guess_redirects=build.settings.guess_redirects,
            number_rows=number_rows,
        )
        _collect_counts(build, connection)
        counting.drop(connection, "link", "target", "name", "page")
    with build.stage("writing tables"), ExitStack() as waiting:
        # Workers write names as soon as they are staged; whatever happens, they are waited for.
        start = build.workers.start
        for name in NAME_TABLES:
            staged = build.staged_names(name)
            build.counts[name] = write_names(connection, name, staged, build.result)
            if name == "aliases":
                waiting.callback(start(write_matcher, staged, build.result))
            waiting.callback(start(write_strings, staged, build.result, name))
        write_lists(connection, build.result, build.counts)
        counting.drop(connection, "entity", "redirect", "alias_entity", "occurs_in")
        return stage_articles(connection, build.work)


def _collect_counts(build: BuildState, connection: duckdb.DuckDBPyConnection) -> None:
    """Move what the summary and the manifest tell from the database into the build."""
    kinds_sql = counting.kept_kinds(build.settings.missing_targets)
    kinds = dict(connection.execute(counting.PAGE_COUNTS).fetchall())
    singles = {
        name: counting.single(connection, query.format(kinds=kinds_sql))
        for name, query in counting.SINGLE_COUNTS.items()
    }
    n_articles = kinds.get("article", 0)
    held_out = singles.pop("held-out articles")
    guessed = singles.pop("guessed redirects")
    build.counts |= {
        "articles": n_articles,
        "held-out articles": held_out,
        "counted articles": n_articles - held_out,
        "redirect pages": kinds.get("redirect", 0),
        "guessed redirects": guessed,
        "disambiguation pages": kinds.get("disambiguation", 0),
    }
    links = dict.fromkeys(LINK_KINDS, 0)
    kept = {"article", "missing"} if build.settings.missing_targets else {"article"}
    for kind, in_text, is_held_out, n in connection.execute(counting.LINK_COUNTS).fetchall():
        if kind not in kept:
            build.skipped[LINKS_DROPPED[kind]] += n
            continue
        links[IN_TEXT if in_text else ELSEWHERE] += n
        links[TO_ARTICLES if kind == "article" else TO_MISSING] += n
        links[HELD_OUT if is_held_out else COUNTED] += n
    build.counts |= links
    build.skipped.update({name: n for name, n in singles.items() if n})


def _write_articles(build: BuildState, staged: StagedArticles, report: Report) -> None:
    """Write the articles; workers look for aliases in each row group as soon as it is there."""
    groups = write_articles(staged, build.result)
    parts = chain.from_iterable(map(counted_texts, groups))
    counts = build.workers.map(partial(count_occurrences, result=build.result), parts)
    add_link_probability(build, counts, report)


def add_link_probability(
    build: BuildState, counts: Iterable[OccurrenceCounts], report: Report
) -> None:
    """Add up what was counted and write the link probability."""
    write_link_probability(
        counts,
        build.result,
        open_array(build.work / LISTED_FILE),
        lambda n_done: report(n_done / max(build.counts["counted articles"], 1)),
    )


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
