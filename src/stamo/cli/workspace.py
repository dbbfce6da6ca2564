"""The commands of emerging entities: label, learn and report, besides those of `entities`."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer
from rich.markup import escape

from stamo.cli.options import AsJson
from stamo.cli.tables import Console, print_json
from stamo.cli.workspaces import (
    Folders,
    KbOption,
    ModelOption,
    for_each,
    open_all,
    say_next,
    user_name,
)

if TYPE_CHECKING:
    from stamo.workspace.artifacts import Artifacts
    from stamo.workspace.folder import Workspace
    from stamo.workspace.learn import LearnedPack

HOST = "127.0.0.1"

Folder = Annotated[Path, typer.Argument(metavar="WORKSPACE", help="Folder of the new entity.")]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    for command in (label, learn, report):
        app.command(command.__name__)(command)


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
        say_next(opened, console)
    else:
        _label_in_browser(opened, artifacts, port, browser, who)


def _label_in_browser(
    opened: Workspace, artifacts: Artifacts, port: int, browser: bool, who: str
) -> None:
    """Serve the labelling page of one workspace until Ctrl-C."""
    from stamo.errors import need

    need("fastapi", "torch,serve", "The labelling page")
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
    workspaces: Folders,
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
    as_json: AsJson = False,
) -> None:
    """Learn entities from their labels and their piles; write their packs, say if they are fit."""
    from stamo.cli.workspace_views import learn_view, learned_record, show_learned
    from stamo.workspace import learn as learning
    from stamo.workspace.artifacts import open_artifacts, verify_unchanged

    spaces = open_all(workspaces)
    artifacts = open_artifacts(spaces, kb, model)
    settings = learning.LearnSettings(
        reading=reading,
        n_slots=slots,
        n_folds=folds,
        encoder=None if encoder == "none" else encoder,
        decision=decision,
    )

    def run(space: Workspace) -> LearnedPack:
        if rollback is not None:
            return learning.rollback(space, artifacts.kb, artifacts.trained, rollback, settings)
        with learn_view(Console(stderr=True)) as show:
            return learning.learn_pack(
                space, artifacts.kb, artifacts.trained, settings, on_step=show
            )

    learned = for_each(spaces, run)
    fingerprints = verify_unchanged(spaces, artifacts)
    if as_json:
        print_json([learned_record(space, outcome) for space, outcome in learned])
    else:
        show_learned(learned, fingerprints, Console(highlight=False))
    if len(learned) < len(spaces):
        raise typer.Exit(1)
    if strict:
        raise typer.Exit(max(outcome.verdict.exit_code for _, outcome in learned))


def report(
    workspaces: Folders,
    reference: Annotated[
        list[str] | None,
        typer.Option("--reference", help="Documents to look for collisions in; the pile if none."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write one report; report.html in the workspace if not given."),
    ] = None,
    kb: KbOption = None,
    model: ModelOption = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML file for each entity about what was learned, and what it changes."""
    from stamo.cli.workspace_views import verdict_view
    from stamo.errors import SettingsError
    from stamo.system.files import check_writable
    from stamo.workspace.artifacts import open_artifacts
    from stamo.workspace.report import Written, write_report

    spaces = open_all(workspaces)
    if out is not None:
        if len(spaces) > 1:
            raise SettingsError("--out names one file; write one report at a time with it.")
        check_writable(out)
    artifacts = open_artifacts(spaces, kb, model)

    def run(space: Workspace) -> Written:
        with Console(stderr=True).status(f"Writing the report on {escape(space.entity.id)}"):
            return write_report(
                space, artifacts.kb, artifacts.trained, reference=reference or (), out_path=out
            )

    console = Console(highlight=False)
    written = for_each(spaces, run)
    if as_json:
        print_json(
            [
                {
                    "workspace": str(space.path),
                    "report": str(one.path),
                    "figures": [str(path) for path in one.figures],
                    "verdict": one.verdict.to_json() if one.verdict else None,
                }
                for space, one in written
            ]
        )
    for space, one in [] if as_json else written:
        if one.verdict is not None:
            name = space.entity.id if len(written) > 1 else ""
            console.print(verdict_view(one.verdict, name))
        for path in (one.path, *one.figures):
            console.print(str(path), soft_wrap=True)
    if len(written) < len(spaces):
        raise typer.Exit(1)


def _open(path: Path) -> Workspace:
    from stamo.workspace.folder import Workspace

    return Workspace.open(path)
