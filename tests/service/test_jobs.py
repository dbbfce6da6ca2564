import errno
import threading
import time
from pathlib import Path

import httpx
import pytest

from stamo.errors import LearningError, UnknownEntityError, WorkspaceError
from stamo.service import jobs
from stamo.service.jobs import MAX_ATTEMPTS, JobRunner, JobStore
from tests.service.support import ServerProcess

LEARN = "/api/workspaces/rey/learn"


def wait_for(condition):
    """Wait until a condition holds; the test's own time limit is generous."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it never happened")


def finish(client, key):
    job = {}

    def is_over():
        job.update(client.get(f"/api/jobs/{key}").json())
        return job["state"] in ("done", "failed")

    wait_for(is_over)
    return job


def test_a_job_reports_and_ends(client):
    """Learning runs in the background and ends with a line."""
    started = client.post(LEARN)
    assert started.status_code == 202
    job = finish(client, started.json()["id"])
    assert job["state"] == "done"
    assert job["progress"] == 1.0
    assert job["message"] == "learned rey"
    assert [j["id"] for j in client.get("/api/jobs").json()] == [job["id"]]


def test_progress_is_seen_while_it_runs(serve):
    """Between start and end the share and the line are told; a second start is a conflict."""
    go_on = threading.Event()

    def work(name, on_progress):
        on_progress(0.5, "half")
        go_on.wait(10)
        return "done"

    with serve(work) as client:
        key = client.post(LEARN).json()["id"]
        wait_for(lambda: client.get(f"/api/jobs/{key}").json()["message"] == "half")
        assert client.get(f"/api/jobs/{key}").json()["progress"] == 0.5
        assert client.post(LEARN).status_code == 409
        go_on.set()
        assert finish(client, key)["state"] == "done"
        assert client.post(LEARN).status_code == 202


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LearningError("Label about twenty documents first."), "Label about twenty"),
        (RuntimeError("secret"), "the server's log says why"),
    ],
)
def test_a_failed_job_says_why(serve, error, message):
    """Our errors are shown, others only logged; the next job runs all the same."""

    def work(name, on_progress):
        raise error

    with serve(work) as client:
        for _ in range(2):
            job = finish(client, client.post(LEARN).json()["id"])
            assert job["state"] == "failed"
            assert message in job["message"]
            assert "secret" not in job["message"]


def test_unknown_jobs_and_workspaces_are_404(client):
    """Only what is there can be learned or asked for."""
    assert client.get("/api/jobs/nothing").status_code == 404
    assert client.post("/api/workspaces/nobody/learn").status_code == 404


def test_a_stopped_service_resumes_its_job(serve):
    """A graceful stop interrupts the job at its next report; the next start goes on with it."""
    slots, started = [], threading.Event()

    def endless(name, on_progress):
        while True:
            slots.append(1)
            on_progress(0.1, "going on")
            started.set()
            time.sleep(0.005)

    with serve(endless) as client:
        key = client.post(LEARN).json()["id"]
        assert started.wait(10)
    with serve() as client:
        job = finish(client, key)
        assert job["state"] == "done"
        assert job["attempts"] == 1


def test_a_killed_server_resumes_its_job(root):
    """After kill -9 during learning: the next process goes on behind the last slot on disk."""
    headers = {"X-Stamo": "1"}
    server = ServerProcess(root)
    try:
        key = httpx.post(f"{server.address}{LEARN}", headers=headers).json()["id"]
        wait_for(lambda: (root / "slots.txt").exists())
    finally:
        server.kill()
    assert len((root / "slots.txt").read_text().split()) < 20
    server = ServerProcess(root)
    try:
        with httpx.Client(base_url=server.address) as client:
            job = finish(client, key)
        assert job["state"] == "done"
        assert job["attempts"] == 2
        slots = [int(line) for line in (root / "slots.txt").read_text().split()]
        assert slots == list(range(20))
    finally:
        server.kill()


def test_a_job_that_ends_the_process_is_given_up(tmp_path):
    """After several interruptions a job is not tried again."""
    path = tmp_path / "jobs.sqlite"
    store = JobStore(path)
    job = store.add("rey")
    store.update(job.id, state="running", attempts=MAX_ATTEMPTS)
    store.close()
    runner = JobRunner(path, lambda name, on_progress: pytest.fail("it was tried again"))
    runner.start()
    try:
        wait_for(lambda: runner.store.get(job.id).state == "failed")
        assert "interrupted" in runner.store.get(job.id).message
    finally:
        runner.stop()


def test_one_service_holds_the_jobs(tmp_path, monkeypatch):
    """A second service on the same folder is refused; after the first ends it may start."""
    first = JobStore(tmp_path / "jobs.sqlite")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkspaceError, match=f"Another .* uses '{tmp_path.name}'"):
        JobStore(Path("jobs.sqlite"))
    first.close()
    second = JobStore(tmp_path / "jobs.sqlite")
    with pytest.raises(UnknownEntityError):
        second.get("x")
    second.close()


def test_a_file_that_holds_no_jobs_is_refused(tmp_path):
    """A damaged table is one sentence, not a trace."""
    (tmp_path / "jobs.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(WorkspaceError, match=r"cannot be opened .*; free some space"):
        JobStore(tmp_path / "jobs.sqlite")


def test_a_disk_that_refuses_for_a_while_stops_no_later_job(tmp_path, monkeypatch):
    """While the table cannot be written, jobs are refused in a sentence; then they run again."""
    monkeypatch.setattr(jobs, "RETRY_SECONDS", 0.01)
    refused = threading.Event()

    def work(name, on_progress):
        if not refused.is_set():
            runner.store._db.execute("PRAGMA query_only = 1")  # as on a disk without room
            with pytest.raises(WorkspaceError, match="free space"):
                runner.submit("other")
            refused.set()
            on_progress(0.5, "this cannot be written down")
        return "learned"

    runner = JobRunner(tmp_path / "jobs.sqlite", work)
    runner.start()
    try:
        job = runner.submit("rey")
        assert refused.wait(20)
        runner.store._db.execute("PRAGMA query_only = 0")
        wait_for(lambda: not runner.store.unfinished())
        assert runner.store.get(job.id).message == "learned"
    finally:
        runner.stop()


def test_a_full_disk_is_the_message_of_a_job(tmp_path):
    """Learning on a full disk says so."""

    def work(name, on_progress):
        raise OSError(errno.ENOSPC, "No space left on device", "slots/1")

    runner = JobRunner(tmp_path / "jobs.sqlite", work)
    runner.start()
    try:
        job = runner.submit("rey")
        wait_for(lambda: not runner.store.unfinished())
        assert "The disk is full" in runner.store.get(job.id).message
    finally:
        runner.stop()
