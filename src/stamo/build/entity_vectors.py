"""Word vectors, word counts and entity vectors of a knowledge base under construction."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from stamo.build.settings import BuildSettings, BuildState, Report
from stamo.build.vector_files import WordVectors, load_vectors, prepare
from stamo.build.word_vectors import MIN_COUNT, TooFewWordsError, learn_word_vectors
from stamo.corpus.tokenizer import UNKNOWN_WORD, encode_words, words_in_spans
from stamo.kb.manifest import ARTICLES_FILE, BACKGROUND, ENTITY_VECTORS
from stamo.kb.storage import (
    ArrayWriter,
    StringTable,
    VectorTable,
    open_array,
    save_array,
)
from stamo.kb.words import background_vector, entity_directions, word_weights
from stamo.system.files import Float32, Int32, Int64, replaced_file

CONTEXT_WINDOW = 50
"""Words on either side of a link that belong to its context (Section 2.2 (3))."""

_SCALE = float(1 << 24)
_BLOCK_WORDS = 1 << 16
_BLOCK_ROWS = 1 << 15


@dataclass(frozen=True)
class PartialSums:
    """What one chunk of documents adds to the entity vectors; cheap to send between processes."""

    entities: Int32
    """Entities met in the chunk, ascending, shape (n,)."""
    sums: Int64
    """Fixed-point sums of their context words, the word weight as last column, shape (n, Q + 1)."""

    def plus(self, other: PartialSums) -> PartialSums:
        """Return what both chunks add together."""
        entities = np.union1d(self.entities, other.entities)
        sums = np.zeros((len(entities), self.sums.shape[1]), dtype=np.int64)
        for one in (self, other):
            sums[np.searchsorted(entities, one.entities)] += one.sums
        return PartialSums(entities, sums)


def _sum_block(
    word_ids: Int32,
    starts: Int64,
    ends: Int64,
    rows: Int64,
    word_vectors: Float32,
    weights: Float32,
) -> Int64:
    edges, place = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    words, columns = np.unique(word_ids[edges[0] : edges[-1]], return_inverse=True)
    ones = np.ones(len(columns), dtype=np.int64)
    # Row i counts the words between edge i and edge i + 1; the running total over rows then gives
    # every stretch as a difference. Only as many rows as there are edges are ever made.
    counts = csr_array((ones, columns, edges - edges[0]), shape=(len(edges) - 1, len(words)))
    prefix = np.zeros((len(edges), word_vectors.shape[1] + 1), dtype=np.int64)
    np.cumsum(counts @ _fixed_point(words, word_vectors, weights), axis=0, out=prefix[1:])
    signs = np.repeat(np.array([-1, 1]), len(starts))
    difference = csr_array((signs, (np.concatenate([rows, rows]), place)))
    difference.resize(int(rows.max()) + 1, len(edges))
    return np.asarray(difference @ prefix)


def _fixed_point(words: Int32, word_vectors: Float32, weights: Float32) -> Int64:
    table = np.zeros((len(words), word_vectors.shape[1] + 1), dtype=np.int64)
    known = words != UNKNOWN_WORD
    mass = weights[words[known]].astype(np.float64) * _SCALE
    table[known, :-1] = np.rint(word_vectors[words[known]] * mass[:, None])
    table[known, -1] = np.rint(mass)
    return table


def link_segments(
    offsets: Int64, starts: Int64, ends: Int64, window: int = CONTEXT_WINDOW
) -> tuple[Int64, Int64]:
    """Find the words before and after each link, inside its document and without the link itself.

    Args:
        offsets: First word of each document and, last, the number of words, shape (n + 1,).
        starts: First word of each link, shape (m,).
        ends: One past its last word, shape (m,).
        window: Words to take on either side.

    Returns:
        Starts and ends of 2 m stretches: first the left sides of all links, then the right sides.
    """
    document = np.clip(np.searchsorted(offsets, starts, side="right") - 1, 0, len(offsets) - 2)
    left = np.maximum(starts - window, offsets[document])
    right = np.maximum(np.minimum(ends + window, offsets[document + 1]), ends)
    # A link without a word, such as "!!!", that ends its document would see the next one.
    astray = (starts == ends) & (starts == offsets[document])
    return (
        np.concatenate([np.where(astray, starts, left), ends]),
        np.concatenate([starts, np.where(astray, ends, right)]),
    )


def sum_links(
    word_ids: Int32,
    offsets: Int64,
    starts: Int64,
    ends: Int64,
    entities: Int32,
    word_vectors: Float32,
    weights: Float32,
    *,
    owners: Sequence[int] | Int32 = (),
    window: int = CONTEXT_WINDOW,
) -> PartialSums:
    """Sum the weighted vectors of the words around links, entity by entity.

    Prefix sums give every stretch by two look-ups. They are made for a block of words at a time, so
    memory stays at about 50 MB for 100 dimensions plus one row per entity met.

    Args:
        word_ids: Words of the documents, one after the other, -1 for unknown, shape (N,).
        offsets: First word of each document and, last, N; shape (n + 1,).
        starts: First word of each link, counted over all documents, shape (m,).
        ends: One past its last word, shape (m,).
        entities: The linked entities, shape (m,).
        word_vectors: Word vectors, shape (V, Q).
        weights: Word weights, shape (V,).
        owners: The entity that each document is about, whose beginning then counts for it as
            much as the surroundings of a link; shape (n,), or empty for none.
        window: Words to take on either side.

    Returns:
        The sums of the entities that occur.
    """
    starts, ends = link_segments(offsets, starts, ends, window)
    met = np.concatenate([entities, entities])
    if len(owners):
        starts = np.concatenate([starts, offsets[:-1]])
        ends = np.concatenate([ends, np.minimum(offsets[:-1] + 2 * window, offsets[1:])])
        met = np.concatenate([met, owners])
    distinct, rows = np.unique(met, return_inverse=True)
    totals = np.zeros((len(distinct), word_vectors.shape[1] + 1), dtype=np.int64)
    order = np.argsort(starts, kind="stable")
    starts, ends, rows = starts[order], ends[order], rows[order]
    borders = np.searchsorted(starts, np.arange(0, len(word_ids) + _BLOCK_WORDS, _BLOCK_WORDS))
    for here in (slice(*edges) for edges in itertools.pairwise(borders.tolist())):
        if here.start < here.stop:
            met, local = np.unique(rows[here], return_inverse=True)
            bounds = starts[here], ends[here]
            totals[met] += _sum_block(word_ids, *bounds, local, word_vectors, weights)
    return PartialSums(distinct.astype(np.int32), totals)


def closed_form(sums: Int64, background: Float32) -> Float32:
    """Turn sums of contexts, shape (n, Q + 1), into entity vectors, shape (n, Q).

    Zeros for entities without context.
    """
    vectors = np.empty((len(sums), len(background)), dtype=np.float32)
    for i in range(0, len(vectors), _BLOCK_ROWS):
        rows = sums[i : i + _BLOCK_ROWS] / _SCALE
        vectors[i : i + _BLOCK_ROWS] = entity_directions(rows[:, :-1], rows[:, -1], background)
    return vectors


_WORDS, _WORD_VECTORS, _WORD_COUNTS = "words", "word_vectors.npy", "word_counts.npy"
EXPECTED_WORDS = 1_000_000
GROUPS_TO_LEARN_FROM = 512
"""Row groups of articles that word vectors are learned from: the pairs of words that are kept are
bounded too, so more text would take time and add little."""
ENTITIES_PER_BLOCK = 1 << 16
"""Entities whose vectors are made together."""
MAX_SUMS, MAX_SUMMED = 256, 64
"""Files of sums that are aimed at, and row groups that are summed in one of them at most: an entity
that many groups link takes one row of a file, not one for each group."""


def write_vectors(build: BuildState) -> dict[str, int]:
    """Write words, their vectors and counts, and entity vectors; return the counts to report.

    Notes, tables and dumps of a few pages have little text: every word of it counts. The article of
    a note or an entity says what it is about, not only its links. Where there is no text to learn
    from, there are none.
    """
    settings, is_dump = build.settings, build.source.is_dump
    with build.stage("word vectors"):
        try:
            n_words, dimensions = _write_words(build.result, settings, is_dump=is_dump)
        except TooFewWordsError:
            build.skipped["vectors: too few words to learn from"] += 1
            return {}
    with build.stage("counting words") as report:
        counts = _count_words(build, n_words, report)
        if not is_dump and settings.vectors is not None:
            counts += _expected_counts(n_words)
        save_array(build.result / _WORD_COUNTS, counts, np.int64)
        vectors = VectorTable(open_array(build.result / _WORD_VECTORS))
        background = background_vector(vectors, word_weights(counts), counts)
        save_array(build.result / BACKGROUND, background, np.float32)
    with build.stage("entity vectors") as report:
        _write_closed_form(build, report)
    return {"words": n_words, "dimensions": dimensions}


def _write_words(result: Path, settings: BuildSettings, *, is_dump: bool) -> tuple[int, int]:
    if settings.vectors is not None:
        learned = load_vectors(settings.vectors)
    else:
        learned = _learn_words(result, settings.dimensions, MIN_COUNT if is_dump else 1)
    StringTable.build(result, _WORDS, learned.words)
    save_array(result / _WORD_VECTORS, prepare(learned.vectors), np.float16)
    return learned.vectors.shape[0], learned.vectors.shape[1]


def _learn_words(result: Path, dimensions: int, min_count: int) -> WordVectors:
    try:
        return learn_word_vectors(_counted_texts(result), dimensions, min_count=min_count)
    except TooFewWordsError:
        return learn_word_vectors(_counted_texts(result), dimensions, min_count=1)


def _counted_texts(result: Path) -> Iterator[str]:
    """Yield the texts to learn from: all, or of a large encyclopaedia an even sample."""
    with pq.ParquetFile(result / ARTICLES_FILE) as file:
        step = -(-file.num_row_groups // GROUPS_TO_LEARN_FROM) or 1
        groups = list(range(0, file.num_row_groups, step))
        for batch in file.iter_batches(row_groups=groups, columns=["text", "held_out"]):
            yield from batch.filter(pc.invert(batch["held_out"]))["text"].to_pylist()


def _n_groups(result: Path) -> int:
    return int(pq.read_metadata(result / ARTICLES_FILE).num_row_groups)


def _count_words(build: BuildState, n_words: int, report: Report) -> Int64:
    counts = np.zeros(n_words, dtype=np.int64)
    n_groups = _n_groups(build.result)
    encode = partial(
        encode_group, result=build.result, work=build.work, with_owners=not build.source.is_dump
    )
    for done, part in enumerate(build.workers.map(encode, range(n_groups)), start=1):
        counts += part
        report(done / n_groups)
    _vocabulary.cache_clear()
    return counts


def _expected_counts(n_words: int) -> Int64:
    """Return how often each word is expected in a text of a million words, by Zipf's law.

    Files of vectors begin with the most frequent words. A small text has not seen most of them,
    and would take every word that it lacks for a rare one that says much.
    """
    shares = 1 / (np.arange(n_words) + 2.7)
    return np.asarray(np.rint(EXPECTED_WORDS * shares / shares.sum()), dtype=np.int64)


def encode_group(row_group: int, result: Path, work: Path, *, with_owners: bool = False) -> Int64:
    """Turn the counted articles of a row group into word ids, kept in `work`; count the words.

    Besides the words, the file holds which words each link covers, for the contexts of entities,
    and on request which entity each article is about.
    """
    vocabulary = _vocabulary(result)
    columns = ["text", "mentions", "held_out", *(["title"] if with_owners else [])]
    with pq.ParquetFile(result / ARTICLES_FILE) as file:
        table = file.read_row_group(row_group, columns=columns)
    table = table.filter(pc.invert(table["held_out"])).combine_chunks()
    mentions = table["mentions"]
    edges = np.concatenate(([0], np.cumsum(pc.list_value_length(mentions).to_numpy())))
    flat = pc.list_flatten(mentions)
    spans = [pc.struct_field(flat, name).to_numpy() for name in ("start", "end", "entity")]
    encoded = [encode_words(text, vocabulary) for text in table["text"].to_pylist()]
    offsets = np.concatenate(([0], np.cumsum([len(words.ids) for words in encoded])))
    links = [np.empty((2, 0), np.int64)]
    for i, words in enumerate(encoded):
        first, last = (span[edges[i] : edges[i + 1]] for span in spans[:2])
        links.append(np.stack(words_in_spans(words, first, last)).astype(np.int64) + offsets[i])
    owners = np.empty(0, dtype=np.int32)
    if with_owners and len(table):
        owners = StringTable.open(result, "entities").find_many(table["title"].to_pylist())
    ids = np.concatenate([np.empty(0, np.int32), *(words.ids for words in encoded)])
    with replaced_file(work / f"words-{row_group}.npz") as beside, beside.open("wb") as file:
        np.savez(
            file,
            ids=ids,
            offsets=offsets.astype(np.int64),
            links=np.concatenate(links, axis=1),
            entities=spans[2],
            owners=owners,
        )
    return np.bincount(ids[ids >= 0], minlength=len(vocabulary)).astype(np.int64)


@lru_cache(maxsize=1)
def _vocabulary(result: Path) -> dict[str, int]:
    # A dictionary is ten times faster than the trie, and every word of the dump is looked up.
    words = StringTable.open(result, _WORDS)
    return {word: i for i, word in enumerate(words.texts(np.arange(len(words))))}


def _write_closed_form(build: BuildState, report: Report) -> None:
    """Sum the contexts of each row group, then write the vectors of some entities at a time.

    Sums travel in files: no process holds those of all entities, nor gets those of all groups.
    """
    result = build.result
    n_entities = len(open_array(result / "entity_counts.npy"))
    together, firsts = _summed_together(_n_groups(result)), range(0, n_entities, ENTITIES_PER_BLOCK)
    n_steps = len(together) + len(firsts)
    add = partial(sum_groups, result=result, work=build.work)
    for done, _ in enumerate(build.workers.map(add, together), start=1):
        report(done / n_steps)
    finish = partial(write_block, result=result, work=build.work, sums=together)
    dimensions = len(open_array(result / BACKGROUND))
    with ArrayWriter(result / ENTITY_VECTORS, np.float16, dimensions) as writer:
        for done, path in enumerate(build.workers.map(finish, firsts), start=1):
            writer.append(open_array(path))
            path.unlink()
            report((len(together) + done) / n_steps)
    _space.cache_clear()


def _summed_together(n_groups: int) -> list[range]:
    """Divide the row groups into runs that are summed in one file each."""
    size = min(MAX_SUMMED, -(-n_groups // MAX_SUMS) or 1)
    return [range(i, min(i + size, n_groups)) for i in range(0, n_groups, size)]


def sum_groups(row_groups: range, result: Path, work: Path) -> None:
    """Sum the contexts of the links of some row groups, and their articles, entity by entity."""
    total = reduce(PartialSums.plus, (_sum_group(group, result, work) for group in row_groups))
    entities_path, sums_path = _sum_files(work, row_groups)
    with replaced_file(entities_path) as beside:
        save_array(beside, total.entities, np.int32)
    with replaced_file(sums_path) as beside:
        save_array(beside, total.sums, np.int64)


def _sum_group(row_group: int, result: Path, work: Path) -> PartialSums:
    with np.load(work / f"words-{row_group}.npz") as file:
        starts, ends = file["links"]
        words = file["ids"], file["offsets"], starts, ends, file["entities"]
        return sum_links(*words, *_space(result), owners=file["owners"])


def write_block(first: int, result: Path, work: Path, sums: Sequence[range]) -> Path:
    """Write the vectors of the entities from `first` on; return where."""
    background = open_array(result / BACKGROUND)
    n_entities = len(open_array(result / "entity_counts.npy"))
    last = min(first + ENTITIES_PER_BLOCK, n_entities)
    total = np.zeros((last - first, len(background) + 1), dtype=np.int64)
    for row_groups in sums:
        entities, added = map(open_array, _sum_files(work, row_groups))
        here = slice(*np.searchsorted(entities, np.array([first, last], dtype=np.int32)))
        total[entities[here] - np.int32(first)] += added[here]
    path = work / f"vectors-{first}.npy"
    with replaced_file(path) as beside:
        save_array(beside, closed_form(total, background), np.float16)
    return path


def _sum_files(work: Path, row_groups: range) -> tuple[Path, Path]:
    name = f"sums-{row_groups.start}"
    return work / f"{name}.entities.npy", work / f"{name}.npy"


@lru_cache(maxsize=1)
def _space(result: Path) -> tuple[Float32, Float32]:
    """Return the word vectors as they are stored, and the word weights."""
    vectors = np.asarray(VectorTable(open_array(result / _WORD_VECTORS)))
    return vectors, word_weights(open_array(result / _WORD_COUNTS))
