"""The staged tables: what a source becomes before it is counted, whatever its kind.

A source that is no wiki lists articles. Titles are unique in a knowledge base and need not be in a
folder or a table: where several articles have one title, what tells them apart is added in
brackets. A part in brackets is no part of the name, so all of them stay candidates of it.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stamo.build.counting import MAX_SURFACE
from stamo.build.dump import DumpReader, PageChunk, parse_chunk
from stamo.build.export import row_groups
from stamo.build.language import AssumedLanguage, guess_language
from stamo.build.site import Site
from stamo.build.wikitext import CleanPage, clean, find_redirect, is_disambiguation, sanitise
from stamo.kb.base import normalise_surface, normalise_surfaces
from stamo.kb.manifest import SourceFile
from stamo.system.files import Closing
from stamo.system.processes import Workers, without_garbage_collection

if TYPE_CHECKING:
    from stamo.build.build import BuildSettings

PAGES_PER_CHUNK = 1 << 24
"""Room for page numbers inside a chunk; positions order all pages as the dump does."""
_ROWS = 1 << 14
_NO_BRACKETS = str.maketrans("()", "[]")

_INT32, _INT64, _TEXT, _FLAG = pa.int32(), pa.int64(), pa.string(), pa.bool_()
_PAGE = [("position", _INT64), ("page_id", _INT64), ("title", _TEXT)]
_SPAN = [("start", _INT32), ("stop", _INT32)]
_NAME = [("surface", _TEXT), ("target", _TEXT)]
STAGED_TABLES = {
    "page": pa.schema([*_PAGE, ("kind", _TEXT), ("target", _TEXT), ("held_out", _FLAG)]),
    "text": pa.schema([*_PAGE, ("text", _TEXT), ("held_out", _FLAG)]),
    "link": pa.schema([("position", _INT64), ("number", _INT32), *_SPAN, *_NAME]),
    "name": pa.schema([*_NAME, ("n", _INT64)]),
}
"""What a source becomes before it is counted. Names are those that a source lists for its titles
beside those that links use, with a count of uses; a dump lists none."""


@dataclass
class Build:
    """A build under way: what its steps need, and what they find."""

    path: Path
    """The source."""
    work: Path
    """The folder of the staged tables."""
    settings: BuildSettings
    held_out: float
    """Share of the articles to keep out of every statistic."""
    workers: Workers
    map: Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
    """Maps a function over chunks of the source in their order, in processes or elsewhere."""
    progress: Callable[[str, float | None], None]
    """Told the name of the step and how much of it is done, from 0 to 1, or None while unknown."""
    report: Callable[[float | None], None] = lambda done: None
    """Tells `progress` how much of the step under way is done."""
    counts: dict[str, int] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    described: dict[str, SourceFile] = field(default_factory=dict)
    """The sources that were read, as the manifest names them."""
    ids: Sequence[tuple[str, str]] = ()
    """The titles of entities with their ids elsewhere, where the source itself says them."""
    assumed: AssumedLanguage | None = None
    """The language of a source that does not say it, where nobody else said it."""

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step and report its progress."""
        begin = time.perf_counter()
        self.report = partial(self.progress, name)
        self.report(0.0)
        yield
        self.report(1.0)
        self.seconds[name] = time.perf_counter() - begin

    def plain_site(self, texts: Iterable[str]) -> Site:
        """Return the rules of titles where no wiki gives any: they stay as they are written.

        The language is the one that was set, else the one that some of the texts tell.
        """
        if self.settings.language is None:
            self.assumed = guess_language(texts)
        code = self.assumed.code if self.assumed else str(self.settings.language).casefold()
        return Site(language=code, case_first=False, namespaces={}, interwiki=frozenset())


class StagedWriter(Closing):
    """Append to staged tables, each one file.

    Args:
        work: The folder of the build.
        tables: Which of them.
        suffix: What stands behind their names.
    """

    def __init__(
        self, work: Path, tables: Iterable[str] = tuple(STAGED_TABLES), suffix: str = ""
    ) -> None:
        self.paths = {name: work / f"{name}{suffix}.parquet" for name in tables}
        # Titles, names and texts hardly repeat: a dictionary is no gain.
        self._writers = {
            name: pq.ParquetWriter(
                path, STAGED_TABLES[name], compression="lz4", use_dictionary=False
            )
            for name, path in self.paths.items()
        }

    def append(self, name: str, batch: pa.RecordBatch) -> None:
        """Write rows of a table behind those already there."""
        if len(batch):
            self._writers[name].write_batch(batch)

    def append_rows(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Write rows that come one by one."""
        rows = iter(rows)
        while some := list(itertools.islice(rows, _ROWS)):
            self.append(name, _record_batch(name, list(zip(*some, strict=True))))

    def close(self) -> None:
        """End the files."""
        for writer in self._writers.values():
            writer.close()


def _record_batch(table: str, columns: Sequence[Any]) -> pa.RecordBatch:
    schema = STAGED_TABLES[table]
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def is_held_out(title: str, share: float) -> bool:
    """Tell by the hash of its title whether an article is held out of all statistics."""
    digest = hashlib.blake2b(title.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


class Extract(NamedTuple):
    """What one chunk holds, as Arrow batches that travel between processes without copies."""

    pages: pa.RecordBatch
    texts: pa.RecordBatch
    links: pa.RecordBatch
    skipped: Counter[str]


@dataclass(slots=True)
class Rows:
    """The rows of a chunk while they are gathered; links by column: far too many for tuples."""

    pages: list[tuple[Any, ...]] = field(default_factory=list)
    texts: list[tuple[Any, ...]] = field(default_factory=list)
    link_positions: list[int] = field(default_factory=list)
    """Position of each page with links."""
    n_links: list[int] = field(default_factory=list)
    """How many links each of these pages has."""
    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    surfaces: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def add_links(self, page: CleanPage, position: int) -> None:
        """Add the links of a cleaned page."""
        names = normalise_surfaces([*page.surfaces, *(surface for surface, _ in page.other_links)])
        if names and max(map(len, names)) > MAX_SURFACE:
            names = [name if len(name) <= MAX_SURFACE else "" for name in names]
        # Links outside the running text (tables, captions, templates) have no span but count.
        outside = [-1] * len(page.other_links)
        self.link_positions.append(position)
        self.n_links.append(len(names))
        self.starts += page.starts + outside
        self.stops += page.ends + outside
        self.surfaces += names
        self.targets += page.targets
        self.targets += [target for _, target in page.other_links]
        for reason, n in page.n_dropped.items():
            self.skipped[f"link: {reason}"] += n

    def extract(self) -> Extract:
        """Return the rows; links get their numbers on their pages."""
        n_links = np.array(self.n_links, dtype=np.int64)
        firsts = np.repeat(np.cumsum(n_links) - n_links, n_links)
        positions = np.repeat(np.array(self.link_positions, dtype=np.int64), n_links)
        spans = [np.array(edges, dtype=np.int32) for edges in (self.starts, self.stops)]
        links = [positions, np.arange(len(firsts)) - firsts, *spans, self.surfaces, self.targets]
        return Extract(
            _record_batch("page", list(zip(*self.pages, strict=True)) or [()] * 6),
            _record_batch("text", list(zip(*self.texts, strict=True)) or [()] * 5),
            _record_batch("link", links),
            self.skipped,
        )


def read_dump(build: Build) -> Site:
    """Parse and clean a dump in workers; append what they find in the order of the dump."""
    with DumpReader(build.path, language=build.settings.language) as reader:
        templates = build.settings.disambiguation_templates
        extract = partial(
            extract_chunk, site=reader.site, held_out=build.held_out, templates=templates
        )
        with StagedWriter(build.work) as writer:
            for found in build.map(extract, reader.chunks()):
                writer.append("page", found.pages)
                writer.append("text", found.texts)
                writer.append("link", found.links)
                build.skipped.update(found.skipped)
                build.report(reader.progress())
        build.skipped.update(reader.skipped)
        return reader.site


def extract_chunk(
    chunk: PageChunk, site: Site, held_out: float, templates: frozenset[str] = frozenset()
) -> Extract:
    """Parse and clean every page of a chunk; runs in a worker."""
    site = _same_site(site)
    with without_garbage_collection():
        pages, skipped = parse_chunk(chunk, site)
        rows = Rows(skipped=skipped)
        for position, page in enumerate(pages, start=chunk.number * PAGES_PER_CHUNK):
            title = site.normalise_title(page.title)
            target = page.redirect or find_redirect(page.text, site)
            if not title:
                skipped["page without a title"] += 1
            elif target is not None:
                target = site.normalise_title(target.partition("#")[0])
                if not target or site.namespace_of(target)[0] != 0:
                    skipped["redirect out of the articles"] += 1
                else:
                    row = (position, page.page_id, title, "redirect", target, False)
                    rows.pages.append(row)
            elif not page.text.strip():
                skipped["empty page"] += 1
            elif is_disambiguation(page.text, title, site, templates):
                rows.pages.append((position, page.page_id, title, "disambiguation", None, False))
            else:
                is_out = is_held_out(title, held_out)
                rows.pages.append((position, page.page_id, title, "article", None, is_out))
                cleaned = clean(page.text, site, title)
                rows.add_links(cleaned, position)
                rows.texts.append((position, page.page_id, title, cleaned.text, is_out))
        return rows.extract()


@lru_cache(maxsize=4)
def _same_site(site: Site) -> Site:
    """Return the same object for equal sites: each chunk brings its own, and tables are by site."""
    return site


@dataclass(frozen=True, slots=True)
class Listed:
    """An article without its text."""

    title: str
    """As it should be."""
    qualifiers: tuple[str, ...] = ()
    """What may tell it from others of its title, the first that does; "" leaves it as it is."""
    names: tuple[str, ...] = ()
    """What else it is called."""
    count: int = 0
    """How often it is meant by each of its names, as far as the source says."""

    def all_names(self) -> list[str]:
        """Return the title and the other names, each once, as aliases are kept."""
        names = dict.fromkeys(map(normalise_surface, (self.title, *self.names)))
        return [name for name in names if name and len(name) <= MAX_SURFACE]


def tidy_title(title: str, site: Site) -> str:
    """Return a title on one line, without signs that no text has."""
    return site.normalise_title(sanitise(title))


def choose_titles(articles: Sequence[Listed]) -> list[str]:
    """Return a title for each article that no other has."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for number, article in enumerate(articles):
        groups[article.title].append(number)
    titles = [article.title for article in articles]
    taken = {title for title, numbers in groups.items() if len(numbers) == 1}
    for numbers in groups.values():
        if len(numbers) == 1:
            continue
        told_apart = _told_apart([articles[number] for number in numbers])
        for number, title in zip(numbers, told_apart, strict=True):
            others = (f"{title} ({n})" for n in itertools.count(2))
            free = (one for one in itertools.chain([title], others) if one not in taken)
            titles[number] = next(free)
            taken.add(titles[number])
    return titles


def _told_apart(articles: Sequence[Listed]) -> list[str]:
    titles = [article.title for article in articles]
    for level in range(max(len(article.qualifiers) for article in articles)):
        titles = []
        for article in articles:
            qualifier = "".join(article.qualifiers[level : level + 1]).translate(_NO_BRACKETS)
            titles.append(f"{article.title} ({qualifier})" if qualifier else article.title)
        if len(set(titles)) == len(titles):
            break
    return titles


def as_written(build: Build) -> StagedWriter:
    """Return where texts and links go as they are written; `settle_articles` reads them.

    Titles and the share held out of what goes there are not looked at.
    """
    return StagedWriter(build.work, ("text", "link"), "-as-written")


def settle_articles(
    build: Build,
    articles: Mapping[int, Listed],
    titles: Mapping[int, str],
    written: StagedWriter,
    find_title: Callable[[str, int], str | None],
) -> None:
    """Stage articles whose titles and links are settled only when all of them are known.

    They come by their positions, which ascend: pages, redirects, names, texts and links.

    Args:
        build: The build.
        articles: By position.
        titles: By position.
        written: What `as_written` returned.
        find_title: Returns the title that a target means on the article of a position; None where
            it is no link.
    """
    with StagedWriter(build.work) as writer:
        writer.append_rows("page", _pages(articles, titles, build.held_out))
        names = (
            (name, titles[at], article.count)
            for at, article in articles.items()
            for name in article.all_names()
        )
        writer.append_rows("name", names)
        for batch in row_groups(written.paths["text"]):
            named = [titles[at] for at in batch["position"].to_pylist()]
            held_out = [is_held_out(title, build.held_out) for title in named]
            writer.append("text", _with(batch, title=named, held_out=held_out))
        for batch in row_groups(written.paths["link"]):
            pairs = zip(batch["target"].to_pylist(), batch["position"].to_pylist(), strict=True)
            settled = _with(batch, target=[find_title(target, at) for target, at in pairs])
            found = settled["target"]
            build.skipped.update({"link: outside": found.null_count} if found.null_count else {})
            writer.append("link", settled.filter(found.is_valid()))
    for path in written.paths.values():
        path.unlink()


def _pages(
    articles: Mapping[int, Listed], titles: Mapping[int, str], share: float
) -> Iterator[tuple[Any, ...]]:
    """Yield the articles, and the names that lead to a single one and are no title as redirects."""
    for at in articles:
        yield at, at + 1, titles[at], "article", None, is_held_out(titles[at], share)
    claims = Counter(name for article in articles.values() for name in article.all_names())
    taken = set(titles.values())
    number = itertools.count(max(articles, default=-1) + 1)
    for at, article in articles.items():
        for name in article.all_names():
            if claims[name] == 1 and name not in taken:
                position = next(number)
                yield position, position + 1, name, "redirect", titles[at], False


def _with(batch: pa.RecordBatch, **columns: list[Any]) -> pa.RecordBatch:
    """Return the same rows with other columns of the given names."""
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else batch[field.name]
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
