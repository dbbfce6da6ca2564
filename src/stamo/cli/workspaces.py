"""The commands new, status, collect and update; and which workspaces a command is meant for."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from stamo.cli import (
    AsJson,
    Engine,
    EngineOption,
    MasterOption,
    TextColumnOption,
    check_engine,
    start_engine,
)
from stamo.cli.output import Console, bare_table, named_values, progress_view, show, warn
from stamo.corpus.types import MAX_DESCRIPTION, EmergingEntity
from stamo.errors import CorpusFormatError, SettingsError, StamoError, need
from stamo.workspace.wording import count_of, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stamo.corpus.reading import ReadFiles
    from stamo.workspace.collect import Collected, CollectSettings, OnCollect
    from stamo.workspace.folder import Artifacts, Workspace
    from stamo.workspace.scored import PackChange
    from stamo.workspace.verdict import Verdict

_Result = TypeVar("_Result")

NOTHING_KEPT = 3
"""The exit code of a command that ran to its end and found nothing to keep."""
GO_ON = "The same command without --fresh goes on where it stopped."

Folders = Annotated[
    list[Path],
    Argument(metavar="WORKSPACE...", help="Folders of new entities, or a folder of them."),
]
KbOption = Annotated[
    Path | None, Option("--kb", help="Knowledge base; that of collecting by default.")
]
ModelOption = Annotated[
    Path | None, Option("--model", help="Linking model; that of collecting by default.")
]


def open_all(paths: Sequence[Path]) -> list[Workspace]:
    """Open workspaces; a folder that holds workspaces stands for all that are not damaged.

    Raises:
        WorkspaceError: One is missing or damaged.
    """
    from stamo.workspace.folder import Workspace, workspace_folders

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


def for_each(
    spaces: Sequence[Workspace], work: Callable[[Workspace], _Result]
) -> list[tuple[Workspace, _Result]]:
    """Do something for each workspace; one of many that fails says why and the others go on.

    Raises:
        StamoError: There is one workspace, and it fails.
    """
    done = []
    for space in spaces:
        try:
            done.append((space, work(space)))
        except StamoError as error:
            if len(spaces) == 1:
                raise
            warn(f"{space.path}: {error}")
    return done


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
        None, metavar="WORKSPACE", help="Folder of the new entity; with --from, of all of them."
    ),
    name: str | None = Argument(None, metavar="NAME", help="What the entity is called."),
    alias: list[str] | None = Option(
        None, help="A name that texts use, at most ten; NAME itself is one if it fits."
    ),
    description: str = Option(
        "", help="What it is in a sentence, or @FILE that says it: strong where labels are few."
    ),
    id: str = Option("", "--id", help="Its id elsewhere, such as Q29584."),
    type: str = Option("", "--type", help="What kind of thing it is."),
    url: str = Option("", "--url", help="A page about it."),
    table: Path | None = Option(
        None, "--from", help="CSV with name, aliases (a|b), description, id, type, url, folder."
    ),
    kb: Path | None = Option(None, "--kb", help="Look the names up in this knowledge base."),
    who: str = Option("", help="Who starts it."),
    as_json: AsJson = False,
) -> None:
    """Start the workspace of an emerging entity, or those of a table.

    In Python: `stamo.Workspace.create(path, entity, created_by=who, at=now)`.
    """
    from stamo.kb.base import KnowledgeBase
    from stamo.workspace.entities import create_workspaces, name_warnings, read_entity_list
    from stamo.workspace.folder import Workspace

    by, at, said = who or user_name(), datetime.now(UTC), ""
    base = None if kb is None else KnowledgeBase.open(kb)  # before anything is made
    if table is not None:
        if name is not None or alias or description or id or type or url:
            raise SettingsError("A table with --from names the entities itself; give the folder.")
        entities = read_entity_list(table)
        made, old = create_workspaces(workspace or Path(), entities, created_by=by, at=at)
        spaces, n_there = [*made, *old], len(old)
        said = count_of(len(made), "new workspace")
        there = f", {n_there} {'was' if n_there == 1 else 'were'} there already"
        said += f"{there if n_there else ''}."
    else:
        if workspace is None or name is None:
            raise SettingsError("Give the folder and the name: stamo new WORKSPACE NAME.")
        entity = EmergingEntity.named(
            name,
            alias or (),
            description=_description(description),
            external_id=id,
            type=type,
            url=url,
        )
        spaces = [Workspace.create(workspace, entity, created_by=by, at=at)]
    known = [[] if base is None else name_warnings(space.entity, base) for space in spaces]
    view: list[RenderableType] = [_status_table(spaces, is_one=table is None)]
    view += [said] if said else []
    show(list(map(_record, spaces, known)), view, as_json=as_json)
    if not as_json:
        _warn(spaces, known)


def status(
    workspaces: list[Path] | None = Argument(
        None, metavar="[WORKSPACE]...", help="Workspaces, or folders of them; here."
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
    source: list[str] | None = Option(
        None, "--from", help="Texts, JSON lines, HTML, WARC, folders, or - for stdin."
    ),
    kb: KbOption = None,
    model: ModelOption = None,
    fresh: bool = Option(False, "--fresh", help="Forget what was collected."),
    casefold: bool = Option(False, "--casefold", help="Find aliases in any case."),
    most: int | None = Option(None, min=1, help="Stop after this many kept documents of each."),
    text_column: TextColumnOption = "",
    engine: EngineOption = Engine.embedded,
    master: MasterOption = None,
    as_json: AsJson = False,
) -> None:
    """Collect documents that mention the entities' names and link their other mentions.

    All workspaces are fed in one pass over the documents.
    """
    from stamo.integrations.spark.jobs import spark_reader
    from stamo.workspace.collect import CollectSettings
    from stamo.workspace.folder import open_artifacts

    spaces = open_all(workspaces)
    settings = CollectSettings(casefold=casefold, max_documents=most, text_column=text_column)
    check_engine(engine, master=master)
    try:
        with start_engine(engine, master, spark_reader) as reader:
            artifacts = open_artifacts(spaces, kb, model)
            collected, warnings = _collect_all(
                spaces, source or [], artifacts, settings, fresh=fresh, reader=reader
            )
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(GO_ON) from stop
    records = [
        _record(space, lines) | {"collected": one}
        for space, lines, one in zip(spaces, warnings, collected, strict=True)
    ]
    show(records, [_collected_view(spaces, collected)], as_json=as_json)
    if not as_json:
        _warn(spaces, warnings)
        show(None, [spaces[0].status().next_step] if len(spaces) == 1 else [], as_json=False)
    if not any(one.n_kept for one in collected):
        raise typer.Exit(NOTHING_KEPT)


def update(
    workspaces: Folders,
    source: list[str] = Option(..., "--from", help="New documents, as `collect` takes them."),
    kb: KbOption = None,
    model: ModelOption = None,
    folds: int | None = Option(
        None, help="Parts for cross-validation, 0 for none; as before if not."
    ),
    text_column: TextColumnOption = "",
    as_json: AsJson = False,
) -> None:
    """Add new documents to piles, learn again, and say what the packs decide otherwise."""
    need("torch", "torch", "Learning")  # told before anything is collected
    from stamo.workspace.collect import CollectSettings
    from stamo.workspace.folder import open_artifacts

    spaces = open_all(workspaces)
    artifacts = open_artifacts(spaces, kb, model)
    taken = CollectSettings(text_column=text_column)
    collected, _ = _collect_all(spaces, source, artifacts, taken)
    n_new = {s.path: one.n_new for s, one in zip(spaces, collected, strict=True) if one.n_new}
    changed = [space for space in spaces if space.path in n_new]
    done = for_each(changed, lambda space: _learn_again(space, artifacts, folds))
    records = [
        {
            "workspace": space.path,
            "entity": space.entity.id,
            "new_documents": n_new[space.path],
            "version": version,
            "change": change,
            "verdict": verdict,
        }
        for space, (version, change, verdict) in done
    ]
    show(records, _update_view(spaces, collected, done, n_new), as_json=as_json)
    if not changed:
        warn("Nothing new was kept: the packs stay as they are.")
        raise typer.Exit(NOTHING_KEPT)
    if len(done) < len(changed):
        raise typer.Exit(1)


def _collect_all(
    spaces: Sequence[Workspace],
    sources: Sequence[str],
    artifacts: Artifacts,
    settings: CollectSettings,
    *,
    fresh: bool = False,
    reader: ReadFiles | None = None,
) -> tuple[list[Collected], list[list[str]]]:
    """Collect for workspaces, with a bar; return what was collected and what to worry about."""
    from stamo.corpus.reading import read_files
    from stamo.workspace.collect import collect as collect_documents
    from stamo.workspace.entities import name_warnings, pile_warnings

    title = spaces[0].entity.id if len(spaces) == 1 else f"{len(spaces)} entities"
    warnings = [name_warnings(space.entity, artifacts.kb) for space in spaces]
    with collect_view(Console(stderr=True), f"Collecting {title}") as on_progress:
        collected = collect_documents(
            spaces,
            sources,
            artifacts.kb,
            artifacts.trained,
            settings,
            origin=artifacts.origin,
            fresh=fresh,
            read=reader or read_files,
            on_progress=on_progress,
        )
    for lines, space, one in zip(warnings, spaces, collected, strict=True):
        lines += pile_warnings(space.entity, one)
    return collected, warnings


def _learn_again(
    space: Workspace, artifacts: Artifacts, n_folds: int | None
) -> tuple[int, PackChange | None, Verdict]:
    """Learn a workspace as the last time; return its version, what changed and the verdict."""
    from stamo.cli.learn import learn_view
    from stamo.workspace.learn import last_settings, learn_pack
    from stamo.workspace.scored import compare_packs, load_comparable
    from stamo.workspace.versions import pack_versions

    kb, trained = artifacts.kb, artifacts.trained
    settings = last_settings(space)
    if n_folds is not None:
        settings = replace(settings, n_folds=n_folds)
    before = load_comparable(space.pack_path, kb, trained)
    with learn_view() as on_progress:
        learned = learn_pack(space, kb, trained, settings, on_progress=on_progress)
    version = next(v.number for v in pack_versions(space) if v.is_current)
    change = None if before is None else compare_packs(space, before, learned.pack, kb, trained)
    return version, change, learned.verdict


def _description(text: str) -> str:
    """Return a description, or the beginning of the file or web page that it names."""
    if not text.startswith("@"):
        return " ".join(text.split())
    from stamo.corpus.reading import read_documents

    document = next(iter(read_documents([text[1:]])), None)
    if document is None:
        raise CorpusFormatError(f"{text[1:]!r} holds no text about the entity; give another file.")
    return " ".join(document.text.split())[:MAX_DESCRIPTION]


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
        return bare_table(*headings, rows=rows, padding=(0, 2, 0, 0))
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
def collect_view(console: Console, title: str) -> Iterator[OnCollect]:
    """Show how far collecting is, while it runs."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[kept]:,} kept of {task.fields[read]:,}"),
    )
    with progress_view(console, escape(title), *columns, total=1.0, kept=0, read=0) as update:
        yield lambda reached: update(reached.share, kept=reached.n_kept, read=reached.n_read)


def collected_table(collected: Collected) -> Table:
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


def _collected_view(spaces: Sequence[Workspace], collected: Sequence[Collected]) -> Table:
    from stamo.workspace.collect import COPY

    if len(spaces) == 1:
        return collected_table(collected[0])
    rows = []
    for space, one in zip(spaces, collected, strict=True):
        counts = (one.n_kept, one.n_new, one.n_mentions, one.skipped.get(COPY, 0))
        rows.append((space.path, space.entity.id, *(f"{n:,}" for n in counts)))
    headings = ("Workspace", "Entity", ">Kept", ">New", ">Mentions", ">Copies")
    return bare_table(*headings, rows=rows, padding=(0, 2, 0, 0))


def _update_view(
    spaces: Sequence[Workspace],
    collected: Sequence[Collected],
    done: Sequence[tuple[Workspace, tuple[int, PackChange | None, Verdict]]],
    n_new: dict[Path, int],
) -> Iterator[RenderableType]:
    from stamo.cli.learn import verdict_view

    yield _collected_view(spaces, collected)
    for space, (version, change, verdict) in done:
        new = count_of(n_new[space.path], "new document")
        yield f"{space.entity.id}: {new}, pack version {version}."
        if change is not None:
            yield (
                f"  Of {count_of(change.n_mentions, 'mention')}, {change.n_after:,} mean it; by "
                f"the former pack {change.n_before:,} ({change.n_gained:,} gained, "
                f"{change.n_lost:,} lost)."
            )
            yield from (f"  + {line}" for line in change.gained)
            yield from (f"  - {line}" for line in change.lost)
            for alias, (before, after) in change.priors.items():
                yield f"  P({space.entity.id} | {alias}): {before:.2f} before, {after:.2f} now"
        yield verdict_view(verdict)


def _warn(spaces: Sequence[Workspace], warnings: Sequence[Sequence[str]]) -> None:
    for space, lines in zip(spaces, warnings, strict=True):
        for line in lines:
            warn(f"{space.path}: {line}" if len(spaces) > 1 else line)
