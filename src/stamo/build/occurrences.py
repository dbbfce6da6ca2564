"""How often an occurrence of an alias is a link: the link probability.

It is the share of the articles that link an alias among the articles in which it occurs (Milne &
Witten 2008): authors link a name once and write it many times, so articles say more than single
occurrences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stamo.kb.manifest import MATCHER
from stamo.kb.matching import NameMatcher
from stamo.kb.storage import save_array
from stamo.system.files import Bools, Int32, Int64

CHARACTERS_PER_BATCH = 1 << 18
"""Text that is matched at a time: enough to work in bulk, little enough for the cache."""

BYTES_PER_CHUNK = 1 << 20
"""Text that a worker gets at a time, as articles that begin in a stretch of this size."""


class LinkedTexts(NamedTuple):
    """Texts to look for aliases in, and the aliases that they link."""

    texts: pa.StringArray
    article: Int32
    """Which of the texts each link stands in, shape (n,)."""
    aliases: Int32
    """The alias that each link is, shape (n,)."""


class OccurrenceCounts(NamedTuple):
    """In how many articles of a chunk aliases occur and are linked; only aliases that do."""

    n_texts: int
    aliases: Int32
    n_occurring: Int32
    n_linked: Int32


def counted_texts(articles: pa.RecordBatch, mentions: Int32) -> Iterator[LinkedTexts]:
    """Take the articles that count out of a row group of `write_articles`, in chunks."""
    held_out, texts = articles["held_out"], articles["text"]
    # Arrow's own `to_numpy` imports pandas where it is installed: .3 s of each build.
    bits = np.unpackbits(np.frombuffer(held_out.buffers()[1], np.uint8), bitorder="little")
    is_counted = bits[held_out.offset : held_out.offset + len(held_out)] == 0
    rows = mentions[:, 0] - np.int32(articles["document"][0].as_py() if len(articles) else 0)
    # Runs of about the same size, so that memory does not follow the longest.
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts)]
    firsts = np.unique((offsets - offsets[0]) // BYTES_PER_CHUNK, return_index=True)[1].tolist()
    for first, last in pairwise([*firsts, len(texts)]):
        counted = is_counted[first:last]
        begin, end = np.searchsorted(rows, [first, last])
        article, aliases = rows[begin:end] - first, mentions[begin:end, 4]
        place = np.cumsum(counted, dtype=np.int32) - np.int32(1)
        kept = counted[article] & (aliases >= 0)
        some = _selected(texts.slice(first, len(counted)), counted)
        yield LinkedTexts(some, place[article[kept]], aliases[kept])


def _selected(texts: pa.StringArray, kept: Bools) -> pa.StringArray:
    """Copy some of the texts: of a slice, all that it is a slice of would travel to the worker.

    Joining runs of them spares the import of Arrow's functions, a fifth of a second.
    """
    edges = np.flatnonzero(np.diff(kept, prepend=False, append=False)).tolist()
    runs = [texts.slice(a, b - a) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return pa.concat_arrays(runs or [texts.slice(0, 0)])


def count_occurrences(chunk: LinkedTexts, result: Path) -> OccurrenceCounts:
    """Count the articles in which each alias occurs and is linked; runs in a worker."""
    matcher = NameMatcher.open(result, MATCHER)
    linked = _distinct((chunk.article.astype(np.int64) << 32) + chunk.aliases)
    found = []
    for first, texts in _batches(chunk.texts.to_pylist()):
        # No name reaches over a line break.
        edges = np.cumsum([len(text) + 1 for text in texts])
        names = matcher.find("\n".join(texts))
        article = first + np.searchsorted(edges, names.starts, side="right")
        found.append((article.astype(np.int64) << 32) + names.names)
    # A link counts as an occurrence even where a longer name hides it.
    ids, counts = _count(_distinct(np.concatenate([linked, *found])))
    linked_ids, linked_counts = _count(linked)
    n_linked = np.zeros(len(ids), dtype=np.int32)
    n_linked[np.searchsorted(ids, linked_ids)] = linked_counts
    return OccurrenceCounts(
        len(chunk.texts), ids.astype(np.int32), counts.astype(np.int32), n_linked
    )


def _batches(texts: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first text and the texts of batches of about one size."""
    first, n_characters = 0, 0
    for i, text in enumerate(texts):
        n_characters += len(text)
        if n_characters >= CHARACTERS_PER_BATCH:
            yield first, texts[first : i + 1]
            first, n_characters = i + 1, 0
    yield first, texts[first:]


def _distinct(numbers: Int64) -> Int64:
    """Return every number once, ascending; sorting is faster here than the hashing of NumPy."""
    ordered = np.sort(numbers)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


def _count(keys: Int64) -> tuple[Int64, Int64]:
    """Return the aliases in keys, ascending, and how many keys each has."""
    ordered = np.sort(keys & 0xFFFFFFFF)
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[starts], np.diff(starts, append=len(ordered))


def write_link_probability(
    counts: Iterable[OccurrenceCounts], result: Path, listed: Bools, report: Callable[[int], None]
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
    for chunk in counts:
        n_occurring[chunk.aliases] += chunk.n_occurring
        n_linked[chunk.aliases] += chunk.n_linked
        n_done += chunk.n_texts
        report(n_done)
    save_array(result / "alias_documents.npy", n_occurring, np.int32)
    own = listed.astype(np.int32)
    others = n_occurring if n_linked.any() else np.where(listed, 0, n_occurring)
    probability = (n_linked + own) / np.maximum(others + own, 1)
    save_array(result / "link_probability.npy", probability, np.float32)
