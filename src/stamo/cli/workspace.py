"""The commands of emerging entities: label, learn and report, besides those of `entities`."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer
from rich.markup import escape
from typer import Argument, Option

from stamo.cli.options import AsJson
from stamo.cli.tables import Console, print_json, say
from stamo.cli.workspace_views import learn_view, learned_record, show_learned, verdict_view
from stamo.cli.workspaces import Folders, KbOption, ModelOption, for_each, open_all, user_name
from stamo.errors import SettingsError, need

if TYPE_CHECKING:
    from stamo.workspace.artifacts import Artifacts
    from stamo.workspace.folder import Workspace
    from stamo.workspace.learn import LearnedPack

HOST = "127.0.0.1"

Folder = Annotated[Path, Argument(metavar="WORKSPACE", help="Folder of the new entity.")]


def label(
    workspace: Folder,
    terminal: bool = Option(False, "--terminal", help="Label here, by keys."),
    who: str = Option("", help="Your name, kept with each label."),
    kb: KbOption = None,
    model: ModelOption = None,
    port: int = Option(0, help="Port of the page; 0 takes a free one."),
    browser: bool = Option(True, help="Open the page in a browser."),
) -> None:
    """Label candidate mentions, those first that teach most."""
    from stamo.workspace.artifacts import open_artifacts
    from stamo.workspace.folder import Workspace

    opened = Workspace.open(workspace)
    with Console(stderr=True).status("Opening the knowledge base and the model"):
        artifacts = open_artifacts(opened, kb, model)
    if terminal:
        from stamo.workspace.labels.terminal import label_in_terminal

        label_in_terminal(
            opened,
            artifacts.kb,
            artifacts.trained,
            console=Console(highlight=False),
            labeller=who or user_name(),
        )
        say(opened.status().next_step)
    else:
        _label_in_browser(opened, artifacts, port, browser, who)


def _label_in_browser(
    opened: Workspace, artifacts: Artifacts, port: int, browser: bool, who: str
) -> None:
    """Serve the labelling page of one workspace until Ctrl-C."""
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
    say(f"Label at {address}")
    if browser:
        # The listener takes connections already; the page waits until the service answers.
        threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
    run(create_app(parts), listener, parts.security)


def learn(
    workspaces: Folders,
    reading: str = Option("default", help="default, paper, published or a variant of the paper."),
    slots: int | None = Option(None, help="Slots at most."),
    folds: int = Option(5, help="Parts for cross-validation; 0 for none."),
    decision: str = Option(
        "", help="even: link what is more probable than not; f1: for the best F1."
    ),
    encoder: str = Option(
        "installed", help="A folder with a sentence encoder, installed, or none."
    ),
    rollback: int | None = Option(
        None, help="Write the pack as it was after this slot (0: labels alone)."
    ),
    strict: bool = Option(
        False,
        "--strict",
        help="End with 10 (ship with care), 11 (label more), 12 (do not ship) by verdict.",
    ),
    kb: KbOption = None,
    model: ModelOption = None,
    as_json: AsJson = False,
) -> None:
    """Learn entities from their labels and their piles; write their packs, say if they are fit."""
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
    fingerprints = [verify_unchanged(space, artifacts) for space in spaces]
    if as_json:
        print_json([learned_record(space, outcome) for space, outcome in learned])
    else:
        show_learned(learned, fingerprints[0], Console(highlight=False))
    if len(learned) < len(spaces):
        raise typer.Exit(1)
    if strict:
        raise typer.Exit(max(outcome.verdict.exit_code for _, outcome in learned))


def report(
    workspaces: Folders,
    reference: list[str] | None = Option(
        None, "--reference", help="Documents to look for collisions in; the pile if none."
    ),
    out: Path | None = Option(
        None, help="Where to write one report; report.html in the workspace if not given."
    ),
    kb: KbOption = None,
    model: ModelOption = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML file for each entity about what was learned, and what it changes."""
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
