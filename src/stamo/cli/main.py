"""The `stamo` command: parse, one call, print."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

import typer

from stamo import __version__
from stamo.errors import StamoError
from stamo.system.files import explain_os_error

COMMAND_MODULES = (
    "kb",
    "world",
    "models",
    "link",
    "discover",
    "suite",
    "workspace",
    "labels",
    "serve",
    "bench",
    "demo",
)
"""The modules of this package that register commands; each has `register(app)`."""


INTERRUPTED = 130
"""The exit code of a command that was stopped."""


def create_app() -> typer.Typer:
    """Collect the commands of all groups in one application."""
    app = typer.Typer(
        name="stamo",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Make a brand-new entity linkable from twenty labels and a pile of text.",
    )

    @app.callback(invoke_without_command=True)
    def options(
        version: bool = typer.Option(False, "--version", help="Print the version and stop."),
        verbose: bool = typer.Option(False, "--verbose", help="Log what happens to stderr."),
    ) -> None:
        logging.basicConfig(level=logging.INFO if verbose else logging.WARNING)
        if version:
            typer.echo(f"stamo {__version__}")
            raise typer.Exit

    for group in COMMAND_MODULES:
        importlib.import_module(f"stamo.cli.{group}").register(app)
    return app


def main() -> None:
    """Run one command; turn our errors and the system's into one line on stderr and exit code 1."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        _run()
    except StamoError as error:
        _end(str(error))
    except MemoryError:
        _end("The memory ran out; use fewer workers, smaller inputs or a larger machine.")
    except BrokenPipeError:
        _forget_output()  # whoever read our output has gone
        sys.exit(1)
    except OSError as error:
        _end(explain_os_error(error))
    except KeyboardInterrupt:
        typer.echo("stamo: stopped on request; nothing half-written was left behind.", err=True)
        sys.exit(INTERRUPTED)


def _run() -> None:
    try:
        create_app()()
    except SystemExit as end:
        if end.code == INTERRUPTED:  # the parser has caught it and said nothing
            raise KeyboardInterrupt from end
        # What is still buffered is written here, where a full disk is told in one line.
        sys.stdout.flush()
        raise


def _end(sentence: str) -> NoReturn:
    with suppress(OSError):
        # A name in it must not steer the terminal.
        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in sentence)
        typer.echo(f"stamo: {shown}", err=True)
    _forget_output()
    sys.exit(1)


def _forget_output() -> None:
    """Keep Python from trying again, and failing aloud, to write what could not be written."""
    with suppress(OSError, ValueError):
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _terminate(number: int, frame: object) -> NoReturn:
    """Let SIGTERM be Ctrl-C: what is half-written is removed on the way out."""
    raise KeyboardInterrupt
