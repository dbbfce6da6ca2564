"""The scripts for those who work on the project."""

import json

import numpy as np
import pytest

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
