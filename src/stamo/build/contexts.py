"""Word vectors, word counts and entity vectors of a knowledge base under construction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial, reduce
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stamo.build.embeddings import PartialSums, closed_form, sum_links
from stamo.build.engine import BuildState
from stamo.build.settings import BuildSettings, Report
from stamo.build.vectors import WordVectors, load_vectors, prepare
from stamo.build.word_learning import MIN_COUNT, TooFewWordsError, learn_word_vectors
from stamo.corpus.tokenizer import encode_words, words_in_spans
from stamo.kb.manifest import ARTICLES_FILE, BACKGROUND, ENTITY_VECTORS
from stamo.kb.storage import ArrayWriter, StringTable, VectorTable, open_array, save_array
from stamo.kb.word_weights import background_vector, word_weights
from stamo.system.arrays import Float32, Int64
from stamo.system.files import replaced_file

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
