"""Stage articles whose titles and links are settled only when all of them are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stamo.build.engine import BuildState
from stamo.build.extract import (
    GIVEN_NAME_SCHEMA,
    LINK_SCHEMA,
    PAGE_SCHEMA,
    TEXT_SCHEMA,
    is_held_out,
    rows_batch,
)
from stamo.build.listing import Listed, redirects
from stamo.build.staging import StagedWriter
from stamo.system.closing import Closing

FindTitle = Callable[[str, int], str | None]
"""Returns the title that a target means on the article of a position; None where it is no link."""

_ROWS = 1 << 14
_Row = tuple[Any, ...]


class AsWritten(Closing):
    """Texts and links as they are written; `settle_articles` reads them when it is closed."""

    def __init__(self, work: Path) -> None:
        self.texts, self.links = work / "text-as-written.parquet", work / "link-as-written.parquet"
        self._texts = pq.ParquetWriter(self.texts, TEXT_SCHEMA, compression="lz4")
        self._links = pq.ParquetWriter(self.links, LINK_SCHEMA, compression="lz4")

    def append(self, texts: pa.RecordBatch, links: pa.RecordBatch | None = None) -> None:
        """Add rows of both; titles and the share held out are not looked at."""
        if len(texts):
            self._texts.write_batch(texts)
        if links is not None and len(links):
            self._links.write_batch(links)

    def close(self) -> None:
        """End the files."""
        self._texts.close()
        self._links.close()


def settle_articles(
    build: BuildState,
    articles: Mapping[int, Listed],
    titles: Mapping[int, str],
    written: AsWritten,
    find_title: FindTitle,
) -> None:
    """Stage articles by their positions, which ascend: pages, redirects, names, texts and links."""
    share = build.source.held_out(build.settings)
    with StagedWriter(build) as writer:
        for rows in _batches(_pages(articles, titles, share)):
            writer.append("page", rows_batch(rows, PAGE_SCHEMA))
        for rows in _batches(_names(articles, titles)):
            writer.append("name", rows_batch(rows, GIVEN_NAME_SCHEMA))
        for batch in _row_groups(written.texts):
            named = [titles[at] for at in batch["position"].to_pylist()]
            held_out = [is_held_out(title, share) for title in named]
            writer.append("text", _with(batch, title=named, held_out=held_out))
        for batch in _row_groups(written.links):
            pairs = zip(batch["target"].to_pylist(), batch["position"].to_pylist(), strict=True)
            settled = _with(batch, target=[find_title(target, at) for target, at in pairs])
            found = settled["target"]
            build.skipped.update({"link: outside": found.null_count} if found.null_count else {})
            writer.append("link", settled.filter(found.is_valid()))
    written.texts.unlink()
    written.links.unlink()


def _pages(
    articles: Mapping[int, Listed], titles: Mapping[int, str], share: float
) -> Iterator[_Row]:
    for at in articles:
        yield at, at + 1, titles[at], "article", None, is_held_out(titles[at], share)
    first = max(articles, default=-1) + 1
    for at, (name, target) in enumerate(redirects(articles, titles), start=first):
        yield at, at + 1, name, "redirect", target, False


def _names(articles: Mapping[int, Listed], titles: Mapping[int, str]) -> Iterator[_Row]:
    for at, article in articles.items():
        for name in article.all_names():
            yield name, titles[at], article.count


def _batches(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    rows = iter(rows)
    while batch := list(islice(rows, _ROWS)):
        yield batch


def _with(batch: pa.RecordBatch, **columns: list[Any]) -> pa.RecordBatch:
    """Return the same rows with other columns of the given names."""
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else batch[field.name]
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _row_groups(path: Path) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield from file.read_row_group(group, use_threads=False).to_batches()
