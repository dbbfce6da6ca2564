"""The options of commands that run on one machine or on Spark, and what both views share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from typer import Option

from stamo.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stamo.integrations.spark.jobs import LinkJob

_Part = TypeVar("_Part")


class Engine(StrEnum):
    """Where the work is done."""

    embedded = "embedded"
    spark = "spark"


EngineOption = Annotated[Engine, Option("--engine", help="This machine's processes, or Spark.")]
MasterOption = Annotated[
    str | None, Option("--master", help="Where Spark runs, such as local[2] or spark://host:7077.")
]
OutOption = Annotated[
    str | None, Option("--out", help="Folder or address of Parquet that Spark writes.")
]
SharedOption = Annotated[
    bool | None,
    Option(
        "--shared/--ship",
        help="Whether Spark's machines see the same paths, or are sent KB and model.",
        show_default="shared inside this machine only",
    ),
]


def check_engine(engine: Engine, **only_spark: object) -> None:
    """Refuse options of Spark without Spark.

    Raises:
        SettingsError: One is given, and the engine is another.
    """
    given = [f"--{name}" for name, value in only_spark.items() if value not in (None, False)]
    if engine is Engine.embedded and given:
        raise SettingsError(f"{given[0]} goes with --engine spark; add that, or leave it out.")


@contextmanager
def start_engine(
    engine: Engine, master: str | None, on_spark: Callable[[SparkSession], _Part]
) -> Iterator[_Part | None]:
    """Start Spark and what does the work on it; None is this machine's processes."""
    if engine is Engine.embedded:
        yield None
        return
    from stamo.integrations.spark.session import spark_session

    with spark_session(master) as spark:
        yield on_spark(spark)


def link_by_spark(
    job: LinkJob,
    files: list[Path],
    out: str | None,
    master: str | None,
    *,
    overwrite: bool,
    shared: bool | None,
) -> tuple[int, int]:
    """Link files on Spark; return how many documents were linked and how many failed.

    Raises:
        SettingsError: There is nowhere to write to, or nothing to read.
    """
    from stamo.cli.output import Console, progress_view

    if out is None or not files:
        raise SettingsError("Spark reads FILES and writes a folder; name both, with --out FOLDER.")
    from stamo.integrations.spark.jobs import link_on_spark
    from stamo.integrations.spark.session import spark_session
    from stamo.linking.linker import pack_files

    job = replace(job, packs=tuple(pack_files(job.packs)))
    console = Console(stderr=True, highlight=False)
    with spark_session(master) as spark, progress_view(console, "Linking on Spark") as show:
        run = link_on_spark(
            spark, addresses(files), out, job, overwrite=overwrite, shared=shared, on_task=show
        )
    done = f", {run.n_before} of them by an earlier run" if run.n_before else ""
    console.print(
        f"{run.n_linked:,} documents or parts are linked in {out}: {run.n_tasks} tasks{done}."
    )
    return run.n_linked, run.n_failed


def addresses(files: Sequence[Path]) -> list[str]:
    """Write paths as strings; a path has lost one of the two slashes of an address."""
    return [_ADDRESS.sub(r"\1://", str(file)) for file in files]


_ADDRESS = re.compile(r"^([a-z][a-z0-9+.-]+):/(?!/)")
