"""The labels of a workspace: a log in SQLite to which people append, and views of what holds now.

Nothing is ever changed or deleted; an undo is one more event. A call returns after its event is on
disk, so a killed process loses nothing that it acknowledged. Several processes may label at once.

What holds: a labeller's last choice for a mention that was not undone. Where several people chose
for one mention, the latest choice that is not a skip.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from stamo.corpus.types import Corpus, EmergingEntity, LabelKey
from stamo.errors import CorpusFormatError
from stamo.system.closing import Closing
from stamo.workspace.labels.events import (
    EMERGING_CHOICE,
    NONE,
    SKIP,
    UNDO,
    LabelEvent,
    LabelTarget,
    check_event,
    check_label,
    event_to_json,
    to_timestamp,
)
from stamo.workspace.labels.schema import SQL_ERRORS, connect, connect_to_read, explain


@dataclass(frozen=True, slots=True)
class LabelProgress:
    """How many mentions are labelled with what."""

    n_emerging: int = 0
    n_other: int = 0
    """Labelled with an entity of the knowledge base."""
    n_none: int = 0
    n_skipped: int = 0

    @property
    def n_labelled(self) -> int:
        """Return how many mentions carry a label, skips not counted."""
        return self.n_emerging + self.n_other + self.n_none


class LabelStore(Closing):
    """The opened log; `open` makes one. It may be shared by threads."""

    def __init__(self, connection: sqlite3.Connection, path: Path, entity: str = "") -> None:
        self.path = path
        self._entity = entity
        self._connection = connection
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: str | Path, entity: str = "") -> LabelStore:
        """Open the log, or start it.

        Args:
            path: The file.
            entity: What the emerging entity is called; this as a choice is kept as `@emerging`.

        Raises:
            WorkspaceError: The file is damaged or holds something else.
        """
        return cls(connect(Path(path)), Path(path), entity)

    @classmethod
    def read(cls, path: str | Path) -> LabelStore:
        """Open the log for reading only, which leaves the disk as it is.

        Raises:
            WorkspaceError: The file is damaged or holds something else.
        """
        return cls(connect_to_read(Path(path)), Path(path))

    def close(self) -> None:
        """Close the file; all labels are on disk already."""
        with self._lock:
            self._connection.close()

    def add(self, target: LabelTarget, choice: str, *, labeller: str, at: datetime) -> LabelEvent:
        """Label a mention; when this returns, the label is on disk.

        Args:
            target: The mention.
            choice: An entity's title, or `@emerging`, `@none` or `@skip`.
            labeller: Who labels.
            at: When, with a time zone.

        Raises:
            CorpusFormatError: A value is empty, too long or out of range.
        """
        if choice == UNDO:
            raise CorpusFormatError("A label cannot be '@undo'; call undo instead.")
        check_label(target, choice, labeller)
        with self.together() as connection:
            return _append(connection, labeller, at, target, self.kept_as(choice), None)

    def kept_as(self, choice: str) -> str:
        """Return what is kept of a choice: the emerging entity by its name is `@emerging`."""
        return EMERGING_CHOICE if choice and choice == self._entity else choice

    def undo(self, *, labeller: str, at: datetime) -> LabelEvent | None:
        """Undo a labeller's last label that still stands; None where there is none.

        Returns:
            The event that was undone.
        """
        with self.together() as connection:
            row = connection.execute(
                "SELECT * FROM standing WHERE labeller = ? ORDER BY at DESC, seq DESC LIMIT 1",
                (labeller,),
            ).fetchone()
            if row is None:
                return None
            undone = _event(row)
            _append(connection, labeller, at, undone.target, UNDO, undone.uid)
            return undone

    def events(self) -> list[LabelEvent]:
        """Return the whole log in the order it was written."""
        return self._select("SELECT * FROM events ORDER BY seq")

    def current(self) -> list[LabelEvent]:
        """Return what holds now, one event per mention, in the order of labelling."""
        return self._select("SELECT * FROM current_labels ORDER BY seq")

    def current_by_labeller(self) -> list[LabelEvent]:
        """Return what each labeller's choice is now, in the order of labelling."""
        return self._select("SELECT * FROM labeller_labels ORDER BY seq")

    def merge(self, events: Iterable[LabelEvent]) -> int:
        """Add the events of another log; those that are here already are left out.

        Returns:
            How many were new.

        Raises:
            CorpusFormatError: An event is not valid; then none is added.
        """
        with self.together() as connection:
            before = connection.total_changes
            for event in events:
                check_event(event)
                _insert(connection, event)
            return connection.total_changes - before

    def progress(self, labeller: str | None = None) -> LabelProgress:
        """Count what holds now, for everyone or for one labeller."""
        events = self.current() if labeller is None else self.current_by_labeller()
        chosen = [e.choice for e in events if labeller in (None, e.labeller)]
        counts = [chosen.count(choice) for choice in (EMERGING_CHOICE, NONE, SKIP)]
        return LabelProgress(counts[0], len(chosen) - sum(counts), counts[1], counts[2])

    def _select(self, query: str) -> list[LabelEvent]:
        with self._lock, _explained(self.path):
            return [_event(row) for row in self._connection.execute(query)]

    @contextmanager
    def together(self) -> Iterator[sqlite3.Connection]:
        """Make what is added in the block hold all at once or, where it fails, not at all."""
        with self._lock, _explained(self.path):
            if self._connection.in_transaction:  # of a block around this one, in this thread
                yield self._connection
                return
            # IMMEDIATE takes the write lock at once, so that two processes wait for each other.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk may have ended it already
                    self._connection.execute("ROLLBACK")
                raise


def find_labelled(
    events: Iterable[LabelEvent], corpus: Corpus, entity: EmergingEntity
) -> tuple[dict[LabelKey, str], int]:
    """Look up labels in the documents, by where they are: indices may change when collected anew.

    Args:
        events: What holds now, see `LabelStore.current`.
        corpus: The documents.
        entity: The emerging entity; its id replaces `@emerging`.

    Returns:
        The labels without skips, and how many have no mention in the documents any more.
    """
    keys = {
        (document.id, mention.start, mention.end): (document.id, index)
        for document in corpus.documents
        for index, mention in enumerate(document.mentions)
    }
    labels: dict[LabelKey, str] = {}
    n_stale = 0
    for event in events:
        key = keys.get((event.target.document, event.target.start, event.target.end))
        if key is None:
            n_stale += 1
        elif event.choice != SKIP:
            labels[key] = entity.id if event.choice == EMERGING_CHOICE else event.choice
    return labels, n_stale


def labels_fingerprint(events: Iterable[LabelEvent]) -> str:
    """Return a hash of what is labelled as what, whoever said so and when."""
    lines = sorted(
        json.dumps([e.target.document, e.target.start, e.target.end, e.choice]) for e in events
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _append(
    connection: sqlite3.Connection,
    labeller: str,
    at: datetime,
    target: LabelTarget,
    choice: str,
    undoes: str | None,
) -> LabelEvent:
    n, latest = connection.execute(
        "SELECT count(*), max(at) FROM events WHERE labeller = ?", (labeller,)
    ).fetchone()
    # A clock that was set back must not put a correction before what it corrects.
    stamp = max(to_timestamp(at), latest or "")
    # A labeller's events come one after the other, so their number makes the uid unique.
    parts = (labeller, n, stamp, target.document, target.start, target.end, choice, undoes)
    uid = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
    event = LabelEvent(uid, labeller, datetime.fromisoformat(stamp), target, choice, undoes)
    _insert(connection, event)
    return event


def _insert(connection: sqlite3.Connection, event: LabelEvent) -> None:
    connection.execute(
        "INSERT INTO events (uid, labeller, at, document, mention, surface, start, end_, choice, "
        "undoes) VALUES (:uid, :labeller, :at, :document, :mention, :surface, :start, :end, "
        ":choice, :undoes) ON CONFLICT DO NOTHING",
        {"undoes": None} | event_to_json(event),
    )


def _event(row: sqlite3.Row) -> LabelEvent:
    try:
        place = (row[name] for name in ("document", "mention", "surface", "start", "end_"))
        at = datetime.fromisoformat(row["at"])
        return LabelEvent(
            row["uid"], row["labeller"], at, LabelTarget(*place), row["choice"], row["undoes"]
        )
    except (ValueError, TypeError, IndexError) as error:  # no label has such a value or column
        raise sqlite3.DatabaseError(str(error)) from error


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except SQL_ERRORS as error:
        raise explain(error, path) from error
