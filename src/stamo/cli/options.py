"""The arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

if TYPE_CHECKING:
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import TrainedModel

KbPath = Annotated[Path, Argument(metavar="KB", help="Directory of a knowledge base.")]
ModelPath = Annotated[Path, Argument(metavar="MODEL", help="File of a trained model.")]
TextColumn = Annotated[str, Option(help="The column of CSV, TSV and Parquet that holds the texts.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON for programs.")]


def open_both(kb: Path | str, model: Path | str) -> tuple[KnowledgeBase, TrainedModel]:
    """Open a knowledge base and a model that was trained with it."""
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import load_model

    base, trained = KnowledgeBase.open(kb), load_model(model)
    trained.check(base)
    return base, trained
