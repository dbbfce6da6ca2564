"""The staged tables: what a source becomes before it is counted, whatever its kind.

A source that is no wiki lists articles. Titles are unique in a knowledge base and need not be in a
folder or a table: where several articles have one title, what tells them apart is added in
brackets. A part in brackets is no part of the name, so all of them stay candidates of it.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stamo.build.dump import Chunk, RawPage, parse_chunk
from stamo.build.export import row_groups
from stamo.build.settings import BuildState
from stamo.build.site import Site
from stamo.build.wikitext import CleanPage, clean, find_redirect, is_disambiguation, sanitise
from stamo.kb.candidates import normalise_surface, normalise_surfaces
from stamo.system.files import Closing
from stamo.system.processes import without_garbage_collection

_ARTICLE, _REDIRECT, _DISAMBIGUATION = "article", "redirect", "disambiguation"
MAX_SURFACE = 200
"""Longer link texts (whole sentences) are no names; the link counts, its surface does not."""

PAGES_PER_CHUNK = 1 << 24
"""Room for page numbers inside a chunk; positions order all pages as the dump does."""

PAGE_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("page_id", pa.int64()),
        ("title", pa.string()),
        ("kind", pa.string()),
        ("target", pa.string()),
        ("held_out", pa.bool_()),
    ]
)
TEXT_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("page_id", pa.int64()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("held_out", pa.bool_()),
    ]
)
LINK_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("number", pa.int32()),
        ("start", pa.int32()),
        ("stop", pa.int32()),
        ("surface", pa.string()),
        ("target", pa.string()),
    ]
)


GIVEN_NAME_SCHEMA = pa.schema(
    [("surface", pa.string()), ("target", pa.string()), ("n", pa.int64())]
)
"""Names that a source lists for its titles, beside those that links use, with a count of uses."""

STAGED_TABLES = {
    "page": PAGE_SCHEMA,
    "text": TEXT_SCHEMA,
    "link": LINK_SCHEMA,
    "name": GIVEN_NAME_SCHEMA,
}
"""What a source becomes before it is counted; a dump lists no names."""


@dataclass(frozen=True, slots=True)
class ExtractSettings:
    """What a worker needs to know."""

    site: Site
    held_out: float
    disambiguation_templates: frozenset[str]


@dataclass(frozen=True, slots=True)
class Extract:
    """What one chunk holds, as Arrow batches that travel between processes without copies."""

    pages: pa.RecordBatch
    texts: pa.RecordBatch
    links: pa.RecordBatch
    skipped: Counter[str]


@dataclass(slots=True)
class Columns:
    """The rows of a chunk while they are gathered."""

    pages: list[tuple[Any, ...]] = field(default_factory=list)
    texts: list[tuple[Any, ...]] = field(default_factory=list)
    links: Links = field(default_factory=lambda: Links())
    skipped: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Links:
    """The columns of links: far too many for a tuple each."""

    positions: list[int] = field(default_factory=list)
    """Position of each page with links."""
    n_links: list[int] = field(default_factory=list)
    """How many links each of these pages has."""
    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    surfaces: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)

    def batch(self) -> pa.RecordBatch:
        """Return the links with the number of each on its page."""
        n_links = np.array(self.n_links, dtype=np.int64)
        firsts = np.repeat(np.cumsum(n_links) - n_links, n_links)
        columns = [
            np.repeat(np.array(self.positions, dtype=np.int64), n_links),
            np.arange(len(firsts)) - firsts,
            np.array(self.starts, dtype=np.int32),
            np.array(self.stops, dtype=np.int32),
            self.surfaces,
            self.targets,
        ]
        return _record_batch(columns, LINK_SCHEMA)


def is_held_out(title: str, share: float) -> bool:
    """Tell by the hash of its title whether an article is held out of all statistics."""
    digest = hashlib.blake2b(title.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def extract_chunk(chunk: Chunk, settings: ExtractSettings) -> Extract:
    """Parse and clean every page of a chunk."""
    settings = replace(settings, site=_same_site(settings.site))
    with without_garbage_collection():
        pages, skipped = parse_chunk(chunk, settings.site)
        columns = Columns(skipped=Counter(skipped))
        for number, page in enumerate(pages):
            _extract_page(page, chunk.index * PAGES_PER_CHUNK + number, settings, columns)
        return Extract(
            rows_batch(columns.pages, PAGE_SCHEMA),
            rows_batch(columns.texts, TEXT_SCHEMA),
            columns.links.batch(),
            columns.skipped,
        )


@lru_cache(maxsize=4)
def _same_site(site: Site) -> Site:
    """Return the same object for equal sites: each chunk brings its own, and tables are by site."""
    return site


def rows_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as a batch."""
    return _record_batch(list(zip(*rows, strict=True)) if rows else [()] * len(schema), schema)


def _record_batch(columns: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        pa.array(column, type=kind.type) for column, kind in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _extract_page(
    page: RawPage, position: int, settings: ExtractSettings, columns: Columns
) -> None:
    site = settings.site
    title = site.normalise_title(page.title)
    if page.namespace != 0:
        columns.skipped["page of another namespace"] += 1
        return
    if not title:
        columns.skipped["page without a title"] += 1
        return
    target = page.redirect or find_redirect(page.text, site)
    if target is not None:
        target = site.normalise_title(target.partition("#")[0])
        if not target or site.namespace_of(target)[0] != 0:
            columns.skipped["redirect out of the articles"] += 1
            return
        columns.pages.append((position, page.page_id, title, _REDIRECT, target, False))
    elif not page.text.strip():
        columns.skipped["empty page"] += 1
    elif is_disambiguation(page.text, title, site, settings.disambiguation_templates):
        columns.pages.append((position, page.page_id, title, _DISAMBIGUATION, None, False))
    else:
        held_out = is_held_out(title, settings.held_out)
        columns.pages.append((position, page.page_id, title, _ARTICLE, None, held_out))
        text = add_page(clean(page.text, site, title), position, columns)
        columns.texts.append((position, page.page_id, title, text, held_out))


def add_page(page: CleanPage, position: int, columns: Columns) -> str:
    """Add the links of a cleaned page and return its text."""
    names = normalise_surfaces([*page.surfaces, *(surface for surface, _ in page.other_links)])
    if names and max(map(len, names)) > MAX_SURFACE:
        names = [name if len(name) <= MAX_SURFACE else "" for name in names]
    # Links outside the running text (tables, captions, templates) have no span but still count.
    outside = [-1] * len(page.other_links)
    links = columns.links
    links.positions.append(position)
    links.n_links.append(len(names))
    links.starts += page.starts
    links.starts += outside
    links.stops += page.ends
    links.stops += outside
    links.surfaces += names
    links.targets += page.targets
    links.targets += [target for _, target in page.other_links]
    for reason, n in page.n_dropped.items():
        columns.skipped[f"link: {reason}"] += n
    return page.text


FindTitle = Callable[[str, int], str | None]
"""Returns the title that a target means on the article of a position; None where it is no link."""

_ROWS = 1 << 14
_NO_BRACKETS = str.maketrans("()", "[]")
_Row = tuple[Any, ...]


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

    def append_rows(self, name: str, rows: Iterable[_Row]) -> None:
        """Write rows that come one by one."""
        rows = iter(rows)
        while some := list(itertools.islice(rows, _ROWS)):
            self.append(name, rows_batch(some, STAGED_TABLES[name]))

    def close(self) -> None:
        """End the files."""
        for writer in self._writers.values():
            writer.close()


def as_written(build: BuildState) -> StagedWriter:
    """Return where texts and links go as they are written; `settle_articles` reads them.

    Titles and the share held out of what goes there are not looked at.
    """
    return StagedWriter(build.work, ("text", "link"), "-as-written")


def settle_articles(
    build: BuildState,
    articles: Mapping[int, Listed],
    titles: Mapping[int, str],
    written: StagedWriter,
    find_title: FindTitle,
) -> None:
    """Stage articles whose titles and links are settled only when all of them are known.

    They come by their positions, which ascend: pages, redirects, names, texts and links.
    """
    share = build.source.held_out(build.settings)
    with StagedWriter(build.work) as writer:
        writer.append_rows("page", _pages(articles, titles, share))
        names = (
            (name, titles[at], article.count)
            for at, article in articles.items()
            for name in article.all_names()
        )
        writer.append_rows("name", names)
        for batch in row_groups(written.paths["text"]):
            named = [titles[at] for at in batch["position"].to_pylist()]
            held_out = [is_held_out(title, share) for title in named]
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
) -> Iterator[_Row]:
    for at in articles:
        yield at, at + 1, titles[at], "article", None, is_held_out(titles[at], share)
    first = max(articles, default=-1) + 1
    for at, (name, target) in enumerate(redirects(articles, titles), start=first):
        yield at, at + 1, name, "redirect", target, False


def _with(batch: pa.RecordBatch, **columns: list[Any]) -> pa.RecordBatch:
    """Return the same rows with other columns of the given names."""
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else batch[field.name]
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


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
    for place, article in enumerate(articles):
        groups[article.title].append(place)
    titles = [article.title for article in articles]
    taken = {title for title, places in groups.items() if len(places) == 1}
    for places in groups.values():
        if len(places) == 1:
            continue
        told_apart = _told_apart([articles[place] for place in places])
        for place, title in zip(places, told_apart, strict=True):
            titles[place] = _free(title, taken)
            taken.add(titles[place])
    return titles


def _told_apart(articles: Sequence[Listed]) -> list[str]:
    titles = [article.title for article in articles]
    for level in range(max(len(article.qualifiers) for article in articles)):
        titles = [_qualified(article, level) for article in articles]
        if len(set(titles)) == len(titles):
            break
    return titles


def _qualified(article: Listed, level: int) -> str:
    qualifier = article.qualifiers[level] if level < len(article.qualifiers) else ""
    return f"{article.title} ({qualifier.translate(_NO_BRACKETS)})" if qualifier else article.title


def _free(title: str, taken: set[str]) -> str:
    others = (f"{title} ({number})" for number in itertools.count(2))
    return next(free for free in itertools.chain([title], others) if free not in taken)


def redirects(
    articles: Mapping[int, Listed], titles: Mapping[int, str]
) -> Iterator[tuple[str, str]]:
    """Yield the names that lead to a single article and are no title, with its title."""
    claims = Counter(name for article in articles.values() for name in article.all_names())
    taken = set(titles.values())
    for at, article in articles.items():
        for name in article.all_names():
            if claims[name] == 1 and name not in taken:
                yield name, titles[at]
