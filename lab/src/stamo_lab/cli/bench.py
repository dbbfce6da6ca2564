"""`stamo-lab bench`: measure speed and memory on the user's own machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from stamo.cli import AsJson, open_both
from stamo.cli.output import Console, command_group, print_json, print_table, rich_table
from stamo.errors import SettingsError

KbPath = Annotated[Path, Argument(metavar="KB", help="Directory of a knowledge base.")]
ModelPath = Annotated[Path, Argument(metavar="MODEL", help="File of a trained model.")]


def show(rows: Sequence[Mapping[str, str | float | None]], as_json: bool, title: str) -> None:
    """Print what was measured: a table with a column for each key, or JSON."""
    if as_json:
        print_json(rows)
        return
    first, *others = dict.fromkeys(key for row in rows for key in row)
    table = rich_table(first, *(f">{key}" for key in others), title=title)
    for row in rows:
        table.add_row(*(_cell(row.get(key)) for key in (first, *others)))
    print_table(table)


def _cell(value: str | float | None) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else value


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read whole numbers from a list with commas; of an empty one, none.

    Raises:
        SettingsError: An entry is not a whole number.
    """
    try:
        return tuple(map(int, text.split(","))) if text.strip() else ()
    except ValueError as error:
        raise SettingsError(
            f"The sizes are {text!r}; give whole numbers with commas between, such as 25,50,100."
        ) from error


def bench_link(
    kb: KbPath,
    model: ModelPath,
    documents: int = Option(512, min=1, help="News-size documents to link."),
    length: int = Option(3000, min=100, help="Characters of a document."),
    workers: int = Option(os.cpu_count() or 1, min=1, help="Processes."),
    seconds: float = Option(20.0, min=0, help="How long each setting runs at least."),
    before: Path | None = Option(
        None, exists=True, file_okay=False, help="Folder src of another version to compare with."
    ),
    as_json: AsJson = False,
) -> None:
    """Measure `stamo link`, text in and JSON lines out, beside simpler ways in the same run."""
    from stamo.kb.base import KnowledgeBase
    from stamo_lab.bench.link import measure_linking, news_size_documents

    texts = news_size_documents(KnowledgeBase.open(kb), documents, length)
    with Console(stderr=True).status("starting") as status:
        rows = measure_linking(
            kb, model, texts, workers=workers, seconds=seconds, before=before, say=status.update
        )
    show(rows, as_json, f"{len(texts)} documents of {length} characters, again and again")


def bench_load(
    kb: KbPath,
    model: ModelPath,
    clients: int = Option(200, min=1, help="Clients that ask at once."),
    length: int = Option(300, min=20, help="Characters of a text."),
    seconds: float = Option(20.0, min=0.1, help="How long each setting runs."),
    as_json: AsJson = False,
) -> None:
    """Measure `stamo serve` under load, beside an echo of FastAPI in the same run."""
    from stamo.kb.base import KnowledgeBase
    from stamo_lab.bench.link import news_size_documents
    from stamo_lab.bench.load import measure_load

    documents = news_size_documents(KnowledgeBase.open(kb), 100, length)
    texts = [document.text for document in documents]
    with Console(stderr=True).status("starting") as status:
        rows = measure_load(kb, model, texts, n_clients=clients, seconds=seconds, say=status.update)
    show(rows, as_json, f"Texts of {length} characters; clients and service share the processors")


def bench_learn(
    entities: int = Option(50, help="Emerging entities."),
    documents: int = Option(1000, help="Unlabelled documents of each."),
    slots: int = Option(5, help="Slots to average over."),
    workers: int = Option(2, help="Processes."),
    as_json: AsJson = False,
) -> None:
    """Measure a slot of the paper's work, and the default method for one entity."""
    from stamo_lab.bench import learn as bench

    rows: list[dict[str, str | float | None]] = []
    for max_margin in (False, True):
        args = bench.LearnBenchArgs(
            n_entities=entities,
            n_unlabelled=documents,
            n_slots=slots,
            n_workers=workers,
            max_margin=max_margin,
        )
        name = "max-margin, 35 epochs" if max_margin else "closed form"
        rows.append({"vector": name, **bench.bench_learn(args)})
    show(rows, as_json, f"{entities} entities x {documents} documents, {workers} processes")


def bench_discover(
    kb: KbPath,
    model: ModelPath,
    sources: list[str] = Argument(
        ..., metavar="SOURCE...", help="Documents as `discover` reads them."
    ),
    documents: int = Option(1500, min=1, help="Documents at most."),
    as_json: AsJson = False,
) -> None:
    """Measure the pass of `stamo discover` beside linking the same documents, in turns."""
    from stamo_lab.bench.link import measure_discovery

    rows = measure_discovery(sources, *open_both(kb, model), documents)
    show(rows, as_json, "The same batches in turns, one process")


def bench_collect(
    sources: list[str] = Argument(
        ..., metavar="SOURCE...", help="Documents as `collect` reads them."
    ),
    entities: str = Option("1,10,100", help="Numbers of entities; the first is compared with."),
    aliases: int = Option(2, min=1, help="Names of each entity."),
    as_json: AsJson = False,
) -> None:
    """Measure one pass over documents for one, ten and a hundred entities, by names found there."""
    from stamo_lab.bench.link import measure_passes

    with Console(stderr=True).status("drawing names") as status:
        rows = measure_passes(sources, parse_sizes(entities), aliases, status.update)
    show(rows, as_json, "One pass for all entities; nothing is linked or kept")


def bench_encode(
    kb: KbPath,
    encoder: str | None = Option(
        None, help="Folder of an encoder; without it the packaged MiniLM."
    ),
    windows: int = Option(500, min=1, help="Windows of text to encode."),
    length: int = Option(450, min=20, help="Characters of a window."),
    as_json: AsJson = False,
) -> None:
    """Measure how fast windows of text become vectors, beside the encoder's layers alone."""
    from stamo.features.encoder import load_encoder
    from stamo.kb.base import KnowledgeBase
    from stamo_lab.bench.link import measure_encoding, news_size_documents

    documents = news_size_documents(KnowledgeBase.open(kb), windows, length)
    rows = measure_encoding(load_encoder(encoder), [document.text for document in documents])
    show(rows, as_json, "One thread")


def bench_build(
    dump: Path = Argument(..., metavar="DUMP", help="MediaWiki XML dump."),
    workers: int = Option(2, min=1, help="Processes of each program."),
    sizes: str = Option("25,50,100", help="Prefixes of the dump to build from, in MB of XML."),
    wikipedia2vec_python: str = Option(
        sys.executable, help="The interpreter that has wikipedia2vec 2.0."
    ),
    ours_only: bool = Option(False, "--ours-only", help="Do not run wikipedia2vec."),
    as_json: AsJson = False,
) -> None:
    """Compare a build without vectors with wikipedia2vec 2.0, and follow memory by size."""
    from stamo_lab.bench.build import measure_builds

    python = None if ours_only else wikipedia2vec_python
    with Console(stderr=True).status("measuring") as status:
        rows = measure_builds(dump, parse_sizes(sizes), workers, python, status.update)
    show(rows, as_json, f"{workers} processes, without vectors")


bench = command_group(
    "Measure speed and memory on this machine.",
    *(
        bench_build,
        bench_collect,
        bench_link,
        bench_load,
        bench_learn,
        bench_encode,
        bench_discover,
    ),
    prefix="bench_",
)
