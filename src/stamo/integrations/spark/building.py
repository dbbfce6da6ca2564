"""Build a knowledge base on Spark: the same bytes as the embedded build of the same dump.

    with spark_session("local[2]") as spark:
        build_knowledge_base(dump, "kb", BuildSettings(), engine=spark_engine(spark))

Ranges of a multistream dump are read, cleaned and staged by tasks; counting is the SQL of
`stamo.build.counting`; link probability, word counts and entity vectors are summed by tasks over
row groups of articles. The driver writes what is one file: tables, articles, names. Its memory is
bounded by names and entities. The folder of the knowledge base, and a multistream dump,
must be on a disk that all machines see under the same path.
"""

from __future__ import annotations

import uuid
from collections import Counter
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from stamo.build.build import add_link_probability, count_with, extract_settings
from stamo.build.dump.reader import Chunk, DumpReader
from stamo.build.dump.site import Site
from stamo.build.engine import BuildEngine, BuildState
from stamo.build.export import StagedArticles, write_articles
from stamo.build.extract import GIVEN_NAME_SCHEMA, STAGED_TABLES, ExtractSettings, extract_chunk
from stamo.build.occurrences import count_group
from stamo.build.settings import Report
from stamo.integrations.spark.counting import (
    SparkConnection,
    make_database,
    number_by_tasks,
    view_staged,
)
from stamo.integrations.spark.session import SparkWorkers
from stamo.system.processes import SpreadsWork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_engine(spark: SparkSession, workers: SpreadsWork | None = None) -> BuildEngine:
    """Return the engine of a build.

    Args:
        spark: A session, local or of a cluster.
        workers: What spreads the work that is not SQL; tasks of the session by default.
    """
    return BuildEngine(
        workers or SparkWorkers(spark), _read_in_tasks, partial(_count, spark), _write_articles
    )


def _read_in_tasks(build: BuildState, report: Report) -> Site:
    settings = build.settings
    for name in STAGED_TABLES:
        build.staged_table(name).mkdir()
    # A dump lists no names, but a table needs its columns.
    pq.write_table(GIVEN_NAME_SCHEMA.empty_table(), build.staged_table("name") / "none.parquet")
    with DumpReader(
        build.source.path.absolute(),
        index_path=settings.index,
        chunk_bytes=settings.chunk_bytes,
        language=settings.language,
    ) as reader:
        site = reader.site
        stage = partial(stage_chunk, settings=extract_settings(build, site), work=build.work)
        for skipped in build.workers.map(stage, reader.chunks()):
            build.skipped.update(skipped)
            report(reader.progress())
        build.skipped.update(reader.skipped)
    return site


def stage_chunk(chunk: Chunk, settings: ExtractSettings, work: Path) -> Counter[str]:
    """Stage one chunk of the dump as a file in each table; return what was left out.

    A file is there when it is whole, and two tasks that stage the same chunk write the same.
    """
    found = extract_chunk(chunk, settings)
    for name, batch in (("page", found.pages), ("text", found.texts), ("link", found.links)):
        # Hidden from Spark while it is written.
        beside = work / f"{name}.parquet" / f".{chunk.index:08}.{uuid.uuid4().hex}"
        table = pa.Table.from_batches([batch])
        pq.write_table(table, beside, compression="lz4", use_dictionary=False)
        beside.replace(work / f"{name}.parquet" / f"{chunk.index:08}.parquet")
    return found.skipped


def _count(spark: SparkSession, build: BuildState) -> StagedArticles:
    database = f"stamo_{uuid.uuid4().hex}"
    make_database(spark, database, build.work / "tables")
    try:
        view_staged(spark, build.work)
        connection: Any = SparkConnection(spark, build.work)
        return count_with(build, connection, number_by_tasks)
    finally:
        spark.sql("USE default")
        spark.sql(f"DROP DATABASE {database} CASCADE")


def _write_articles(build: BuildState, staged: StagedArticles, report: Report) -> None:
    """Write the articles, then let tasks look for aliases in each row group."""
    n_groups = sum(1 for _ in write_articles(staged, build.result))
    count = partial(count_group, result=build.result, mentions=staged.mentions)
    counts = chain.from_iterable(build.workers.map(count, range(n_groups)))
    add_link_probability(build, counts, report)
