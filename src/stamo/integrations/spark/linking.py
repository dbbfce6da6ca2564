"""Link on Spark: files in, Parquet out, the knowledge base mapped once on each machine.

    with spark_session("local[2]") as spark:
        link_on_spark(spark, ["crawl/"], "linked", LinkJob(kb_path, model_path))

Each task reads a piece of the sources with the reader and the linker of `stamo link`, so that the
results are the same as a set. Each task writes one part, which is whole or absent: a run that was
killed goes on with the parts that are missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stamo.corpus.pieces import (
    PIECE_BYTES,
    FilePiece,
    bundle,
    list_pieces,
    plan_pieces,
    read_pieces,
)
from stamo.corpus.skips import clean_surrogates
from stamo.integrations.spark.parts import PartFolder
from stamo.integrations.spark.session import Shipment, SparkWorkers, shipped
from stamo.kb.base import KnowledgeBase
from stamo.kb.manifest import sha256_of
from stamo.linking.linker import Linker, link_in_processes, open_linker
from stamo.linking.results import LinkedDocument
from stamo.linking.settings import LinkerSettings
from stamo.models.store import load_model

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    piece_bytes = piece_bytes or begun.get("piece_bytes") or task_bytes(sources, workers.n_workers)
    pieces = plan_pieces(sources, piece_bytes, json_lines=job.json_lines, run=workers.map)
    tasks = bundle(pieces, piece_bytes)
    plan = _plan(kb.fingerprint, trained.fingerprint, job, tasks) | {"piece_bytes": piece_bytes}
    parts.begin(plan, overwrite=overwrite)
    missing = parts.missing(len(tasks))
    n_before = len(tasks) - len(missing)
    with closing(Shipment(spark, shared=shared)) as shipment:
        run = partial(_link_task, job=_ship(shipment, job, plan["digest"]), parts=parts)
        items = [(number, tasks[number]) for number in missing]
        for done, _ in enumerate(workers.map(run, items), start=n_before + 1):
            on_task(done, len(tasks))
    parts.sweep()
    n_rows, n_failed = parts.count_rows("error")
    return LinkRun(n_rows - n_failed, n_failed, len(tasks), n_before)


def task_bytes(sources: Sequence[str], n_cores: int) -> int:
    """Return how much of the sources a task reads, so that every core has several tasks."""
    total = sum(piece.size for piece in list_pieces(sources))
    return min(max(-(-total // (LINK_TASKS_PER_CORE * n_cores)), LEAST_TASK_BYTES), PIECE_BYTES)


def _plan(
    kb: str, model: str, job: LinkJob, tasks: Sequence[Sequence[FilePiece]]
) -> dict[str, Any]:
    what = {
        "kb": kb,
        "model": model,
        "packs": [sha256_of(path) for path in job.packs],
        "settings": asdict(job.settings),
        "everything": job.everything,
        "text_column": job.text_column,
        "n_tasks": len(tasks),
    }
    pieces = json.dumps([what, [[asdict(piece) for piece in task] for task in tasks]])
    return what | {"digest": hashlib.sha256(pieces.encode()).hexdigest()}


def _ship(shipment: Shipment, job: LinkJob, digest: str) -> LinkJob:
    """Return the job as the executors see it."""
    name = digest[:12]
    kb = shipment.send(job.kb, f"kb-{name}")
    model = shipment.send(job.model, f"model-{name}{job.model.suffix}")
    packs = [shipment.send(p, f"pack-{i}-{name}{p.suffix}") for i, p in enumerate(job.packs)]
    return replace(job, kb=kb, model=model, packs=tuple(packs))


def _link_task(task: tuple[int, Sequence[FilePiece]], job: LinkJob, parts: PartFolder) -> None:
    """Link the pieces of a task and write its part; runs on the executors."""
    number, pieces = task
    parts.write(number, LINKED_SCHEMA, link_pieces(shipped_linker(job), pieces, job))


def link_pieces(
    linker: Linker, pieces: Sequence[FilePiece], job: LinkJob
) -> Iterator[pa.RecordBatch]:
    """Link some pieces and yield rows of `LINKED_SCHEMA`."""
    finish = partial(_row, everything=job.everything)
    waiting: list[dict[str, Any]] = []
    parts = read_pieces(pieces, linker.window, job.text_column)
    for rows in link_in_processes(linker, parts, finish):
        waiting += rows
        if len(waiting) >= _ROWS:
            yield pa.RecordBatch.from_pylist(waiting, LINKED_SCHEMA)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, LINKED_SCHEMA)


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
