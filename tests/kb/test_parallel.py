"""Worker processes: their order, their threads, and the environment they leave behind."""

import os

from stamo.kb.parallel import Workers


def threads_of(_number):
    return os.environ.get("OPENBLAS_NUM_THREADS"), os.getpid()


def test_workers_compute_in_one_thread_and_leave_the_environment_alone(monkeypatch):
    """Processes that share the cores do not start threads of their own; the caller keeps his."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with Workers(2) as workers:
        seen = list(workers.map(threads_of, range(4)))
    assert {threads for threads, _ in seen} == {"1"}
    assert os.getpid() not in {process for _, process in seen}
    assert os.environ["OPENBLAS_NUM_THREADS"] == "7"
    assert "OMP_NUM_THREADS" not in os.environ


def test_one_worker_is_the_caller_itself(monkeypatch):
    """A single worker starts no process and changes nothing."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    with Workers(1) as workers:
        assert list(workers.map(threads_of, range(2))) == [("7", os.getpid())] * 2
