"""New entities: a table with one a line becomes workspaces, and names that will not do are told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from stamo.corpus.tables import RowError, read_rows
from stamo.corpus.types import EmergingEntity
from stamo.errors import (
    CorpusFormatError,
    SettingsError,
    UnknownEntityError,
    WorkspaceError,
)
from stamo.kb.base import KnowledgeBase
from stamo.packs.folder import slug
from stamo.system.files import explain_os_error
from stamo.system.streams import in_utf8
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


def name_warnings(entity: EmergingEntity, kb: KnowledgeBase) -> list[str]:
    """Compare a new entity with what the knowledge base knows; return sentences to consider."""
    lines = []
    found, how, own = -1, f"with the id {entity.external_id}", entity.external_id
    if own:
        (found,) = kb.entities_with_ids([own]).tolist()
    if found < 0:
        with suppress(UnknownEntityError):
            found, how = kb.entity_id(entity.id), "by this name"
    other = kb.external_ids([found])[0] if found >= 0 and own else ""
    if found >= 0 and other and other != own:
        lines.append(
            f"{kb.name} has {kb.title(found)!r} with the id {other}; the new one is told apart by "
            f"its id {own}."
        )
    elif found >= 0:
        n = count_of(int(kb.entity_counts[found]), "link")
        lines.append(
            f"{kb.name} seems to hold the entity already {how}: {kb.title(found)!r}, {n}; see "
            "`stamo show` before you teach it anew."
        )
    for alias in entity.aliases:
        number = kb.alias_id(alias)
        n_articles = int(kb.alias_documents[number]) if number >= 0 else 0
        share = n_articles / max(kb.n_documents, 1)
        is_word = False
        if kb.dimensions and not n_articles:  # built without vectors, it has no words
            (word,) = kb.word_ids([alias.lower()]).tolist()
            is_word = word >= 0 and int(kb.word_counts[word]) > kb.n_documents
        if is_word:
            lines.append(
                f"{alias!r} is a common word of {kb.name}; it will flood the pile: leave it out or "
                "take a longer alias."
            )
        elif number < 0 or not len(kb.candidates(alias).ids):
            if alias != entity.id:  # the name of an entity is new where the entity is
                lines.append(
                    f"No entity of {kb.name} is called {alias!r}; all its mentions will be taken "
                    "for the new entity or for none."
                )
        elif share > FLOOD_SHARE and float(kb.link_probability[number]) < LEAST_LINKED:
            lines.append(
                f"{alias!r} stands in {share:.0%} of the articles of {kb.name} and is hardly ever "
                "a name; it will flood the pile: leave it out or take a longer alias."
            )
    return lines


def pile_warnings(entity: EmergingEntity, collected: Collected) -> list[str]:
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
class ListedEntity:
    """One line of a table of entities."""

    line: int
    entity: EmergingEntity
    folder: str
    """The folder's name that was asked for; empty for one made from the entity's name."""


def read_entity_list(path: str | Path, encoding: str = "") -> list[ListedEntity]:
    """Read a table with the columns name, aliases, description, id, type, url and folder.

    Only `name` is needed. Aliases are separated by "|" or ";". The name itself is an alias too,
    as `EmergingEntity.named` says. What is wrong is told of all lines, to be repaired in one go.

    Raises:
        CorpusFormatError: The file or a line of it is not of this form; the message names both.
    """
    name, listed, faults = Path(path).name, [], []
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CorpusFormatError(explain_os_error(error)) from error
    if len(data) > MAX_BYTES:
        raise CorpusFormatError(f"{name} has more than {MAX_BYTES:,} bytes; split the table.")
    try:
        rows = read_rows(in_utf8(iter([data]), encoding), delimiters=",\t;")
        headings = [heading.strip().lower() for heading in next(rows, (1, []))[1]]
        unknown = [heading for heading in headings if heading not in _HEADINGS]
        if "name" not in headings or unknown or len(set(headings)) < len(headings):
            said = ", ".join(headings)[:200] or "nothing"
            raise CorpusFormatError(
                f"{name} has the headings {said}; its first line names the columns, of "
                f"{', '.join(_HEADINGS)}, each once, and `name` is needed."
            )
        for line, row in rows:
            if any(cell.strip() for cell in row):
                try:
                    listed.append(_listed(line, headings, row))
                except (CorpusFormatError, SettingsError) as error:
                    sign = "" if isinstance(error, CorpusFormatError) else ":"
                    faults.append(f"{name}, line {line}{sign} {error}")
    except UnicodeDecodeError:
        raise CorpusFormatError(f"{name} is not in {encoding}; name another encoding.") from None
    except RowError as error:
        raise CorpusFormatError(
            f"{name}, line {error.line} cannot be read ({error}); give a CSV or TSV table in "
            "UTF-8, or name its encoding with --encoding."
        ) from error
    if faults:
        more = [f"And {len(faults) - MAX_FAULTS} more lines."] if len(faults) > MAX_FAULTS else []
        raise CorpusFormatError(" ".join([*faults[:MAX_FAULTS], *more]))
    if not listed:
        raise CorpusFormatError(f"{name} declares no entity; give one a line under the headings.")
    return listed


def _listed(line: int, headings: Sequence[str], row: Sequence[str]) -> ListedEntity:
    if len(row) > len(headings):
        raise CorpusFormatError("has more fields than headings; put quotes around commas.")
    given = dict(zip(headings, row, strict=False))
    fields = {column: " ".join(given.get(column, "").split()) for column in _HEADINGS}
    if fields["folder"] and not _SAFE_FOLDER.fullmatch(fields["folder"]):
        raise CorpusFormatError(
            f"names the folder {fields['folder']!r}; a folder has letters, digits, spaces, dots, "
            "dashes and underscores."
        )
    aliases = [alias.strip() for alias in re.split(r"[|;]", fields["aliases"]) if alias.strip()]
    known = {name: fields[name] for name in ("description", "type", "url")}
    entity = EmergingEntity.named(fields["name"], aliases, external_id=fields["id"], **known)
    return ListedEntity(line, entity, fields["folder"])


def create_workspaces(
    root: str | Path, listed: Sequence[ListedEntity], *, created_by: str, at: datetime
) -> tuple[list[Workspace], list[Workspace]]:
    """Make a workspace for each entity that has none in the folder yet.

    An entity has one already where its name and id are the same. Two entities of one name get
    folders of different names, by their ids.

    Returns:
        The workspaces that were made, and those of the list that were there.

    Raises:
        WorkspaceError: A folder is in use for something else, or an entity comes twice; nothing is
            made then.
    """
    folder = Path(root)
    opened = map(Workspace.open, workspace_folders(folder))
    held = {(space.entity.id, space.entity.external_id): space for space in opened}
    taken = {path.name.casefold() for path in folder.iterdir()} if folder.is_dir() else set()
    plan: dict[tuple[str, str], tuple[str, EmergingEntity]] = {}
    there: list[Workspace] = []
    for one in listed:
        key = (one.entity.id, one.entity.external_id)
        if key in plan:
            raise WorkspaceError(
                f"Line {one.line} declares {one.entity.id!r} again; give two entities of one name "
                "different ids."
            )
        if key in held:
            there.append(held[key])
            continue
        if one.folder.casefold() in taken:
            raise WorkspaceError(
                f"Line {one.line} asks for the folder {one.folder!r}, which is taken; name another."
            )
        name = one.folder or free_folder(one.entity, taken)
        taken.add(name.casefold())
        plan[key] = (name, one.entity)
    made = [
        Workspace.create(folder / name, entity, created_by=created_by, at=at)
        for name, entity in plan.values()
    ]
    return made, there


def free_folder(entity: EmergingEntity, taken: set[str]) -> str:
    """Return a short name for the folder of an entity that no other has (case does not count)."""
    name = slug(entity.id) or "entity"
    if name in taken and entity.external_id:
        name = f"{name}-{slug(entity.external_id)}".strip("-")
    return free_id(name, taken, "-")
