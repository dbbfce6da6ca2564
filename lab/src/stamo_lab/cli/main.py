"""The command `stamo-lab`: suites, benches, the generator of worlds, and what was judged."""

from __future__ import annotations

from pathlib import Path

import typer
from typer import Argument, Option

from stamo.cli import AsJson
from stamo.cli.main import main as run
from stamo.cli.output import Console, print_json, progress_view, rich_table
from stamo_lab.cli.bench import bench
from stamo_lab.cli.suite import suite
from stamo_lab.wild.judged import judged


def world(
    out: Path = Argument(..., metavar="OUT", help="Directory for the files."),
    seed: int = Option(7, help="Another seed gives another world."),
    articles: int = Option(700, help="Articles of the dump."),
    emerging: int = Option(6, help="Entities that only the pile mentions."),
    documents: int = Option(300, help="Documents per emerging entity."),
    plain: bool = Option(False, "--plain", help="Do not compress the dump."),
    packed: bool = Option(False, "--packed", help="Write one file, as `stamo world` keeps it."),
    as_json: AsJson = False,
) -> None:
    """Invent an encyclopaedia, later documents, and the answers."""
    from stamo_lab.world import WorldSettings, generate_world, pack_world

    settings = WorldSettings(
        seed=seed,
        n_articles=articles,
        n_emerging=emerging,
        documents_per_entity=documents,
        compress=not plain and not packed,
    )
    if packed:
        pack_world(settings, out)
        return
    console = Console()
    with Console(stderr=True).status("Inventing a world"):
        made = generate_world(settings, out)
    paths = (made.paths.dump_path, made.paths.pile_path, made.paths.gold_path)
    if as_json:
        print_json({"emerging": made.describe(), "files": [str(path) for path in paths]})
        return
    headings = ("Entity", "Aliases", "What it is", ">Mentions", ">of")
    table = rich_table(*headings, title="Emerging entities")
    for entry in made.describe():
        numbers = (str(entry[name]) for name in ("n_mentions", "n_candidate_mentions"))
        table.add_row(entry["id"], ", ".join(entry["aliases"]), entry["description"], *numbers)
    console.print(table)
    for path in paths:
        console.print(f"{path}  {path.stat().st_size / 1e6:.1f} MB", highlight=False)


def adapter(
    kb_path: Path = Argument(..., metavar="KB", help="The knowledge base whose links are read."),
    out: Path = Argument(..., metavar="OUT", help="The file; that of the package is made so."),
    steps: int = Option(400, min=1, help="Steps."),
    seed: int = Option(0, help="Same seed, same bytes."),
) -> None:
    """Adapt the packaged encoder to a knowledge base and save what it learned alone."""
    from stamo.features.encoder import load_encoder
    from stamo.kb.base import KnowledgeBase
    from stamo.models.adapter import AdapterArgs, train_adapter

    kb, args = KnowledgeBase.open(kb_path), AdapterArgs(n_steps=steps, seed=seed)
    with progress_view(Console(stderr=True), "Adapting", stays=True, total=steps) as show:
        learned = train_adapter(
            kb,
            load_encoder(),
            args,
            on_step=lambda step, loss: show(step, description=f"Adapting (loss {loss:.3f})"),
        )
    learned.save(out)
    Console().print(f"Saved [bold]{out}[/]: {learned.fingerprint}, of {kb.fingerprint[:12]}.")


def weights(
    kb_path: Path = Argument(..., metavar="KB", help="The knowledge base of the suites."),
    suites: list[Path] = Argument(..., metavar="SUITE...", help="Suites of real new entities."),
    out: Path = Option(..., "--out", help="The file; that of the package is made so."),
) -> None:
    """Learn what views are worth before any label, from real new entities."""
    from stamo.kb.base import KnowledgeBase
    from stamo.models.weights import to_record
    from stamo.system.files import to_json, write_atomic
    from stamo_lab.wild.suite import open_wild
    from stamo_lab.wild.weights import learn_from_suites

    kb = KnowledgeBase.open(kb_path)
    learned = to_record(learn_from_suites([open_wild(suite, kb) for suite in suites], kb))
    write_atomic(out, to_json(learned))
    print_json(learned)


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
    app.command("adapter")(adapter)
    app.command("judged")(judged)
    app.command("weights")(weights)
    app.command("world")(world)
    return app


def main() -> None:
    """Run one command."""
    run(create_app)
