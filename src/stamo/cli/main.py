"""The `stamo` command: parse, one call, print."""

from __future__ import annotations

import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from stamo import __version__
from stamo.errors import MissingExtraError, StamoError

COMMANDS = {
    "A knowledge base": {
        "build": ("build", "Build one from a dump, Markdown notes or a table of entities."),
        "train": ("build", "Train a linking model on its held-out articles."),
        "info": ("build", "Tell what it holds and how ambiguous its names are."),
        "show": ("build", "Show what a name may mean, and an entity's names and neighbours."),
        "link": ("link", "Link the mentions of texts to entities."),
        "evaluate": ("link", "Measure on held-out articles and on documents with answers."),
    },
    "One new entity": {
        "new": ("workspaces", "Start its workspace, or those of a table."),
        "collect": ("workspaces", "Collect documents that mention its names."),
        "label": ("labels", "Label mentions, those first that teach most."),
        "learn": ("learn", "Learn it from labels and documents; say if the pack is fit."),
        "report": ("learn", "Write an HTML file about what was learned."),
        "update": ("learn", "Add new documents, learn again, and say what changed."),
        "labels": ("labels", "Export, import and compare labels."),
        "history": ("packs", "Go back to an earlier pack."),
    },
    "Many new entities": {
        "status": ("workspaces", "Say where workspaces stand and what comes next."),
        "discover": ("discover", "Find those that the knowledge base does not know."),
        "found": ("discover", "Decide about discovered entities."),
        "packs": ("packs", "Look after folders of entity packs."),
    },
    "Service and demo": {
        "serve": ("serve", "Serve linking, packs, labelling and learning, with pages."),
        "demo": ("demo", "Run the whole story on an invented world, in about a minute."),
        "world": ("demo", "Write that world: an encyclopaedia, later documents, answers."),
    },
}
"""The commands by what they are for: their module, which is loaded when one is called, and what
help says of them."""
MODULES = {name: module for part in COMMANDS.values() for name, (module, _) in part.items()}

INTERRUPTED = 130
"""The exit code of a command that was stopped."""
EXTRAS = {
    "torch": "torch",
    "fastapi": "serve",
    "uvicorn": "serve",
    "resiliparse": "web",
    "tokenizers": "encoder",
    "transformers": "bert",
    "pyspark": "spark",
}
"""The packages that come with an extra, and which."""
WORDS = {
    **{"str": "text", "Path": "path", "int": "number", "float": "number", "bool": ""},
    **{"int range": "number", "float range": "number"},
}
"""What help calls the values of options; a flag takes none."""


class _InWords:
    """Help that speaks of texts and numbers, not of the types of Python."""

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        for option in self.get_params(ctx):
            kind = option.display_type(ctx).strip("<>").removeprefix("list[").removesuffix("]")
            word = WORDS.get(kind, kind)
            if option.param_type_name == "argument":  # its name and its help say it
                word, name = "", option.metavar
                usage = name if option.required or "[" in name else f"[{name}]"
                option.get_usage_pieces = partial(_shown, [usage])
            option.display_type = partial(_shown, f"<{word}>" if word else "")
        super().format_help(ctx, formatter)  # type: ignore[misc]


class _Command(_InWords, TyperCommand):
    """A command."""


class _Group(_InWords, TyperGroup):
    """A group of commands."""


def _shown(what: Any, ctx: Any) -> Any:
    return what


def modules_for(arguments: Sequence[str]) -> list[str]:
    """Return the modules that a command line needs: that of its command; none for help."""
    name = next((word for word in arguments if not word.startswith("-")), None)
    return [MODULES[name]] if name in MODULES else []


def create_app(modules: Iterable[str] | None = None) -> typer.Typer:
    """Make the application with the commands of all modules, or of some.

    Of no module, it shows help: every command with its line, and nothing is loaded for it.
    """
    app = typer.Typer(
        name="stamo",
        cls=_Group,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        help="Make a brand-new entity linkable from twenty labels and a pile of text.",
    )

    @app.callback(invoke_without_command=True)
    def options(
        version: bool = Option(False, "--version", "-V", help="Print the version and stop."),
        verbose: bool = Option(False, "--verbose", help="Log what happens to stderr."),
    ) -> None:
        logging.basicConfig(level=logging.INFO if verbose else logging.WARNING)
        if version:
            typer.echo(f"stamo {__version__}")
            raise typer.Exit

    wanted = None if modules is None else list(modules)
    for panel, commands in COMMANDS.items():
        for name, (module, about) in commands.items():
            style: dict[str, Any] = {"short_help": about, "rich_help_panel": panel}
            if wanted is None or module in wanted:
                part = getattr(importlib.import_module(f"stamo.cli.{module}"), name)
                if isinstance(part, typer.Typer):
                    for command in part.registered_commands:
                        command.cls = _Command
                    app.add_typer(part, name=name, cls=_Group, **style)
                else:
                    app.command(name, cls=_Command, **style)(part)
            elif not wanted:
                app.command(name, **style)(lambda: None)
    return app


def main(make_app: Callable[[], typer.Typer] | None = None) -> None:
    """Run one command; turn our errors and the system's into one line on stderr and exit code 1."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a terminal cannot show is shown as its escape, and ends no command.
            stream.reconfigure(errors="backslashreplace")
    try:
        app = create_app(modules_for(sys.argv[1:])) if make_app is None else make_app()
        try:
            app()
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):
                raise end.__context__ from None
            if end.code == INTERRUPTED:  # the parser has caught it and said nothing
                raise KeyboardInterrupt from end
            # What is still buffered is written here, where a full disk is told in one line.
            sys.stdout.flush()
            raise
    except StamoError as error:
        _end(str(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        _end(str(MissingExtraError(package, EXTRAS[package], "This command")))
    except MemoryError:
        _end("The memory ran out; use fewer workers, smaller inputs or a larger machine.")
    except BrokenPipeError:
        _forget_output()  # whoever read our output has enough of it, as `head` has
        sys.exit(0)
    except OSError as error:
        from stamo.system.files import explain_os_error

        _end(explain_os_error(error))
    except KeyboardInterrupt:
        typer.echo("stamo: stopped on request; nothing half-written was left behind.", err=True)
        # An interrupt that passed through `exec`, as of a dataclass, leaves a note by which Python
        # would end itself with a signal and not with our code; the next one takes it back.
        exec("")
        sys.exit(INTERRUPTED)


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
