"""The commands new, status and collect; and which workspaces a command is meant for."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from stamo.cli import (
    AsJson,
    EncodingOption,
    EngineOption,
    Folders,
    KbOption,
    MasterOption,
    ModelOption,
    Sources,
    TextColumnOption,
    Who,
    known_path,
    open_for,
    start_engine,
)
from stamo.cli.output import Console, bare_table, named_values, progress_view, show, warn
from stamo.corpus.reading import ReadFiles, read_documents, read_files
from stamo.corpus.types import MAX_DESCRIPTION, EmergingEntity
from stamo.errors import CorpusFormatError, SettingsError, StamoError
from stamo.kb.base import KnowledgeBase
from stamo.workspace import collect as collecting
from stamo.workspace.entities import (
    create_workspaces,
    name_warnings,
    pile_warnings,
    read_entity_list,
)
from stamo.workspace.folder import Artifacts, Workspace, workspace_folders
from stamo.workspace.wording import count_of, printable

NOTHING_KEPT = 3
"""The exit code of a command that ran to its end and found nothing to keep."""


def open_all(paths: Sequence[Path]) -> list[Workspace]:
    """Open workspaces; a folder that holds workspaces stands for all that are not damaged.

    Raises:
        WorkspaceError: One is missing or damaged.
    """
    opened: list[Workspace] = []
    for path in paths:
        is_one = (path / "entity.json").exists()
        n_before = len(opened)
        for folder in [] if is_one else workspace_folders(path):
            try:
                opened.append(Workspace.open(folder))
            except StamoError as error:
                warn(f"{folder}: {error}")
        if len(opened) == n_before:
            opened.append(Workspace.open(path))
    return opened


def user_name() -> str:
    """Return who runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def entity_record(entity: EmergingEntity) -> dict[str, Any]:
    """Return what is known of an entity, for programs."""
    identity = {"id": entity.external_id, "type": entity.type, "url": entity.url}
    given = {name: value or None for name, value in identity.items()}
    return {"entity": entity.id, **given, "description": entity.description}


def new(
    workspace: Path | None = Argument(
        None, metavar="WORKSPACE", help="Its folder; with --from, of all."
    ),
    name: str | None = Argument(None, metavar="NAME", help="What the entity is called."),
    alias: list[str] | None = Option(
        None, help="A name that texts use; NAME itself is one if it fits."
    ),
    description: str = Option("", help="What it is in a sentence, or @FILE that says it."),
    id: str = Option("", "--id", help="Its id elsewhere, such as Q29584."),
    type: str = Option("", "--type", help="What kind of thing it is."),
    url: str = Option("", "--url", help="A page about it."),
    table: Path | None = Option(
        None, "--from", help="CSV: name, aliases (a|b), description, id, type, url, folder."
    ),
    kb: Path | None = Option(
        None,
        "--kb",
        help="Look the names up in this knowledge base.",
        show_default="STAMO_KB, or kb of stamo.toml",
    ),
    encoding: EncodingOption = "",
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Start the workspace of an emerging entity, or those of a table.

    In Python: `stamo.Workspace.create(path, entity, created_by=who, at=now)`.
    """
    by, at, said = who or user_name(), datetime.now(UTC), ""
    kb = kb or known_path("kb")
    base = None if kb is None else KnowledgeBase.open(kb)  # before anything is made
    if table is not None:
        if name is not None or alias or description or id or type or url:
            raise SettingsError("A table with --from names the entities itself; give the folder.")
        entities = read_entity_list(table, encoding)
        made, old = create_workspaces(workspace or Path(), entities, created_by=by, at=at)
        spaces = [*made, *old]
        there = f", {len(old)} {'was' if len(old) == 1 else 'were'} there already" if old else ""
        said = f"{count_of(len(made), 'new workspace')}{there}."
    else:
        if workspace is None or name is None:
            raise SettingsError("Give the folder and the name: stamo new WORKSPACE NAME.")
        if description.startswith("@"):
            document = next(iter(read_documents([description[1:]], encoding=encoding)), None)
            if document is None:
                raise CorpusFormatError(
                    f"{description[1:]!r} holds no text about the entity; give another file."
                )
            description = " ".join(document.text.split())[:MAX_DESCRIPTION]
        entity = EmergingEntity.named(
            name,
            alias or (),
            description=" ".join(description.split()),
            external_id=id,
            type=type,
            url=url,
        )
        spaces = [Workspace.create(workspace, entity, created_by=by, at=at)]
    warnings = [[] if base is None else name_warnings(space.entity, base) for space in spaces]
    view: list[RenderableType] = [_status_table(spaces, is_one=table is None)]
    view += [said] if said else []
    show(list(map(_record, spaces, warnings)), view, as_json=as_json)
    _warn(spaces, warnings)


def status(
    workspaces: list[Path] | None = Argument(
        None, metavar="[WORKSPACE]...", help="Workspaces, or folders of them."
    ),
    as_json: AsJson = False,
) -> None:
    """Say where workspaces stand and what comes next.

    In Python: `stamo.Workspace.open(path).status()`.
    """
    given = workspaces or [Path()]
    spaces = open_all(given)
    is_one = len(given) == 1 and [space.path for space in spaces] == given
    show(list(map(_record, spaces)), [_status_table(spaces, is_one=is_one)], as_json=as_json)


def collect(
    workspaces: Folders,
    source: Sources = [],  # noqa: B006
    kb: KbOption = None,
    model: ModelOption = None,
    fresh: bool = Option(False, "--fresh", help="Forget what was collected."),
    casefold: bool = Option(False, "--casefold", help="Find aliases in any case."),
    most: int | None = Option(None, min=1, help="Stop after this many kept documents of each."),
    text_column: TextColumnOption = "",
    encoding: EncodingOption = "",
    engine: EngineOption = "embedded",
    master: MasterOption = None,
    as_json: AsJson = False,
) -> None:
    """Collect documents that mention the entities' names and link their other mentions.

    All workspaces are fed in one pass over the documents.
    """
    spaces = open_all(workspaces)
    settings = collecting.CollectSettings(casefold, most, text_column, encoding)
    with start_engine(engine, master) as spark:
        read = read_files
        if spark is not None:
            from stamo.integrations.spark.jobs import spark_reader

            read = spark_reader(spark)
        artifacts = open_for(spaces, kb, model)
        try:
            collected = collect_all(spaces, source, artifacts, settings, fresh=fresh, read=read)
        except KeyboardInterrupt:
            warn("The same command without --fresh goes on where it stopped.")
            raise
    warnings = [
        name_warnings(space.entity, artifacts.kb) + pile_warnings(space.entity, one)
        for space, one in zip(spaces, collected, strict=True)
    ]
    records = [
        _record(space, lines) | {"collected": one}
        for space, lines, one in zip(spaces, warnings, collected, strict=True)
    ]
    next_step = [spaces[0].status().next_step] if len(spaces) == 1 else []
    show(records, [collected_view(spaces, collected), *next_step], as_json=as_json)
    _warn(spaces, warnings)
    if not any(one.n_new for one in collected):
        warn("Nothing new was kept.")
    if not any(one.n_kept for one in collected):
        raise typer.Exit(NOTHING_KEPT)


def collect_all(
    spaces: Sequence[Workspace],
    sources: Sequence[str],
    artifacts: Artifacts,
    settings: collecting.CollectSettings,
    *,
    fresh: bool = False,
    read: ReadFiles = read_files,
) -> list[collecting.Collected]:
    """Collect for workspaces, with a bar."""
    title = spaces[0].entity.id if len(spaces) == 1 else f"{len(spaces)} entities"
    with collect_view(f"Collecting {title}") as on_progress:
        return collecting.collect(
            spaces,
            sources,
            artifacts.kb,
            artifacts.trained,
            settings,
            origin=artifacts.origin,
            fresh=fresh,
            read=read,
            on_progress=on_progress,
        )


# What is shown


def _record(space: Workspace, warnings: Sequence[str] = ()) -> dict[str, Any]:
    status = space.status()
    labels = status.labels
    return {
        "workspace": space.path,
        **entity_record(status.entity),
        "aliases": status.entity.aliases,
        "documents": status.n_documents,
        "mentions": status.n_mentions,
        "collected": status.is_collected,
        "labels": {
            "labelled": labels.n_labelled,
            "entity": labels.n_emerging,
            "other": labels.n_other,
            "none": labels.n_none,
            "skipped": labels.n_skipped,
        },
        "packs": status.packs,
        "outdated": status.outdated or None,
        "verdict": status.verdict,
        "stage": status.stage,
        "next": status.next_step,
        "warnings": warnings,
    }


def _status_table(spaces: Sequence[Workspace], *, is_one: bool) -> Table:
    """Show where a workspace stands, or where many do, one a line."""
    if not is_one:
        rows = []
        for space in spaces:
            s = space.status()
            counts = (f"{n:,}" for n in (s.n_documents, s.n_mentions, s.labels.n_labelled))
            rows.append((space.path, s.entity.id, s.entity.external_id, *counts, s.stage))
        headings = ("Workspace", "Entity", "Id", ">Documents", ">Mentions", ">Labels", "Next")
        return bare_table(*headings, rows=rows)
    status = spaces[0].status()
    labels, entity = status.labels, status.entity
    mentions = count_of(status.n_mentions, "candidate mention")
    return named_values(
        [
            ("Entity", entity.id),
            *((name.capitalize(), value) for name, value in entity.identity.items()),
            ("Description", entity.description),
            ("Aliases", ", ".join(entity.aliases)),
            ("Documents", f"{status.n_documents:,} with {mentions}"),
            (
                "Labels",
                f"{labels.n_labelled} ({labels.n_emerging} the entity, {labels.n_other} another, "
                f"{labels.n_none} none of these; {labels.n_skipped} skipped)",
            ),
            ("Packs", ", ".join(status.packs) or "none yet"),
            ("Next", status.next_step),
        ]
    )


@contextmanager
def collect_view(title: str) -> Iterator[collecting.OnCollect]:
    """Show how far collecting is, while it runs."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[kept]:,} kept of {task.fields[read]:,}"),
    )
    console = Console(stderr=True)
    with progress_view(console, escape(title), *columns, total=1.0, kept=0, read=0) as update:
        yield lambda reached: update(reached.share, kept=reached.n_kept, read=reached.n_read)


def collected_table(collected: collecting.Collected) -> Table:
    """Show what was kept, and why the rest was not."""
    kept = f"kept, with {count_of(collected.n_mentions, 'candidate mention')}"
    rows: list[tuple[object, ...]] = [(Text(f"{collected.n_kept:,}", style="bold"), kept)]
    for reason, count in collected.skipped.items():
        where, text = collected.examples.get(reason), Text(reason)
        if where is not None and reason != "contains no alias":
            text.append(f" (first: {printable(where)})", style="dim")
        rows.append((f"{count:,}", text))
    for reason, count in collected.mended.items():
        rows.append((f"{count:,}", Text(f"{reason} (kept)", style="dim")))
    return bare_table(">", "", rows=rows, show_header=False)


def collected_view(spaces: Sequence[Workspace], collected: Sequence[collecting.Collected]) -> Table:
    """Show what was kept: of one workspace and why the rest was not, or of many, one a line."""
    if len(spaces) == 1:
        return collected_table(collected[0])
    rows = []
    for space, one in zip(spaces, collected, strict=True):
        counts = (one.n_kept, one.n_new, one.n_mentions, one.skipped.get(collecting.COPY, 0))
        rows.append((space.path, space.entity.id, *(f"{n:,}" for n in counts)))
    headings = ("Workspace", "Entity", ">Kept", ">New", ">Mentions", ">Copies")
    return bare_table(*headings, rows=rows)


def _warn(spaces: Sequence[Workspace], warnings: Sequence[Sequence[str]]) -> None:
    for space, lines in zip(spaces, warnings, strict=True):
        for line in lines:
            warn(f"{space.path}: {line}" if len(spaces) > 1 else line)
