"""How often an occurrence of an alias is a link: the link probability.

It is the share of the articles that link an alias among the articles in which it occurs (Milne &
Witten 2008): authors link a name once and write it many times, so articles say more than single
occurrences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stamo.kb.export import ARTICLES_FILE
from stamo.kb.matching import NameMatcher
from stamo.kb.names import normalise_surface
from stamo.kb.parallel import Workers
from stamo.kb.settings import Report
from stamo.kb.storage import StringTable, open_array, save_array

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

MATCHER = "linked_aliases"
CHARACTERS_PER_BATCH = 1 << 19
"""Text that is matched at a time: enough to work in bulk, little enough for the cache."""


@dataclass(frozen=True, slots=True)
class OccurrenceCounts:
    """In how many articles of a batch aliases occur and are linked; only aliases that do."""

    aliases: Int32
    n_occurring: Int32
    n_linked: Int32


def write_link_probability(result: Path, workers: Workers, report: Report) -> None:
    """Count linked and other occurrences of all aliases and write their link probability."""
    aliases = StringTable.open(result, "aliases")
    # The probability of an alias that is never linked is 0 however often it occurs.
    linked = np.flatnonzero(open_array(result / "alias_counts.npy") > 0).astype(np.int32)
    NameMatcher.build(aliases.texts(linked), linked).save(result, MATCHER)
    n_occurring = np.zeros(len(aliases), dtype=np.int32)
    n_linked = np.zeros(len(aliases), dtype=np.int32)
    n_groups = pq.read_metadata(result / ARTICLES_FILE).num_row_groups
    count = partial(count_occurrences, result=result)
    for done, part in enumerate(workers.map(count, range(n_groups)), start=1):
        n_occurring[part.aliases] += part.n_occurring
        n_linked[part.aliases] += part.n_linked
        report(done / n_groups)
    save_array(result / "alias_documents.npy", n_occurring, np.int32)
    probability = n_linked / np.maximum(n_occurring, 1)
    save_array(result / "link_probability.npy", probability, np.float32)


def count_occurrences(row_group: int, result: Path) -> OccurrenceCounts:
    """Count the articles of one row group in which each alias occurs and is linked."""
    with pq.ParquetFile(result / ARTICLES_FILE) as file:
        table = file.read_row_group(row_group, columns=["text", "mentions", "held_out"])
    table = table.filter(pc.invert(table["held_out"]))
    texts: list[str] = table["text"].to_pylist()
    linked = _linked(texts, table["mentions"], StringTable.open(result, "aliases"))
    matcher = NameMatcher.open(result, MATCHER)
    occurring = [_occurring(*batch, matcher) for batch in _batches(texts)]
    # A link counts as an occurrence even where a longer name hides it.
    return _tally(np.unique(np.concatenate([linked, *occurring])), np.unique(linked))


def _linked(texts: list[str], mentions: pa.ChunkedArray, aliases: StringTable) -> Int64:
    """Return a key (article, alias) for every link."""
    article = pc.list_parent_indices(mentions).to_numpy().astype(np.int64)
    spans = pc.list_flatten(mentions)
    starts, ends = (pc.struct_field(spans, name).to_pylist() for name in ("start", "end"))
    places = zip(article.tolist(), starts, ends, strict=True)
    found = aliases.find_many([normalise_surface(texts[i][start:end]) for i, start, end in places])
    return _keys(article[found >= 0], found[found >= 0])


def _batches(texts: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first text and the texts of batches of about one size."""
    first, n_characters = 0, 0
    for i, text in enumerate(texts):
        n_characters += len(text)
        if n_characters >= CHARACTERS_PER_BATCH:
            yield first, texts[first : i + 1]
            first, n_characters = i + 1, 0
    yield first, texts[first:]


def _occurring(first: int, texts: list[str], matcher: NameMatcher) -> Int64:
    """Return a key (article, alias) for every name found; none reaches over a line break."""
    edges = np.cumsum([len(text) + 1 for text in texts])
    found = matcher.find("\n".join(texts))
    article = first + np.searchsorted(edges, found.starts, side="right")
    return _keys(article.astype(np.int64), found.names)


def _keys(article: Int64, aliases: Int32) -> Int64:
    return np.asarray((article << 32) + aliases, dtype=np.int64)


def _tally(occurring: Int64, linked: Int64) -> OccurrenceCounts:
    """Count the articles of each alias in keys that hold every (article, alias) once."""
    ids, counts = np.unique(occurring & 0xFFFFFFFF, return_counts=True)
    linked_ids, linked_counts = np.unique(linked & 0xFFFFFFFF, return_counts=True)
    n_linked = np.zeros(len(ids), dtype=np.int32)
    n_linked[np.searchsorted(ids, linked_ids)] = linked_counts
    return OccurrenceCounts(ids.astype(np.int32), counts.astype(np.int32), n_linked)
