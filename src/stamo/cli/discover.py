"""`stamo discover`: which new entities a stream speaks of."""

from __future__ import annotations

from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from stamo.cli.found import N_LISTED, Types, kinds_of, print_list
from stamo.cli.options import AsJson, KbPath, ModelPath, open_both
from stamo.cli.tables import Console, progress_view
from stamo.errors import SettingsError

if TYPE_CHECKING:
    from stamo.discovery.discover import Discovered


def discover(
    kb: KbPath,
    model: ModelPath,
    source: list[str] = Option(
        ..., "--from", help="Texts, JSON lines, HTML, WARC, folders, or - for stdin."
    ),
    out: Path = Option(..., help="Folder for the proposals and the decisions."),
    since: str = Option("", help="Leave out documents with an earlier date, such as 2024-05-31."),
    documents: int = Option(3, min=2, help="Documents that a proposal needs."),
    kind: str = Option(
        "both", help="name: unknown names; meaning: new meanings of known ones; both."
    ),
    ignore: list[str] | None = Option(None, help="A name never to propose, or @FILE; repeat it."),
    types: Types = None,
    most: int = Option(1000, min=1, help="Proposals at most."),
    encoder: bool = Option(
        False, "--encoder", help="Compare contexts by the sentence encoder too."
    ),
    workers: int = Option(1, min=1, help="Processes."),
    as_json: AsJson = False,
) -> None:
    """Find entities that the knowledge base does not know: new names, new meanings."""
    from rich.progress import TextColumn, TimeElapsedColumn

    from stamo.corpus.readers import check_sources
    from stamo.discovery.discover import discover as run
    from stamo.discovery.found import FoundFolder
    from stamo.discovery.propose import ProposeSettings
    from stamo.features.encoder import load_encoder

    day = _day(since)
    settings = ProposeSettings(
        least_documents=documents,
        ignored=_names(ignore or []),
        types=frozenset(types or ()),
        max_proposals=most,
        kinds=kinds_of(kind),
    )
    folder = FoundFolder(out)
    folder.check()
    check_sources(source)
    base, trained = open_both(kb, model)
    reader = load_encoder() if encoder else None
    console = Console(stderr=True, highlight=False)
    columns = [TextColumn("{task.description}"), TextColumn("{task.completed}")]
    look = partial(run, source, base, trained, settings=settings, since=day, n_workers=workers)
    with progress_view(console, "Documents read", *columns, TimeElapsedColumn()) as on_seen:
        found = look(encoder=reader, on_seen=on_seen)
    places = [name if name == "-" else str(Path(name).resolve()) for name in source]
    origin = {"sources": places, "kb": str(kb.resolve()), "model": str(model.resolve())}
    n_open = folder.save(found, origin)
    _tell(found, n_open, console)
    print_list(folder.proposals()[:N_LISTED], as_json=as_json)


def _day(text: str) -> str:
    if not text:
        return ""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise SettingsError(f"{text!r} is no date; give one such as 2024-05-31.") from error


def _names(given: list[str]) -> frozenset[str]:
    names: list[str] = []
    for name in given:
        try:
            names += Path(name[1:]).read_text("utf-8").splitlines() if name[:1] == "@" else [name]
        except ValueError as error:
            raise SettingsError(f"{name[1:]!r} is no file of names in UTF-8 ({error}).") from error
    return frozenset(name.strip() for name in names if name.strip())


def _tell(found: Discovered, n_open: int, console: Console) -> None:
    n = len(found.proposals)
    console.print(
        f"{found.n_documents:,} documents, {found.n_names:,} unexplained names: {n_open} proposals"
        + (f", {n - n_open} of {n} were decided before." if n_open < n else "."),
        soft_wrap=True,
    )
    for error, count in sorted(found.errors.items()):
        console.print(f"{count} left out: {error}", style="yellow", soft_wrap=True, markup=False)
