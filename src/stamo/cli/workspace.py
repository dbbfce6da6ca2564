"""The commands of one emerging entity: new, status, collect, label, learn, report, packs."""

from __future__ import annotations

import getpass
import threading
import webbrowser
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from stamo.cli.tables import Console

if TYPE_CHECKING:
    from stamo.workspace.artifacts import Artifacts
    from stamo.workspace.folder import Workspace

HOST = "127.0.0.1"

Folder = Annotated[Path, typer.Argument(metavar="WORKSPACE", help="Folder of the new entity.")]
KbOption = Annotated[
    Path | None, typer.Option("--kb", help="Knowledge base; that of collecting by default.")
]
ModelOption = Annotated[
    Path | None, typer.Option("--model", help="Linking model; that of collecting by default.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    from stamo.cli import packs

    for command in (new, status, collect, label, learn, report):
        app.command(command.__name__)(command)
    packs.register(app)


def new(
    workspace: Folder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the entity is called.")],
    alias: Annotated[
        list[str] | None,
        typer.Option(help="A name that texts use, at most ten; NAME itself is one if it fits."),
    ] = None,
    about: Annotated[
        str, typer.Option(help="A line about it, or @FILE with one: strong where labels are few.")
    ] = "",
    who: Annotated[str, typer.Option(help="Who starts it.")] = "",
) -> None:
    """Start the workspace of an emerging entity."""
    from stamo.corpus.types import MAX_ALIASES, EmergingEntity
    from stamo.workspace.folder import Workspace

    aliases = list(dict.fromkeys(alias or []))
    # "Rey (film)" is how an encyclopaedia would title it; no text says so.
    if not aliases or (len(aliases) < MAX_ALIASES and not name.endswith(")")):
        aliases = list(dict.fromkeys([*aliases, name]))
    made = Workspace.create(
        workspace,
        EmergingEntity(name, tuple(aliases), _about(about)),
        created_by=who or user_name(),
        at=datetime.now(UTC),
    )
    _show_status(made)


def status(workspace: Folder) -> None:
    """Say where a workspace stands and what comes next."""
    _show_status(_open(workspace))


def collect(
    workspace: Folder,
    source: Annotated[
        list[str] | None,
        typer.Option("--from", help="Texts, JSON lines, HTML, WARC, folders, or - for stdin."),
    ] = None,
    kb: KbOption = None,
    model: ModelOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what was collected.")] = False,
    casefold: Annotated[bool, typer.Option(help="Find aliases in any case.")] = False,
    most: Annotated[int | None, typer.Option(help="Stop after so many kept documents.")] = None,
) -> None:
    """Collect documents that mention the entity's names and link their other mentions."""
    from stamo.cli.workspace_views import collect_view, collected_table
    from stamo.workspace.artifacts import open_artifacts
    from stamo.workspace.collect import CollectSettings
    from stamo.workspace.collect import collect as run

    opened = _open(workspace)
    artifacts = open_artifacts(opened, kb, model)
    settings = CollectSettings(casefold=casefold, max_documents=most)
    with collect_view(Console(stderr=True), f"Collecting {opened.entity.id}") as show:
        collected = run(
            opened,
            source or [],
            artifacts.kb,
            artifacts.trained,
            origin=artifacts.origin,
            settings=settings,
            fresh=fresh,
            on_progress=show,
        )
    console = Console(highlight=False)
    console.print(collected_table(collected))
    _say_next(opened, console)


def label(
    workspace: Folder,
    terminal: Annotated[bool, typer.Option("--terminal", help="Label here, by keys.")] = False,
    who: Annotated[str, typer.Option(help="Your name, kept with each label.")] = "",
    kb: KbOption = None,
    model: ModelOption = None,
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Label candidate mentions, those first that teach most."""
    from stamo.workspace.artifacts import open_artifacts

    opened = _open(workspace)
    with Console(stderr=True).status("Opening the knowledge base and the model"):
        artifacts = open_artifacts(opened, kb, model)
    if terminal:
        from stamo.workspace.labels.terminal import label_in_terminal

        console = Console(highlight=False)
        label_in_terminal(
            opened, artifacts.kb, artifacts.trained, console=console, labeller=who or user_name()
        )
        _say_next(opened, console)
    else:
        _label_in_browser(opened, artifacts, port, browser, who)


def _label_in_browser(
    opened: Workspace, artifacts: Artifacts, port: int, browser: bool, who: str
) -> None:
    """Serve the labelling page of one workspace until Ctrl-C."""
    from stamo.errors import MissingExtraError

    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("fastapi", "serve") from error
    from functools import partial

    from stamo.cli.serve import listen, run
    from stamo.service.app import create_app
    from stamo.service.security import SecuritySettings
    from stamo.service.wiring import wire
    from stamo.workspace.learn_job import learn_job

    folder = opened.path.resolve()
    jobs = partial(learn_job, kb=artifacts.kb, trained=artifacts.trained)
    parts = wire(
        artifacts.kb,
        artifacts.trained,
        opened.packs_dir,
        folder.parent,
        jobs,
        SecuritySettings(HOST),
    )
    parts.jobs.start()  # here, a second service on the folder is refused with one line
    listener = listen(HOST, port)
    number = listener.getsockname()[1]
    asked = {"workspace": folder.name} | ({"who": who} if who else {})
    address = f"http://{HOST}:{number}/label?{urlencode(asked)}"
    Console(highlight=False).print(f"Label at {address}", soft_wrap=True, markup=False)
    if browser:
        # The listener takes connections already; the page waits until the service answers.
        threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
    run(create_app(parts), listener, parts.security)


def learn(
    workspace: Folder,
    reading: Annotated[
        str, typer.Option(help="default, paper, published or a variant of the paper.")
    ] = "default",
    slots: Annotated[int | None, typer.Option(help="Slots at most.")] = None,
    folds: Annotated[int, typer.Option(help="Parts for cross-validation; 0 for none.")] = 5,
    decision: Annotated[
        str, typer.Option(help="even: link what is more probable than not; f1: for the best F1.")
    ] = "",
    encoder: Annotated[
        str, typer.Option(help="A folder with a sentence encoder, installed, or none.")
    ] = "installed",
    rollback: Annotated[
        int | None, typer.Option(help="Write the pack as it was after this slot (0: labels alone).")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="End with 10 (ship with care), 11 (label more), 12 (do not ship) by verdict.",
        ),
    ] = False,
    kb: KbOption = None,
    model: ModelOption = None,
) -> None:
    """Learn the entity from its labels and the pile; write its pack and say if it is fit."""
    from stamo.cli.workspace_views import learn_view, outcome_lines, slots_table, verdict_view
    from stamo.workspace import learn as learning
    from stamo.workspace.artifacts import open_artifacts, verify_unchanged

    opened = _open(workspace)
    artifacts = open_artifacts(opened, kb, model)
    settings = learning.LearnSettings(
        reading=reading,
        n_slots=slots,
        n_folds=folds,
        encoder=None if encoder == "none" else encoder,
        decision=decision,
    )
    if rollback is not None:
        outcome = learning.rollback(opened, artifacts.kb, artifacts.trained, rollback, settings)
    else:
        with learn_view(Console(stderr=True)) as show:
            outcome = learning.learn_pack(
                opened, artifacts.kb, artifacts.trained, settings, on_step=show
            )
    console = Console(highlight=False)
    console.print(slots_table(outcome.records))
    for line in outcome_lines(outcome):
        console.print(line, soft_wrap=True)
    found = verify_unchanged(opened, artifacts)
    console.print(
        f"Unchanged: knowledge base {found['kb'][:12]}, model {found['model'][:12]}.", style="dim"
    )
    verdict = outcome.verdict
    console.print(verdict_view(verdict))
    if strict and verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


def report(
    workspace: Folder,
    reference: Annotated[
        list[str] | None,
        typer.Option("--reference", help="Documents to look for collisions in; the pile if none."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write; report.html in the workspace if not given.")
    ] = None,
    kb: KbOption = None,
    model: ModelOption = None,
) -> None:
    """Write one HTML file about what was learned, and what it changes."""
    from stamo.cli.workspace_views import verdict_view
    from stamo.system.files import check_writable
    from stamo.workspace.artifacts import open_artifacts
    from stamo.workspace.report import write_report

    opened = _open(workspace)
    if out is not None:
        check_writable(out)
    artifacts = open_artifacts(opened, kb, model)
    with Console(stderr=True).status("Writing the report"):
        written = write_report(
            opened, artifacts.kb, artifacts.trained, reference=reference or (), out_path=out
        )
    console = Console(highlight=False)
    if written.verdict is not None:
        console.print(verdict_view(written.verdict))
    for path in (written.path, *written.figures):
        console.print(str(path), soft_wrap=True)


def _open(path: Path) -> Workspace:
    from stamo.workspace.folder import Workspace

    return Workspace.open(path)


def _show_status(workspace: Workspace) -> None:
    from stamo.cli.workspace_views import status_table

    Console(highlight=False).print(status_table(workspace.status()))


def _say_next(workspace: Workspace, console: Console) -> None:
    console.print(workspace.status().next_step, soft_wrap=True, markup=False)


def user_name() -> str:
    """Return who works here."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def _about(text: str) -> str:
    """Return a line about an entity, or the beginning of the file or web page that it names."""
    if not text.startswith("@"):
        return " ".join(text.split())
    from stamo.corpus.readers import read_documents
    from stamo.corpus.types import MAX_ABOUT
    from stamo.errors import CorpusFormatError

    document = next(iter(read_documents([text[1:]])), None)
    if document is None:
        raise CorpusFormatError(f"{text[1:]!r} holds no text about the entity; give another file.")
    return " ".join(document.text.split())[:MAX_ABOUT]
