"""The arguments and options that several commands take."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

if TYPE_CHECKING:
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import TrainedModel

KbPath = Annotated[Path, Argument(metavar="KB", help="Directory of a knowledge base.")]
ModelPath = Annotated[Path, Argument(metavar="MODEL", help="File of a trained model.")]
TextColumn = Annotated[str, Option(help="The column of CSV, TSV and Parquet that holds the texts.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON for programs.")]


def open_both(kb: Path | str, model: Path | str | None) -> tuple[KnowledgeBase, TrainedModel]:
    """Open a knowledge base and a model that was trained with it, or what links without one."""
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import load_model, without_training

    base = KnowledgeBase.open(kb)
    trained = without_training(base) if model is None else load_model(model)
    trained.check(base)
    return base, trained


def refuse_foreign(
    context: Context, kinds_of: Mapping[str, Collection[str]], kind: str, what: str
) -> None:
    """Refuse options that were given and would be ignored.

    Args:
        context: The command as it was called.
        kinds_of: For each parameter that is not for all, the kinds of thing it is for.
        kind: Which kind it is.
        what: What has kinds, such as "suite".

    Raises:
        SettingsError: An option is for other kinds.
    """
    from stamo.errors import SettingsError

    for name, kinds in kinds_of.items():
        source = context.get_parameter_source(name)
        if kind not in kinds and source is not None and source.name == "COMMANDLINE":
            raise SettingsError(
                f"--{name.replace('_', '-')} would be ignored: it is for a {what} of kind "
                f"{' or '.join(kinds)}, and this one is {kind}; leave it out."
            )


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read whole numbers from a list with commas; of an empty one, none.

    Raises:
        SettingsError: An entry is not a whole number.
    """
    from stamo.errors import SettingsError

    try:
        return tuple(map(int, text.split(","))) if text.strip() else ()
    except ValueError as error:
        raise SettingsError(
            f"The sizes are {text!r}; give whole numbers with commas between, such as 25,50,100."
        ) from error
