"""Background jobs that survive a restart: a table in SQLite and one thread that works it off.

A job is written down before it starts. When the process ends, killed or not, its unfinished jobs
stay in the table, and the next process takes them up again; the work itself goes on where it was,
because learning keeps its slots on disk.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import uuid
from collections.abc import Callable
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path

from stamo.errors import StamoError, UnknownEntityError, WorkspaceError
from stamo.system.files import explain_os_error

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
"""A job that was interrupted so often probably ends the process itself."""
RETRY_SECONDS = 5.0
"""When the table is tried again after the disk refused it."""

Work = Callable[[str, Callable[[float, str], None]], str]
"""Works on the workspace of a name and returns a closing line; runs in the jobs' thread.

It calls with the share that is done, 0 to 1, and a line for people.
"""


class JobStoppedError(Exception):
    """Raised inside a job by its progress call when the service shuts down."""


@dataclass(frozen=True, slots=True)
class Job:
    """A piece of background work and how far it is."""

    id: str
    workspace: str
    state: str
    """`queued`, `running`, `done` or `failed`."""
    progress: float
    message: str
    attempts: int
    created: str
    updated: str


class JobStore:
    """The table of jobs; one process at a time holds it."""

    def __init__(self, path: Path) -> None:
        """Open or make the table.

        Raises:
            WorkspaceError: Another process holds it, or it cannot be opened.
        """
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(
                path, timeout=1.0, isolation_level=None, check_same_thread=False
            )
            # Two services on one folder would both take up an interrupted job.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN EXCLUSIVE")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, workspace TEXT NOT NULL, "
                "state TEXT NOT NULL, progress REAL NOT NULL, message TEXT NOT NULL, "
                "attempts INTEGER NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL)"
            )
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            folder = path.parent.resolve().name
            sentence = (
                f"The jobs in {folder!r} cannot be opened ({error}); free some space, or use "
                "another folder."
            )
            if "locked" in str(error):
                sentence = (
                    f"Another `stamo label` or `stamo serve` uses {folder!r}; its pages label "
                    "every workspace in it: use them, or end it first."
                )
            raise WorkspaceError(sentence) from error

    def close(self) -> None:
        """Let go of the table."""
        with self._lock:
            self._db.close()

    def add(self, workspace: str) -> Job:
        """Write down a job.

        Raises:
            WorkspaceError: The workspace has an unfinished one.
        """
        if any(job.workspace == workspace for job in self.unfinished()):
            raise WorkspaceError(
                f"{workspace!r} is being learned already; wait until that job is done."
            )
        now = _now()
        job = Job(uuid.uuid4().hex, workspace, "queued", 0.0, "waiting", 0, now, now)
        self._run("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", astuple(job))
        return job

    def get(self, key: str) -> Job:
        """Return one job.

        Raises:
            UnknownEntityError: There is none.
        """
        found = self._run("SELECT * FROM jobs WHERE id = ?", (key,))
        if not found:
            raise UnknownEntityError(f"There is no job {key[:40]!r}; list the jobs to see them.")
        return found[0]

    def all(self) -> list[Job]:
        """Return all jobs, the newest first."""
        return self._run("SELECT * FROM jobs ORDER BY rowid DESC LIMIT 200")

    def unfinished(self) -> list[Job]:
        """Return the jobs that are waiting or were running, the oldest first."""
        where = "WHERE state IN ('queued', 'running') ORDER BY rowid"
        return self._run(f"SELECT * FROM jobs {where}")

    def update(self, key: str, **values: object) -> None:
        """Change fields of a job; the names are ours."""
        fields = values | {"updated": _now()}
        assignments = ", ".join(f"{name} = ?" for name in fields)
        self._run(f"UPDATE jobs SET {assignments} WHERE id = ?", (*fields.values(), key))

    def _run(self, statement: str, values: tuple[object, ...] = ()) -> list[Job]:
        try:
            with self._lock:
                return [Job(*row) for row in self._db.execute(statement, values).fetchall()]
        except sqlite3.Error as error:
            raise WorkspaceError(
                f"The list of jobs cannot be used now ({error}); check the disk and its free space."
            ) from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class JobRunner:
    """Works jobs off one after the other in a thread of its own."""

    def __init__(self, path: Path, work: Work) -> None:
        self._path = path
        self._work = work
        self._store: JobStore | None = None
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._add = threading.Lock()

    @property
    def store(self) -> JobStore:
        """The table, once the runner was started."""
        if self._store is None:
            raise WorkspaceError("The service is not running; start it before asking for jobs.")
        return self._store

    def start(self) -> None:
        """Open the table and take up what an earlier process left; a second call does nothing."""
        if self._thread is not None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._store = JobStore(self._path)
        self._stop.clear()
        self._wake.set()
        self._thread = threading.Thread(target=self._loop, name="stamo-jobs", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """End the thread at the running job's next report; the job stays unfinished."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                return  # the table stays open for the thread; the process is about to end
            self._thread = None
        if self._store is not None:
            self._store.close()
            self._store = None

    def submit(self, workspace: str) -> Job:
        """Write a job down and start it when its turn comes."""
        with self._add:
            job = self.store.add(workspace)
        self._wake.set()
        return job

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                waiting = self.store.unfinished()
                if waiting:
                    self._run(waiting[0])
                    continue
                pause = None
            except WorkspaceError:
                logger.exception("The list of jobs could not be written; tried again soon")
                pause = RETRY_SECONDS
            self._wake.wait(pause)
            self._wake.clear()

    def _run(self, job: Job) -> None:
        store = self.store
        if job.attempts >= MAX_ATTEMPTS:
            message = f"It was interrupted {job.attempts} times; look at the log, then start again."
            store.update(job.id, state="failed", message=message)
            return
        store.update(job.id, state="running", attempts=job.attempts + 1)

        def on_progress(share: float, line: str) -> None:
            if self._stop.is_set():
                raise JobStoppedError
            store.update(job.id, progress=min(max(share, 0.0), 1.0), message=line[:500])

        try:
            line = self._work(job.workspace, on_progress)
        except JobStoppedError:
            # A restart that was asked for is not the job's fault.
            store.update(job.id, state="queued", attempts=job.attempts)
        except StamoError as error:
            store.update(job.id, state="failed", message=str(error))
        except OSError as error:
            store.update(job.id, state="failed", message=explain_os_error(error)[:500])
        except Exception:
            logger.exception("The job %s on %r failed", job.id, job.workspace)
            store.update(job.id, state="failed", message="It failed; the server's log says why.")
        else:
            store.update(job.id, state="done", progress=1.0, message=line[:500])
