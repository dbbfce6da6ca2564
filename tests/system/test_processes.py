"""Worker processes: their order, end and threads, and the environment they leave behind."""

import os
import sys
import threading

import pyarrow as pa
import pytest

from stamo.errors import WorkerError
from stamo.system.processes import Workers, one_thread


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


def double(number):
    return 2 * number


def die(number):
    os._exit(3)


def test_death_of_a_worker_is_one_sentence():
    """A worker that the system killed for lack of memory is reported as such."""
    with Workers(2) as workers, pytest.raises(WorkerError, match="worker process died"):
        list(workers.map(die, range(3)))
    with Workers(2) as workers, pytest.raises(WorkerError, match="worker process died"):
        workers.start(die, 0)()


def holds_a_mark(_number):
    return hasattr(sys, "stamo_mark")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are never forked")
def test_workers_that_may_be_forked_are_so_only_by_a_caller_without_threads(monkeypatch):
    """Forked workers hold what the caller holds; beside a thread, or torch, they start afresh."""
    monkeypatch.setattr(sys, "stamo_mark", True, raising=False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    with Workers(2, may_fork=True) as workers:
        assert list(workers.map(holds_a_mark, range(2))) == [True, True]
    with Workers(2) as workers:
        assert list(workers.map(holds_a_mark, range(2))) == [False, False]
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    with Workers(2, may_fork=True) as workers:
        assert list(workers.map(holds_a_mark, range(2))) == [False, False]


def test_results_come_in_order_and_errors_when_waited_for():
    """From one process or two; what a worker is started on returns or raises in the end."""
    for n_workers in (1, 2):
        with Workers(n_workers) as workers:
            assert list(workers.map(double, range(20))) == list(range(0, 40, 2))
            assert workers.start(double, 21)() == 42
            with pytest.raises(TypeError):
                workers.start(double, None)()


def test_an_inherited_function_is_not_copied():
    """What the caller holds is there in forked workers, also what cannot be sent to them."""
    held = {"unsendable": lambda number: 2 * number}

    def look_up(number):
        return held["unsendable"](number), os.getpid()

    for n_workers in (1, 2):
        with Workers(n_workers, inherited=look_up) as workers:
            results = list(workers.map(look_up, range(20)))
        assert [result for result, _ in results] == list(range(0, 40, 2))
        assert (os.getpid() in {process for _, process in results}) == (n_workers == 1)


def arrow_and_pandas(_number):
    names = pa.array(["a", "b"]).to_pylist()
    was_imported = "pandas" in sys.modules
    import pandas

    return names, was_imported, pandas.__name__


def test_arrow_in_workers_does_without_pandas():
    """Arrow does not import pandas in a worker; whoever wants it there still can."""
    pytest.importorskip("pandas")
    with Workers(2) as workers:
        assert workers.start(arrow_and_pandas, 0)() == (["a", "b"], False, "pandas")


@pytest.fixture
def torch():
    """Torch with two threads; imported here, so that workers of this module do without it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield torch
    torch.set_num_threads(before)


def test_the_outer_one_sets_and_restores(torch, monkeypatch):
    """Also when what runs inside fails; a nested one touches nothing."""
    with one_thread():
        assert torch.get_num_threads() == 1
        monkeypatch.setattr(torch, "set_num_threads", lambda n: pytest.fail("set inside"))
        with pytest.raises(ValueError, match="inside"), one_thread():
            raise ValueError("inside")
        monkeypatch.undo()
    assert torch.get_num_threads() == 2
    with pytest.raises(ValueError, match="inside"), one_thread():
        raise ValueError("inside")
    assert torch.get_num_threads() == 2
