"""`stamo labels`: take the labels of a workspace to other tools and back."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stamo.cli.tables import Console


class Form(StrEnum):
    """How labels are written."""

    label_studio = "label-studio"
    jsonl = "jsonl"
    csv = "csv"


WorkspacePath = Annotated[Path, typer.Argument(metavar="WORKSPACE", help="Folder of the entity.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="File of labels.")]


def register(app: typer.Typer) -> None:
    """Add the group to an application."""
    group = typer.Typer(no_args_is_help=True, help="Export and import labels.")
    group.command("export")(export)
    group.command("import")(import_)
    app.add_typer(group, name="labels")


def export(
    workspace: WorkspacePath,
    file: File,
    form: Annotated[
        Form, typer.Option("--as", help="Label Studio's JSON, the whole log, or a table.")
    ] = Form.label_studio,
    everything: Annotated[
        bool, typer.Option("--all", help="Also documents without a label (Label Studio).")
    ] = False,
) -> None:
    """Write the labels of a workspace to a file."""
    from stamo.corpus.types import Corpus
    from stamo.integrations.label_studio import export_tasks, tasks_json
    from stamo.system.files import write_atomic
    from stamo.workspace.folder import Workspace
    from stamo.workspace.labels.export import to_csv, to_jsonl

    opened = Workspace.open(workspace)
    with opened.read_labels() as store:
        if form is Form.jsonl:
            text = to_jsonl(store.events())
        elif form is Form.csv:
            text = to_csv(store.current())
        else:
            corpus = Corpus(tuple(opened.documents))
            text = tasks_json(export_tasks(store, corpus, only_labelled=not everything))
        n = len(store.current())
    write_atomic(file, text.encode("utf-8"))
    Console(highlight=False).print(f"Wrote {n} labels to {file}.", soft_wrap=True)


def import_(
    workspace: WorkspacePath,
    file: File,
    form: Annotated[Form, typer.Option("--as", help="Label Studio's JSON or the whole log.")] = (
        Form.label_studio
    ),
    who: Annotated[str, typer.Option(help="Who labelled, where the file does not say.")] = "import",
) -> None:
    """Add the labels of a file to a workspace; a file that does not fit adds nothing."""
    from stamo.corpus.types import Corpus
    from stamo.errors import SettingsError, WorkspaceError
    from stamo.integrations.label_studio import import_tasks
    from stamo.workspace.folder import Workspace
    from stamo.workspace.labels.export import from_jsonl

    if form is Form.csv:
        raise SettingsError("A table of labels cannot be imported; export the log with --as jsonl.")
    opened = Workspace.open(workspace)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorkspaceError(f"{file} cannot be read as text ({error}).") from error
    with opened.open_labels() as store:
        if form is Form.jsonl:
            n = store.merge(from_jsonl(text))
        else:
            corpus = Corpus(tuple(opened.documents))
            report = import_tasks(store, text, corpus, labeller=who, at=datetime.now(UTC))
            n = report.n_events + report.n_changes
    Console(highlight=False).print(f"Added {n} label events from {file}.", soft_wrap=True)
