"""The `stamo` command: parse, one call, print."""

from __future__ import annotations

import importlib
import logging
import sys

import typer

from stamo import __version__
from stamo.errors import StamoError

COMMAND_MODULES = (
    "kb",
    "world",
    "models",
    "link",
    "suite",
    "workspace",
    "labels",
    "serve",
    "bench",
    "demo",
)
"""The modules of this package that register commands; each has `register(app)`."""


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
    """Run one command; turn our errors into one line on stderr and exit code 1."""
    try:
        create_app()()
    except StamoError as error:
        typer.echo(f"stamo: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("stamo: stopped on request; nothing half-written was left behind.", err=True)
        sys.exit(130)
