"""`stamo packs`: list, inspect, add, replace, remove and graduate entity packs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from stamo.cli.output import AsJson, Console, command_group, print_json, print_table, say, tell
from stamo.cli.workspaces import (
    entity_record,
    graduation_table,
    pack_table,
    packs_table,
    versions_table,
)

if TYPE_CHECKING:
    from stamo.packs.folder import PackEntry
    from stamo.packs.pack import EntityPack

Packs = Annotated[Path, Argument(metavar="PACKS", help="Folder of packs.")]
PackPath = Annotated[Path, Argument(metavar="PACK", help="File of a pack.")]
PackKey = Annotated[str, Argument(metavar="KEY", help="Key of a pack, as `list` shows it.")]


def _entry_record(entry: PackEntry) -> dict[str, Any]:
    pack = entry.pack
    record: dict[str, Any] = {"key": entry.key, "path": str(entry.path)}
    return record | ({"problem": entry.problem} if pack is None else _pack_record(pack))


def _pack_record(pack: EntityPack) -> dict[str, Any]:
    entity = pack.entity
    return {
        **entity_record(entity),
        "priors": dict(zip(entity.aliases, map(float, pack.priors), strict=True)),
        "kb": pack.kb_fingerprint,
        "model": pack.model_fingerprint,
        "description": pack.description,
        "notes": dict(pack.notes),
        "fingerprint": pack.fingerprint,
    }


def list_packs(packs: Packs, as_json: AsJson = False) -> None:
    """List the packs of a folder; damaged ones with what is wrong."""
    from stamo.packs.folder import PackFolder

    entries = PackFolder.existing(packs).entries()
    if as_json:
        print_json([_entry_record(entry) for entry in entries])
    elif entries:
        print_table(packs_table(entries))
    else:
        say(f"There is no pack in {packs}; put one there with: stamo packs add {packs} PACK")


def inspect(pack: PackPath, as_json: AsJson = False) -> None:
    """Show what a pack holds."""
    from stamo.packs.pack import EntityPack

    loaded = EntityPack.load(pack)
    order = sorted(zip(loaded.relatedness.tolist(), loaded.titles, strict=True), reverse=True)
    related = [(title, value) for value, title in order[:8]]
    if as_json:
        print_json(_pack_record(loaded) | {"related": dict(related)})
        return
    Console(highlight=False).print(pack_table(loaded, related))


def add(packs: Packs, pack: PackPath, as_json: AsJson = False) -> None:
    """Put a pack into a folder."""
    _put(packs, pack, replace=False, as_json=as_json)


def replace(packs: Packs, pack: PackPath, as_json: AsJson = False) -> None:
    """Put a pack into a folder in place of the entity's former one."""
    _put(packs, pack, replace=True, as_json=as_json)


def _put(packs: Path, pack: Path, *, replace: bool, as_json: bool) -> None:
    from stamo.packs.folder import PackFolder
    from stamo.packs.pack import read_bytes

    entry = PackFolder(packs).add(read_bytes(pack), replace=replace)
    tell(f"{entry.path}", _entry_record(entry), as_json=as_json)


def remove(packs: Packs, key: PackKey, as_json: AsJson = False) -> None:
    """Take a pack out of a folder; nothing else changes."""
    from stamo.packs.folder import PackFolder

    PackFolder.existing(packs).remove(key)
    tell(f"Removed {key}.", {"removed": key}, as_json=as_json)


SpacePath = Annotated[
    Path, Argument(metavar="WORKSPACE", help="Workspace that the pack was learned in.")
]


def versions(workspace: SpacePath, as_json: AsJson = False) -> None:
    """List the versions of a workspace's pack: each one that was learned."""
    from stamo.workspace.folder import Workspace
    from stamo.workspace.versions import pack_versions

    found = pack_versions(Workspace.open(workspace))
    if as_json:
        print_json(
            [
                asdict(v) | {"path": str(v.path), "written_at": v.written_at.isoformat()}
                for v in found
            ]
        )
    elif found:
        print_table(versions_table(found))
    else:
        say("No version yet: `stamo learn` writes the first one.")


def rollback(
    workspace: SpacePath,
    version: int = Argument(..., metavar="VERSION", help="As `versions` shows it."),
    as_json: AsJson = False,
) -> None:
    """Make an earlier version of a workspace's pack the current one."""
    from stamo.workspace.folder import Workspace
    from stamo.workspace.versions import restore_version

    space = Workspace.open(workspace)
    pack = restore_version(space, version)
    record = {"path": str(space.pack_path), "version": version} | _pack_record(pack)
    tell(f"{space.pack_path} is version {version} again.", record, as_json=as_json)


def graduate(
    pack: PackPath,
    kb: Path = Argument(..., metavar="KB", help="A later knowledge base."),
    title: str | None = Option(None, help="The entity's title there; the pack's name by default."),
    learned_with: Path | None = Option(
        None, "--learned-with", help="The knowledge base of the pack."
    ),
    as_json: AsJson = False,
) -> None:
    """Compare what was learned with a later knowledge base that knows the entity."""
    from stamo.kb.base import KnowledgeBase
    from stamo.packs.pack import EntityPack
    from stamo.workspace.versions import compare_with_kb

    former = None if learned_with is None else KnowledgeBase.open(learned_with)
    compared = compare_with_kb(
        EntityPack.load(pack), KnowledgeBase.open(kb), title=title, former=former
    )
    if as_json:
        print_json(asdict(compared))
        return
    Console(highlight=False).print(graduation_table(compared))


packs = command_group(
    "Look after entity packs.",
    *(list_packs, inspect, add, replace, remove, versions, rollback, graduate),
)
