"""The versions of a workspace's pack: each one that was learned stays, and can come back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stamo.errors import PackError, WorkspaceError
from stamo.packs.pack import EntityPack
from stamo.packs.pack_bytes import PACK_SUFFIX, read_bytes
from stamo.system.files import sweep, write_atomic
from stamo.workspace.folder import Workspace

VERSIONS = "versions"


@dataclass(frozen=True)
class PackVersion:
    """A pack that was learned once."""

    number: int
    path: Path
    written_at: datetime
    fingerprint: str
    is_current: bool
    description: str
    problem: str = ""


def write_version(workspace: Workspace, data: bytes) -> int:
    """Write a pack as the current one, and keep it as a version; return the version's number.

    The same bytes as an earlier version are that version. A pack from before there were versions
    becomes the first one.
    """
    folder = workspace.packs_dir / VERSIONS
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)
    numbers = _numbers(folder)
    if not numbers and workspace.pack_path.exists():
        write_atomic(_path(folder, 1), read_bytes(workspace.pack_path))
        numbers = [1]
    number = next((n for n in numbers if read_bytes(_path(folder, n)) == data), None)
    if number is None:
        number = max(numbers, default=0) + 1
        write_atomic(_path(folder, number), data)
    write_atomic(workspace.pack_path, data)
    return number


def pack_versions(workspace: Workspace) -> list[PackVersion]:
    """List the versions, the oldest first."""
    folder = workspace.packs_dir / VERSIONS
    current = read_bytes(workspace.pack_path) if workspace.pack_path.exists() else b""
    versions = []
    for number in _numbers(folder):
        path = _path(folder, number)
        at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        data = read_bytes(path)
        try:
            pack = EntityPack.from_bytes(data, path.name)
            said = (pack.fingerprint, data == current, pack.description, "")
        except PackError as error:
            said = ("", data == current, "", str(error))
        versions.append(PackVersion(number, path, at, *said))
    return versions


def restore_version(workspace: Workspace, number: int) -> EntityPack:
    """Make an earlier version the current pack.

    Raises:
        WorkspaceError: There is no such version.
        PackError: Its file is damaged.
    """
    with workspace.lock("learn"):
        path = _path(workspace.packs_dir / VERSIONS, number)
        if not path.exists():
            there = ", ".join(map(str, _numbers(workspace.packs_dir / VERSIONS))) or "none yet"
            raise WorkspaceError(
                f"There is no version {number} of the pack in {str(workspace.path)!r}; there are: "
                f"{there}."
            )
        data = read_bytes(path)
        pack = EntityPack.from_bytes(data, path.name)
        write_atomic(workspace.pack_path, data)
        return pack


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    stems = (path.name.removesuffix(PACK_SUFFIX) for path in folder.glob(f"*{PACK_SUFFIX}"))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}{PACK_SUFFIX}"
