"""`stamo labels`: take the labels of a workspace to other tools and back, and compare labellers."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from stamo.cli import AsJson
from stamo.cli.output import bare_table, command_group, show
from stamo.errors import CorpusFormatError, WorkspaceError
from stamo.workspace.wording import count_of


class Form(StrEnum):
    """How labels are written."""

    label_studio = "label-studio"
    jsonl = "jsonl"
    csv = "csv"


WorkspacePath = Annotated[Path, Argument(metavar="WORKSPACE", help="Folder of the entity.")]
File = Annotated[Path, Argument(metavar="FILE", help="File of labels.")]
ENDINGS = {".csv": Form.csv, ".jsonl": Form.jsonl}
"""What a file of labels is by its name; anything else is Label Studio's."""


def export(
    workspace: WorkspacePath,
    file: File,
    form: Form | None = Option(
        None, "--as", help="Label Studio's JSON, the whole log, or a table; by the file's ending."
    ),
    everything: bool = Option(
        False, "--all", help="Also documents without a label (Label Studio)."
    ),
    as_json: AsJson = False,
) -> None:
    """Write the labels of a workspace to a file, or - for standard output."""
    from stamo.system.files import write_atomic
    from stamo.workspace.folder import Workspace
    from stamo.workspace.label_files import export_labels

    opened = Workspace.open(workspace)
    form = form or ENDINGS.get(file.suffix.lower(), Form.label_studio)
    with opened.read_labels() as store:
        text = export_labels(store, form.value, opened.documents, everything=everything)
        n = len(store.current())
    if str(file) == "-":
        typer.echo(text, nl=False)
        return
    write_atomic(file, text.encode("utf-8"))
    record = {"file": file, "format": form.value, "labels": n}
    show(record, [f"Wrote {count_of(n, 'label')} to {file}."], as_json=as_json)


def import_(
    workspace: WorkspacePath,
    file: File,
    form: Form | None = Option(
        None, "--as", help="What the file is; told by its beginning if not."
    ),
    who: str = Option("import", help="Who labelled, where the file does not say."),
    as_json: AsJson = False,
) -> None:
    """Add the labels of a file to a workspace; a file that does not fit adds nothing."""
    from stamo.workspace.folder import Workspace
    from stamo.workspace.label_files import import_labels

    opened = Workspace.open(workspace)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = f"{file} cannot be read ({error.strerror}); give a file of labels."
        raise WorkspaceError(reason) from error
    except UnicodeDecodeError as error:
        raise WorkspaceError(f"{file} cannot be read as text; save it as UTF-8.") from error
    try:
        with opened.open_labels() as store:
            now, kind = datetime.now(UTC), form.value if form else ""
            n = import_labels(store, text, opened.documents, labeller=who, at=now, form=kind)
    except CorpusFormatError as error:
        said = str(error).rstrip(".")
        raise CorpusFormatError(f"{file}: {said}. Nothing was added.") from error
    record = {"file": file, "workspace": workspace, "added": n}
    show(record, [f"Added {count_of(n, 'label event')} from {file}."], as_json=as_json)


def agreement(workspace: WorkspacePath, as_json: AsJson = False) -> None:
    """Say how far labellers agree, and on which mentions they do not."""
    from stamo.workspace.folder import Workspace
    from stamo.workspace.labels import compare_labellers, describe_choice

    opened = Workspace.open(workspace)
    with opened.read_labels() as store:
        pairs, disputes = compare_labellers(store.current_by_labeller())
    rows: list[tuple[object, ...]] = [
        (f"{p.first}, {p.second}", p.n, p.n_same, "" if p.kappa is None else f"{p.kappa:.2f}")
        for p in pairs
    ]
    compared = bare_table("Labellers", ">Both labelled", ">Same answer", ">Kappa", rows=rows)
    rows = []
    for d in disputes:
        said = (f"{w}: {describe_choice(c, opened.entity.id)}" for w, c in d.answers.items())
        rows.append((d.document, d.start, d.surface, "; ".join(said)))
    differing = bare_table("Document", ">Start", "Name", "Answers", rows=rows)
    tables = [compared, differing] if disputes else [compared]
    none = "No two people labelled the same mention."
    found = {"pairs": pairs, "disputes": disputes}
    show(found, tables if pairs else [none], as_json=as_json)


labels = command_group("Export, import and compare labels.", export, import_, agreement)
