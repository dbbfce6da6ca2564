"""`stamo bench discover`: how fast a stream is scanned for new entities."""

from __future__ import annotations

from dataclasses import asdict

from typer import Argument, Option

from stamo.cli.options import AsJson, KbPath, ModelPath, open_both
from stamo.cli.tables import Console, print_json, print_table, rich_table


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
    from stamo.replication.bench_discover import measure_pass

    base, trained = open_both(kb, model)
    with Console(stderr=True).status("starting") as status:
        speed = measure_pass(
            sources,
            base,
            trained,
            n_documents=documents,
            on_batch=lambda n: status.update(f"{n:,} documents"),
        )
    if as_json:
        print_json(asdict(speed) | {"ratio": speed.ratio})
        return
    megabytes = speed.n_characters / 1e6
    title = f"{speed.n_documents:,} documents, {megabytes:,.1f} million characters, one process"
    table = rich_table("", ">CPU s", ">documents/CPU s", ">ratio", title=title)
    for name, seconds in (("linking", speed.link_seconds), ("discovery", speed.pass_seconds)):
        ratio = speed.link_seconds / seconds
        table.add_row(name, f"{seconds:.1f}", f"{speed.n_documents / seconds:.0f}", f"{ratio:.2f}")
    print_table(table)
