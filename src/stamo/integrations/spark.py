"""Count on Spark: the statements of `stamo.build.counting`, run where one machine is too small.

    from stamo.integrations.spark import count_on_spark, local_session

    with local_session(warehouse) as spark:
        tables = count_on_spark(spark, staged, missing_targets=True)

The input is the staged Parquet of a build (pages and links, one file or a folder of files each);
the result is one table for each table of the DuckDB run, with the same rows. Not a statement is
written twice: `counting.count` runs as it is on a connection that hands its SQL to Spark.

Numbering entities, aliases and documents is a window over all rows, which Spark runs in one task:
it sorts some tens of millions of short rows there for the whole English Wikipedia.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stamo.build import counting
from stamo.build.extract import MAX_SURFACE
from stamo.errors import MissingExtraError, SettingsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGED = ("page", "link")
"""What counting reads; the texts themselves are not needed."""

TABLES = (
    "page",
    "document",
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

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._result: DataFrame | None = None

    def execute(self, statement: str) -> SparkConnection:
        """Run a statement; settings of DuckDB mean nothing to Spark and are passed over."""
        if not statement.lstrip().upper().startswith("SET "):
            self._result = self.spark.sql(statement)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the first row of the last result."""
        row = None if self._result is None else self._result.first()
        return None if row is None else tuple(row)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows of the last result."""
        return [] if self._result is None else [tuple(row) for row in self._result.collect()]


@contextmanager
def local_session(warehouse: Path, *, threads: int = 2) -> Iterator[SparkSession]:
    """Start Spark inside this machine and stop it afterwards; a cluster gives its own session.

    Args:
        warehouse: Directory for the tables.
        threads: How many tasks run side by side.

    Raises:
        MissingExtraError: pyspark is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtraError("pyspark", "spark") from error
    spark = (
        SparkSession.builder.master(f"local[{threads}]")
        .appName("stamo counting")
        .config("spark.sql.warehouse.dir", str(warehouse.absolute()))
        .config("spark.sql.shuffle.partitions", threads)
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .getOrCreate()
    )
    try:
        yield spark
    finally:
        spark.stop()


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
    _make_database(spark, database)
    for name in STAGED:
        spark.read.parquet(f"{staged}/{name}.parquet").createOrReplaceTempView(f"staged_{name}")
    connection: Any = SparkConnection(spark)
    counting.count(connection, missing_targets=missing_targets, max_surface=max_surface)
    return {name: spark.table(f"{database}.{name}") for name in TABLES}


def _make_database(spark: SparkSession, database: str) -> None:
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
    spark.sql(f"CREATE DATABASE {database}")
    spark.sql(f"USE {database}")
