"""The tables and views of the labels' log, and how its file is opened."""

from __future__ import annotations

import sqlite3
import time
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
        WorkspaceError: The file is damaged, holds something else, or is of another version.
    """
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise WorkspaceError(f"The labels in {path} cannot be opened ({error}).") from error
    connection.row_factory = sqlite3.Row
    try:
        _prepare(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise WorkspaceError(
            f"{path} is not a readable file of labels ({error}); restore it, or move it away to "
            "start without labels."
        ) from error
    except WorkspaceError:
        connection.close()
        raise
    return connection


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
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    n_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not n_tables and not application_id:
        for statement in _statements(_SCHEMA):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    elif application_id != APPLICATION_ID:
        raise WorkspaceError(
            f"{path} is a database of another program; move it away to start without labels."
        )
    elif version != SCHEMA_VERSION:
        raise WorkspaceError(
            f"The labels in {path} have the format version {version}; this release reads version "
            f"{SCHEMA_VERSION}: use the release that wrote them."
        )


def _statements(script: str) -> list[str]:
    """Split a script into statements; those with a body end in "END;"."""
    statements: list[str] = []
    pending = ""
    for line in script.strip().splitlines():
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements
