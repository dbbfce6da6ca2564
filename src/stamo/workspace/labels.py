"""The labels of a workspace: a log in SQLite to which people append, and views of what holds now.

Nothing is ever changed or deleted; an undo is one more event. A call returns after its event is on
disk, so a killed process loses nothing that it acknowledged. Several processes may label at once.

What holds: a labeller's last choice for a mention that was not undone. Where several people chose
for one mention, the latest choice that is not a skip.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

from stamo.corpus.types import Corpus, EmergingEntity, LabelKey, Mention, clean_surrogates
from stamo.errors import CorpusFormatError, WorkspaceError
from stamo.system.files import Closing

EMERGING_CHOICE = "@emerging"
NONE = "@none"
SKIP = "@skip"
UNDO = "@undo"
MAX_CHARACTERS = 2000
FIRST_YEAR, LAST_YEAR = 1970, 2200
PLACE = ("document", "mention", "surface", "start", "end")
"""The fields of a `LabelTarget`."""
LabelPlace = tuple[str, int, int]
"""Document, start and end: indices of mentions change when documents are collected anew."""


@dataclass(frozen=True, slots=True)
class LabelTarget:
    """The mention that is labelled."""

    document: str
    mention: int
    """Its index in the document's mentions when it was labelled."""
    surface: str
    start: int
    end: int

    @classmethod
    def of(cls, document: str, index: int, mention: Mention) -> LabelTarget:
        """Name a mention of a document."""
        return cls(document, index, mention.surface, mention.start, mention.end)

    @property
    def place(self) -> LabelPlace:
        """Return what names the mention for good."""
        return self.document, self.start, self.end

    @property
    def name(self) -> tuple[str, str]:
        """Return document and name: one label speaks for all mentions of both."""
        return self.document, self.surface


@dataclass(frozen=True, slots=True)
class LabelEvent:
    """One line of the log: a label, or the undoing of one."""

    uid: str
    """The same in every copy of the log, so that logs can be joined."""
    labeller: str
    at: datetime
    target: LabelTarget
    choice: str
    """An entity's title, `@emerging`, `@none`, `@skip`, or `@undo`."""
    undoes: str | None = None
    """The uid of the event that is undone."""
    only: bool = False
    """Whether it holds for this mention alone; else it speaks for all of its name and document."""


def describe_choice(choice: str, entity: str) -> str:
    """Return what people read for a choice; `entity` is the name of the emerging entity."""
    words = {EMERGING_CHOICE: entity, NONE: "none of these", SKIP: "skipped", UNDO: "taken back"}
    return words.get(choice, choice)


def to_timestamp(at: datetime) -> str:
    """Write a time as text that sorts by time.

    Raises:
        CorpusFormatError: It has no time zone, or is no time at which anybody labelled.
    """
    if at.tzinfo is None:
        raise CorpusFormatError(f"The time {at} of a label has no time zone; give UTC.")
    if not FIRST_YEAR <= at.year < LAST_YEAR:
        raise CorpusFormatError(
            f"The time of a label is in the year {at.year}; give one from {FIRST_YEAR} to "
            f"{LAST_YEAR - 1}."
        )
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def check_label(target: LabelTarget, choice: str, labeller: str) -> None:
    """Check the values of a label.

    Raises:
        CorpusFormatError: A value is empty, too long or out of range.
    """
    texts = {"labeller": labeller, "choice": choice, "document id": target.document}
    for name, text in (texts | {"surface": target.surface}).items():
        if not isinstance(text, str) or not text.strip() or len(text) > MAX_CHARACTERS:
            raise CorpusFormatError(
                f"The {name} of a label is {str(text)[:40]!r}; give a text of 1 to "
                f"{MAX_CHARACTERS} characters."
            )
        if clean_surrogates(text) != text:
            raise CorpusFormatError("A label holds a character that no file can hold.")
    numbers = (target.mention, target.start, target.end)
    if any(type(number) is not int or not 0 <= number < 1 << 62 for number in numbers):
        raise CorpusFormatError(f"A label names the mention {numbers}; give whole numbers from 0.")
    if target.start >= target.end:
        raise CorpusFormatError(
            f"A label's mention starts at {target.start} and ends at {target.end}; "
            "the end must come later."
        )


def event_to_json(event: LabelEvent) -> dict[str, Any]:
    """Return the plain values of an event; `event_from_json` reads them back."""
    record = {"uid": event.uid, "labeller": event.labeller, "at": to_timestamp(event.at)}
    record |= asdict(event.target) | {"choice": event.choice}
    more = {"undoes": event.undoes, "only": event.only}
    return record | {name: value for name, value in more.items() if value}


def event_from_json(record: Any) -> LabelEvent:
    """Check and convert the plain values of an event.

    Raises:
        CorpusFormatError: They do not have this form.
    """
    if not isinstance(record, dict):
        raise CorpusFormatError("A label event is an object, as `stamo labels export` writes it.")
    names = (*PLACE, "at", "uid", "labeller", "choice")
    missing = [name for name in names if name not in record]
    if missing:
        raise CorpusFormatError(
            f"A label event lacks {', '.join(map(repr, missing))}; it is what "
            "`stamo labels export --as jsonl` writes."
        )
    try:
        target = LabelTarget(*(record[name] for name in PLACE))
        at = datetime.fromisoformat(record["at"])
    except (TypeError, ValueError, AttributeError) as error:
        raise CorpusFormatError(f"A label event holds a value that is none ({error}).") from error
    uid, who, choice = record["uid"], record["labeller"], record["choice"]
    undoes, only = record.get("undoes"), record.get("only", False)
    check_label(target, choice, who)
    to_timestamp(at)
    for text in (uid, "-" if undoes is None else undoes):
        if not isinstance(text, str) or not 1 <= len(text) <= 64:
            raise CorpusFormatError(
                "A label event has no valid uid; give a text of 1 to 64 characters."
            )
    if (choice == UNDO) != (undoes is not None):
        raise CorpusFormatError("An undo must name the event that it undoes, and only an undo may.")
    if not isinstance(only, bool):
        raise CorpusFormatError(f"A label event has {only!r} for 'only'; give true or false.")
    return LabelEvent(uid, who, at, target, choice, undoes, only)


APPLICATION_ID = 0x5354414D
SCHEMA_VERSION = 2
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
    only INTEGER NOT NULL,
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


class LabelsNotWritableError(WorkspaceError):
    """The disk is full or read-only; the labels themselves may be as they should."""


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say what is wrong: the disk is full, it is read-only, the file is in use, or damaged."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # Python fails on damaged names in texts
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise LabelsNotWritableError(
                f"The disk is full or failed at the labels in {path} ({error}); what was "
                "acknowledged is safe. Free some space or check the disk, then try again."
            ) from error
        if kind in _READ_ONLY:
            raise LabelsNotWritableError(
                f"The labels in {path} cannot be written, their disk or folder is read-only "
                f"({error}); what is there is safe. Make it writable or copy the workspace "
                "elsewhere."
            ) from error
        if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise WorkspaceError(
                f"Another process held the labels in {path} for {BUSY_SECONDS} seconds; wait for "
                "it and try again."
            ) from error
        raise WorkspaceError(
            f"{path} is not a readable file of labels ({error}), it is damaged; keep it and "
            "restore a copy in its place."
        ) from error


_READ_ONLY = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
)


def _connect(
    path: Path, address: str, prepare: Callable[[sqlite3.Connection, Path], object]
) -> sqlite3.Connection:
    """Open a database and prepare it; where that fails, it is closed again."""
    with explained(path), ExitStack() as closing:
        connection = sqlite3.connect(
            address,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            uri=address.startswith("file:"),
        )
        closing.callback(connection.close)
        connection.row_factory = sqlite3.Row
        prepare(connection, path)
        closing.pop_all()
        return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make every commit reach the disk, and make the tables where there are none."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:  # while another process makes the same switch, SQLite refuses without waiting
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    # FULL: a label that was acknowledged survives a power cut too.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    if not _has_tables(connection, path):
        for statement in re.split("\n(?=CREATE )", _SCHEMA.strip()):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """Tell whether there are tables yet; refuse those of something else."""
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
            WorkspaceError: The file is damaged or holds something else, or cannot be written.
        """
        path = Path(path)
        if not path.parent.is_dir():
            raise WorkspaceError(f"The labels in {path} cannot be opened: the folder is missing.")
        return cls(_connect(path, str(path), _prepare), path, entity)

    @classmethod
    def read(cls, path: str | Path) -> LabelStore:
        """Open the log for reading only, also on a full or read-only disk; a missing one is empty.

        Raises:
            WorkspaceError: The file is damaged or holds something else.
        """
        path = Path(path)
        if path.exists() and path.stat().st_size:
            address = f"{path.absolute().as_uri()}?mode=ro"
            try:
                connection = _connect(path, address, _has_tables)
            except LabelsNotWritableError:
                # SQLite makes two files beside a log that nobody has open. Where it cannot, and no
                # label waits in them, the file itself holds everything.
                waiting = path.with_name(f"{path.name}-wal")
                if waiting.exists() and waiting.stat().st_size:
                    raise
                connection = _connect(path, f"{address}&immutable=1", _has_tables)
            if _has_tables(connection, path):
                return cls(connection, path)
            connection.close()  # whoever began it was killed before there was a table
        return cls(_connect(path, ":memory:", _prepare), path)

    def close(self) -> None:
        """Close the file; all labels are on disk already."""
        with self._lock:
            self._connection.close()

    def add(
        self,
        target: LabelTarget,
        choice: str,
        *,
        labeller: str,
        at: datetime,
        only: bool = False,
    ) -> LabelEvent:
        """Label a mention; when this returns, the label is on disk.

        Args:
            target: The mention.
            choice: An entity's title, or `@emerging`, `@none` or `@skip`.
            labeller: Who labels.
            at: When, with a time zone.
            only: Whether it holds for this mention alone, not for others of its name there.

        Raises:
            CorpusFormatError: A value is empty, too long or out of range.
        """
        if choice == UNDO:
            raise CorpusFormatError("A label cannot be '@undo'; call undo instead.")
        check_label(target, choice, labeller)
        with self.together() as connection:
            return _append(connection, labeller, at, target, self.kept_as(choice), only=only)

    def kept_as(self, choice: str) -> str:
        """Return what is kept of a choice: the emerging entity by its name is `@emerging`."""
        return EMERGING_CHOICE if choice and choice == self._entity else choice

    def undo(self, *, labeller: str, at: datetime) -> LabelEvent | None:
        """Undo a labeller's last label that still stands; None where there is none.

        Returns:
            The event that was undone.
        """
        with self.together() as connection:
            last = "SELECT * FROM standing WHERE labeller = ? ORDER BY at DESC, seq DESC LIMIT 1"
            found = self._select(last, labeller)
            if not found:
                return None
            _append(connection, labeller, at, found[0].target, UNDO, undoes=found[0].uid)
            return found[0]

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
            How many were new; where reading them fails, none is added.
        """
        with self.together() as connection:
            before = connection.total_changes
            for event in events:
                _insert(connection, event)
            return connection.total_changes - before

    def progress(self) -> LabelProgress:
        """Count what holds now."""
        chosen = [event.choice for event in self.current()]
        counts = [chosen.count(choice) for choice in (EMERGING_CHOICE, NONE, SKIP)]
        return LabelProgress(counts[0], len(chosen) - sum(counts), counts[1], counts[2])

    def _select(self, query: str, *values: str) -> list[LabelEvent]:
        events = []
        with self._lock, explained(self.path):
            for row in self._connection.execute(query, values):
                try:
                    target = LabelTarget(*(row[name] for name in (*PLACE[:-1], "end_")))
                    at, who = datetime.fromisoformat(row["at"]), row["labeller"]
                except (ValueError, TypeError, IndexError) as error:  # no label has such a value
                    raise sqlite3.DatabaseError(str(error)) from error
                more = row["choice"], row["undoes"], bool(row["only"])
                events.append(LabelEvent(row["uid"], who, at, target, *more))
        return events

    @contextmanager
    def together(self) -> Iterator[sqlite3.Connection]:
        """Make what is added in the block hold all at once or, where it fails, not at all."""
        with self._lock, explained(self.path):
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
) -> tuple[dict[LabelKey, str], set[LabelKey], int]:
    """Look up labels in the documents, by where they are: indices may change when collected anew.

    Args:
        events: What holds now, see `LabelStore.current`.
        corpus: The documents.
        entity: The emerging entity; its id replaces `@emerging`.

    Returns:
        The labels without skips, those that hold for their mention alone, and how many have no
        mention in the documents any more.
    """
    keys = {
        (document.id, mention.start, mention.end): (document.id, index)
        for document in corpus.documents
        for index, mention in enumerate(document.mentions)
    }
    labels: dict[LabelKey, str] = {}
    alone: set[LabelKey] = set()
    n_stale = 0
    for event in events:
        key = keys.get((event.target.document, event.target.start, event.target.end))
        if key is None:
            n_stale += 1
        elif event.choice != SKIP:
            labels[key] = entity.id if event.choice == EMERGING_CHOICE else event.choice
            alone |= {key} if event.only else set()
    return labels, alone, n_stale


def labels_fingerprint(events: Iterable[LabelEvent]) -> str:
    """Return a hash of what is labelled as what, whoever said so and when."""
    lines = sorted(
        json.dumps([e.target.document, e.target.start, e.target.end, e.choice] + ["only"] * e.only)
        for e in events
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _append(
    connection: sqlite3.Connection,
    labeller: str,
    at: datetime,
    target: LabelTarget,
    choice: str,
    *,
    undoes: str | None = None,
    only: bool = False,
) -> LabelEvent:
    n, latest = connection.execute(
        "SELECT count(*), max(at) FROM events WHERE labeller = ?", (labeller,)
    ).fetchone()
    # A clock that was set back must not put a correction before what it corrects.
    stamp = max(to_timestamp(at), latest or "")
    # A labeller's events come one after the other, so their number makes the uid unique.
    parts = (labeller, n, stamp, target.document, target.start, target.end, choice, undoes)
    uid = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
    event = LabelEvent(uid, labeller, datetime.fromisoformat(stamp), target, choice, undoes, only)
    _insert(connection, event)
    return event


def _insert(connection: sqlite3.Connection, event: LabelEvent) -> None:
    connection.execute(
        "INSERT INTO events (uid, labeller, at, document, mention, surface, start, end_, choice, "
        "undoes, only) VALUES (:uid, :labeller, :at, :document, :mention, :surface, :start, :end, "
        ":choice, :undoes, :only) ON CONFLICT DO NOTHING",
        {"undoes": None, "only": False} | event_to_json(event),
    )


@dataclass(frozen=True, slots=True)
class LabellerPair:
    """How far two people agree on the mentions that both labelled."""

    first: str
    second: str
    n: int
    n_same: int
    kappa: float | None
    """Cohen's kappa: 1 is full agreement, 0 that of chance; None where there is only one answer."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """A mention that people answered differently."""

    document: str
    start: int
    surface: str
    answers: dict[str, str]
    """The choice of each labeller."""


def compare_labellers(labels: Iterable[LabelEvent]) -> tuple[list[LabellerPair], list[Dispute]]:
    """Compare what each labeller's choices are now, pair by pair; skips say nothing.

    Returns:
        How far each pair agrees, and the mentions on which labellers differ.
    """
    said: dict[LabelPlace, dict[str, LabelEvent]] = defaultdict(dict)
    for event in labels:
        if event.choice != SKIP:
            said[event.target.place][event.labeller] = event
    disputes = []
    both: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for (document, start, _), events in sorted(said.items()):
        choices = {who: event.choice for who, event in events.items()}
        if len(set(choices.values())) > 1:
            surface = next(iter(events.values())).target.surface
            disputes.append(Dispute(document, start, surface, choices))
        for pair in combinations(sorted(choices), 2):
            both[pair].append((choices[pair[0]], choices[pair[1]]))
    pairs = []
    for (first, second), answers in sorted(both.items()):
        n, n_same = len(answers), sum(mine == theirs for mine, theirs in answers)
        mine, theirs = (Counter(given) for given in zip(*answers, strict=True))
        by_chance = sum(mine[choice] * theirs[choice] for choice in mine) / n**2
        kappa = None if by_chance == 1 else (n_same / n - by_chance) / (1 - by_chance)
        pairs.append(LabellerPair(first, second, n, n_same, kappa))
    return pairs, disputes
