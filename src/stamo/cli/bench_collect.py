"""`stamo bench collect`: how fast a crawl is searched for many entities."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stamo.cli.kb import AsJson
from stamo.cli.tables import Console, print_json, print_table, rich_table
from stamo.errors import SettingsError

if TYPE_CHECKING:
    from stamo.replication.bench_collect import CollectSpeed, WholeCollect


def bench_collect(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="Documents as `collect` reads them.")
    ],
    entities: Annotated[
        str, typer.Option(help="Numbers of entities; the first is compared with.")
    ] = "1,10,100",
    aliases: Annotated[int, typer.Option(min=1, help="Names of each entity.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Passes of each size; the best counts.")] = 1,
    kb: Annotated[
        Path | None, typer.Option(help="With a model: measure the whole of collecting too.")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Links the documents that are kept.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure one pass over documents for one, ten and a hundred entities, by names found there."""
    from stamo.replication.bench_collect import measure_passes

    if (kb is None) != (model is None):
        raise SettingsError("--kb and --model belong together; give both or none of them.")
    sizes = parse_sizes(entities)
    with Console(stderr=True).status("drawing names") as status:
        speed = measure_passes(
            sources,
            sizes,
            n_aliases=aliases,
            n_rounds=rounds,
            on_pass=lambda size: status.update(f"searching for {size}"),
        )
        status.update(f"collecting for {max(sizes)}")
        whole = _whole(sources, kb, model, max(sizes), aliases) if kb and model else ()
    if as_json:
        print_json(asdict(speed) | {"whole": [asdict(one) for one in whole]})
    else:
        _print(speed)
        _print_whole(whole)


def _whole(
    sources: list[str], kb_path: Path, model_path: Path, n_entities: int, n_aliases: int
) -> tuple[WholeCollect, ...]:
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import load_model
    from stamo.replication.bench_collect import measure_whole

    kb, trained = KnowledgeBase.open(kb_path), load_model(model_path)
    return measure_whole(sources, kb, trained, n_entities, n_aliases=n_aliases)


def _print_whole(whole: tuple[WholeCollect, ...]) -> None:
    if not whole:
        return
    title = "The whole of collecting, with linking, for the same names"
    table = rich_table(">entities", ">kept", ">CPU s", ">ms/kept", ">speed", title=title)
    for one in whole:
        table.add_row(
            str(one.n_entities),
            f"{one.n_kept:,}",
            f"{one.seconds:.2f}",
            f"{1000 * one.seconds / max(one.n_kept, 1):.1f}",
            f"{whole[0].seconds / one.seconds:.0%}",
        )
    print_table(table)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read whole numbers from a list with commas.

    Raises:
        SettingsError: An entry is not a whole number.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise SettingsError(
            f"The sizes are {text!r}; give whole numbers with commas between, such as 25,50,100."
        ) from error


def _print(speed: CollectSpeed) -> None:
    title = (
        f"{speed.n_bytes / 1e6:,.1f} MB as stored, peak memory {speed.peak_memory / 1e6:,.0f} MB"
    )
    counts = (">entities", ">documents", ">mentions", ">CPU s", ">MB/CPU s")
    ratios = (">speed of one", ">nothing found", ">one by one takes")
    table = rich_table(*counts, *ratios, title=title)
    for one in speed.passes:
        table.add_row(
            str(one.n_entities),
            f"{one.n_documents:,}",
            f"{one.n_mentions:,}",
            f"{one.seconds:.2f}",
            f"{one.megabytes_per_second:.1f}",
            f"{one.ratio:.0%}",
            f"{one.scan_ratio:.0%}",
            f"{one.saved:.1f} times",
        )
    print_table(table)
