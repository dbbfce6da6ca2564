"""Background jobs: one thread that works them off, and a list in memory of how far each is.

Learning takes about a second, so a restart forgets the jobs: whoever asked asks again.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from stamo.errors import StamoError, UnknownEntityError, WorkspaceError
from stamo.system.files import explain_os_error
from stamo.workspace.learn import OnProgress

logger = logging.getLogger(__name__)

MAX_JOBS = 200
"""Jobs that are remembered."""

Work = Callable[[OnProgress], str]
"""Does something and returns a closing line."""


class JobStoppedError(Exception):
    """Raised inside a job by its progress call when the service shuts down."""


@dataclass(frozen=True)
class Job:
    """A piece of background work and how far it is."""

    id: str
    workspace: str
    state: str
    """`queued`, `running`, `done` or `failed`."""
    progress: float
    message: str
    created: str
    updated: str
    proposal: str = ""
    """The id of the proposal that the workspace is made of; empty where it is learned."""


class Jobs:
    """The jobs of a service, worked off one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="stamo-jobs")
        self._is_closing = False

    def submit(self, workspace: str, work: Work, proposal: str = "") -> Job:
        """Start work on a workspace when its turn comes.

        Raises:
            WorkspaceError: A job of this workspace is under way.
        """
        now = _now()
        job = Job(uuid.uuid4().hex, workspace, "queued", 0.0, "waiting", now, now, proposal)
        with self._lock:
            if any(other.workspace == workspace for other in self._unfinished()):
                raise WorkspaceError(
                    f"{workspace!r} is being learned already; wait until that job is done."
                )
            self._jobs[job.id] = job
            for oldest in list(self._jobs)[:-MAX_JOBS]:
                del self._jobs[oldest]
        self._pool.submit(self._run, job.id, work)
        return job

    def get(self, key: str) -> Job:
        """Return one job.

        Raises:
            UnknownEntityError: There is none.
        """
        if (job := self._jobs.get(key)) is None:
            raise UnknownEntityError(f"There is no job {key[:40]!r}; list the jobs to see them.")
        return job

    def all(self) -> list[Job]:
        """Return all jobs, the newest first."""
        return list(self._jobs.values())[::-1]

    def accepting(self) -> dict[str, str]:
        """Return the workspaces that are being made, by the id of their proposal."""
        with self._lock:
            return {job.proposal: job.workspace for job in self._unfinished() if job.proposal}

    def close(self) -> None:
        """End the running job at its next report and start no other."""
        self._is_closing = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _unfinished(self) -> list[Job]:
        return [job for job in self._jobs.values() if job.state in ("queued", "running")]

    def _note(self, key: str, state: str, progress: float, message: str) -> None:
        with self._lock:
            job = self._jobs[key]
            self._jobs[key] = replace(
                job, state=state, progress=progress, message=message[:500], updated=_now()
            )

    def _run(self, key: str, work: Work) -> None:
        def on_progress(share: float, line: str) -> None:
            if self._is_closing:
                raise JobStoppedError
            self._note(key, "running", min(max(share, 0.0), 1.0), line)

        try:
            on_progress(0.0, "starting")
            self._note(key, "done", 1.0, work(on_progress))
        except JobStoppedError:
            pass
        except Exception as error:
            message = "It failed; the server's log says why."
            if isinstance(error, StamoError):
                message = str(error)
            elif isinstance(error, OSError):
                message = explain_os_error(error)
            else:
                logger.exception("The job on %r failed", self._jobs[key].workspace)
            self._note(key, "failed", self._jobs[key].progress, message)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
