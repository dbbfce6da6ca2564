"""How often an occurrence of an alias is a link: the link probability.

It is the share of the articles that link an alias among the articles in which it occurs (Milne &
Witten 2008): authors link a name once and write it many times, so articles say more than single
occurrences.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stamo.build.columns import flags_of
from stamo.kb.manifest import ARTICLES_FILE, MATCHER
from stamo.kb.matching import NameMatcher
from stamo.kb.storage import open_array, save_array
from stamo.system.files import Bools, Int32, Int64

if TYPE_CHECKING:  # a worker needs no database
    from stamo.build.export import WrittenArticles

CHARACTERS_PER_BATCH = 1 << 18
"""Text that is matched at a time: enough to work in bulk, little enough for the cache."""

BYTES_PER_PART = 1 << 20
"""Text that a worker gets at a time, as articles that begin in a stretch of this size."""


@dataclass(frozen=True, slots=True)
class LinkedTexts:
    """Texts to look for aliases in, and the aliases that they link."""

    texts: pa.StringArray
    article: Int32
    """Which of the texts each link stands in, shape (n,)."""
    aliases: Int32
    """The alias that each link is, shape (n,)."""


@dataclass(frozen=True, slots=True)
class OccurrenceCounts:
    """In how many articles of a batch aliases occur and are linked; only aliases that do."""

    n_texts: int
    aliases: Int32
    n_occurring: Int32
    n_linked: Int32


def write_link_probability(
    counts: Iterable[OccurrenceCounts],
    result: Path,
    listed: Bools,
    report: Callable[[int], None],
) -> None:
    """Add up linked and other occurrences of all aliases and write their link probability.

    A listed name counts as linked by one article more, its own; where nothing is ever linked,
    it is a name wherever it stands.

    Args:
        counts: What `count_occurrences` found in the counted articles, in any order.
        result: The knowledge base.
        listed: Whether the source lists each alias as a name, or it is a title of several words
            that no link uses, shape (aliases,).
        report: Told how many articles are done.
    """
    n_occurring = np.zeros(len(listed), dtype=np.int32)
    n_linked = np.zeros(len(listed), dtype=np.int32)
    n_done = 0
    for part in counts:
        n_occurring[part.aliases] += part.n_occurring
        n_linked[part.aliases] += part.n_linked
        n_done += part.n_texts
        report(n_done)
    save_array(result / "alias_documents.npy", n_occurring, np.int32)
    own = listed.astype(np.int32)
    others = n_occurring if n_linked.any() else np.where(listed, 0, n_occurring)
    probability = (n_linked + own) / np.maximum(others + own, 1)
    save_array(result / "link_probability.npy", probability, np.float32)


def counted_texts(group: WrittenArticles) -> Iterator[LinkedTexts]:
    """Take the articles that count out of a row group, in parts for one worker each."""
    is_counted = ~flags_of(group.articles["held_out"])
    texts = group.articles["text"]
    for first, last in _parts(texts):
        counted = is_counted[first:last]
        begin, end = np.searchsorted(group.rows, [first, last])
        rows, aliases = group.rows[begin:end] - first, group.aliases[begin:end]
        place = np.cumsum(counted, dtype=np.int32) - np.int32(1)
        kept = counted[rows] & (aliases >= 0)
        part = _selected(texts.slice(first, len(counted)), counted)
        yield LinkedTexts(part, place[rows[kept]], aliases[kept])


def _selected(texts: pa.StringArray, kept: Bools) -> pa.StringArray:
    """Copy some of the texts: of a slice, all that it is a slice of would travel to the worker.

    Joining runs of them spares the import of Arrow's functions, a fifth of a second.
    """
    edges = np.flatnonzero(np.diff(kept, prepend=False, append=False)).tolist()
    runs = [texts.slice(a, b - a) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return pa.concat_arrays(runs or [texts.slice(0, 0)])


def _parts(texts: pa.StringArray) -> Iterator[tuple[int, int]]:
    """Cut texts into runs of about the same size, so that memory does not follow the longest."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts)]
    firsts = np.unique((offsets - offsets[0]) // BYTES_PER_PART, return_index=True)[1].tolist()
    return pairwise([*firsts, len(texts)])


def count_occurrences(part: LinkedTexts, result: Path) -> OccurrenceCounts:
    """Count the articles in which each alias occurs and is linked."""
    matcher = NameMatcher.open(result, MATCHER)
    linked = _distinct(_keys(part.article.astype(np.int64), part.aliases))
    occurring = [_occurring(*batch, matcher) for batch in _batches(part.texts.to_pylist())]
    # A link counts as an occurrence even where a longer name hides it.
    return _tally(len(part.texts), _distinct(np.concatenate([linked, *occurring])), linked)


def count_group(row_group: int, result: Path, mentions: Path) -> list[OccurrenceCounts]:
    """Count in one row group of the articles that are written already.

    Args:
        row_group: Its number.
        result: The knowledge base with its articles and the matcher of its linked aliases.
        mentions: The staged mentions, see `StagedArticles`.
    """
    from stamo.build.export import WrittenArticles

    with pq.ParquetFile(result / ARTICLES_FILE) as file:
        table = file.read_row_group(row_group, columns=["document", "text", "held_out"])
    (articles,) = table.combine_chunks().to_batches()
    first = articles["document"][0].as_py()
    rows = open_array(mentions)
    documents = rows[:, 0]
    # One by one: a search in numpy would copy the whole column first.
    begin = bisect_left(documents, first)
    some = np.array(rows[begin : bisect_left(documents, first + len(articles), lo=begin)])
    group = WrittenArticles(articles, some[:, 0] - np.int32(first), some[:, 4])
    return [count_occurrences(part, result) for part in counted_texts(group)]


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


def _distinct(numbers: Int64) -> Int64:
    """Return every number once, ascending; sorting is faster here than the hashing of NumPy."""
    ordered = np.sort(numbers)
    return ordered[_starts(ordered)]


def _starts(ordered: Int64) -> Int64:
    """Return where runs of equal numbers start."""
    return np.flatnonzero(np.diff(ordered, prepend=-1))


def _tally(n_texts: int, occurring: Int64, linked: Int64) -> OccurrenceCounts:
    """Count the articles of each alias in keys that hold every (article, alias) once."""
    ids, counts = _count(occurring)
    linked_ids, linked_counts = _count(linked)
    n_linked = np.zeros(len(ids), dtype=np.int32)
    n_linked[np.searchsorted(ids, linked_ids)] = linked_counts
    return OccurrenceCounts(n_texts, ids.astype(np.int32), counts.astype(np.int32), n_linked)


def _count(keys: Int64) -> tuple[Int64, Int64]:
    """Return the aliases in keys, ascending, and how many keys each has."""
    ordered = np.sort(keys & 0xFFFFFFFF)
    starts = _starts(ordered)
    return ordered[starts], np.diff(starts, append=len(ordered))
