"""The command label: a page or a terminal that asks for labels."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

from typer import Argument, Option

from stamo.cli.output import Console, show
from stamo.cli.workspaces import KbOption, ModelOption, user_name
from stamo.errors import need

if TYPE_CHECKING:
    from stamo.workspace.folder import Artifacts, Workspace

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
    from stamo.workspace.folder import Workspace, open_artifacts

    opened = Workspace.open(workspace)
    with Console(stderr=True).status("Opening the knowledge base and the model"):
        artifacts = open_artifacts([opened], kb, model)
    if terminal:
        from stamo.workspace.terminal import label_in_terminal

        console, labeller = Console(highlight=False), who or user_name()
        label_in_terminal(
            opened, artifacts.kb, artifacts.trained, console=console, labeller=labeller
        )
        show(None, [opened.status().next_step], as_json=False)
    else:
        _label_in_browser(opened, artifacts, port, browser, who)


def _label_in_browser(
    opened: Workspace, artifacts: Artifacts, port: int, browser: bool, who: str
) -> None:
    """Serve the labelling page of one workspace until Ctrl-C."""
    need("fastapi", "torch,serve", "The labelling page")
    from stamo.cli.serve import listen, run
    from stamo.service.app import create_app
    from stamo.service.security import SecuritySettings

    folder, security = opened.path.resolve(), SecuritySettings(HOST)
    app = create_app(
        artifacts.kb, artifacts.trained, opened.packs_dir, folder.parent, security=security
    )
    listener = listen(HOST, port)
    number = listener.getsockname()[1]
    asked = {"workspace": folder.name} | ({"who": who} if who else {})
    address = f"http://{HOST}:{number}/label?{urlencode(asked)}"
    show(None, [f"Label at {address}"], as_json=False)
    if browser:
        # The listener takes connections already; the page waits until the service answers.
        threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
    run(app, listener, security)
