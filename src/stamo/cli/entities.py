"""The commands that begin and feed workspaces, one or many: new, status, collect, update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from stamo.cli import workspaces as views
from stamo.cli.engines import Engine, EngineOption, MasterOption, check_engine, start_engine
from stamo.cli.options import AsJson, TextColumn
from stamo.cli.tables import Console, print_json, print_table, say, warn
from stamo.cli.workspaces import Folders, KbOption, ModelOption, for_each, open_all, user_name
from stamo.corpus.types import MAX_ABOUT, EmergingEntity
from stamo.errors import CorpusFormatError, SettingsError, need
from stamo.workspace.wording import count_of

if TYPE_CHECKING:
    from stamo.corpus.readers import SourceReader
    from stamo.workspace.artifacts import Artifacts
    from stamo.workspace.folder import Workspace
    from stamo.workspace.intake import Collected, CollectSettings
    from stamo.workspace.seen import PackChange
    from stamo.workspace.verdict import Verdict

GO_ON = "The same command without --fresh goes on where it stopped."


def new(
    workspace: Path | None = Argument(
        None, metavar="WORKSPACE", help="Folder of the new entity; with --from, of all of them."
    ),
    name: str | None = Argument(None, metavar="NAME", help="What the entity is called."),
    alias: list[str] | None = Option(
        None, help="A name that texts use, at most ten; NAME itself is one if it fits."
    ),
    about: str = Option(
        "", help="A line about it, or @FILE with one: strong where labels are few."
    ),
    id: str = Option("", "--id", help="Its id elsewhere, such as Q29584."),
    type: str = Option("", "--type", help="What kind of thing it is."),
    url: str = Option("", "--url", help="A page about it."),
    table: Path | None = Option(
        None, "--from", help="CSV of entities: name, aliases (a|b), about, id, type, url, folder."
    ),
    kb: Path | None = Option(None, "--kb", help="Look the names up in this knowledge base."),
    who: str = Option("", help="Who starts it."),
    as_json: AsJson = False,
) -> None:
    """Start the workspace of an emerging entity, or those of a table."""
    from stamo.kb.base import KnowledgeBase
    from stamo.workspace.declared import create_workspaces, read_entities
    from stamo.workspace.folder import Workspace
    from stamo.workspace.foresight import weigh_names

    by, at = who or user_name(), datetime.now(UTC)
    base = None if kb is None else KnowledgeBase.open(kb)  # before anything is made
    if table is not None:
        if name is not None or alias or about or id or type or url:
            raise SettingsError("A table with --from names the entities itself; give the folder.")
        root = workspace or Path()
        created = create_workspaces(root, read_entities(table), created_by=by, at=at)
        spaces, n_new = [*created.made, *created.there], len(created.made)
    else:
        if workspace is None or name is None:
            raise SettingsError("Give the folder and the name: stamo new WORKSPACE NAME.")
        entity = EmergingEntity.named(
            name, alias or (), about=_about(about), external_id=id, type=type, url=url
        )
        spaces, n_new = [Workspace.create(workspace, entity, created_by=by, at=at)], 1
    known = [[] if base is None else weigh_names(space.entity, base) for space in spaces]
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
        print_table(views.status_table(spaces[0].status()))
    else:
        print_table(views.overview_table([(space, space.status()) for space in spaces]))


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
    text_column: TextColumn = "",
    engine: EngineOption = Engine.embedded,
    master: MasterOption = None,
    as_json: AsJson = False,
) -> None:
    """Collect documents that mention the entities' names and link their other mentions.

    All workspaces are fed in one pass over the documents.
    """
    from stamo.integrations.spark.collecting import spark_reader
    from stamo.workspace.artifacts import open_artifacts
    from stamo.workspace.intake import CollectSettings

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
        raise typer.Exit(views.NOTHING_KEPT)


def _collect_all(
    spaces: Sequence[Workspace],
    sources: Sequence[str],
    artifacts: Artifacts,
    settings: CollectSettings,
    *,
    fresh: bool = False,
    reader: SourceReader | None = None,
) -> tuple[list[Collected], list[list[str]]]:
    """Collect for workspaces, with a bar; return what was collected and what to worry about."""
    from stamo.corpus.readers import SourceReader
    from stamo.workspace.collect import collect_many
    from stamo.workspace.foresight import look_at, weigh_names

    title = spaces[0].entity.id if len(spaces) == 1 else f"{len(spaces)} entities"
    warnings = [weigh_names(space.entity, artifacts.kb) for space in spaces]
    with views.collect_view(Console(stderr=True), f"Collecting {title}") as show:
        collected = collect_many(
            spaces,
            sources,
            artifacts.kb,
            artifacts.trained,
            origin=artifacts.origin,
            settings=settings,
            fresh=fresh,
            reader=reader or SourceReader(),
            on_progress=show,
        )
    for lines, space, one in zip(warnings, spaces, collected, strict=True):
        lines += look_at(space.entity, one)
    return collected, warnings


def update(
    workspaces: Folders,
    source: list[str] = Option(..., "--from", help="New documents, as `collect` takes them."),
    kb: KbOption = None,
    model: ModelOption = None,
    folds: int | None = Option(
        None, help="Parts for cross-validation, 0 for none; as before if not."
    ),
    text_column: TextColumn = "",
    as_json: AsJson = False,
) -> None:
    """Add new documents to piles, learn again, and say what the packs decide otherwise."""
    need("torch", "torch", "Learning")  # told before anything is collected
    from stamo.cli.learn import verdict_view
    from stamo.workspace.artifacts import open_artifacts
    from stamo.workspace.intake import CollectSettings

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
        raise typer.Exit(views.NOTHING_KEPT)
    if len(done) < len(changed):
        raise typer.Exit(1)


def _learn_again(
    space: Workspace, artifacts: Artifacts, n_folds: int | None
) -> tuple[int, PackChange | None, Verdict]:
    """Learn a workspace as the last time; return its version, what changed and the verdict."""
    from stamo.cli.learn import learn_view
    from stamo.workspace.learn import last_settings, learn_pack
    from stamo.workspace.seen import compare_packs, load_comparable
    from stamo.workspace.versions import pack_versions

    kb, trained = artifacts.kb, artifacts.trained
    settings = last_settings(space)
    if n_folds is not None:
        settings = replace(settings, n_folds=n_folds)
    before = load_comparable(space.pack_path, kb, trained.fingerprint)
    with learn_view(Console(stderr=True)) as show:
        learned = learn_pack(space, kb, trained, settings, on_step=show)
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
        Console(highlight=False).print(views.collected_table(collected[0]))
    else:
        print_table(views.collected_overview(list(zip(spaces, collected, strict=True))))


def _warn(spaces: Sequence[Workspace], warnings: Sequence[Sequence[str]]) -> None:
    for space, lines in zip(spaces, warnings, strict=True):
        for line in lines:
            warn(f"{space.path}: {line}" if len(spaces) > 1 else line)


def _record(space: Workspace, warnings: Sequence[str] = ()) -> dict[str, Any]:
    status = space.status()
    entity, labels = status.entity, status.labels
    return {
        "workspace": str(space.path),
        **views.entity_record(entity),
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


def _about(text: str) -> str:
    """Return a line about an entity, or the beginning of the file or web page that it names."""
    if not text.startswith("@"):
        return " ".join(text.split())
    from stamo.corpus.readers import read_documents

    document = next(iter(read_documents([text[1:]])), None)
    if document is None:
        raise CorpusFormatError(f"{text[1:]!r} holds no text about the entity; give another file.")
    return " ".join(document.text.split())[:MAX_ABOUT]
