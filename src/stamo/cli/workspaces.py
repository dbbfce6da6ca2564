"""What the commands of workspaces share: which are meant, and with which artifacts they work."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from typer import Argument, Option

from stamo.cli.tables import Console
from stamo.errors import StamoError

if TYPE_CHECKING:
    from stamo.workspace.folder import Workspace

_Result = TypeVar("_Result")

NOTHING_KEPT = 3
"""The exit code of a command that ran to its end and found nothing to keep."""

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


def open_all(paths: Sequence[Path]) -> list[Workspace]:
    """Open workspaces; a folder that holds workspaces stands for all that are not damaged.

    Raises:
        WorkspaceError: One is missing or damaged.
    """
    from stamo.workspace.folder import Workspace, workspace_folders

    opened: list[Workspace] = []
    for path in paths:
        is_one = (path / "entity.json").exists()
        n_before = len(opened)
        for folder in [] if is_one else workspace_folders(path):
            try:
                opened.append(Workspace.open(folder))
            except StamoError as error:
                warn(f"{folder}: {error}")
        if len(opened) == n_before:
            opened.append(Workspace.open(path))
    return opened


def warn(line: str) -> None:
    """Print what to worry about, in one line on stderr."""
    Console(stderr=True, highlight=False).print(line, style="yellow", soft_wrap=True, markup=False)


def for_each(
    spaces: Sequence[Workspace], work: Callable[[Workspace], _Result]
) -> list[tuple[Workspace, _Result]]:
    """Do something for each workspace; one of many that fails says why and the others go on.

    Raises:
        StamoError: There is one workspace, and it fails.
    """
    done = []
    for space in spaces:
        try:
            done.append((space, work(space)))
        except StamoError as error:
            if len(spaces) == 1:
                raise
            warn(f"{space.path}: {error}")
    return done


def user_name() -> str:
    """Return who runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
