"""A directory that appears all at once: built beside its target and moved there when complete.

Whatever happens, Ctrl-C, `kill -9` or a full disk, the target is the old directory or a complete
new one. A build that was killed leaves its unfinished directory behind; the next one removes it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stamo.errors import KnowledgeBaseError
from stamo.kb.manifest import is_knowledge_base

LOCK_FILE = "lock"
RESULT_DIR = "result"
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def staged_directory(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a work directory whose subdirectory `result` becomes `target` when the block ends.

    Raises:
        KnowledgeBaseError: The target is there and may not be replaced, another build of it is
            running, or the disk is full.
    """
    check_target(target, overwrite=overwrite)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target)
        work = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
    except OSError as error:
        raise _failed(target, error) from error
    try:
        with (work / LOCK_FILE).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (work / RESULT_DIR).mkdir()
            yield work
            _sync(work / RESULT_DIR)
            _move_into_place(work / RESULT_DIR, target, overwrite=overwrite)
    except OSError as error:
        raise _failed(target, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse a target that may not be replaced.

    Raises:
        KnowledgeBaseError: It exists without `overwrite`, or is not a knowledge base.
    """
    if not (target.exists() or target.is_symlink()):
        return
    if target.is_symlink() or not (target.is_dir() and is_knowledge_base(target)):
        raise KnowledgeBaseError(
            f"{str(target)!r} exists and is not a knowledge base, so it is left alone; choose "
            "another name."
        )
    if not overwrite:
        raise KnowledgeBaseError(
            f"The knowledge base {str(target)!r} exists already; add --overwrite to replace it or "
            "choose another name."
        )


def remove_leftovers(target: Path) -> None:
    """Remove what killed builds of this target left behind.

    Raises:
        KnowledgeBaseError: Another build of the same target is running.
    """
    for leftover in target.parent.glob(f"{_prefix(target)}*"):
        if leftover.is_symlink() or not leftover.is_dir():
            continue
        with suppress(FileNotFoundError), (leftover / LOCK_FILE).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise KnowledgeBaseError(
                    f"Another build of {str(target)!r} is running; wait for it or choose another "
                    "name."
                ) from error
        shutil.rmtree(leftover, ignore_errors=True)


def _prefix(target: Path) -> str:
    return f".{target.name}.stamo-build-"


def _failed(target: Path, error: OSError) -> KnowledgeBaseError:
    if error.errno in DISK_FULL:
        return disk_full(target)
    return KnowledgeBaseError(
        f"The build of {str(target)!r} failed ({error}); what was there is unchanged."
    )


def disk_full(target: Path) -> KnowledgeBaseError:
    """Return the error of a disk without room for the knowledge base."""
    return KnowledgeBaseError(
        f"The disk is full: the knowledge base {str(target)!r} could not be written and what was "
        "there is unchanged; free some space and build again."
    )


def _sync(directory: Path) -> None:
    # Without this a power cut after the rename could show a complete directory of empty files.
    for path in sorted(directory.iterdir()):
        _sync_path(path)
    _sync_path(directory)


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move_into_place(result: Path, target: Path, *, overwrite: bool) -> None:
    check_target(target, overwrite=overwrite)
    if not target.exists():
        result.rename(target)
    elif not _exchange(result, target):
        # No atomic exchange on this system: the target is absent between these two renames.
        old = result.with_name("old")
        target.rename(old)
        try:
            result.rename(target)
        except OSError:
            old.rename(target)
            raise
    _sync_path(target.parent)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two directories in one step; return False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    status = rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    return bool(status == 0)
