"""Word vectors, word counts and entity vectors of a knowledge base under construction.

Three steps: `write_words`, `count_words`, `write_entity_vectors`. An entity's vector is in closed
form: the weighted mean of the words around its links, less what all words have in common.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from stamo.build.staging import Build
from stamo.build.vector_files import load_vectors, prepare
from stamo.build.word_vectors import MIN_COUNT, learn_word_vectors
from stamo.corpus.tokenizer import UNKNOWN_WORD, encode_words, words_in_spans
from stamo.kb.base import background_vector, entity_directions, word_weights
from stamo.kb.manifest import ARTICLES_FILE, BACKGROUND, ENTITY_VECTORS
from stamo.kb.storage import ArrayWriter, StringTable, VectorTable, open_array, save_array
from stamo.system.files import RESULT_DIR, Float32, Int32, Int64

CONTEXT_WINDOW = 50
"""Words on either side of a link that belong to its context (Section 2.2 (3))."""
EXPECTED_WORDS = 1_000_000
GROUPS_TO_LEARN_FROM = 512
"""Row groups of articles that word vectors are learned from: the pairs of words that are kept are
bounded too, so more text would take time and add little."""
ENTITIES_PER_BLOCK = 1 << 15
"""Entities whose vectors are made together."""
MAX_SUMS, MAX_SUMMED = 256, 64
"""Files of sums that are aimed at, and row groups that are summed in one of them at most: an entity
that many groups link takes one row of a file, not one for each group."""

_WORDS, _WORD_VECTORS, _WORD_COUNTS = "words", "word_vectors.npy", "word_counts.npy"
_SCALE = float(1 << 24)
_BLOCK_WORDS = 1 << 16


def write_vectors(build: Build, *, is_dump: bool) -> None:
    """Write words with their vectors and counts, and the entity vectors, step by step."""
    result, vectors = build.work / RESULT_DIR, build.settings.vectors
    with build.step("word vectors"):
        shape = write_words(result, vectors, build.settings.dimensions, is_dump=is_dump)
    if shape is None:
        build.skipped["vectors: too few words to learn from"] += 1
        return
    build.counts["words"], build.counts["dimensions"] = shape
    n_groups = int(pq.read_metadata(result / ARTICLES_FILE).num_row_groups)
    with build.step("counting words"):
        count_words(build, n_groups, is_dump=is_dump)
    with build.step("entity vectors"):
        write_entity_vectors(build, n_groups)


def write_words(
    result: Path, vectors_path: Path | None, dimensions: int, *, is_dump: bool
) -> tuple[int, int] | None:
    """Write words and their vectors, from a file or learned from the articles.

    Notes, tables and dumps of a few pages have little text: every word of it counts.

    Returns:
        The number of words and of dimensions; None where there is too little text to learn from.
    """
    found = None if vectors_path is None else load_vectors(vectors_path)
    for min_count in (MIN_COUNT, 1) if is_dump else (1,):
        found = found or learn_word_vectors(_counted_texts(result), dimensions, min_count)
    if found is None:
        return None
    StringTable.build(result, _WORDS, found.words)
    save_array(result / _WORD_VECTORS, prepare(found.vectors), np.float16)
    return found.vectors.shape[0], found.vectors.shape[1]


def _counted_texts(result: Path) -> Iterator[str]:
    """Yield the texts to learn from: all, or of a large encyclopaedia an even sample."""
    with pq.ParquetFile(result / ARTICLES_FILE) as file:
        step = -(-file.num_row_groups // GROUPS_TO_LEARN_FROM) or 1
        groups = list(range(0, file.num_row_groups, step))
        for batch in file.iter_batches(row_groups=groups, columns=["text", "held_out"]):
            yield from batch.filter(pc.invert(batch["held_out"]))["text"].to_pylist()


def count_words(build: Build, n_groups: int, *, is_dump: bool) -> None:
    """Count the words of the counted articles and write the background vector.

    The articles of notes and tables say what their own entities are, and not only their links.
    """
    work, result = build.work, build.work / RESULT_DIR
    n_words = len(StringTable.open(result, _WORDS))
    counts = np.zeros(n_words, dtype=np.int64)
    encode = partial(encode_group, result=result, work=work, with_owners=not is_dump)
    for done, added in enumerate(build.workers.map(encode, range(n_groups)), start=1):
        counts += added
        build.report(done / n_groups)
    _vocabulary.cache_clear()
    if build.settings.vectors is not None and not is_dump:
        # Files of vectors begin with the most frequent words. A small text has not seen most of
        # them, and would take every word that it lacks for a rare one that says much. So each
        # gets what Zipf's law expects of a text of a million words.
        shares = 1 / (np.arange(n_words) + 2.7)
        counts += np.rint(EXPECTED_WORDS * shares / shares.sum()).astype(np.int64)
    save_array(result / _WORD_COUNTS, counts, np.int64)
    vectors = VectorTable(open_array(result / _WORD_VECTORS))
    background = background_vector(vectors, word_weights(counts), counts)
    save_array(result / BACKGROUND, background, np.float32)


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
    np.savez(
        work / f"words-{row_group}.npz",
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


def write_entity_vectors(build: Build, n_groups: int) -> None:
    """Sum the contexts of each row group, then write the vectors of some entities at a time.

    Sums travel in files: no process holds those of all entities, nor gets those of all groups.
    """
    work, result, map_groups = build.work, build.work / RESULT_DIR, build.workers.map
    n_entities = len(open_array(result / "entity_counts.npy"))
    size = min(MAX_SUMMED, -(-n_groups // MAX_SUMS) or 1)
    together = [range(i, min(i + size, n_groups)) for i in range(0, n_groups, size)]
    firsts = range(0, n_entities, ENTITIES_PER_BLOCK)
    n_steps = len(together) + len(firsts)
    paths = []
    for path in map_groups(partial(sum_groups, result=result, work=work), together):
        paths.append(path)
        build.report(len(paths) / n_steps)
    dimensions = len(open_array(result / BACKGROUND))
    with ArrayWriter(result / ENTITY_VECTORS, np.float16, dimensions) as writer:
        finish = partial(block_vectors, result=result, paths=paths)
        for done, vectors in enumerate(map_groups(finish, firsts), start=len(paths) + 1):
            writer.append(vectors)
            build.report(done / n_steps)
    _space.cache_clear()


def sum_groups(row_groups: range, result: Path, work: Path) -> tuple[Path, Path]:
    """Sum the contexts of the links of some row groups, and their articles, entity by entity.

    Returns:
        The files of the entities met, ascending, shape (n,), and of their sums, (n, Q + 1).
    """
    space = _space(result)
    entities = np.empty(0, np.int32)
    sums = np.empty((0, space[0].shape[1] + 1), np.int64)
    for group in row_groups:
        with np.load(work / f"words-{group}.npz") as file:
            words, (starts, ends) = (file["ids"], file["offsets"]), file["links"]
            found = sum_links(*words, starts, ends, file["entities"], *space, file["owners"])
        before, entities = entities, np.union1d(entities, found[0])
        total = np.zeros((len(entities), sums.shape[1]), dtype=np.int64)
        for some, added in ((before, sums), found):
            total[np.searchsorted(entities, some)] += added
        sums = total
    paths = tuple(work / f"{name}-{row_groups.start}.npy" for name in ("entities", "sums"))
    save_array(paths[0], entities, np.int32)
    save_array(paths[1], sums, np.int64)
    return paths[0], paths[1]


@lru_cache(maxsize=1)
def _space(result: Path) -> tuple[Float32, Float32]:
    """Return the word vectors as they are stored, and the word weights."""
    vectors = np.asarray(VectorTable(open_array(result / _WORD_VECTORS)))
    return vectors, word_weights(open_array(result / _WORD_COUNTS))


def sum_links(
    word_ids: Int32,
    offsets: Int64,
    starts: Int64,
    ends: Int64,
    entities: Int32,
    word_vectors: Float32,
    weights: Float32,
    owners: Sequence[int] | Int32 = (),
) -> tuple[Int32, Int64]:
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

    Returns:
        The entities that occur, ascending, shape (k,), and fixed-point sums of their context words
        with the word weight as last column, shape (k, Q + 1).
    """
    # The words before and after each link, inside its document and without the link itself.
    document = np.clip(np.searchsorted(offsets, starts, side="right") - 1, 0, len(offsets) - 2)
    left = np.maximum(starts - CONTEXT_WINDOW, offsets[document])
    right = np.maximum(np.minimum(ends + CONTEXT_WINDOW, offsets[document + 1]), ends)
    # A link without a word, such as "!!!", that ends its document would see the next one.
    astray = (starts == ends) & (starts == offsets[document])
    left, right = np.where(astray, starts, left), np.where(astray, ends, right)
    begins = [left, ends]
    stops = [starts, right]
    met = [entities, entities]
    if len(owners):
        begins.append(offsets[:-1])
        stops.append(np.minimum(offsets[:-1] + 2 * CONTEXT_WINDOW, offsets[1:]))
        met.append(np.asarray(owners))
    distinct, rows = np.unique(np.concatenate(met), return_inverse=True)
    totals = np.zeros((len(distinct), word_vectors.shape[1] + 1), dtype=np.int64)
    begin, stop = np.concatenate(begins), np.concatenate(stops)
    order = np.argsort(begin, kind="stable")
    begin, stop, rows = begin[order], stop[order], rows[order]
    borders = np.searchsorted(begin, np.arange(0, len(word_ids) + _BLOCK_WORDS, _BLOCK_WORDS))
    for here in itertools.starmap(slice, itertools.pairwise(borders.tolist())):
        if here.start < here.stop:
            some, local = np.unique(rows[here], return_inverse=True)
            bounds = begin[here], stop[here]
            totals[some] += _sum_block(word_ids, *bounds, local, word_vectors, weights)
    return distinct.astype(np.int32), totals


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
    # Fixed point: whole numbers add up to the same in any order.
    table = np.zeros((len(words), word_vectors.shape[1] + 1), dtype=np.int64)
    known = words != UNKNOWN_WORD
    mass = weights[words[known]].astype(np.float64) * _SCALE
    table[known, :-1] = np.rint(word_vectors[words[known]] * mass[:, None])
    table[known, -1] = np.rint(mass)
    ones = np.ones(len(columns), dtype=np.int64)
    # Row i counts the words between edge i and edge i + 1; the running total over rows then gives
    # every stretch as a difference. Only as many rows as there are edges are ever made.
    counts = csr_array((ones, columns, edges - edges[0]), shape=(len(edges) - 1, len(words)))
    prefix = np.zeros((len(edges), table.shape[1]), dtype=np.int64)
    np.cumsum(counts @ table, axis=0, out=prefix[1:])
    signs = np.repeat(np.array([-1, 1]), len(starts))
    difference = csr_array((signs, (np.concatenate([rows, rows]), place)))
    difference.resize(int(rows.max()) + 1, len(edges))
    return np.asarray(difference @ prefix)


def block_vectors(first: int, result: Path, paths: Sequence[tuple[Path, Path]]) -> Float32:
    """Return the vectors of the entities from `first` on, shape (n, Q); zeros without context."""
    background = open_array(result / BACKGROUND)
    last = min(first + ENTITIES_PER_BLOCK, len(open_array(result / "entity_counts.npy")))
    total = np.zeros((last - first, len(background) + 1), dtype=np.int64)
    for entities_path, sums_path in paths:
        entities, sums = open_array(entities_path), open_array(sums_path)
        here = slice(*np.searchsorted(entities, np.array([first, last], dtype=np.int32)))
        total[entities[here] - np.int32(first)] += sums[here]
    rows = total / _SCALE
    return entity_directions(rows[:, :-1], rows[:, -1], background)
