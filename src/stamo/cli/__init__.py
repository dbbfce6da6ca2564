"""The command line; here are the options that several commands have."""

from __future__ import annotations

import codecs
import os
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from stamo.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import TrainedModel
    from stamo.workspace.folder import Artifacts, Workspace

SETTINGS_FILE = "stamo.toml"
"""Names the knowledge base and the model of the folder where commands run: kb = "..." and
model = "..."."""
NONE = "none"
"""What --model is given to link without one that is named elsewhere."""


def known_path(name: Literal["kb", "model"]) -> Path | None:
    """Return the path of a knowledge base or model that STAMO_KB, STAMO_MODEL or stamo.toml names.

    Raises:
        SettingsError: stamo.toml is not of its form.
    """
    if given := os.environ.get(f"STAMO_{name.upper()}"):
        return Path(given)
    try:
        text = Path(SETTINGS_FILE).read_text(encoding="utf-8")
        value = tomllib.loads(text)
        if set(value) - {"kb", "model"} or not all(type(path) is str for path in value.values()):
            raise ValueError("it names something else, or no path")
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SettingsError(
            f'{SETTINGS_FILE} cannot be used ({error}); write kb = "FOLDER" and model = "FILE".'
        ) from error
    return Path(value[name]) if value.get(name) else None


def _known_kb() -> Path:
    path = known_path("kb")
    if path is None:
        raise SettingsError(
            "No knowledge base is named; give --kb, set STAMO_KB, or write "
            f'kb = "PATH" into {SETTINGS_FILE}.'
        )
    return path


def _or_none(path: Path | None) -> Path | None:
    return None if str(path) == NONE else path


def check_encoding(name: str) -> str:
    """Return the name of an encoding.

    Raises:
        SettingsError: There is none of this name.
    """
    try:
        if name:
            b"".decode(name)
            codecs.getincrementaldecoder(name)
    except LookupError as error:
        raise SettingsError(
            f"There is no encoding {name!r}; give one such as WINDOWS-1252."
        ) from error
    return name


KbPath = Annotated[
    Path,
    Option(
        "--kb",
        help="Directory of a knowledge base.",
        default_factory=_known_kb,
        show_default=f"STAMO_KB, or kb of {SETTINGS_FILE}",
    ),
]
ModelPath = Annotated[
    Path | None,
    Option(
        "--model",
        help="File of a trained model; none: prior and relatedness decide.",
        default_factory=partial(known_path, "model"),
        show_default=f"STAMO_MODEL, or model of {SETTINGS_FILE}",
        callback=_or_none,
    ),
]
SpacePath = Annotated[Path, Argument(metavar="WORKSPACE", help="Folder of the new entity.")]
Folders = Annotated[
    list[Path],
    Argument(metavar="WORKSPACE...", help="Folders of new entities, or a folder of them."),
]
KbOption = Annotated[
    Path | None,
    Option(
        "--kb",
        help="Knowledge base.",
        show_default=f"that of collecting, else STAMO_KB or {SETTINGS_FILE}",
    ),
]
ModelOption = Annotated[
    Path | None,
    Option(
        "--model",
        help="Linking model, or none.",
        show_default=f"that of collecting, else STAMO_MODEL or {SETTINGS_FILE}",
    ),
]
Sources = Annotated[
    list[str], Option("--from", help="Texts, JSON lines, HTML, WARC, folders, or - for stdin.")
]
TextColumnOption = Annotated[
    str, Option(help="The column of CSV, TSV and Parquet that holds the texts.")
]
EncodingOption = Annotated[
    str,
    Option(
        help="That of texts that are neither UTF-8 nor marked UTF-16, such as WINDOWS-1252.",
        callback=check_encoding,
    ),
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


def open_for(spaces: Sequence[Workspace], kb: Path | None, model: Path | None) -> Artifacts:
    """Open the knowledge base and the model of workspaces: given, of collecting, or of the folder.

    Raises:
        WorkspaceError: None is known, or the workspaces work with different ones.
    """
    from stamo.workspace.folder import open_artifacts

    if not any("kb" in space.documents.manifest.state for space in spaces):
        kb, model = kb or known_path("kb"), model or known_path("model")
    return open_artifacts(spaces, kb, _or_none(model))


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
