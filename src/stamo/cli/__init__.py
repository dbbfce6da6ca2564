"""The command line; here are the options that several commands have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from stamo.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import TrainedModel


KbPath = Annotated[Path, Argument(metavar="KB", help="Directory of a knowledge base.")]
ModelPath = Annotated[Path, Argument(metavar="MODEL", help="File of a trained model.")]
SpacePath = Annotated[Path, Argument(metavar="WORKSPACE", help="Folder of the new entity.")]
Folders = Annotated[
    list[Path],
    Argument(metavar="WORKSPACE...", help="Folders of new entities, or a folder of them."),
]
KbOption = Annotated[
    Path | None, Option("--kb", help="Knowledge base; that of collecting by default.")
]
ModelOption = Annotated[
    Path | None, Option("--model", help="Linking model; that of collecting by default.")
]
Sources = Annotated[
    list[str], Option("--from", help="Texts, JSON lines, HTML, WARC, folders, or - for stdin.")
]
TextColumnOption = Annotated[
    str, Option(help="The column of CSV, TSV and Parquet that holds the texts.")
]
Who = Annotated[str, Option(help="Your name, kept with what you decide.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON for programs.")]
EngineOption = Annotated[
    Literal["embedded", "spark"], Option("--engine", help="This machine's processes, or Spark.")
]
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


@contextmanager
def start_engine(engine: str, master: str | None) -> Iterator[SparkSession | None]:
    """Start Spark; None stands for this machine's processes.

    Raises:
        SettingsError: A master is given, and the engine is another.
    """
    if engine == "spark":
        from stamo.integrations.spark.jobs import spark_session

        with spark_session(master) as spark:
            yield spark
    elif master is not None:
        raise SettingsError("--master goes with --engine spark; add that, or leave it out.")
    else:
        yield None
