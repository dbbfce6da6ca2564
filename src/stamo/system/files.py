"""Write files so that a reader, or a crash at any moment, sees the old content or the new one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from stamo.errors import WorkspaceError

MAX_JSON_BYTES = 64_000_000


def write_atomic(path: Path, data: bytes) -> None:
    """Replace the content of a file at once: write beside it, flush to disk, rename."""
    beside = _write_beside(path, data)
    beside.replace(path)
    flush_folder(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Create a file at once; of two processes that try, one gets `FileExistsError`."""
    beside = _write_beside(path, data)
    try:
        path.hardlink_to(beside)
    finally:
        beside.unlink()
    flush_folder(path.parent)


def _write_beside(path: Path, data: bytes) -> Path:
    # The process id keeps two writers apart; a file left by a killed one is overwritten or hidden.
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return beside


def flush_folder(folder: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def to_json(value: Any) -> bytes:
    """Return indented JSON with a final line break."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """Read a JSON file of the workspace.

    Raises:
        WorkspaceError: It is missing, too large or not JSON.
    """
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise WorkspaceError(f"{path} is too large to be a file of a workspace.")
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise WorkspaceError(f"{path} is missing.") from None
    except OSError as error:
        raise WorkspaceError(f"{path} cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise WorkspaceError(
            f"{path} is not valid JSON; restore it, or start a new workspace."
        ) from error
