"""The tables and views of the labels' log, and how its file is opened."""

from __future__ import annotations

import re
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from stamo.errors import WorkspaceError

APPLICATION_ID = 0x5354414D
SCHEMA_VERSION = 1
BUSY_SECONDS = 30

_SCHEMA = """
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL UNIQUE,
    labeller TEXT NOT NULL,
    at TEXT NOT NULL,
    document TEXT NOT NULL,
    mention INTEGER NOT NULL,
    surface TEXT NOT NULL,
    start INTEGER NOT NULL,
    end_ INTEGER NOT NULL,
    choice TEXT NOT NULL,
    undoes TEXT,
    CHECK (start < end_),
    CHECK ((choice = '@undo') = (undoes IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX one_undo ON events (undoes) WHERE undoes IS NOT NULL;
CREATE INDEX by_labeller ON events (labeller, at);
CREATE TRIGGER never_change BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'labels are only ever added'); END;
CREATE TRIGGER never_delete BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'labels are only ever added'); END;
CREATE VIEW standing AS
    SELECT * FROM events AS event
    WHERE undoes IS NULL
    AND NOT EXISTS (SELECT 1 FROM events AS undo WHERE undo.undoes = event.uid);
CREATE VIEW labeller_labels AS
    SELECT * FROM (
        SELECT *, row_number() OVER (
            PARTITION BY labeller, document, start, end_ ORDER BY at DESC, seq DESC
        ) AS rank
        FROM standing
    ) WHERE rank = 1;
CREATE VIEW current_labels AS
    SELECT * FROM (
        SELECT *, row_number() OVER (
            PARTITION BY document, start, end_ ORDER BY choice = '@skip', at DESC, seq DESC
        ) AS place
        FROM labeller_labels
    ) WHERE place = 1;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open a labels' log, made when there is none, so that every commit reaches the disk.

    Raises:
        WorkspaceError: The file is damaged, holds something else, or is of another version; or
            the disk is full or read-only.
    """
    if not path.parent.is_dir():
        raise WorkspaceError(f"The labels in {path} cannot be opened: the folder is missing.")
    return _opened(path, str(path), _prepare)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a labels' log for reading only, also on a disk that is full or read-only.

    A log that is not there is empty.

    Raises:
        WorkspaceError: The file is damaged, holds something else, or is of another version.
    """
    if path.exists() and path.stat().st_size:
        address = f"{path.absolute().as_uri()}?mode=ro"
        try:
            connection = _opened(path, address, _check)
        except LabelsNotWritableError:
            # SQLite makes two files beside a log that nobody has open. Where it cannot, and no
            # label waits in them, the file itself holds everything.
            waiting = path.with_name(f"{path.name}-wal")
            if waiting.exists() and waiting.stat().st_size:
                raise
            connection = _opened(path, f"{address}&immutable=1", _check)
        if _check(connection, path):
            return connection
        connection.close()  # whoever began it was killed before there was a table
    return _opened(path, ":memory:", _create_or_check)


def _opened(
    path: Path, address: str, prepare: Callable[[sqlite3.Connection, Path], object]
) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            address,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            uri=address.startswith("file:"),
        )
    except sqlite3.Error as error:
        raise explain(error, path) from error
    connection.row_factory = sqlite3.Row
    try:
        prepare(connection, path)
    except SQL_ERRORS as error:
        connection.close()
        raise explain(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


SQL_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises on a damaged file; Python fails on the damaged names in its messages."""


class LabelsNotWritableError(WorkspaceError):
    """The disk is full or read-only; the labels themselves may be as they should."""


def explain(error: Exception, path: Path) -> WorkspaceError:
    """Say what is wrong: the disk is full, it is read-only, the file is in use, or damaged."""
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if kind == sqlite3.SQLITE_FULL or (kind == sqlite3.SQLITE_IOERR and _is_full(path)):
        return LabelsNotWritableError(
            f"The disk is full, so nothing was added to the labels in {path}; what is there is "
            "safe. Free some space and try again."
        )
    if kind in _READ_ONLY:
        return LabelsNotWritableError(
            f"The labels in {path} cannot be written, their disk or folder is read-only ({error}); "
            "what is there is safe. Make it writable or copy the workspace elsewhere."
        )
    if kind == sqlite3.SQLITE_IOERR:
        return LabelsNotWritableError(
            f"The disk failed at the labels in {path} ({error}); what was acknowledged is safe. "
            "Check the disk and its free space, then try again."
        )
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return WorkspaceError(
            f"Another process held the labels in {path} for {BUSY_SECONDS} seconds; wait for it "
            "and try again."
        )
    return WorkspaceError(
        f"{path} is not a readable file of labels ({error}), it is damaged; keep it and restore a "
        "copy in its place."
    )


_READ_ONLY = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
)


def _is_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < 1 << 20
    except OSError:
        return False


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    _switch_to_wal(connection)
    # FULL: a label that was acknowledged survives a power cut too.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        _create_or_check(connection, path)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    # While another process makes the same switch, SQLite refuses without waiting.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _create_or_check(connection: sqlite3.Connection, path: Path) -> None:
    if not _check(connection, path):
        for statement in re.split("\n(?=CREATE )", _SCHEMA.strip()):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _check(connection: sqlite3.Connection, path: Path) -> bool:
    """Refuse another file; tell whether there are tables yet."""
    queries = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    application_id, version, n_tables = (connection.execute(q).fetchone()[0] for q in queries)
    if not n_tables and not application_id:
        return False
    if application_id != APPLICATION_ID:
        raise WorkspaceError(
            f"{path} is a database of another program and not a file of labels; put the labels "
            "back in its place."
        )
    if version != SCHEMA_VERSION:
        raise WorkspaceError(
            f"The labels in {path} have the format version {version}; this release reads version "
            f"{SCHEMA_VERSION}: use the release that wrote them."
        )
    return True
