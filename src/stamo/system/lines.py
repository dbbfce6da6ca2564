"""Files that grow line by line: a line is there whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path


def append_line(path: Path, line: str) -> None:
    """Add a line to a file, on disk when this returns; when it fails, the file is as before.

    What a killed process left without its end is taken away: nobody was told that it is there.
    """
    data = line.encode("utf-8", "replace") + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        end = _whole_bytes(descriptor)
        try:
            if os.write(descriptor, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)


def _whole_bytes(descriptor: int) -> int:
    """Cut off what has no end of a line; return the size that is left."""
    size = end = os.fstat(descriptor).st_size
    while end and os.pread(descriptor, 1, end - 1) != b"\n":
        start = max(end - (1 << 16), 0)
        end = start + os.pread(descriptor, end - start, start).rfind(b"\n") + 1
    if end < size:
        os.ftruncate(descriptor, end)
    return end


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file that have an end; what a killed process left is none."""
    return path.read_bytes().split(b"\n")[:-1]
