"""What the commands of workspaces share: which are meant, and what is shown of them."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from rich.markup import escape
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from stamo.cli.tables import Console, bare_table, named_values, progress_view, warn
from stamo.errors import StamoError
from stamo.workspace.wording import count_of, printable

if TYPE_CHECKING:
    from stamo.corpus.types import EmergingEntity
    from stamo.packs.folder import PackEntry
    from stamo.packs.pack import EntityPack
    from stamo.workspace.collect import OnCollect
    from stamo.workspace.folder import Status, Workspace
    from stamo.workspace.intake import Collected
    from stamo.workspace.lifecycle import Graduation
    from stamo.workspace.versions import PackVersion

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
    return {"entity": entity.id, **given, "about": entity.about}


def status_table(status: Status) -> Table:
    """Show where a workspace stands."""
    labels, entity = status.labels, status.entity
    mentions = count_of(status.n_mentions, "candidate mention")
    rows = [
        ("Entity", entity.id),
        *((name.capitalize(), value) for name, value in entity.identity.items()),
        *([("About", entity.about)] if entity.about else []),
        ("Aliases", ", ".join(entity.aliases)),
        ("Documents", f"{status.n_documents:,} with {mentions}"),
        (
            "Labels",
            f"{labels.n_labelled} ({labels.n_emerging} the entity, {labels.n_other} another, "
            f"{labels.n_none} none of these; {labels.n_skipped} skipped)",
        ),
        ("Slots", str(status.n_slots)),
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
    from stamo.workspace.intake import COPY

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
        *([("About", pack.entity.about)] if pack.entity.about else []),
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
