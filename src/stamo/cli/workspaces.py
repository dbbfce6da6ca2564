"""What the commands of workspaces share: which are meant, and what is shown of them."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from stamo.cli.engines import (
    Engine,
    EngineOption,
    MasterOption,
    check_engine,
    start_engine,
)
from stamo.cli.output import (
    AsJson,
    Console,
    TextColumnOption,
    bare_table,
    named_values,
    print_json,
    print_table,
    progress_view,
    say,
    warn,
)
from stamo.corpus.types import MAX_DESCRIPTION, EmergingEntity
from stamo.errors import CorpusFormatError, SettingsError, StamoError, need
from stamo.workspace.wording import count_of, printable

if TYPE_CHECKING:
    from stamo.corpus.reading import ReadFiles
    from stamo.corpus.types import EmergingEntity
    from stamo.packs.folder import PackEntry
    from stamo.packs.pack import EntityPack
    from stamo.workspace.collect import Collected, CollectSettings, OnCollect
    from stamo.workspace.folder import Artifacts, Status, Workspace
    from stamo.workspace.scored import PackChange
    from stamo.workspace.verdict import Verdict
    from stamo.workspace.versions import Graduation, PackVersion


_Result = TypeVar("_Result")

NOTHING_KEPT = 3
"""The exit code of a command that ran to its end and found nothing to keep."""

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


def entity_record(entity: EmergingEntity) -> dict[str, str | None]:
    """Return what is known of an entity, for programs."""
    identity = {"id": entity.external_id, "type": entity.type, "url": entity.url}
    given = {name: value or None for name, value in identity.items()}
    return {"entity": entity.id, **given, "description": entity.description}


def status_table(status: Status) -> Table:
    """Show where a workspace stands."""
    labels, entity = status.labels, status.entity
    mentions = count_of(status.n_mentions, "candidate mention")
    rows = [
        ("Entity", entity.id),
        *((name.capitalize(), value) for name, value in entity.identity.items()),
        *([("Description", entity.description)] if entity.description else []),
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
    return named_values(rows)


def overview_table(rows: Sequence[tuple[Workspace, Status]]) -> Table:
    """Show where many workspaces stand, one a line."""
    headings = ("Workspace", "Entity", "Id", ">Documents", ">Mentions", ">Labels", "Next")
    table = bare_table(*headings, padding=(0, 2, 0, 0))
    for workspace, status in rows:
        table.add_row(
            escape(str(workspace.path)),
            escape(status.entity.id),
            escape(status.entity.external_id),
            f"{status.n_documents:,}",
            f"{status.n_mentions:,}",
            f"{status.labels.n_labelled:,}",
            escape(status.stage),
        )
    return table


def collected_overview(rows: Sequence[tuple[Workspace, Collected]]) -> Table:
    """Show what many workspaces collected, one a line."""
    table = bare_table(
        "Workspace", "Entity", ">Kept", ">New", ">Mentions", ">Copies", padding=(0, 2, 0, 0)
    )
    from stamo.workspace.collect import COPY

    for workspace, collected in rows:
        numbers = (collected.n_kept, collected.n_new, collected.n_mentions)
        table.add_row(
            escape(str(workspace.path)),
            escape(workspace.entity.id),
            *(f"{n:,}" for n in (*numbers, collected.skipped.get(COPY, 0))),
        )
    return table


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
    with progress_view(console, escape(title), *columns, total=1.0, kept=0, read=0) as show:
        yield lambda reached: show(reached.share, kept=reached.n_kept, read=reached.n_read)


def collected_table(collected: Collected) -> Table:
    """Show what was kept, and why the rest was not."""
    table = bare_table(">", "", show_header=False)
    mentions = f"kept, with {count_of(collected.n_mentions, 'candidate mention')}"
    table.add_row(f"[bold]{collected.n_kept:,}[/]", mentions)
    for reason, count in collected.skipped.items():
        where = collected.examples.get(reason)
        text = Text(reason)
        if where is not None and reason != "contains no alias":
            text.append(f" (first: {printable(where)})", style="dim")
        table.add_row(f"{count:,}", text)
    for reason, count in collected.mended.items():
        table.add_row(f"{count:,}", Text(f"{reason} (kept)", style="dim"))
    return table


def packs_table(entries: Sequence[PackEntry]) -> Table:
    """Show the packs of a folder; damaged ones with their problem."""
    table = bare_table("Key", "Entity", "Id", "Aliases", "Knowledge base", "Labels")
    table.columns[0].no_wrap = True
    for entry in entries:
        if entry.pack is None:
            table.add_row(escape(entry.key), Text(entry.problem, style="red"))
            continue
        pack = entry.pack
        entity = pack.entity
        names = map(escape, (entity.id, entity.external_id, ", ".join(entity.aliases)))
        by = escape(pack.notes.get("labelled by", ""))
        table.add_row(escape(entry.key), *names, pack.kb_fingerprint[:12], by)
    return table


def versions_table(versions: Sequence[PackVersion]) -> Table:
    """Show the versions of a pack; the current one is marked."""
    table = bare_table(">Version", "", "Written", "Fingerprint", "")
    for version in versions:
        at = f"{version.written_at:%Y-%m-%d %H:%M}"
        mark = "current" if version.is_current else ""
        said = Text(version.problem, style="red") if version.problem else Text(version.description)
        table.add_row(str(version.number), mark, at, version.fingerprint[:12], said)
    return table


def pack_table(pack: EntityPack, related: Sequence[tuple[str, float]]) -> Table:
    """Show what a pack holds."""
    priors = zip(pack.entity.aliases, pack.priors.tolist(), strict=True)
    rows = [
        ("Entity", pack.entity.id),
        *((name.capitalize(), value) for name, value in pack.entity.identity.items()),
        *([("Description", pack.entity.description)] if pack.entity.description else []),
        ("Prior", ", ".join(f"{alias} {p:.2f}" for alias, p in priors)),
        ("Most related", ", ".join(f"{title} {r:.2f}" for title, r in related)),
        ("Vector", f"{len(pack.vector)} dimensions"),
        ("Knowledge base", pack.kb_fingerprint),
        ("Model", pack.model_fingerprint),
        ("Description", pack.description),
        *((name.capitalize(), note) for name, note in pack.notes.items()),
        ("Fingerprint", pack.fingerprint),
    ]
    return named_values(rows)


def graduation_table(compared: Graduation) -> Table:
    """Show what was learned beside what a later knowledge base counted."""
    table = bare_table("", ">learned", ">later")
    if compared.id:
        table.add_row("id", "", escape(compared.id))
    for prior in compared.priors:
        later = "unknown" if prior.later is None else f"{prior.later:.2f}"
        table.add_row(escape(f"P({compared.title} | {prior.alias})"), f"{prior.learned:.2f}", later)
    if compared.cosine is not None:
        table.add_row("cosine of the vectors", "", f"{compared.cosine:.2f}")
    if compared.n_related:
        shared = f"{len(compared.shared)} of {compared.n_related}"
        table.add_row("most related in both", "", shared)
        if compared.shared:
            table.add_row(Text("  " + ", ".join(compared.shared), style="dim"), "", "")
    return table


GO_ON = "The same command without --fresh goes on where it stopped."


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
        None,
        "--from",
        help="CSV with name, aliases (a|b), description, id, type, url, folder.",
    ),
    kb: Path | None = Option(None, "--kb", help="Look the names up in this knowledge base."),
    who: str = Option("", help="Who starts it."),
    as_json: AsJson = False,
) -> None:
    """Start the workspace of an emerging entity, or those of a table."""
    from stamo.kb.base import KnowledgeBase
    from stamo.workspace.entities import create_workspaces, name_warnings, read_entity_list
    from stamo.workspace.folder import Workspace

    by, at = who or user_name(), datetime.now(UTC)
    base = None if kb is None else KnowledgeBase.open(kb)  # before anything is made
    if table is not None:
        if name is not None or alias or description or id or type or url:
            raise SettingsError("A table with --from names the entities itself; give the folder.")
        root = workspace or Path()
        new_ones, old_ones = create_workspaces(root, read_entity_list(table), created_by=by, at=at)
        spaces, n_new = [*new_ones, *old_ones], len(new_ones)
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
        spaces, n_new = [Workspace.create(workspace, entity, created_by=by, at=at)], 1
    known = [[] if base is None else name_warnings(space.entity, base) for space in spaces]
    if as_json:
        print_json(list(map(_record, spaces, known)))
        return
    _print_status(spaces, is_one=table is None)
    if table is not None:
        there = len(spaces) - n_new
        more = f", {there} {'was' if there == 1 else 'were'} there already." if there else "."
        say(count_of(n_new, "new workspace") + more)
    _warn(spaces, known)


def status(
    workspaces: list[Path] | None = Argument(
        None, metavar="[WORKSPACE]...", help="Workspaces, or folders of them; here."
    ),
    as_json: AsJson = False,
) -> None:
    """Say where workspaces stand and what comes next."""
    given = workspaces or [Path()]
    spaces = open_all(given)
    if as_json:
        print_json(list(map(_record, spaces)))
    else:
        is_one = len(given) == 1 and [space.path for space in spaces] == given
        _print_status(spaces, is_one=is_one)


def _print_status(spaces: Sequence[Workspace], *, is_one: bool) -> None:
    if is_one:
        print_table(status_table(spaces[0].status()))
    else:
        print_table(overview_table([(space, space.status()) for space in spaces]))


def collect(
    workspaces: Folders,
    source: list[str] | None = Option(
        None, "--from", help="Texts, JSON lines, HTML, WARC, folders, or - for stdin."
    ),
    kb: KbOption = None,
    model: ModelOption = None,
    fresh: bool = Option(False, "--fresh", help="Forget what was collected."),
    casefold: bool = Option(False, "--casefold", help="Find aliases in any case."),
    most: int | None = Option(None, min=1, help="Stop after so many kept documents of each."),
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
    if as_json:
        records = map(_record, spaces, warnings)
        print_json([r | {"collected": asdict(c)} for r, c in zip(records, collected, strict=True)])
    else:
        _show_collected(spaces, collected)
        _warn(spaces, warnings)
        if len(spaces) == 1:
            say(spaces[0].status().next_step)
    if not any(one.n_kept for one in collected):
        raise typer.Exit(NOTHING_KEPT)


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
    with collect_view(Console(stderr=True), f"Collecting {title}") as show:
        collected = collect_documents(
            spaces,
            sources,
            artifacts.kb,
            artifacts.trained,
            settings,
            origin=artifacts.origin,
            fresh=fresh,
            read=reader or read_files,
            on_progress=show,
        )
    for lines, space, one in zip(warnings, spaces, collected, strict=True):
        lines += pile_warnings(space.entity, one)
    return collected, warnings


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
    from stamo.cli.learn import verdict_view
    from stamo.workspace.collect import CollectSettings
    from stamo.workspace.folder import open_artifacts

    spaces = open_all(workspaces)
    artifacts = open_artifacts(spaces, kb, model)
    taken = CollectSettings(text_column=text_column)
    collected, _ = _collect_all(spaces, source, artifacts, taken)
    n_new = {s.path: one.n_new for s, one in zip(spaces, collected, strict=True) if one.n_new}
    changed = [space for space in spaces if space.path in n_new]
    done = for_each(changed, lambda space: _learn_again(space, artifacts, folds))
    if as_json:
        print_json(
            [
                {
                    "workspace": str(space.path),
                    "entity": space.entity.id,
                    "new_documents": n_new[space.path],
                    "version": version,
                    "change": None if change is None else asdict(change),
                    "verdict": verdict.to_json(),
                }
                for space, (version, change, verdict) in done
            ]
        )
    else:
        _show_collected(spaces, collected)
        for space, (version, change, verdict) in done:
            _show_change(space, n_new[space.path], version, change)
            Console(highlight=False).print(verdict_view(verdict))
    if not changed:
        warn("Nothing new was kept: the packs stay as they are.")
        raise typer.Exit(NOTHING_KEPT)
    if len(done) < len(changed):
        raise typer.Exit(1)


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
    before = load_comparable(space.pack_path, kb, trained.fingerprint)
    with learn_view(Console(stderr=True)) as show:
        learned = learn_pack(space, kb, trained, settings, on_progress=show)
    version = next(v.number for v in pack_versions(space) if v.is_current)
    change = None if before is None else compare_packs(space, before, learned.pack, kb, trained)
    return version, change, learned.verdict


def _show_change(space: Workspace, n_new: int, version: int, change: PackChange | None) -> None:
    say(f"{space.entity.id}: {count_of(n_new, 'new document')}, pack version {version}.")
    if change is None:
        return
    say(
        f"  Of {count_of(change.n_mentions, 'mention')}, {change.n_after:,} mean it; by the former "
        f"pack {change.n_before:,} ({change.n_gained:,} gained, {change.n_lost:,} lost)."
    )
    for sign, lines in (("+", change.gained), ("-", change.lost)):
        for line in lines:
            say(f"  {sign} {line}")
    for alias, (before, after) in change.priors.items():
        say(f"  P({space.entity.id} | {alias}): {before:.2f} before, {after:.2f} now")


def _show_collected(spaces: Sequence[Workspace], collected: Sequence[Collected]) -> None:
    if len(spaces) == 1:
        Console(highlight=False).print(collected_table(collected[0]))
    else:
        print_table(collected_overview(list(zip(spaces, collected, strict=True))))


def _warn(spaces: Sequence[Workspace], warnings: Sequence[Sequence[str]]) -> None:
    for space, lines in zip(spaces, warnings, strict=True):
        for line in lines:
            warn(f"{space.path}: {line}" if len(spaces) > 1 else line)


def _record(space: Workspace, warnings: Sequence[str] = ()) -> dict[str, Any]:
    status = space.status()
    entity, labels = status.entity, status.labels
    return {
        "workspace": str(space.path),
        **entity_record(entity),
        "aliases": list(entity.aliases),
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
        "packs": list(status.packs),
        "outdated": status.outdated or None,
        "verdict": status.verdict.to_json() if status.verdict else None,
        "stage": status.stage,
        "next": status.next_step,
        "warnings": list(warnings),
    }


def _description(text: str) -> str:
    """Return a description, or the beginning of the file or web page that it names."""
    if not text.startswith("@"):
        return " ".join(text.split())
    from stamo.corpus.reading import read_documents

    document = next(iter(read_documents([text[1:]])), None)
    if document is None:
        raise CorpusFormatError(f"{text[1:]!r} holds no text about the entity; give another file.")
    return " ".join(document.text.split())[:MAX_DESCRIPTION]
