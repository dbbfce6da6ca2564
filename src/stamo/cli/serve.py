"""`stamo serve`: the service with its pages."""

from __future__ import annotations

import errno
import logging
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from stamo.cli import KbPath, ModelPath, open_both
from stamo.cli.output import Console
from stamo.errors import SettingsError, need

if TYPE_CHECKING:
    from fastapi import FastAPI

    from stamo.service.security import SecuritySettings

ADDRESS_FILE = ".stamo-serve"
"""Lies beside the workspaces that a running service serves, and holds its address."""
SHUTDOWN_SECONDS = 10
MAX_CONNECTIONS = 800
"""Above these a request gets 503, as many as a process may have files. Long before, texts that wait
are turned away with the time to come again. A service for strangers is behind a reverse proxy."""


def serve(
    kb: KbPath,
    model: ModelPath,
    packs: Path | None = Option(None, help="Folder of the packs to link with; packs if not."),
    workspaces: Path = Option(Path(), help="Folder that holds the workspaces."),
    found: Path | None = Option(None, help="Folder of `stamo discover`: its proposals are shown."),
    host: str = Option("127.0.0.1", help="Address to listen on."),
    port: int = Option(8017, help="Port to listen on; 0 takes a free one."),
    token: str | None = Option(
        None,
        envvar="STAMO_TOKEN",
        help="Needed for changes, and for all else when the address is not this machine's; "
        "made up then.",
    ),
    allowed_host: list[str] | None = Option(None, help="A name that browsers use; repeat it."),
    public_read: bool = Option(False, "--public-read", help="Read and link without the token."),
) -> None:
    """Serve linking, packs, labelling and learning over HTTP, with pages for people."""
    need("fastapi", "serve", "The service")
    from stamo.discovery.proposals import FoundFolder
    from stamo.packs.folder import PackFolder
    from stamo.service.app import create_app
    from stamo.service.security import SecuritySettings, is_loopback

    if not workspaces.is_dir():
        raise SettingsError(
            f"There is no folder {str(workspaces)!r}; give the one that holds the workspaces, or "
            "make it."
        )
    if packs is not None:
        PackFolder.existing(packs)  # a misspelled name would serve without them
    is_made_up = token is None and not is_loopback(host)
    if is_made_up:
        token = secrets.token_urlsafe(24)
    names = frozenset(map(str.lower, allowed_host or ()))
    security = SecuritySettings(host, token, names, public_read=public_read)
    if found is not None:
        FoundFolder(found).proposals()  # what is wrong with it is told before anything starts
    listener = listen(host, port)
    with Console(stderr=True).status("Opening the knowledge base and the model"):
        base, trained = open_both(kb, model)
    folder = packs or Path("packs")
    app = create_app(base, trained, folder, workspaces, security=security, found_dir=found)
    run(app, listener, security, workspaces, show_token=is_made_up)


def run(
    app: FastAPI,
    listener: socket.socket,
    security: SecuritySettings,
    workspaces: Path,
    *,
    show_token: bool = False,
) -> None:
    """Serve until a signal comes, then let running requests end; a token given stays secret.

    While it runs, the folder of the workspaces says where.
    """
    import asyncio

    import uvicorn

    host = security.host
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    address = f"http://{host}:{listener.getsockname()[1]}"
    console = Console(highlight=False)
    console.print(f"Serving at {address} (stop with Ctrl-C)", soft_wrap=True)
    if security.token is not None:
        what = "Everything needs" if security.guards_reading else "Changes need"
        shown = f"the token {security.token}" if show_token else "the token that was given"
        console.print(f"{what} {shown}", soft_wrap=True)
    if security.public_read:
        console.print("Everybody who can reach this address may read and link.", soft_wrap=True)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        backlog=128,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ws="none",
    )
    # Requests that are given up when we stop are no fault to be traced.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: not (record.exc_info and record.exc_info[0] is asyncio.CancelledError)
    )
    with suppress(OSError):  # a folder that is read-only is served, too
        (workspaces / ADDRESS_FILE).write_text(address)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        with suppress(OSError):
            if (workspaces / ADDRESS_FILE).read_text() == address:  # not that of a later one
                (workspaces / ADDRESS_FILE).unlink()


def running_at(workspaces: Path) -> str | None:
    """Return the address of a service that runs for a folder of workspaces, if there is one."""
    try:
        address = (workspaces / ADDRESS_FILE).read_text()
        host, _, port = address.removeprefix("http://").rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
    except (OSError, ValueError):
        return None
    return address


def listen(host: str, port: int) -> socket.socket:
    """Take an address.

    Raises:
        SettingsError: It cannot be used.
    """
    name = host.strip("[]")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((name, port))
        # From here on connections wait in line, so the printed address works at once.
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or "a port is a number from 0 to 65535"
        is_foreign = isinstance(error, socket.gaierror) or (
            isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL
        )
        what = "an address of this machine" if is_foreign else "another port"
        raise SettingsError(
            f"The service cannot listen on {host}:{port} ({reason}); choose {what}."
        ) from error
    return listener
