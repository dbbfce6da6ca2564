"""The arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

KbPath = Annotated[Path, Argument(metavar="KB", help="Directory of a knowledge base.")]
ModelPath = Annotated[Path, Argument(metavar="MODEL", help="File of a trained model.")]
TextColumn = Annotated[str, Option(help="The column of CSV, TSV and Parquet that holds the texts.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON for programs.")]
