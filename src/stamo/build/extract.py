"""From a chunk of a dump to tables of pages, texts and links: the part that runs in parallel."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from stamo.build.dump.reader import Chunk, RawPage, parse_chunk
from stamo.build.dump.site import Site
from stamo.build.wikitext.clean import CleanPage, clean, find_redirect, is_disambiguation
from stamo.kb.candidates import normalise_surfaces
from stamo.system.runtime import without_garbage_collection

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
