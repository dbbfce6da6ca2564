"""What Spark does: maps our functions over pieces of files, or chunks of a dump.

    with spark_session("local[2]") as spark:
        link_on_spark(spark, ["crawl/"], "linked", LinkJob(kb_path, model_path))

A build on Spark is `build_knowledge_base` with `SparkWorkers`; collecting is `collect` with
`spark_reader`. To link, each task reads a piece of the files with the reader and the linker of
`stamo link`, so that the results are the same as a set. Each task writes one part, which is whole
or absent: a run that was killed goes on with the parts that are missing.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import sys
import tarfile
import tempfile
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache, partial
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.reading import (
    CONVERT,
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
from stamo.errors import SettingsError, WorkerError, need
from stamo.integrations.spark.pieces import (
    PIECE_BYTES,
    FilePiece,
    bundle,
    plan_pieces,
    read_piece,
)
from stamo.kb.base import KnowledgeBase
from stamo.kb.manifest import sha256_of
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker, map_batches, open_linker
from stamo.linking.results import LinkedDocument
from stamo.models.store import load_model
from stamo.system.files import to_json
from stamo.system.processes import Item, Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS = 4
"""How often a task is tried; inside one machine Spark would give up at the first fault."""
TASKS_PER_CORE, ROUNDS = 4, 2
"""Tasks of one round of work for each core, and rounds under way: those of the next one fill the
cores while the last of one run. Few enough to hold in memory."""

_LOCAL = re.compile(r"local(?:\[(\d+|\*)\])?")


@contextmanager
def spark_session(master: str | None = None) -> Iterator[SparkSession]:
    """Connect to Spark, or start it inside this machine, and stop it afterwards.

    Inside this machine the JVM shares the cores with the tasks, so it compiles itself as little as
    it can: half of its processor time.

    Args:
        master: Where Spark runs, such as local[2] or spark://host:7077; None is what Spark itself
            is set up for (spark-submit, spark-defaults.conf), else this machine.

    Raises:
        MissingExtraError: pyspark is not installed.
        SettingsError: Spark does not start.
    """
    need("pyspark.sql", "spark", "Spark as the engine", package="pyspark")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = _LOCAL.fullmatch(master or "")
    builder = SparkSession.builder.appName("stamo")
    builder = builder.config("spark.ui.showConsoleProgress", False)
    if master is not None:
        # Local Spark tries a task again, as a cluster does.
        builder = builder.master(f"local[{local[1] or 1},{ATTEMPTS}]" if local else master)
    if local:
        os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
        builder = builder.config("spark.ui.enabled", False)
        builder = builder.config("spark.driver.host", "localhost")
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(
            f"Spark does not start at {master!r} ({reason}); check the address of the master and "
            "that a Java is installed."
        ) from error
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


class SparkWorkers:
    """Do the work of `stamo.system.processes.Workers` in tasks of Spark.

    Items and results travel through the driver, so both should be small: numbers and names of
    files, not texts. A task that fails is run again by Spark, so functions that write files do it
    at once and under the same name.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.n_workers: int = self._context.defaultParallelism

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield `function(item)` for each item in order, in rounds of tasks.

        Raises:
            WorkerError: A task failed as often as Spark tries it.
        """
        waiting, group, n_items = iter(items), uuid.uuid4().hex, self.n_workers * TASKS_PER_CORE
        rounds: deque[Future[list[Result]]] = deque()
        with ThreadPoolExecutor(ROUNDS) as threads:
            try:
                while True:
                    while len(rounds) < ROUNDS and (some := list(islice(waiting, n_items))):
                        rounds.append(threads.submit(self._run, function, some, group))
                    if not rounds:
                        return
                    yield from rounds.popleft().result()
            finally:
                if rounds:  # nobody waits for them any more
                    self._context.cancelJobGroup(group)

    def _run(
        self, function: Callable[[Item], Result], items: list[Item], group: str
    ) -> list[Result]:
        """Run a round of tasks, one for each item."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        called = getattr(function, "func", function)
        self._context.setJobGroup(group, getattr(called, "__name__", "tasks"))
        tasks = self._context.parallelize(items, len(items))
        try:
            found: list[Result] = tasks.mapPartitions(partial(_each, function)).collect()
        except (Py4JJavaError, PySparkException) as error:
            java = getattr(error, "java_exception", None)
            lines = str(error if java is None else java.getMessage()).splitlines()
            python = [line for line in lines if _PYTHON_ERROR.match(line)]
            reason = (python[-1:] or lines or ["no reason was given"])[0].strip()
            raise WorkerError(
                f"Spark gave up after {ATTEMPTS} attempts at a task ({reason}); see its log, and "
                "run the same command again to go on."
            ) from error
        return found


_PYTHON_ERROR = re.compile(r"(?!org\.|java\.|scala\.)[A-Za-z_][\w.]*(?:Error|Exception): ")


def _each(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    yield from map(function, items)
    _keep_what_is_loaded()


@cache
def _keep_what_is_loaded() -> None:
    """Spare this process looking at its modules after every task, where Spark collects garbage.

    It took 40 ms each time, a tenth of a task that reads a dump.
    """
    gc.freeze()


class Shipment:
    """Files and folders that every executor needs: where it finds them.

    Inside one machine, and where the executors see the same paths, nothing is moved. Elsewhere a
    file is sent to each executor once, and a folder as an archive that is unpacked there.
    """

    def __init__(self, spark: SparkSession, *, shared: bool | None = None) -> None:
        """Choose a way.

        Args:
            spark: The session.
            shared: Whether executors see this machine's paths; None says so of local Spark only.
        """
        self._context = spark.sparkContext
        is_local = str(self._context.master).startswith("local")
        self.is_shared = is_local if shared is None else shared
        self._folder = tempfile.TemporaryDirectory(prefix="stamo-ship-")

    def send(self, path: Path, name: str) -> Path:
        """Send a file or folder under a name of its own; return what `shipped` finds it by.

        Raises:
            SettingsError: There is no such file or folder.
        """
        if not path.exists():
            raise SettingsError(f"There is no {str(path)!r} to send to Spark; check the path.")
        if self.is_shared:
            return path.absolute()
        inside = Path(self._folder.name)
        if path.is_dir():
            with tarfile.open(inside / f"{name}.tar", "w") as archive:
                for file in sorted(path.rglob("*")):
                    archive.add(file, arcname=str(file.relative_to(path)), recursive=False)
            self._context.addArchive(f"{inside / name}.tar#{name}")
        else:
            (inside / name).write_bytes(path.read_bytes())
            self._context.addFile(str(inside / name))
        return Path(name)

    def close(self) -> None:
        """Remove what was made to be sent; the executors have theirs."""
        self._folder.cleanup()


def shipped(path: Path) -> Path:
    """Return where something that was sent is, on the machine where this is asked."""
    if path.is_absolute():
        return path
    from pyspark import SparkFiles

    return Path(SparkFiles.get(str(path)))


def spark_reader(spark: SparkSession, *, piece_bytes: int = PIECE_BYTES) -> ReadFiles:
    """Return what reads files on Spark, as `read_files` does.

    Args:
        spark: A session, local or of a cluster.
        piece_bytes: What one task reads.
    """
    return partial(_read_files, workers=SparkWorkers(spark), piece_bytes=piece_bytes)


def _read_files(
    files: Iterable[InputFile],
    *,
    matcher: AliasMatcher,
    on_skip: OnSkip,
    on_bytes: Callable[[int], None],
    stdin: BinaryIO | None,
    text_column: str,
    encoding: str,
    workers: SparkWorkers,
    piece_bytes: int,
) -> Iterator[tuple[InputFile, Iterator[Document]]]:
    if encoding:
        raise SettingsError(f"Spark reads texts in UTF-8 only; {CONVERT}.")
    tasks = bundle(plan_pieces(list(files), piece_bytes, run=workers.map), piece_bytes)
    names = tuple(matcher.aliases), matcher.casefold, matcher.stems
    found = workers.map(partial(_scan_pieces, names=names, text_column=text_column), tasks)
    scanned = (
        pair
        for pieces, events in zip(tasks, found, strict=True)
        for pair in zip(pieces, events, strict=True)
    )
    for file, some in groupby(scanned, key=lambda pair: pair[0].file):
        yield file, _documents_of(some, on_skip, on_bytes)


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
        paths = [f"{self._root}/{name}" for name in self._names()]
        rows = ds.dataset(paths, LINKED_SCHEMA, format="parquet", filesystem=self._system)
        return rows.count_rows(), rows.count_rows(filter=ds.field(column).is_valid())

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
