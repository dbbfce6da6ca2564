"""Count on Spark: the statements of `stamo.build.counting`, run where one machine is too small.

    from stamo.integrations.spark.counting import count_on_spark
    from stamo.integrations.spark.session import spark_session

    with spark_session(warehouse=warehouse) as spark:
        tables = count_on_spark(spark, staged, missing_targets=True)

The input is the staged Parquet of a build (pages and links, one file or a folder of files each);
the result is one table for each table of the DuckDB run, with the same rows. Not a statement is
written twice: `counting.count` runs as it is on a connection that hands its SQL to Spark.

Numbering entities, aliases and documents sorts them over all tasks, counts the rows of each, and
adds what came before: no task sees all rows.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from stamo.build import counting
from stamo.build.counting import NumberedTable
from stamo.build.extract import MAX_SURFACE
from stamo.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGED = ("page", "link", "name")
"""What counting reads; the texts themselves are not needed."""

TABLES = (
    "page",
    "document",
    "twin",
    "redirect",
    "target",
    "link",
    "entity",
    "mention",
    "name",
    "alias_entity",
    "alias",
    "occurs_in",
)
"""The tables that counting makes."""


class SparkConnection:
    """Run SQL on Spark behind the few methods of a DuckDB connection that counting uses."""

    def __init__(self, spark: SparkSession, staging: Path | None = None) -> None:
        """Take a session, and a folder that all executors see for ordered results."""
        self.spark, self._staging = spark, staging
        self._result: DataFrame

    def execute(self, statement: str) -> SparkConnection:
        """Run a statement; settings of DuckDB mean nothing to Spark and are passed over."""
        if not statement.lstrip().upper().startswith("SET "):
            self.spark.sparkContext.setJobDescription("counting")
            self._result = self.spark.sql(statement)
        return self

    def cursor(self) -> SparkConnection:
        """Return what runs a query beside others."""
        return SparkConnection(self.spark, self._staging)

    sql = execute

    def to_arrow_reader(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the ordered result in batches, by way of files: the driver never holds all of it.

        Spark writes one file for each task of the sort, and names them in its order.
        """
        assert self._staging is not None, "ordered results need a folder"
        folder = self._staging / f"ordered-{uuid.uuid4().hex}"
        self._result.write.parquet(str(folder))
        for path in sorted(folder.glob("part-*.parquet")):
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(rows)
        shutil.rmtree(folder)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the first row of the last result."""
        row = self._result.first()
        return None if row is None else tuple(row)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows of the last result."""
        return [tuple(row) for row in self._result.collect()]


def count_on_spark(
    spark: SparkSession,
    staged: str | Path,
    *,
    missing_targets: bool = True,
    max_surface: int = MAX_SURFACE,
    database: str = "stamo",
) -> dict[str, DataFrame]:
    """Count the staged pages and links of a build.

    Args:
        spark: A session, local or of a cluster.
        staged: Where `page.parquet` and `link.parquet` are; any address that Spark reads.
        missing_targets: Whether a link target without a page is an entity too.
        max_surface: Longest link text that counts as a name, in characters.
        database: The database of Spark's catalogue to make the tables in; it must not exist.

    Returns:
        The tables by name.

    Raises:
        SettingsError: The database exists already, or its name is not a plain word.
    """
    make_database(spark, database)
    view_staged(spark, staged)
    connection: Any = SparkConnection(spark)
    counting.count(
        connection,
        missing_targets=missing_targets,
        max_surface=max_surface,
        number_rows=number_by_tasks,
    )
    return {name: spark.table(f"{database}.{name}") for name in TABLES}


def view_staged(spark: SparkSession, staged: str | Path) -> None:
    """Make views of the staged pages and links."""
    for name in STAGED:
        spark.read.parquet(f"{staged}/{name}.parquet").createOrReplaceTempView(f"staged_{name}")


def number_by_tasks(connection: Any, table: NumberedTable) -> None:
    """Make a numbered table without a task over all rows: the place in its task, and its task's.

    Spark gives every row of a sorted result the number of its task, in the high bits, and its
    place there.
    """
    sorted_name = f"{table.name}_sorted"
    connection.execute(
        f"CREATE TABLE {sorted_name} AS SELECT {table.columns}, monotonically_increasing_id() "
        f"AS place FROM (SELECT {table.columns} FROM {table.rows} ORDER BY {table.order}) ordered"
    )
    counts = connection.execute(
        f"SELECT SHIFTRIGHT(place, {_PLACE_BITS}), COUNT(*) FROM {sorted_name} GROUP BY 1"
    ).fetchall()
    firsts, n = [], 0
    for task, n_rows in sorted(counts):
        firsts.append(f"({task}L, {n}L)")
        n += n_rows
    connection.execute(
        f"CREATE TABLE {table.name} AS SELECT "
        f"CAST(t.first + (s.place & {(1 << _PLACE_BITS) - 1}L) AS INT) AS {table.name}, "
        f"{table.columns} FROM {sorted_name} s JOIN "
        f"(SELECT * FROM VALUES {', '.join(firsts or ['(0L, 0L)'])} AS v(task, first)) t "
        f"ON SHIFTRIGHT(s.place, {_PLACE_BITS}) = t.task"
    )
    connection.execute(f"DROP TABLE {sorted_name}")


_PLACE_BITS = 33
"""What Spark documents for `monotonically_increasing_id`."""


def make_database(spark: SparkSession, database: str, location: Path | None = None) -> None:
    """Make a database of Spark's catalogue and use it.

    Raises:
        SettingsError: It exists already, or its name is not a plain word.
    """
    if not database.isidentifier():
        raise SettingsError(
            f"The database is called {database!r}; use a name of letters, digits and underscores."
        )
    if spark.catalog.databaseExists(database):
        raise SettingsError(
            f"Spark has a database {database!r} already; drop it or choose another name."
        )
    # Otherwise Spark 3 makes tables of Hive, which a plain installation does not have.
    spark.conf.set("spark.sql.legacy.createHiveTableByDefault", False)
    quoted = str(location or "").replace("\\", "\\\\").replace("'", "\\'")
    place = f" LOCATION '{quoted}'" if location else ""
    spark.sql(f"CREATE DATABASE {database}{place}")
    spark.sql(f"USE {database}")
