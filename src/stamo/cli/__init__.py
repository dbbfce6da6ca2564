"""The command line; here are the options that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from typer import Argument, Option

from stamo.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import TrainedModel

_Part = TypeVar("_Part")


class Engine(StrEnum):
    """Where the work is done."""

    embedded = "embedded"
    spark = "spark"


KbPath = Annotated[Path, Argument(metavar="KB", help="Directory of a knowledge base.")]
ModelPath = Annotated[Path, Argument(metavar="MODEL", help="File of a trained model.")]
TextColumnOption = Annotated[
    str, Option(help="The column of CSV, TSV and Parquet that holds the texts.")
]
AsJson = Annotated[bool, Option("--json", help="Print JSON for programs.")]
EngineOption = Annotated[Engine, Option("--engine", help="This machine's processes, or Spark.")]
MasterOption = Annotated[
    str | None, Option("--master", help="Where Spark runs, such as local[2] or spark://host:7077.")
]


def open_both(kb: Path | str, model: Path | str | None) -> tuple[KnowledgeBase, TrainedModel]:
    """Open a knowledge base and a model that was trained with it, or what links without one."""
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import load_model, without_training

    base = KnowledgeBase.open(kb)
    trained = without_training(base) if model is None else load_model(model)
    trained.check(base)
    return base, trained


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
