"""Write the counted tables as the files of a knowledge base, streaming from the database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stamo.build import counting
from stamo.kb.manifest import ALIAS_COUNTS, ARTICLES_FILE, MATCHER
from stamo.kb.matching import NAMES_PER_BATCH, NameMatcher
from stamo.kb.storage import (
    ArrayWriter,
    StringTable,
    column_of,
    open_array,
    read_row_blocks,
    save_array,
)
from stamo.system.files import Bools, Int32, Int64
from stamo.system.processes import give_back_memory

LISTED_FILE = "listed.npy"
"""Says beside the staged aliases which of them the source lists."""
ARTICLES_PER_ROW_GROUP = 512
MENTION_TYPE = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("entity", pa.int32())])
MENTION_COLUMNS = ("document", "start", "stop", "entity", "alias")
_PAGE = [("document", pa.int32()), ("page_id", pa.int64()), ("title", pa.string())]
_TEXT = [("text", pa.string()), ("mentions", pa.list_(MENTION_TYPE)), ("held_out", pa.bool_())]
ARTICLE_SCHEMA = pa.schema([*_PAGE, *_TEXT])
_NAME_SCHEMA = pa.schema([("name", pa.string())])
_MENTIONS_PER_BLOCK = 1 << 14

_ENTITY_FILES = {"entity_counts.npy": np.int32, "document_frequency.npy": np.int32}
NAME_TABLES: dict[str, tuple[str, int, dict[str, type[np.generic]]]] = {
    "aliases": (counting.ALIASES_IN_ORDER, 1, {ALIAS_COUNTS: np.int32, LISTED_FILE: np.bool_}),
    "entities": (counting.ENTITIES_IN_ORDER, 1, _ENTITY_FILES | {"has_article.npy": np.bool_}),
    "redirects": (counting.REDIRECTS_IN_ORDER, 0, {"redirect_targets.npy": np.int32}),
}
"""Ordered queries, the place of their column of names, and the files of the columns behind it."""

LISTS = {
    "alias": (counting.CANDIDATES_IN_ORDER, "aliases", "alias_entities", "alias_entity_counts"),
    "entity": (counting.NAMES_IN_ORDER, "entities", "entity_aliases", "entity_alias_counts"),
    "document": (counting.DOCUMENTS_IN_ORDER, "entities", "documents"),
    "content": (counting.CONTENTS_IN_ORDER, "articles", "content_entities"),
}
"""What an alias may mean, the aliases of an entity, D(e), and the entities of a document: the
ordered query, what its first column numbers, and the files of the others."""


class StagedNames:
    """Names in a file of Arrow, as often as they are asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def batches(self) -> Iterator[list[str]]:
        """Yield the names, a few thousand at a time."""
        with pa.OSFile(str(self._path)) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)["name"].to_pylist()

    def __iter__(self) -> Iterator[str]:
        for names in self.batches():
            yield from names


def write_names(
    connection: duckdb.DuckDBPyConnection, table: str, staged: Path, result: Path
) -> int:
    """Stage the names of a table and write what is counted of each; return how many there are.

    Which aliases the source lists is kept beside the staged ones.
    """
    query, place, files = NAME_TABLES[table]
    n_names = 0
    with ExitStack() as stack:
        names = stack.enter_context(pa.ipc.new_file(str(staged), _NAME_SCHEMA))
        writers = []
        for file, kind in files.items():
            path = (staged.parent if file == LISTED_FILE else result) / file
            writers.append(stack.enter_context(ArrayWriter(path, kind)))
        for batch in counting.stream(connection, query):
            # Everything else refers to these numbers: a database that lost the order must not pass.
            expected = np.arange(n_names, n_names + len(batch))
            if place and not np.array_equal(np.from_dlpack(batch.column(0)), expected):
                raise AssertionError("the database returned rows out of order")
            n_names += len(batch)
            for first in range(0, len(batch), NAMES_PER_BATCH):
                some = batch.column(place).slice(first, NAMES_PER_BATCH)
                names.write_batch(pa.record_batch([some], schema=_NAME_SCHEMA))
            for column, writer in enumerate(writers, start=place + 1):
                writer.append(np.from_dlpack(batch.column(column)))
    return n_names


def write_strings(staged: Path, result: Path, name: str) -> None:
    """Write a table of strings in which each has its place as its number."""
    give_back_memory()
    StringTable.build(result, name, StagedNames(staged))
    give_back_memory()


def write_matcher(staged: Path, result: Path) -> None:
    """Write what finds the aliases that are linked at least once in texts, or listed.

    The probability of any other alias is 0 however often it occurs.
    """
    give_back_memory()  # what reading the dump has left
    is_wanted = (open_array(result / ALIAS_COUNTS) > 0) | open_array(staged.parent / LISTED_FILE)
    NameMatcher.build_from(_chosen(staged, is_wanted)).save(result, MATCHER)
    give_back_memory()


def _chosen(staged: Path, is_wanted: Bools) -> Iterator[tuple[list[str], Int32]]:
    first = 0
    for names in StagedNames(staged).batches():
        numbers = np.flatnonzero(is_wanted[first : first + len(names)])
        yield [names[i] for i in numbers.tolist()], (first + numbers).astype(np.int32)
        first += len(names)


def write_lists(
    connection: duckdb.DuckDBPyConnection, result: Path, n_rows: Mapping[str, int]
) -> None:
    """Write ordered queries as lists: their first column is the row, the others are values."""
    for name, (query, numbered, *values) in LISTS.items():
        lengths = np.zeros(n_rows[numbered] + 1, dtype=np.int64)
        with ExitStack() as stack:
            files = [ArrayWriter(result / f"{file}.npy", np.int32) for file in values]
            writers = [stack.enter_context(file) for file in files]
            for batch in counting.stream(connection, query):
                rows = np.from_dlpack(batch.column(0))
                edges = np.append(np.flatnonzero(np.diff(rows, prepend=-1)), len(rows))
                lengths[rows[edges[:-1]].astype(np.int64) + 1] += np.diff(edges)
                for number, writer in enumerate(writers, start=1):
                    writer.append(np.from_dlpack(batch.column(number)))
        save_array(result / f"{name}_indptr.npy", np.cumsum(lengths), np.int64)


def stage_mentions(connection: duckdb.DuckDBPyConnection, path: Path) -> Int64:
    """Take what articles need out of the database, so that its memory is free before they come.

    `path` gets (document, start, stop, entity, alias) of every link with a span, in this order.

    Returns:
        The position of each document in the dump, ascending.
    """
    batches = counting.stream(connection, counting.POSITIONS_IN_ORDER)
    positions = [np.from_dlpack(batch["position"]) for batch in batches]
    # Plain numbers: as Parquet they would take eight times their size to read.
    with ArrayWriter(path, np.int32, len(MENTION_COLUMNS)) as writer:
        for batch in counting.stream(connection, counting.MENTIONS_IN_ORDER):
            columns = [np.from_dlpack(batch[name]) for name in MENTION_COLUMNS]
            writer.append(np.stack(columns, axis=1))
    return np.concatenate([np.empty(0, np.int64), *positions])


def write_articles(
    texts: Path, mentions: Path, positions: Int64, result: Path
) -> Iterator[tuple[pa.RecordBatch, Int32]]:
    """Write the articles with their resolved mentions.

    Args:
        texts: The staged texts, in the dump's order.
        mentions: What `stage_mentions` wrote.
        positions: The position of each document; the texts of others are left out.
        result: The knowledge base.

    Yields:
        Each row group when it is written: its rows with the columns of `ARTICLE_SCHEMA`, and its
        mentions with those of `MENTION_COLUMNS`, shape (n, 5).
    """
    first = 0
    blocks = read_row_blocks(mentions, _MENTIONS_PER_BLOCK)
    waiting = np.empty((0, len(MENTION_COLUMNS)), dtype=np.int32)
    # Nothing here repeats within a row group: dictionaries make the file larger, and slow.
    with pq.ParquetWriter(
        result / ARTICLES_FILE,
        ARTICLE_SCHEMA,
        compression="zstd",
        compression_level=3,
        use_dictionary=False,
    ) as writer:
        for group in _in_groups(_kept_texts(texts, positions)):
            end = first + len(group)
            while not len(waiting) or waiting[-1, 0] < end:
                block = next(blocks, None)
                if block is None:
                    break
                waiting = np.concatenate([waiting, block])
            n_here = int(np.searchsorted(waiting[:, 0], end))
            here, waiting = waiting[:n_here], waiting[n_here:]
            articles = _with_mentions(group, first, here)
            writer.write_batch(articles, row_group_size=ARTICLES_PER_ROW_GROUP)
            yield articles, here
            first = end
            give_back_memory()


def _kept_texts(texts: Path, positions: Int64) -> Iterator[pa.RecordBatch]:
    """Read the staged texts in the dump's order without those of repeated titles."""
    for batch in row_groups(texts):
        here = np.from_dlpack(batch["position"])
        place = np.searchsorted(positions, here)
        kept = place < len(positions)
        kept[kept] = positions[place[kept]] == here[kept]
        yield batch if kept.all() else batch.take(column_of(np.flatnonzero(kept)))


def row_groups(path: Path) -> Iterator[pa.RecordBatch]:
    """Read a staged table by row groups; batches would take twice the memory."""
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False)
            yield from table.combine_chunks().to_batches()


def _in_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut a stream of batches into batches of one row group each."""
    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for batch in batches:
        waiting.append(batch)
        n_waiting += len(batch)
        while n_waiting >= ARTICLES_PER_ROW_GROUP:
            joined = pa.concat_batches(waiting)
            yield joined.slice(0, ARTICLES_PER_ROW_GROUP)
            waiting = [joined.slice(ARTICLES_PER_ROW_GROUP)]
            n_waiting -= ARTICLES_PER_ROW_GROUP
    if n_waiting:
        yield pa.concat_batches(waiting)


def _with_mentions(texts: pa.RecordBatch, first: int, mentions: Int32) -> pa.RecordBatch:
    documents = np.arange(first, first + len(texts) + 1, dtype=np.int32)
    edges = np.searchsorted(mentions[:, 0], documents).astype(np.int32)
    spans = pa.StructArray.from_arrays(
        [column_of(mentions[:, column]) for column in (1, 2, 3)], fields=list(MENTION_TYPE)
    )
    columns = {
        "document": column_of(documents[:-1]),
        "mentions": pa.ListArray.from_arrays(column_of(edges), spans),
        **{name: texts[name] for name in ("page_id", "title", "text", "held_out")},
    }
    return pa.RecordBatch.from_arrays(
        [columns[name] for name in ARTICLE_SCHEMA.names], schema=ARTICLE_SCHEMA
    )
