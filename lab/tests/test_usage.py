"""Measuring a command: the memory of its whole process tree, and its failures."""

import os
import sys

import pytest

from stamo.errors import SuiteError
from stamo_lab.bench.usage import (
    Usage,
    measure,
    one_after_the_other,
    timed_and_watched,
    tree_memory,
)


@pytest.mark.skipif(
    tree_memory(os.getpid())[1] is None, reason="the system does not tell proportional memory"
)
def test_memory_of_started_processes_counts(tmp_path):
    """The peak holds what a child of the command uses, and the child's pages only once in PSS."""
    child = "import time; held = bytearray(80_000_000); time.sleep(1)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process_tree, _ = measure("it", [sys.executable, "-c", code], tmp_path)
    assert process_tree.peak_resident > 80_000_000
    assert 80_000_000 < process_tree.peak_proportional <= process_tree.peak_resident


def test_time_is_measured_without_watching_and_joined_with_the_memory_of_another_run(tmp_path):
    """A run that is not watched tells its time alone; the watched one adds the memory."""
    code = "import time; time.sleep(0.2)"
    timed, _ = measure("it", [sys.executable, "-c", code], tmp_path, watched=False)
    assert timed.seconds >= 0.2
    assert timed.peak_resident is None
    joined = timed_and_watched(timed, Usage(9.0, 50, 40, 8.0))
    assert joined == Usage(timed.seconds, 50, 40, timed.cpu_seconds)


def test_failure_of_a_run_is_told_in_its_own_words(tmp_path):
    """A command that fails ends the measurement with its last line."""
    code = "import sys; print('no room', file=sys.stderr); sys.exit(3)"
    with pytest.raises(SuiteError, match="run of packing ended with status 3 and said: no room"):
        measure("packing", [sys.executable, "-c", code], tmp_path)


def test_steps_add_their_time_and_not_their_memory():
    """Of steps that ran one after the other, the largest sets the memory."""
    together = one_after_the_other([Usage(1.0, 50, 40, 2.0), Usage(2.5, 80, 30, 3.0)])
    assert together == Usage(3.5, 80, 40, 5.0)


def test_unknown_memory_stays_unknown():
    """Where nothing can be sampled, no number is made up."""
    assert one_after_the_other([Usage(1.0, None, None, 1.0)]).peak_resident is None
