"""The command `stamo-lab`: suites, benches, the generator of worlds, and what was judged."""

from __future__ import annotations

import typer

from stamo.cli.main import main as run
from stamo_lab.cli.bench import bench
from stamo_lab.cli.suite import suite
from stamo_lab.cli.world import world
from stamo_lab.wild.judged import judged


def create_app() -> typer.Typer:
    """Collect the commands."""
    app = typer.Typer(
        name="stamo-lab",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        help="Measure stamo: the paper's suites, real new entities, speed, invented worlds.",
    )
    app.add_typer(suite, name="suite")
    app.add_typer(bench, name="bench")
    app.command("judged")(judged)
    app.command("world")(world)
    return app


def main() -> None:
    """Run one command."""
    run(create_app)
