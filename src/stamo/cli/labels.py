"""`stamo label` and `stamo labels`: ask for labels, take them to other tools, compare labellers."""

from __future__ import annotations

import threading
import webbrowser
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlencode

import typer
from typer import Argument, Option

from stamo.cli import AsJson, EncodingOption, KbOption, ModelOption, SpacePath, Who, open_for
from stamo.cli.output import Console, bare_table, command_group, show, warn
from stamo.cli.serve import listen, run, running_at
from stamo.cli.workspaces import user_name
from stamo.corpus.reading import read_text_file
from stamo.errors import CorpusFormatError, need
from stamo.system.files import write_atomic
from stamo.workspace.folder import Workspace
from stamo.workspace.label_files import UnknownMentionError, export_labels, import_labels
from stamo.workspace.labels import compare_labellers, describe_choice
from stamo.workspace.wording import count_of

HOST = "127.0.0.1"


Form = Literal["label-studio", "jsonl", "csv"]
"""How labels are written."""
File = Annotated[Path, Argument(metavar="FILE", help="File of labels.")]
ENDINGS: dict[str, Form] = {".csv": "csv", ".jsonl": "jsonl"}
"""What a file of labels is by its name; anything else is Label Studio's."""


def label(
    workspace: SpacePath,
    terminal: bool = Option(False, "--terminal", help="Label here, by keys."),
    who: Who = "",
    kb: KbOption = None,
    model: ModelOption = None,
    port: int = Option(0, help="Port of the page; 0 takes a free one."),
    browser: bool = Option(True, help="Open the page in a browser."),
) -> None:
    """Label candidate mentions, those first that teach most."""
    opened = Workspace.open(workspace)
    folder = opened.path.resolve()
    asked = urlencode({"workspace": folder.name} | ({"who": who} if who else {}))
    running = None if terminal else running_at(folder.parent)
    if running is not None:
        address = f"{running}/label?{asked}"
        show(None, [f"A service runs for this folder: label at {address}"], as_json=False)
        if browser:
            webbrowser.open(address)
        return
    with Console(stderr=True).status("Opening the knowledge base and the model"):
        artifacts = open_for([opened], kb, model)
    if terminal:
        from stamo.workspace.terminal import label_in_terminal

        console, labeller = Console(highlight=False), who or user_name()
        label_in_terminal(
            opened, artifacts.kb, artifacts.trained, console=console, labeller=labeller
        )
        show(None, [opened.status().next_step], as_json=False)
        return
    need("fastapi", "torch,serve", "The labelling page")
    from stamo.service.app import create_app
    from stamo.service.security import SecuritySettings

    security = SecuritySettings(HOST)
    app = create_app(
        artifacts.kb, artifacts.trained, opened.packs_dir, folder.parent, security=security
    )
    listener = listen(HOST, port)
    address = f"http://{HOST}:{listener.getsockname()[1]}/label?{asked}"
    show(None, [f"Label at {address}"], as_json=False)
    if browser:
        # The listener takes connections already; the page waits until the service answers.
        threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
    run(app, listener, security, folder.parent)


def export(
    workspace: SpacePath,
    file: File,
    form: Form | None = Option(
        None, "--as", help="Label Studio's JSON, the whole log, or a table; by the file's ending."
    ),
    everything: bool = Option(False, "--all", help="Documents without a label, too."),
    as_json: AsJson = False,
) -> None:
    """Write the labels of a workspace to a file, or - for standard output."""
    opened = Workspace.open(workspace)
    form = form or ENDINGS.get(file.suffix.lower(), "label-studio")
    with opened.read_labels() as store:
        text = export_labels(store, form, opened.documents, everything=everything)
        n = len(store.current())
    if str(file) == "-":
        typer.echo(text, nl=False)
        return
    write_atomic(file, text.encode("utf-8"))
    record = {"file": file, "format": form, "labels": n}
    show(record, [f"Wrote {count_of(n, 'label')} to {file}."], as_json=as_json)


def import_(
    workspace: SpacePath,
    file: File,
    form: Form | None = Option(None, "--as", help="What it is; told by its beginning."),
    who: str = Option("import", help="Who labelled, where the file does not say."),
    skip_unknown: bool = Option(
        False, "--skip-unknown", help="Leave out labels of mentions that are not collected."
    ),
    encoding: EncodingOption = "",
    as_json: AsJson = False,
) -> None:
    """Add the labels of a file to a workspace; a file that does not fit adds nothing."""
    opened, left_out = Workspace.open(workspace), list[str]()
    text = read_text_file(file, encoding)
    try:
        with opened.open_labels() as store:
            n = import_labels(
                store,
                text,
                opened.documents,
                labeller=who,
                at=datetime.now(UTC),
                form=form or "",
                on_unknown=left_out.append if skip_unknown else None,
            )
    except UnknownMentionError as error:
        said = f"{file}: {str(error).rstrip('.')}. Nothing was added; --skip-unknown adds the rest."
        raise CorpusFormatError(said) from error
    except CorpusFormatError as error:
        said = f"{file}: {str(error).rstrip('.')}. Nothing was added; correct it and import again."
        raise CorpusFormatError(said) from error
    record = {"file": file, "workspace": workspace, "added": n, "left_out": left_out}
    show(record, [f"Added {count_of(n, 'label event')} from {file}."], as_json=as_json)
    if left_out:
        warn(f"{count_of(len(left_out), 'label')} left out, the first: {left_out[0]}")


def agreement(workspace: SpacePath, as_json: AsJson = False) -> None:
    """Say how far labellers agree, and on which mentions they do not."""
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
