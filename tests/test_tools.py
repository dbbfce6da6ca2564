"""The scripts for those who work on the project."""

import json

import numpy as np
import pytest

from stamo.build.build import build_knowledge_base
from stamo.build.settings import BuildSettings
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from stamo_lab.cluster import gather_steps, makespan, table_lines
from stamo_lab.many_entities import invent_texts, linked_names, write_pages
from tools import get_tools
from tools.compare import compare_sides


@pytest.fixture
def sides(tmp_path):
    """Two folders with the same files."""
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "a.npy", np.array([1.0, 2.0], dtype=np.float32))
        record = {"seconds": 1.5, "kb": f"/{name}/kb", "count": 3, "deep": {"list": [1, 2]}}
        (tmp_path / name / "a.json").write_text(json.dumps(record))
        (tmp_path / name / "a.jsonl").write_text('{"f1": 0.5, "seconds": 1}\n')
    return tmp_path / "before", tmp_path / "after"


def test_measured_seconds_and_places_are_no_difference(sides):
    """What differs from run to run is left out; all else is compared byte by byte."""
    (sides[1] / "a.jsonl").write_text('{"f1": 0.5, "seconds": 2}\n')
    result = compare_sides(*sides)
    assert (result.equal, result.alike, result.found) == (1, 2, {})


def test_differences_are_named(sides):
    """A difference is told by file and by key, array or line."""
    np.save(sides[1] / "a.npy", np.array([1.0, 2.5], dtype=np.float32))
    (sides[1] / "a.json").write_text('{"kb": "/x/kb", "count": 3, "deep": {"list": [1, 4]}}')
    (sides[1] / "a.jsonl").write_text('{"f1": 0.6}\n')
    (sides[0] / "gone.bin").write_bytes(b"x")
    assert compare_sides(*sides).found == {
        "a.json": ["deep.list[1]: 2 -> 4"],
        "a.jsonl": ["line 1.f1: 0.5 -> 0.6"],
        "a.npy": ["1 of 2 values differ, by 0.5 at most"],
        "gone.bin": ["only before"],
    }


def test_a_tool_that_cannot_be_had_stops_nothing(monkeypatch, capsys, tmp_path):
    """Without a path, a network and root nothing is found, and the attempt ends in one sentence."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(get_tools.sys, "executable", str(tmp_path / "no-python"))
    get_tools.get_chromium()
    get_tools.get_java()
    assert get_tools.find_chromium() is None
    assert get_tools.find_java() is None
    assert "Getting Chromium" in capsys.readouterr().out


def test_a_stub_is_no_browser(monkeypatch, tmp_path):
    """A program of the right name that fails to start is not taken."""
    stub = tmp_path / "chromium-browser"
    stub.write_text("#!/bin/sh\nexit 1\n")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    assert get_tools.find_chromium() is None


def task_end(stage, seconds, shuffled, failed=False):
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Task Info": {"Launch Time": 1000, "Finish Time": 1000 + 1000 * seconds, "Failed": failed},
        "Task Metrics": {"Shuffle Write Metrics": {"Shuffle Bytes Written": shuffled}},
    }


def test_events_of_spark_become_steps():
    """Tasks are added up by the description of their job; failed ones are only counted."""
    events = [
        {
            "Event": "SparkListenerJobStart",
            "Stage IDs": [0, 1],
            "Properties": {"spark.job.description": "stage_chunk"},
        },
        task_end(0, 1, 10),
        task_end(1, 3, 20),
        task_end(0, 9, 0, failed=True),
        task_end(7, 2, 0),
    ]
    first, second = gather_steps(events)
    assert (first.name, first.seconds, first.n_shuffled, first.n_failed) == (
        "stage_chunk",
        [1, 3],
        30,
        1,
    )
    assert (first.mean, first.skew, second.name) == (2, 1.5, "other")
    assert "| stage_chunk | 2 | 1 | 2.00 | 1.5 | 0.0 | 21 s |" in table_lines([first], 10, [2])


def test_simulated_tasks_go_to_the_first_free_core():
    """Two cores share four tasks of 3, 1, 1 and 1 seconds evenly; the longest bounds the rest."""
    assert makespan([3, 1, 1, 1], 1, 2) == 3
    assert makespan([3, 1, 1, 1], 1, 1) == 6
    assert makespan([3, 1, 1, 1], 1, 99) == 3
    assert makespan([1], 1_000_000, 1000) == 1001
    assert makespan([], 5, 2) == 0


def test_many_entities_are_so_many(tmp_path):
    """The invented dump gives the entities asked for and two names for each, and texts use them."""
    write_pages(tmp_path / "many.xml", 60)
    settings = BuildSettings(dimensions=0, held_out=0.0)
    build_knowledge_base(tmp_path / "many.xml", tmp_path / "kb", settings)
    kb = KnowledgeBase.open(tmp_path / "kb")
    assert (kb.n_entities, kb.n_aliases, kb.n_documents) == (60, 120, 6)
    text = invent_texts(linked_names(kb))[0]
    assert len(Linker(kb).link(text)) == 40
