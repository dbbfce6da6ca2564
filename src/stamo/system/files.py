"""Write files and directories that appear all at once.

Whatever happens, Ctrl-C, `kill -9`, a full disk or a power cut, a reader sees the old content or
the complete new one. Files are written beside their target and renamed. A directory is made
beside its target too; one that was killed leaves its unfinished work behind, which the next one
removes: a lock tells what is still in use.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import json
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from stamo.errors import StamoError, WorkspaceError

Bools = NDArray[np.bool_]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]


FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")

_Cell = TypeVar("_Cell")


def inert_cell(value: _Cell) -> _Cell | str:
    """Return a cell as it is; a text that a spreadsheet would compute gets an apostrophe first."""
    is_formula = isinstance(value, str) and value.startswith(FORMULA_SIGNS)
    return f"'{value}" if is_formula else value


def bare_cell(text: str) -> str:
    """Take off the apostrophe of `inert_cell`."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(FORMULA_SIGNS) else text


class Closing:
    """Closed at the end of a `with`, whatever happened in it."""

    def close(self) -> None:
        """Let go of what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


MAX_JSON_BYTES = 64_000_000
RESULT_DIR = "result"
WAIT_SECONDS = 30
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_atomic(path: Path, data: bytes, *, is_new: bool = False) -> None:
    """Replace the content of a file at once.

    Where the file must be new, one of two processes that try gets `FileExistsError`.
    """
    with replaced_file(path, is_new=is_new) as beside:
        beside.write_bytes(data)


@contextmanager
def replaced_file(path: Path, *, is_new: bool = False) -> Iterator[Path]:
    """Yield the path of a file to write, which takes the place of `path` when the block ends."""
    # Process and thread keep two writers apart.
    writer = f"{os.getpid()}-{threading.get_ident()}"
    beside = path.with_name(f".{path.name[:40]}.{writer}.tmp")
    try:
        with _opened(beside, os.O_CREAT) as descriptor:
            try_lock(descriptor)  # so that `sweep` does not take it for a leftover
            yield beside
            os.fsync(descriptor)
        if is_new:
            path.hardlink_to(beside)
        else:
            beside.replace(path)
        _flush(path.parent)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | flags, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file or folder, until it is closed; tell whether nobody else holds it.

    Where the file system has no locks, nobody does.
    """
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Let one process or thread after the other change a folder; a killed one lets go of it.

    Raises:
        WorkspaceError: Another process holds it for long.
    """
    with _opened(folder) as descriptor:
        deadline = time.monotonic() + WAIT_SECONDS
        while not try_lock(descriptor):
            if time.monotonic() > deadline:
                raise WorkspaceError(
                    f"Another process has been changing {str(folder)!r} for {WAIT_SECONDS} "
                    "seconds; wait for it and try again."
                )
            time.sleep(0.005)
        yield


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Keep `sweep` from taking a file or folder for a leftover."""
    with _opened(path) as descriptor:
        try_lock(descriptor)
        yield


def sweep(folder: Path, pattern: str = ".*.tmp") -> None:
    """Remove what killed processes left in a folder; what is in use stays."""
    for leftover in sorted(folder.glob(pattern)):
        with suppress(OSError), _opened(leftover, os.O_NOFOLLOW) as descriptor:
            if try_lock(descriptor) and leftover.is_dir():
                shutil.rmtree(leftover)
            elif try_lock(descriptor):
                leftover.unlink()


def file_version(path: Path) -> tuple[int, int, int] | None:
    """Tell one state of a file from another without reading it; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def check_writable(path: Path) -> None:
    """Try a file's place before long work; what is there stays as it is.

    Raises:
        OSError: No file can be written there.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    sweep(path.parent, f".{glob.escape(path.name[:40])}.*.tmp")
    with suppress(_LeaveAloneError), replaced_file(path) as beside:
        beside.write_bytes(b"x")
        raise _LeaveAloneError


class _LeaveAloneError(Exception):
    """What was written beside a file does not take its place."""


def explain_os_error(error: OSError) -> str:
    """Say in one sentence what the system refused, on which file, and what to do."""
    name = error.filename2 or error.filename
    place = ""
    if isinstance(name, str | bytes):
        path = Path(os.fsdecode(name))
        beside = re.fullmatch(r"\.(.+)\.\d+-\d+\.tmp", path.name)  # the file that was wanted
        place = f" at {str(path.with_name(beside[1]) if beside else path)!r}"
    if error.errno in DISK_FULL:
        unchanged = "what was there before is unchanged. Free some space and try again."
        return f"The disk is full{place}; {unchanged}"
    if error.errno == errno.EROFS:
        return f"The disk is read-only{place}; use a place that can be written."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"The system does not permit this{place}; check who owns it and its permissions."
    reason = error.strerror or str(error) or type(error).__name__
    return f"The system refused{place}: {reason}; check the path and the disk."


def _flush(path: Path) -> None:
    """Make what was written to a file, or renamed in a folder, survive a power cut."""
    with _opened(path) as descriptor:
        os.fsync(descriptor)


class DirectoryKind(NamedTuple):
    """What a directory is, so that no other one is ever replaced by it."""

    name: str
    is_one: Callable[[Path], bool]
    error: type[StamoError]
    """Raised with one sentence when it cannot be written."""

    def disk_full(self, target: Path) -> StamoError:
        """Return the error of a disk without room."""
        return self.error(
            f"The disk is full: the {self.name} {str(target)!r} could not be written and what was "
            "there is unchanged; free some space and try again."
        )


@contextmanager
def staged_directory(target: Path, kind: DirectoryKind, *, overwrite: bool) -> Iterator[Path]:
    """Yield a work directory whose subdirectory `result` becomes `target` when the block ends.

    Raises:
        StamoError: Of the kind: the target is there and may not be replaced, another process is
            making it, or the disk is full.
    """
    _check_target(target, kind, overwrite=overwrite)
    prefix = f".{target.name}.stamo-build-"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep(target.parent, f"{glob.escape(prefix)}*")
        left = target.parent.glob(f"{glob.escape(prefix)}*")
        if any(path.is_dir() and not path.is_symlink() for path in left):
            raise kind.error(
                f"Another process is making {str(target)!r}; wait for it or choose another name."
            )
        work = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
        result = work / RESULT_DIR
        try:
            with in_use(work):
                result.mkdir()
                yield work
                for path in (*sorted(result.iterdir()), result):
                    _flush(path)
                _check_target(target, kind, overwrite=overwrite)
                _move_into_place(result, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise kind.disk_full(target) from error
        raise kind.error(
            f"Making the {kind.name} {str(target)!r} failed ({error}); what was there is unchanged."
        ) from error


def _check_target(target: Path, kind: DirectoryKind, *, overwrite: bool) -> None:
    if not (target.exists() or target.is_symlink()):
        return
    if target.is_symlink() or not (target.is_dir() and kind.is_one(target)):
        raise kind.error(
            f"{str(target)!r} exists and is not a {kind.name}, so it is left alone; choose another "
            "name."
        )
    if not overwrite:
        raise kind.error(
            f"The {kind.name} {str(target)!r} exists already; add --overwrite to replace it or "
            "choose another name."
        )


def _move_into_place(result: Path, target: Path) -> None:
    if not target.exists():
        result.rename(target)
    else:
        try:
            exchange = ctypes.CDLL(None, use_errno=True).renameat2
            # AT_FDCWD and RENAME_EXCHANGE of Linux: both are swapped in one step.
            swapped = not exchange(-100, os.fsencode(result), -100, os.fsencode(target), 2)
        except (AttributeError, OSError):
            swapped = False
        if not swapped:  # the target is absent between these two renames
            old = target.rename(result.with_name("old"))
            try:
                result.rename(target)
            except OSError:
                old.rename(target)
                raise
    _flush(target.parent)


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


def append_line(path: Path, line: str) -> None:
    """Add a line to a file, on disk when this returns; when it fails, the file is as before.

    What a killed process left without its end is taken away: nobody was told that it is there.
    """
    data = line.encode("utf-8", "replace") + b"\n"
    with path.open("a+b", buffering=0) as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        end = file.seek(0, os.SEEK_END)
        if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
            end = path.read_bytes().rfind(b"\n") + 1
        file.truncate(end)
        try:
            if file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file that have an end; what a killed process left is none."""
    return path.read_bytes().split(b"\n")[:-1]
