"""The arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

KbPath = Annotated[Path, typer.Argument(metavar="KB", help="Directory of a knowledge base.")]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="File of a trained model.")]
TextColumn = Annotated[
    str, typer.Option(help="The column of CSV, TSV and Parquet that holds the texts.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
