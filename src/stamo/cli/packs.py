"""`stamo packs`: look after folders of packs; `stamo history`: the versions of one's own pack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from rich.text import Text
from typer import Argument, Option

from stamo.cli import AsJson, SpacePath
from stamo.cli.output import bare_table, command_group, named_values, show
from stamo.cli.workspaces import entity_record
from stamo.errors import PackError
from stamo.kb.base import KnowledgeBase
from stamo.packs.folder import PackEntry, PackFolder
from stamo.packs.pack import EntityPack, read_bytes
from stamo.workspace.folder import Workspace

Packs = Annotated[Path, Argument(metavar="PACKS", help="Folder of packs.")]
PackPath = Annotated[Path, Argument(metavar="PACK", help="File of a pack.")]
PackName = Annotated[
    str, Argument(metavar="NAME", help="The entity's name or id, or the key that `list` shows.")
]


def _pack_record(pack: EntityPack) -> dict[str, Any]:
    return {
        **entity_record(pack.entity),
        "priors": dict(zip(pack.entity.aliases, map(float, pack.priors), strict=True)),
        "kb": pack.kb_fingerprint,
        "model": pack.model_fingerprint,
        "learned_from": pack.description,
        "notes": dict(pack.notes),
        "fingerprint": pack.fingerprint,
    }


def _entry_record(entry: PackEntry) -> dict[str, Any]:
    record: dict[str, Any] = {"key": entry.key, "path": entry.path}
    return record | (_pack_record(entry.pack) if entry.pack else {"problem": entry.problem})


def list_packs(packs: Packs, as_json: AsJson = False) -> None:
    """List the packs of a folder; damaged ones with what is wrong."""
    entries = PackFolder.existing(packs).entries()
    rows: list[tuple[object, ...]] = []
    for entry in entries:
        if entry.pack is None:
            rows.append((entry.key, Text(entry.problem, style="red")))
            continue
        entity, by = entry.pack.entity, entry.pack.notes.get("labelled by", "")
        names = (entity.id, entity.external_id, ", ".join(entity.aliases))
        rows.append((entry.key, *names, by))
    table = bare_table("Key", "Entity", "Id", "Aliases", "Labels", rows=rows)
    table.columns[0].overflow = "fold"  # a key that is cut is none
    none = f"There is no pack in {packs}; put one there with: stamo packs add {packs} PACK"
    show(list(map(_entry_record, entries)), [table if entries else none], as_json=as_json)


def inspect(pack: PackPath, as_json: AsJson = False) -> None:
    """Show what a pack holds.

    In Python: `stamo.EntityPack.load(pack)`.
    """
    loaded = EntityPack.load(pack)
    entity = loaded.entity
    order = sorted(zip(loaded.relatedness.tolist(), loaded.titles, strict=True), reverse=True)
    related = {title: value for value, title in order[:8]}
    record = _pack_record(loaded) | {"related": related}
    rows = [
        ("Entity", entity.id),
        *((name.capitalize(), value) for name, value in entity.identity.items()),
        ("Description", entity.description),
        ("Prior", ", ".join(f"{alias} {p:.2f}" for alias, p in record["priors"].items())),
        ("Most related", ", ".join(f"{title} {r:.2f}" for title, r in related.items())),
        ("Vector", f"{len(loaded.vector)} dimensions"),
        ("Knowledge base", loaded.kb_fingerprint),
        ("Model", loaded.model_fingerprint),
        ("Learned", loaded.description),
        *((name.capitalize(), note) for name, note in loaded.notes.items()),
        ("Fingerprint", loaded.fingerprint),
    ]
    show(record, [named_values(rows)], as_json=as_json)


def add(packs: Packs, pack: PackPath, as_json: AsJson = False) -> None:
    """Put a pack into a folder."""
    entry = PackFolder(packs).add(read_bytes(pack))
    show(_entry_record(entry), [str(entry.path)], as_json=as_json)


def replace(packs: Packs, pack: PackPath, as_json: AsJson = False) -> None:
    """Put a pack into a folder in place of the entity's former one."""
    entry = PackFolder(packs).add(read_bytes(pack), replace=True)
    show(_entry_record(entry), [str(entry.path)], as_json=as_json)


def remove(packs: Packs, name: PackName, as_json: AsJson = False) -> None:
    """Take a pack out of a folder; nothing else changes."""
    folder = PackFolder.existing(packs)
    found = [
        entry.key
        for entry in folder.entries()
        if entry.pack and name in (entry.pack.entity.id, entry.pack.entity.external_id)
    ]
    if len(found) > 1:
        raise PackError(f"Several packs are called {name!r}; give the key: {', '.join(found)}.")
    key = found[0] if found else name
    folder.remove(key)
    show({"removed": key}, [f"Removed {key}."], as_json=as_json)


def list_versions(workspace: SpacePath, as_json: AsJson = False) -> None:
    """List the versions of a workspace's pack: each one that was learned."""
    found = Workspace.open(workspace).pack_versions()
    rows = [
        (
            version.number,
            "current" if version.is_current else "",
            f"{version.written_at:%Y-%m-%d %H:%M}",
            version.fingerprint[:12],
            Text(version.problem, style="red") if version.problem else version.description,
        )
        for version in found
    ]
    table = bare_table(">Version", "", "Written", "Fingerprint", "", rows=rows)
    none = "No version yet: `stamo learn` writes the first one."
    show(found, [table if found else none], as_json=as_json)


def rollback(
    workspace: SpacePath,
    version: int = Argument(..., metavar="VERSION", help="As `list` shows it."),
    as_json: AsJson = False,
) -> None:
    """Make an earlier version of a workspace's pack the current one."""
    space = Workspace.open(workspace)
    pack = space.restore_pack(version)
    record = {"path": space.pack_path, "version": version} | _pack_record(pack)
    show(record, [f"{space.pack_path} is version {version} again."], as_json=as_json)


def graduate(
    pack: PackPath,
    kb: Path = Argument(..., metavar="KB", help="A later knowledge base."),
    title: str | None = Option(None, help="The entity's title there; the pack's name by default."),
    learned_with: Path | None = Option(None, "--learned-with", help="The one of the pack."),
    as_json: AsJson = False,
) -> None:
    """Compare what was learned with a later knowledge base that knows the entity."""
    from stamo.workspace.scored import compare_with_kb

    former = None if learned_with is None else KnowledgeBase.open(learned_with)
    loaded, later = EntityPack.load(pack), KnowledgeBase.open(kb)
    compared = compare_with_kb(loaded, later, title=title, former=former)
    rows: list[tuple[object, ...]] = [("id", "", compared.id)] if compared.id else []
    for prior in compared.priors:
        known = "unknown" if prior.later is None else f"{prior.later:.2f}"
        rows.append((f"P({compared.title} | {prior.alias})", f"{prior.learned:.2f}", known))
    if compared.cosine is not None:
        rows.append(("cosine of the vectors", "", f"{compared.cosine:.2f}"))
    if compared.n_related:
        shared = f"{len(compared.shared)} of {compared.n_related}"
        rows.append(("most related in both", "", shared))
        rows.append((Text("  " + ", ".join(compared.shared), style="dim"), "", ""))
    show(compared, [bare_table("", ">learned", ">later", rows=rows)], as_json=as_json)


packs = command_group(
    "Look after folders of entity packs.", list_packs, inspect, add, replace, remove, graduate
)
history = command_group("Go back to an earlier pack of one entity.", list_versions, rollback)
