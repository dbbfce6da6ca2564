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

from stamo import __version__
from stamo.errors import MissingExtraError, StamoError

COMMANDS = {
    "build": (
        "build",
        "Build a knowledge base from a dump, Markdown notes or a table of entities.",
    ),
    "train": ("build", "Train a linking model on the held-out articles of a knowledge base."),
    "info": ("build", "Tell what a knowledge base holds and how ambiguous its names are."),
    "show": ("build", "Show what a name may mean, and the names and neighbours of an entity."),
    "world": ("world", "Write an invented encyclopaedia, later documents, and the answers."),
    "link": ("link", "Link the mentions of texts to entities; bad documents become error records."),
    "evaluate": ("link", "Measure a model on held-out articles and documents with gold entities."),
    "discover": ("discover", "Find entities that the knowledge base does not know."),
    "new": ("workspaces", "Start the workspace of an emerging entity, or those of a table."),
    "status": ("workspaces", "Say where workspaces stand and what comes next."),
    "collect": ("workspaces", "Collect documents that mention the entities' names."),
    "update": ("workspaces", "Add new documents to piles, learn again, and say what changed."),
    "label": ("label", "Label candidate mentions, those first that teach most."),
    "learn": ("learn", "Learn entities from labels and piles; write packs, say if they are fit."),
    "report": ("learn", "Write one HTML file for each entity about what was learned."),
    "serve": ("serve", "Serve linking, packs, labelling and learning over HTTP, with pages."),
    "demo": ("demo", "Run the whole story on an invented world: no download, about a minute."),
    "found": ("discover", "Decide about discovered entities."),
    "packs": ("packs", "Look after entity packs."),
    "labels": ("labels", "Export, import and compare labels."),
}
"""The commands: their module, which is loaded when one is called, and what help says of them.

Groups of commands stand last, as help shows them."""

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


class _App(typer.Typer):
    """An application whose help speaks of texts and numbers, not of the types of Python."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _in_words(typer.main.get_command(self))(*args, **kwargs)


TYPES = {
    **{"str": "text", "Path": "path", "int": "number", "float": "number"},
    **{"int range": "number", "float range": "number"},
}
"""What help calls the values of options."""


def _in_words(command: Any) -> Any:
    """Change how a command and those below it show what each option takes; a flag takes nothing."""
    for part in command.params:
        if getattr(part, "is_flag", False):
            part.metavar = ""
        elif part.param_type_name == "argument":
            part.display_type = lambda ctx: ""  # its name and its help say it
            part.get_usage_pieces = partial(_usage, part)
        elif hasattr(part, "display_type"):
            part.display_type = partial(_shown_type, part.display_type)
    make_help = command.get_help_option

    def help_option(context: Any) -> Any:
        option = make_help(context)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = help_option
    for part in getattr(command, "commands", {}).values():
        _in_words(part)
    return command


def _usage(argument: Any, ctx: Any) -> list[str]:
    name = argument.metavar or argument.name.upper()
    return [name if argument.required or "[" in name else f"[{name}]"]


def _shown_type(show: Callable[..., str], ctx: Any) -> str:
    """Return `<path>` for a path, also where several may be given."""
    label = show(ctx).strip("<>").removeprefix("list[").removesuffix("]")
    return f"<{TYPES.get(label, label)}>"


def modules_for(arguments: Sequence[str]) -> list[str]:
    """Return the modules that a command line needs: that of its command; none for help."""
    name = next((word for word in arguments if not word.startswith("-")), None)
    return [COMMANDS[name][0]] if name in COMMANDS else []


def create_app(modules: Iterable[str] | None = None) -> typer.Typer:
    """Make the application with the commands of all modules, or of some.

    Of no module, it shows help: every command with its line, and nothing is loaded for it.
    """
    app = _App(
        name="stamo",
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
    for name, (module, about) in COMMANDS.items():
        if wanted is None or module in wanted:
            part = getattr(importlib.import_module(f"stamo.cli.{module}"), name)
            if isinstance(part, typer.Typer):
                app.add_typer(part, name=name, short_help=about)
            else:
                app.command(name, short_help=about)(part)
        elif not wanted:
            app.command(name, short_help=about)(lambda: None)
    return app


def main(make_app: Callable[[], typer.Typer] | None = None) -> None:
    """Run one command; turn our errors and the system's into one line on stderr and exit code 1."""
    signal.signal(signal.SIGTERM, _terminate)
    _write_anything()
    try:
        _run(make_app or (lambda: create_app(modules_for(sys.argv[1:]))))
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
        _forget_output()  # whoever read our output has gone
        sys.exit(1)
    except OSError as error:
        from stamo.system.files import explain_os_error

        _end(explain_os_error(error))
    except KeyboardInterrupt as stop:
        go_on = " ".join(map(str, stop.args))
        sentence = "stamo: stopped on request; nothing half-written was left behind."
        typer.echo(f"{sentence} {go_on}".rstrip(), err=True)
        # An interrupt that passed through `exec`, as of a dataclass, leaves a note by which Python
        # would end itself with a signal and not with our code; the next one takes it back.
        exec("")
        sys.exit(INTERRUPTED)


def _run(make_app: Callable[[], typer.Typer]) -> None:
    try:
        make_app()()
    except SystemExit as end:
        if end.code == INTERRUPTED:  # the parser has caught it and said nothing
            raise KeyboardInterrupt(*_said_with(end)) from end
        # What is still buffered is written here, where a full disk is told in one line.
        sys.stdout.flush()
        raise


def _said_with(end: BaseException) -> tuple[object, ...]:
    """Return what the interrupt behind an end of the program came with."""
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause.args if cause is not None else ()


def _write_anything() -> None:
    """Let a terminal that cannot show a character get its escape, and no command end by it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
