"""A folder of packs: what a linker uses besides its knowledge base."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stamo.errors import PackError, StamoError, UnknownEntityError
from stamo.kb.base import KnowledgeBase
from stamo.packs.pack import PACK_SUFFIX, EntityPack
from stamo.system.files import file_version, one_at_a_time, sweep, write_atomic

if TYPE_CHECKING:
    from stamo.models.store import TrainedModel


@dataclass(frozen=True)
class PackEntry:
    """One file of a folder: its pack, or what is wrong with it."""

    key: str
    path: Path
    pack: EntityPack | None
    problem: str = ""


class PackFolder:
    """The packs that a linker uses; adding and removing never touches the knowledge base."""

    def __init__(
        self,
        path: str | Path,
        kb: KnowledgeBase | None = None,
        trained: TrainedModel | None = None,
    ) -> None:
        self.path = Path(path)
        self._kb = kb
        self._trained = trained
        self._known: dict[Path, tuple[tuple[int, int, int], PackEntry]] = {}

    @classmethod
    def existing(cls, path: str | Path) -> PackFolder:
        """Open a folder that is there.

        Raises:
            PackError: It is not; a folder with a misspelled name is no folder without packs.
        """
        if not Path(path).is_dir():
            raise PackError(
                f"There is no folder {str(path)!r}; give the folder of the packs, or put one into "
                "a new one with: stamo packs add."
            )
        return cls(path)

    def entries(self) -> list[PackEntry]:
        """Return all packs by their file names; what cannot be used carries its problem.

        Of two packs of one entity the first is used, and the other carries that as its problem.
        """
        if not self.path.is_dir():
            return []
        found: list[PackEntry] = []
        for path in sorted(self.path.glob(f"*{PACK_SUFFIX}")):
            entry = self._entry(path)
            twin = next(
                (e for e in found if e.pack and entry.pack and is_same(e.pack, entry.pack)), None
            )
            if twin is not None:
                problem = f"It is a pack of the same entity as {twin.key}; remove one of them."
                entry = PackEntry(entry.key, entry.path, None, problem)
            found.append(entry)
        return found

    def version(self) -> frozenset[tuple[Path, tuple[int, int, int] | None]]:
        """Return what changes when a pack is added, replaced or removed; nothing is read."""
        return frozenset((path, file_version(path)) for path in self.path.glob(f"*{PACK_SUFFIX}"))

    def packs(self) -> list[EntityPack]:
        """Return the usable packs."""
        return [entry.pack for entry in self.entries() if entry.pack is not None]

    def inspect(self, key: str) -> PackEntry:
        """Return one pack.

        Raises:
            UnknownEntityError: There is no pack with this key.
        """
        return self._entry(self._find(key))

    def add(self, data: bytes, *, replace: bool = False) -> PackEntry:
        """Check a pack's content and put it into the folder under a name of ours.

        Raises:
            PackError: It is damaged, or its entity is there already and `replace` is False.
            ArtifactMismatchError: It belongs to another knowledge base, model or encoder.
            MissingExtraError: It needs an encoder, and none is installed.
        """
        pack = EntityPack.from_bytes(data)
        if self._kb is not None:
            pack.check(self._kb, self._trained)
        self.path.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(self.path):
            held = next((e for e in self.entries() if e.pack and is_same(e.pack, pack)), None)
            if held is not None and not replace:
                raise PackError(
                    f"There is a pack of {pack.entity.id!r} already; remove it first or replace it."
                )
            sweep(self.path)
            name = pack_file_name(pack.entity.id, pack.entity.external_id)
            path = self.path / name if held is None else held.path
            write_atomic(path, data)
        return PackEntry(path.name.removesuffix(PACK_SUFFIX), path, pack)

    def remove(self, key: str) -> None:
        """Take a pack out of the folder.

        Raises:
            UnknownEntityError: There is no pack with this key.
        """
        self._find(key)
        with one_at_a_time(self.path):
            self._find(key).unlink()  # another process may have been faster

    def _find(self, key: str) -> Path:
        # The key is compared with what is there; it never becomes a path.
        for path in self.path.glob(f"*{PACK_SUFFIX}"):
            if path.name.removesuffix(PACK_SUFFIX) == key:
                return path
        raise UnknownEntityError(f"There is no pack {key[:80]!r}; list the packs to see them.")

    def _entry(self, path: Path) -> PackEntry:
        """Read a pack, or take it from memory while its file is the same."""
        version, known = file_version(path), self._known.get(path)
        if known is not None and known[0] == version:
            return known[1]
        key = path.name.removesuffix(PACK_SUFFIX)
        try:
            entry = PackEntry(key, path, EntityPack.load(path, self._kb, self._trained))
        except StamoError as error:
            entry = PackEntry(key, path, None, str(error))
        if version is not None:  # else removed since it was listed
            self._known[path] = version, entry
        return entry


def is_same(one: EntityPack, other: EntityPack) -> bool:
    """Tell whether two packs are of one entity: by their ids where both have one, else by name."""
    mine, theirs = one.entity.external_id, other.entity.external_id
    return mine == theirs if mine and theirs else one.entity.id == other.entity.id


def refuse_twins(packs: Sequence[tuple[str, EntityPack]]) -> None:
    """Refuse two packs of one entity, given with their names.

    Raises:
        PackError: Two of them are.
    """
    for i, (name, pack) in enumerate(packs):
        for other, earlier in packs[:i]:
            if is_same(pack, earlier):
                raise PackError(
                    f"{other} and {name} are both packs of {pack.entity.id!r}; leave one of them "
                    "out, or give two entities of one name different ids (stamo new --id)."
                )


def pack_file_name(entity: str, external_id: str = "") -> str:
    """Return a safe file name for an entity's pack: readable letters, then a hash of who it is."""
    plain = unicodedata.normalize("NFKD", entity).encode("ascii", "ignore").decode()
    named = f"{entity}\n{external_id}" if external_id else entity
    digest = hashlib.sha256(named.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{slug(plain) or 'entity'}-{digest}{PACK_SUFFIX}"


def slug(text: str) -> str:
    """Return the letters and digits of a text, small, with dashes between."""
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(c for c in plain if not unicodedata.combining(c)).lower()
    return re.sub(r"[\W_]+", "-", plain).strip("-")[:40].strip("-")
