"""Entities declared in a table: a CSV or TSV file with one new entity a line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from stamo.corpus.types import EmergingEntity
from stamo.errors import (
    CorpusFormatError,
    KnowledgeBaseError,
    SettingsError,
    UnknownEntityError,
    WorkspaceError,
)
from stamo.kb.base import KnowledgeBase
from stamo.packs.folder import slug
from stamo.system.files import explain_os_error
from stamo.workspace.documents import free_id
from stamo.workspace.folder import Workspace, workspace_folders
from stamo.workspace.wording import count_of

if TYPE_CHECKING:
    from stamo.workspace.collect import Collected


FLOOD_SHARE = 0.05
"""An alias in more than this share of the knowledge base's articles will flood the pile."""
LEAST_LINKED = 0.05
"""A name that is a link less often than this, where it occurs, is a common word."""
FLOOD_MENTIONS = 10_000
FEW_MENTIONS = 20


def weigh_names(entity: EmergingEntity, kb: KnowledgeBase) -> list[str]:
    """Compare a new entity with what the knowledge base knows; return sentences to consider."""
    lines = _already_there(entity, kb)
    for alias in entity.aliases:
        number = kb.alias_id(alias)
        if _is_everywhere(alias, number, kb):
            lines.append(
                f"{alias!r} is a common word of {kb.name}; it will flood the pile: leave it out or "
                "take a longer alias."
            )
            continue
        if number < 0 or not len(kb.candidates(alias).ids):
            # The name of an entity is new where the entity is.
            if alias != entity.id:
                lines.append(
                    f"No entity of {kb.name} is called {alias!r}; all its mentions will be taken "
                    "for the new entity or for none."
                )
            continue
        n_articles = int(kb.alias_documents[number])
        share = n_articles / max(kb.n_documents, 1)
        if share > FLOOD_SHARE and float(kb.link_probability[number]) < LEAST_LINKED:
            lines.append(
                f"{alias!r} stands in {share:.0%} of the articles of {kb.name} and is hardly ever "
                "a name; it will flood the pile: leave it out or take a longer alias."
            )
    return lines


def _is_everywhere(alias: str, number: int, kb: KnowledgeBase) -> bool:
    """Tell whether a name is not counted, and as a word stands in every article on average."""
    if number >= 0 and kb.alias_documents[number]:
        return False
    try:
        (word,) = kb.word_ids([alias.lower()]).tolist()
    except KnowledgeBaseError:  # built without vectors, it has no words
        return False
    return word >= 0 and int(kb.word_counts[word]) > kb.n_documents


def _already_there(entity: EmergingEntity, kb: KnowledgeBase) -> list[str]:
    if entity.external_id:
        (found,) = kb.entities_with_ids([entity.external_id]).tolist()
        if found >= 0:
            return [_known(kb, found, f"with the id {entity.external_id}")]
    try:
        found = kb.entity_id(entity.id)
    except UnknownEntityError:
        return []
    if entity.external_id and (other := kb.external_ids([found])[0]):
        return [
            f"{kb.name} has {kb.title(found)!r} with the id {other}; the new one is told apart by "
            f"its id {entity.external_id}."
        ]
    return [_known(kb, found, "by this name")]


def _known(kb: KnowledgeBase, entity: int, how: str) -> str:
    n = int(kb.entity_counts[entity])
    return (
        f"{kb.name} seems to hold the entity already {how}: {kb.title(entity)!r}, "
        f"{count_of(n, 'link')}; see `stamo show` before you teach it anew."
    )


def look_at(entity: EmergingEntity, collected: Collected) -> list[str]:
    """Look at what was collected; return sentences to consider."""
    lines = []
    if collected.n_kept and collected.n_mentions < FEW_MENTIONS:
        n = count_of(collected.n_mentions, "mention")
        lines.append(
            f"The documents hardly mention {entity.id!r}: {n}; collect from more of them before "
            "you label."
        )
    for alias, n_met in collected.mentions_by_alias.items():
        if not n_met and collected.n_kept and alias != entity.id:
            lines.append(f"The alias {alias!r} was not met once; check its spelling.")
        if n_met > FLOOD_MENTIONS:
            lines.append(
                f"The alias {alias!r} gave {n_met:,} mentions and floods the pile; leave it out, "
                "or stop earlier with --most."
            )
    return lines


_HEADINGS = ("name", "aliases", "description", "id", "type", "url", "folder")
MAX_BYTES = 50_000_000
MAX_FAULTS = 10
"""Wrong lines that are told, of any number."""
_SAFE_FOLDER = re.compile(r"[\w][\w .-]{0,99}")


@dataclass(frozen=True)
class DeclaredEntity:
    """One line of a table of entities."""

    line: int
    entity: EmergingEntity
    folder: str
    """The folder's name that was asked for; empty for one made from the entity's name."""


def read_entities(path: str | Path) -> list[DeclaredEntity]:
    """Read a table with the columns name, aliases, description, id, type, url and folder.

    Only `name` is needed. Aliases are separated by "|" or ";". The name itself is an alias too,
    as `EmergingEntity.named` says.

    Raises:
        CorpusFormatError: The file or a line of it is not of this form; the message names both.
    """
    name = Path(path).name
    text = _read(Path(path))
    first = text.partition("\n")[0]
    delimiter = max(",\t;", key=first.count)
    rows = csv.DictReader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    try:
        headings = [str(h).strip().lower() for h in rows.fieldnames or []]
        rows.fieldnames = headings
        _check_headings(name, headings)
        declared = _read_rows(name, rows)
    except csv.Error as error:
        raise CorpusFormatError(f"{name}, line {rows.line_num} is no CSV ({error}).") from error
    if not declared:
        raise CorpusFormatError(f"{name} declares no entity; give one a line under the headings.")
    return declared


def _read_rows(name: str, rows: csv.DictReader[str]) -> list[DeclaredEntity]:
    """Read all lines; what is wrong is told of all of them, so that it is repaired in one go."""
    declared, faults = [], []
    for row in rows:
        if any(str(value or "").strip() for value in row.values()):
            try:
                declared.append(_declared(name, rows.line_num, row))
            except CorpusFormatError as error:
                faults.append(str(error))
    if faults:
        more = [f"And {len(faults) - MAX_FAULTS} more lines."] if len(faults) > MAX_FAULTS else []
        raise CorpusFormatError(" ".join([*faults[:MAX_FAULTS], *more]))
    return declared


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CorpusFormatError(explain_os_error(error)) from error
    if len(data) > MAX_BYTES:
        raise CorpusFormatError(f"{path.name} has more than {MAX_BYTES:,} bytes; split the table.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorpusFormatError(f"{path.name} is not UTF-8 ({error}); convert it.") from error
    if "\0" in text:
        raise CorpusFormatError(f"{path.name} is a binary file; give a CSV or TSV table.")
    return text


def _check_headings(name: str, headings: Sequence[str]) -> None:
    unknown = [heading for heading in headings if heading not in _HEADINGS]
    if "name" not in headings or unknown or len(set(headings)) < len(headings):
        said = ", ".join(headings)[:200] or "nothing"
        raise CorpusFormatError(
            f"{name} has the headings {said}; its first line names the columns, of "
            f"{', '.join(_HEADINGS)}, each once, and `name` is needed."
        )


def _declared(file: str, line: int, row: Mapping[str | None, str | None]) -> DeclaredEntity:
    if None in row:
        raise CorpusFormatError(
            f"{file}, line {line} has more fields than headings; put quotes around commas."
        )
    fields = {column: " ".join((row.get(column) or "").split()) for column in _HEADINGS}
    aliases = [alias.strip() for alias in re.split(r"[|;]", fields["aliases"]) if alias.strip()]
    if fields["folder"] and not _SAFE_FOLDER.fullmatch(fields["folder"]):
        raise CorpusFormatError(
            f"{file}, line {line} names the folder {fields['folder']!r}; a folder has letters, "
            "digits, spaces, dots, dashes and underscores."
        )
    known = {name: fields[name] for name in ("description", "type", "url")}
    try:
        entity = EmergingEntity.named(fields["name"], aliases, external_id=fields["id"], **known)
    except SettingsError as error:
        raise CorpusFormatError(f"{file}, line {line}: {error}") from error
    return DeclaredEntity(line, entity, fields["folder"])


@dataclass(frozen=True)
class CreatedWorkspaces:
    """The workspaces of a table."""

    made: tuple[Workspace, ...]
    there: tuple[Workspace, ...]
    """Those that another run had made."""


def create_workspaces(
    root: str | Path, declared: Sequence[DeclaredEntity], *, created_by: str, at: datetime
) -> CreatedWorkspaces:
    """Make a workspace for each entity that has none in the folder yet.

    An entity has one already where its name and id are the same. Two entities of one name get
    folders of different names, by their ids.

    Raises:
        WorkspaceError: A folder is in use for something else, or an entity comes twice; nothing is
            made then.
    """
    folder = Path(root)
    held = {_key(w.entity): w for w in map(Workspace.open, workspace_folders(folder))}
    taken = {path.name.casefold() for path in folder.iterdir()} if folder.is_dir() else set()
    plan: dict[tuple[str, str], tuple[str, EmergingEntity]] = {}
    for one in declared:
        key = _key(one.entity)
        if key in plan:
            raise WorkspaceError(
                f"Line {one.line} declares {one.entity.id!r} again; give two entities of one name "
                "different ids."
            )
        if key in held:
            continue
        if one.folder.casefold() in taken:
            raise WorkspaceError(
                f"Line {one.line} asks for the folder {one.folder!r}, which is taken; name another."
            )
        name = one.folder or free_folder(one.entity, taken)
        taken.add(name.casefold())
        plan[key] = (name, one.entity)
    made = tuple(
        Workspace.create(folder / name, entity, created_by=created_by, at=at)
        for name, entity in plan.values()
    )
    there = tuple(w for one in declared if (w := held.get(_key(one.entity))) is not None)
    return CreatedWorkspaces(made, there)


def _key(entity: EmergingEntity) -> tuple[str, str]:
    return entity.id, entity.external_id


def free_folder(entity: EmergingEntity, taken: set[str]) -> str:
    """Return a short name for the folder of an entity that no other has (case does not count)."""
    name = slug(entity.id) or "entity"
    if name in taken and entity.external_id:
        name = f"{name}-{slug(entity.external_id)}".strip("-")
    return free_id(name, taken, "-")
