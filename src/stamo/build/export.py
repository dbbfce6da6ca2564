"""Write the counted tables as the files of a knowledge base, streaming from the database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stamo.build import counting
from stamo.build.columns import column_of, numbers_of
from stamo.kb.manifest import ALIAS_COUNTS, ARTICLES_FILE, MATCHER
from stamo.kb.matching import NAMES_PER_BATCH, NameMatcher
from stamo.kb.storage import ArrayWriter, StringTable, open_array, read_row_blocks, save_array
from stamo.system.files import Bools, Closing, Int32, Int64
from stamo.system.processes import give_back_memory

LISTED_FILE = "listed.npy"
"""Says beside the staged aliases which of them the source lists."""
NAME_SCHEMA = pa.schema([("name", pa.string())])


class NameWriter(Closing):
    """Append names to a file that `StagedNames` reads."""

    def __init__(self, path: Path) -> None:
        self._writer = pa.ipc.new_file(str(path), NAME_SCHEMA)
        self.n_names = 0

    def append(self, names: pa.Array) -> None:
        """Write names behind those already there."""
        self.n_names += len(names)
        for first in range(0, len(names), NAMES_PER_BATCH):
            part = names.slice(first, NAMES_PER_BATCH)
            self._writer.write_batch(pa.record_batch([part], schema=NAME_SCHEMA))

    def close(self) -> None:
        """End the file."""
        self._writer.close()


class StagedNames:
    """Names in a file, as often as they are asked for."""

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


def write_strings(staged: Path, result: Path, name: str) -> None:
    """Write a table of strings in which each has its place as its number."""
    give_back_memory()
    StringTable.build(result, name, StagedNames(staged))
    give_back_memory()


ARTICLES_PER_ROW_GROUP = 512

ENTITY_FILES = ("entity_counts.npy", "document_frequency.npy", "has_article.npy")
MENTION_TYPE = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("entity", pa.int32())])
MENTION_COLUMNS = ("document", "start", "stop", "entity", "alias")
_MENTIONS_PER_BLOCK = 1 << 14
ARTICLE_SCHEMA = pa.schema(
    [
        ("document", pa.int32()),
        ("page_id", pa.int64()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("mentions", pa.list_(MENTION_TYPE)),
        ("held_out", pa.bool_()),
    ]
)


NAME_TABLES = {
    "aliases": (counting.ALIASES_IN_ORDER, "surface", ALIAS_COUNTS, LISTED_FILE),
    "entities": (counting.ENTITIES_IN_ORDER, "title", *ENTITY_FILES),
    "redirects": (counting.REDIRECTS_IN_ORDER, "source", "redirect_targets.npy"),
}
"""Ordered queries, their column of names, and the files of the columns behind it."""

LISTS = {
    "alias": (counting.CANDIDATES_IN_ORDER, "aliases", "alias_entities", "alias_entity_counts"),
    "entity": (counting.NAMES_IN_ORDER, "entities", "entity_aliases", "entity_alias_counts"),
    "document": (counting.DOCUMENTS_IN_ORDER, "entities", "documents"),
    "content": (counting.CONTENTS_IN_ORDER, "articles", "content_entities"),
}
"""What an alias may mean, the aliases of an entity, D(e), and the entities of a document: the
ordered query, what its first column numbers, and the files of the others."""


def write_names(
    connection: duckdb.DuckDBPyConnection, table: str, staged: Path, result: Path
) -> int:
    """Stage the names of a table and write what is counted of each; return how many there are.

    Which aliases the source lists is kept beside the staged ones.
    """
    query, name, *files = NAME_TABLES[table]
    with ExitStack() as stack:
        names = stack.enter_context(NameWriter(staged))
        writers = []
        for file in files:
            path = (staged.parent if file == LISTED_FILE else result) / file
            kind = np.bool_ if file in (LISTED_FILE, "has_article.npy") else np.int32
            writers.append(stack.enter_context(ArrayWriter(path, kind)))
        for batch in counting.stream(connection, query):
            place = batch.schema.get_field_index(name)
            if place:
                _check_order(batch.column(0), names.n_names)
            names.append(batch.column(place))
            for column, writer in enumerate(writers, start=place + 1):
                writer.append(numbers_of(batch.column(column)))
    return names.n_names


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
                rows = numbers_of(batch.column(0))
                edges = np.append(np.flatnonzero(np.diff(rows, prepend=-1)), len(rows))
                lengths[rows[edges[:-1]].astype(np.int64) + 1] += np.diff(edges)
                for number, writer in enumerate(writers, start=1):
                    writer.append(numbers_of(batch.column(number)))
        save_array(result / f"{name}_indptr.npy", np.cumsum(lengths), np.int64)


def _check_order(numbers: pa.Array, first: int) -> None:
    # Everything else refers to these numbers, so a database that lost the order must not pass.
    expected = np.arange(first, first + len(numbers))
    if not np.array_equal(numbers_of(numbers), expected):
        raise AssertionError("the database returned rows out of order")


@dataclass(frozen=True, slots=True)
class StagedArticles:
    """What articles are written from, without a database."""

    texts: Path
    """The staged texts, in the dump's order: one file, or a folder of them."""
    mentions: Path
    """(document, start, stop, entity, alias) of every link with a span, in the same order."""
    positions: Int64
    """The position of each document in the dump, ascending; the texts of others are left out."""


def stage_articles(connection: duckdb.DuckDBPyConnection, work: Path) -> StagedArticles:
    """Take what articles need out of the database, so that its memory is free before they come."""
    batches = counting.stream(connection, counting.POSITIONS_IN_ORDER)
    positions = [numbers_of(batch["position"]) for batch in batches]
    staged = StagedArticles(
        work / "text.parquet",
        work / "mention.npy",
        np.concatenate([np.empty(0, np.int64), *positions]),
    )
    # Plain numbers: as Parquet they would take eight times their size to read.
    with ArrayWriter(staged.mentions, np.int32, len(MENTION_COLUMNS)) as writer:
        for batch in counting.stream(connection, counting.MENTIONS_IN_ORDER):
            writer.append(np.stack([numbers_of(batch[name]) for name in MENTION_COLUMNS], axis=1))
    return staged


class _MentionStream:
    """The mentions of all documents in order, taken from the front document by document."""

    def __init__(self, blocks: Iterator[Int32]) -> None:
        self._blocks = blocks
        self._rows = np.empty((0, len(MENTION_COLUMNS)), dtype=np.int32)

    def take(self, end: int) -> Int32:
        """Return the mentions in documents before `end`, with the columns of `MENTION_COLUMNS`."""
        while not len(self._rows) or self._rows[-1, 0] < end:
            block = next(self._blocks, None)
            if block is None:
                break
            self._rows = np.concatenate([self._rows, block])
        n = int(np.searchsorted(self._rows[:, 0], end))
        taken, self._rows = self._rows[:n], self._rows[n:]
        return taken


@dataclass(frozen=True, slots=True)
class WrittenArticles:
    """One row group of articles, just written."""

    articles: pa.RecordBatch
    """Its rows, with the columns of `ARTICLE_SCHEMA`."""
    rows: Int32
    """Which row each mention stands in, ascending, shape (n,)."""
    aliases: Int32
    """The alias that each mention is, -1 for none, shape (n,)."""


def write_articles(staged: StagedArticles, result: Path) -> Iterator[WrittenArticles]:
    """Write the articles with their resolved mentions; yield each row group when it is written."""
    first = 0
    mentions = _MentionStream(read_row_blocks(staged.mentions, _MENTIONS_PER_BLOCK))
    # Nothing here repeats within a row group: dictionaries make the file larger, and slow.
    with pq.ParquetWriter(
        result / ARTICLES_FILE,
        ARTICLE_SCHEMA,
        compression="zstd",
        compression_level=3,
        use_dictionary=False,
    ) as writer:
        for texts in _in_groups(_kept_texts(staged)):
            rows = mentions.take(first + len(texts))
            batch = _with_mentions(texts, first, rows)
            writer.write_batch(batch, row_group_size=ARTICLES_PER_ROW_GROUP)
            yield WrittenArticles(batch, rows[:, 0] - np.int32(first), rows[:, 4])
            first += len(texts)
            give_back_memory()


def _kept_texts(staged: StagedArticles) -> Iterator[pa.RecordBatch]:
    """Read the staged texts in the dump's order without those of repeated titles."""
    positions = staged.positions
    for batch in row_groups(staged.texts):
        here = numbers_of(batch["position"])
        place = np.searchsorted(positions, here)
        kept = place < len(positions)
        kept[kept] = positions[place[kept]] == here[kept]
        yield batch if kept.all() else batch.take(column_of(np.flatnonzero(kept)))


def row_groups(path: Path) -> Iterator[pa.RecordBatch]:
    """Read one file, or the files of a folder in the order of their names, by row groups."""
    for part in sorted(path.iterdir()) if path.is_dir() else [path]:
        with pq.ParquetFile(part) as file:
            for group in range(file.num_row_groups):  # batches would take twice the memory
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
    edges = np.searchsorted(mentions[:, 0], np.arange(first, first + len(texts) + 1))
    spans = pa.StructArray.from_arrays(
        [column_of(mentions[:, column]) for column in (1, 2, 3)], fields=list(MENTION_TYPE)
    )
    columns = {
        "document": column_of(np.arange(first, first + len(texts), dtype=np.int32)),
        "mentions": pa.ListArray.from_arrays(column_of(edges.astype(np.int32)), spans),
        **{name: texts[name] for name in ("page_id", "title", "text", "held_out")},
    }
    return pa.RecordBatch.from_arrays(
        [columns[name] for name in ARTICLE_SCHEMA.names], schema=ARTICLE_SCHEMA
    )
