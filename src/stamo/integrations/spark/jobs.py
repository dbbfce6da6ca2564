"""What Spark does: maps our functions over pieces of files, or chunks of a dump.

    with spark_session("local[2]") as spark:
        link_on_spark(spark, ["crawl/"], "linked", LinkJob(kb_path, model_path))

A build on Spark is `build_knowledge_base` with `SparkWorkers`; collecting is `collect_many` with
`spark_reader`. To link, each task reads a piece of the files with the reader and the linker of
`stamo link`, so that the results are the same as a set. Each task writes one part, which is whole
or absent: a run that was killed goes on with the parts that are missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.reading import (
    InputFile,
    OnSkip,
    ReadChunk,
    ReadFiles,
    ReadTask,
    Skip,
    cut_documents,
    list_files,
    tidy_documents,
)
from stamo.corpus.types import Document, clean_surrogates
from stamo.errors import SettingsError
from stamo.integrations.spark.pieces import (
    PIECE_BYTES,
    FilePiece,
    bundle,
    plan_pieces,
    read_piece,
)
from stamo.integrations.spark.session import Shipment, SparkWorkers, shipped
from stamo.kb.base import KnowledgeBase
from stamo.kb.manifest import sha256_of
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker, map_batches, open_linker
from stamo.linking.results import LinkedDocument
from stamo.models.store import load_model
from stamo.system.files import to_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_reader(spark: SparkSession, *, piece_bytes: int = PIECE_BYTES) -> ReadFiles:
    """Return what reads files on Spark, as `read_files` does.

    Args:
        spark: A session, local or of a cluster.
        piece_bytes: What one task reads.
    """
    return partial(_read_files, workers=SparkWorkers(spark), piece_bytes=piece_bytes)


def _read_files(
    files: Sequence[InputFile],
    *,
    matcher: AliasMatcher,
    on_skip: OnSkip,
    on_bytes: Callable[[int], None],
    stdin: BinaryIO | None,
    text_column: str,
    workers: SparkWorkers,
    piece_bytes: int,
) -> Iterator[tuple[InputFile, Iterator[Document]]]:
    tasks = bundle(plan_pieces(files, piece_bytes, run=workers.map), piece_bytes)
    names = tuple(matcher.aliases), matcher.casefold, matcher.stems
    scanned = workers.map(partial(_scan_pieces, names=names, text_column=text_column), tasks)
    pieces = chain.from_iterable(
        zip(*pair, strict=True) for pair in zip(tasks, scanned, strict=True)
    )
    for file, some in groupby(pieces, key=_file_of):
        yield file, _documents_of(some, on_skip, on_bytes)


def _file_of(scanned: tuple[FilePiece, list[Skip | Document]]) -> InputFile:
    return scanned[0].file


def _documents_of(
    scanned: Iterable[tuple[FilePiece, list[Skip | Document]]],
    on_skip: OnSkip,
    on_bytes: Callable[[int], None],
) -> Iterator[Document]:
    for piece, events in scanned:
        for event in events:
            if isinstance(event, Skip):
                on_skip(event)
            else:
                yield event
        on_bytes(piece.size)


def _scan_pieces(
    pieces: Sequence[FilePiece],
    names: tuple[tuple[str, ...], bool, tuple[str, ...]],
    text_column: str,
) -> list[list[Skip | Document]]:
    """Read pieces and keep the documents that may hold a name; runs on the executors.

    Returns:
        For each piece what was left out, and the documents, in their order.
    """
    matcher, found = _matcher(*names), []
    for piece in pieces:
        events: list[Skip | Document] = []
        task = ReadTask(piece.file.name, piece.file.name, matcher, text_column=text_column)
        for document in tidy_documents(read_piece(piece, task), task, partial(_note, events)):
            events.append(document)
        found.append(events)
    return found


def _note(events: list[Skip | Document], skip: Skip) -> None:
    """Add a skip; many of one kind in a row travel as one."""
    last = events[-1] if events else None
    if isinstance(last, Skip) and (last.reason, last.kept) == (skip.reason, skip.kept):
        events[-1] = replace(last, count=last.count + skip.count)
    else:
        events.append(skip)


@lru_cache(maxsize=1)
def _matcher(names: tuple[str, ...], casefold: bool, stems: tuple[str, ...]) -> AliasMatcher:
    return AliasMatcher(names, casefold=casefold, stems=stems)


PLAN_FILE = "_stamo_plan.json"
"""Says what a folder of parts is made of; readers of Parquet pass over names that begin so."""


class PartFolder:
    """Parquet parts on this machine's disk or at an address such as s3://; made to travel."""

    def __init__(self, address: str) -> None:
        self.address = address if "://" in address else str(Path(address).absolute())
        self._system, self._root = fs.LocalFileSystem(), self.address
        if "://" in address:
            self._system, self._root = fs.FileSystem.from_uri(address)

    def begin(self, plan: dict[str, Any], *, overwrite: bool) -> None:
        """Make the folder, or check that what is there is the beginning of the same.

        Raises:
            SettingsError: It holds something else.
        """
        before = self.plan()
        if before is not None and (overwrite or before != plan):
            if not overwrite:
                raise SettingsError(
                    f"{self.address!r} holds the result of other sources, settings or artifacts; "
                    "add --overwrite to replace it or choose another folder."
                )
            for name in [*self._names(), PLAN_FILE]:
                self._system.delete_file(f"{self._root}/{name}")
        inside = fs.FileSelector(self._root, allow_not_found=True)
        is_file = self._system.get_file_info(self._root).type == fs.FileType.File
        if before is None and (is_file or self._system.get_file_info(inside)):
            raise SettingsError(
                f"{self.address!r} exists and was not written by stamo, so it is left alone; "
                "choose another folder."
            )
        self._system.create_dir(self._root, recursive=True)
        with self._system.open_output_stream(f"{self._root}/{PLAN_FILE}") as file:
            file.write(to_json(plan))

    def missing(self, n_parts: int) -> list[int]:
        """Return the numbers of the parts that are not there yet."""
        names = set(self._names())
        return [number for number in range(n_parts) if _name(number) not in names]

    def write(self, number: int, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Write a part; it is there when it is whole, also where two tasks write the same."""
        beside = f"{self._root}/_{number}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        try:
            with (
                self._system.open_output_stream(beside) as file,
                pq.ParquetWriter(file, schema, compression="zstd") as writer,
            ):
                for batch in batches:
                    writer.write_batch(batch)
            self._system.move(beside, f"{self._root}/{_name(number)}")
        except BaseException:
            self._system.delete_file(beside)
            raise

    def count_rows(self, column: str) -> tuple[int, int]:
        """Count the rows of all parts, and those where a column has a value."""
        n_rows = n_values = 0
        for name in self._names():
            with pq.ParquetFile(self._system.open_input_file(f"{self._root}/{name}")) as part:
                for batch in part.iter_batches(columns=[column]):
                    n_rows += len(batch)
                    n_values += len(batch) - batch.column(0).null_count
        return n_rows, n_values

    def sweep(self) -> None:
        """Remove what killed tasks have left."""
        for info in self._system.get_file_info(fs.FileSelector(self._root)):
            if info.base_name.startswith("_") and info.base_name != PLAN_FILE:
                self._system.delete_file(info.path)

    def _names(self) -> list[str]:
        found = self._system.get_file_info(fs.FileSelector(self._root, allow_not_found=True))
        return sorted(i.base_name for i in found if i.base_name.startswith("part-"))

    def plan(self) -> Any:
        """Return what the folder is made of, None where nothing was begun."""
        try:
            with self._system.open_input_stream(f"{self._root}/{PLAN_FILE}") as file:
                return json.loads(file.read())
        except (OSError, ValueError):
            return None


def _name(number: int) -> str:
    return f"part-{number:06}.parquet"


_ROWS = 512
LINK_TASKS_PER_CORE = 4
"""Tasks for each core, so that all are busy to the end; large inputs have more of them."""
LEAST_TASK_BYTES = 1 << 20
"""Less is not worth a task."""

_TEXT, _WHOLE = pa.string(), pa.int64()
_PLACE = [("start", _WHOLE), ("end", _WHOLE), ("surface", _TEXT)]
_MENTION = pa.struct([*_PLACE, ("entity", _TEXT), ("id", _TEXT), ("confidence", pa.float64())])
_DOCUMENT = [("id", _TEXT), ("part", pa.int32()), ("offset", _WHOLE), ("length", _WHOLE)]
_LINKED = [("error", _TEXT), ("mentions", pa.list_(_MENTION)), ("record", _TEXT)]
LINKED_SCHEMA = pa.schema([*_DOCUMENT, *_LINKED])
"""One row for each document or part; `record` is the line of JSON where all of it was asked for."""


@dataclass(frozen=True)
class LinkJob:
    """What to link with."""

    kb: Path
    model: Path
    packs: tuple[Path, ...] = ()
    settings: LinkerSettings = field(default_factory=LinkerSettings)
    everything: bool = False
    """Whether `record` holds all candidates and reasons, as JSON."""
    json_lines: bool = False
    """Whether every file holds JSON lines, whatever it looks like."""
    text_column: str = ""
    """The column of tables that holds the texts; one of the usual names without it."""


@dataclass(frozen=True)
class LinkRun:
    """What a run on Spark did."""

    n_linked: int
    n_failed: int
    n_tasks: int
    n_before: int
    """Tasks that an earlier run had done already."""


def link_on_spark(
    spark: SparkSession,
    sources: Sequence[str],
    output: str,
    job: LinkJob,
    *,
    overwrite: bool = False,
    shared: bool | None = None,
    piece_bytes: int | None = None,
    on_task: Callable[[int, int], None] = lambda done, total: None,
) -> LinkRun:
    """Link sources and write Parquet.

    Args:
        spark: A session, local or of a cluster.
        sources: Files, folders or addresses that every executor can read.
        output: Folder or address to write, for every executor; one that was begun is finished.
        job: What to link with.
        overwrite: Replace output of something else.
        shared: Whether executors see the paths of knowledge base, model and packs.
        piece_bytes: What one task reads; by default as much as gives every core several tasks, 64
            MB at the most, or what the run that is finished had.
        on_task: Told how many tasks are done, and of how many.

    Raises:
        SettingsError: The output is there and is something else.
        StamoError: The knowledge base, the model, a pack or a source cannot be read.
    """
    kb, trained = KnowledgeBase.open(job.kb), load_model(job.model)
    open_linker(job.kb, job.model, job.packs, job.settings)  # what does not fit fails here
    workers, parts = SparkWorkers(spark), PartFolder(output)
    begun = {} if overwrite else parts.plan() or {}
    files = list_files(sources)
    piece_bytes = piece_bytes or begun.get("piece_bytes") or task_bytes(files, workers.n_workers)
    pieces = plan_pieces(files, piece_bytes, json_lines=job.json_lines, run=workers.map)
    tasks = bundle(pieces, piece_bytes)
    what = {
        "kb": kb.fingerprint,
        "model": trained.fingerprint,
        "packs": [sha256_of(path) for path in job.packs],
        "settings": asdict(job.settings),
        "everything": job.everything,
        "text_column": job.text_column,
        "n_tasks": len(tasks),
    }
    asked = json.dumps([what, [[asdict(piece) for piece in task] for task in tasks]])
    digest = hashlib.sha256(asked.encode()).hexdigest()
    parts.begin(what | {"digest": digest, "piece_bytes": piece_bytes}, overwrite=overwrite)
    missing = parts.missing(len(tasks))
    n_before = len(tasks) - len(missing)
    with closing(Shipment(spark, shared=shared)) as shipment:
        name = digest[:12]
        packs = [shipment.send(p, f"pack-{i}-{name}{p.suffix}") for i, p in enumerate(job.packs)]
        sent = replace(
            job,
            kb=shipment.send(job.kb, f"kb-{name}"),
            model=shipment.send(job.model, f"model-{name}{job.model.suffix}"),
            packs=tuple(packs),
        )
        run = partial(_link_task, job=sent, parts=parts)
        items = [(number, tasks[number]) for number in missing]
        for done, _ in enumerate(workers.map(run, items), start=n_before + 1):
            on_task(done, len(tasks))
    parts.sweep()
    n_rows, n_failed = parts.count_rows("error")
    return LinkRun(n_rows - n_failed, n_failed, len(tasks), n_before)


def task_bytes(files: Sequence[InputFile], n_cores: int) -> int:
    """Return how much of the files a task reads, so that every core has several tasks."""
    total = sum(file.size for file in files)
    return min(max(-(-total // (LINK_TASKS_PER_CORE * n_cores)), LEAST_TASK_BYTES), PIECE_BYTES)


def _link_task(task: tuple[int, Sequence[FilePiece]], job: LinkJob, parts: PartFolder) -> None:
    """Link the pieces of a task and write its part; runs on the executors."""
    number, pieces = task
    parts.write(number, LINKED_SCHEMA, link_pieces(shipped_linker(job), pieces, job))


def link_pieces(
    linker: Linker, pieces: Sequence[FilePiece], job: LinkJob
) -> Iterator[pa.RecordBatch]:
    """Link some pieces and yield rows of `LINKED_SCHEMA`."""
    waiting: list[dict[str, Any]] = []
    parts = _read_chunks(pieces, linker.window, job)
    for linked in map_batches(linker.link_batch, parts, linker.settings):
        waiting += [_row(one, everything=job.everything) for one in linked]
        if len(waiting) >= _ROWS:
            yield pa.RecordBatch.from_pylist(waiting, LINKED_SCHEMA)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, LINKED_SCHEMA)


def _read_chunks(pieces: Sequence[FilePiece], window: int, job: LinkJob) -> Iterator[ReadChunk]:
    for piece in pieces:
        file = piece.file
        task = ReadTask(file.name, file.path, window=window, text_column=job.text_column)
        yield from cut_documents(read_piece(piece, task, "lines" if job.json_lines else ""), task)


def _row(linked: LinkedDocument, *, everything: bool) -> dict[str, Any]:
    row = linked.to_record(all_candidates=everything)
    text = json.dumps(row) if everything else None
    row["id"] = clean_surrogates(row["id"])
    for mention in row.get("mentions", ()):
        mention["surface"] = clean_surrogates(mention["surface"])
    return row | {"record": text}


@lru_cache(maxsize=1)
def shipped_linker(job: LinkJob) -> Linker:
    """Open what was shipped, once in each process of an executor; the large files are mapped."""
    linker = open_linker(
        shipped(job.kb), shipped(job.model), list(map(shipped, job.packs)), job.settings
    )
    linker.warm_up()
    return linker
