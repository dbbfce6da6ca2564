"""The scripts for those who work on the project."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from tools import get_tools
from tools.compare import OLDER, Step, compare_sides, make_side
from tools.walks import BUDGET, count, row


@pytest.fixture
def sides(tmp_path):
    """Two folders with the same files."""
    found = tmp_path / "before", tmp_path / "after"
    for side in found:
        (side / "packs").mkdir(parents=True)
        (side / "world-kb").mkdir()
        (side / "world-kb" / "a.npy").write_bytes(b"abc")
        (side / "world-kb" / "manifest.json").write_text(str(side))
        mention = {"start": 0, "end": 3, "entity": "Oslo", "confidence": 0.5}
        line = json.dumps({"id": "1", "mentions": [mention]})
        (side / "world-linked.jsonl").write_text(line)
        (side / "world-linked-packs.jsonl").write_text(line)
        save_file({"a": np.ones(3, np.float32)}, side / "packs" / "0-default.stamo")
        (side / "runs" / "easy").mkdir(parents=True)
        outcome = {"n": 10, "right": 8, "predicted": 4, "gold": 4, "hits": 3}
        result = {"method": "default", "model": "deeped", "n_labels": 20}
        (side / "runs/easy/results.jsonl").write_text(
            json.dumps(result | {"outcomes": {"web": outcome}})
        )
    return found


def verdicts(sides):
    return {row.what: (row.found, row.is_good) for row in compare_sides(*sides)}


def test_equal_sides_are_good_row_by_row(sides):
    """Manifests differ from run to run and are no difference; what neither side has is no row."""
    assert verdicts(sides) == {
        "knowledge base world-kb": ("1 files equal", True),
        "world-linked, no packs": ("1 of 1 lines equal", True),
        "world-linked-packs, mentions": ("1 mentions alike, 0 differ", True),
        "pack 0-default": ("1 tensors", True),
        "suite easy": ("2 of 2 figures equal", True),
    }


def test_differences_are_named(sides):
    """Each row says what differs, how far, and whether that is allowed."""
    after = sides[1]
    (after / "world-kb" / "a.npy").write_bytes(b"abd")
    for name in ("world-linked", "world-linked-packs"):
        path = after / f"{name}.jsonl"
        path.write_text(path.read_text().replace("0.5", "0.5001"))
    save_file({"b": np.full(3, 1.1, np.float32)}, after / "packs" / "0-default.stamo")
    results = after / "runs/easy/results.jsonl"
    results.write_text(results.read_text().replace('"hits": 3', '"hits": 4'))
    assert verdicts(sides) == {
        "knowledge base world-kb": ("0 files equal, not a.npy", False),
        "world-linked, no packs": (
            "0 of 1 lines equal, not lines 1; 1 mentions alike, 0 differ",
            False,
        ),
        "world-linked-packs, mentions": ("1 mentions alike, 0 differ", True),
        "pack 0-default": ("1 tensors, furthest a", False),
        "suite easy": ("1 of 2 figures equal, furthest default deeped 20 web F1", False),
    }


def test_a_tree_is_spoken_to_in_its_own_words(tmp_path):
    """An option that a tree does not know goes by its older name; a done step is not run again."""
    package = tmp_path / "src" / "stamo"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import sys\nprint('--reading' if '--help' in sys.argv else sys.argv[1:])\n"
    )
    step = Step("learn", ("learn", "x", "--method", "default"), output="said.txt")
    make_side(tmp_path / "src", tmp_path / "side", [step])
    said = (tmp_path / "side" / "said.txt").read_text()
    assert said == "['learn', 'x', '--reading', 'default']\n"
    assert OLDER["--method"] == "--reading"
    (package / "__main__.py").unlink()
    make_side(tmp_path / "src", tmp_path / "side", [step])


def test_walks_are_counted_beside_their_budget():
    """Functions, modules, and changes of package in the order of first calls."""
    passed = [("stamo.cli.main", "a"), ("stamo.kb.base", "b"), ("stamo.kb.base", "c")]
    assert count(passed) == (3, 2, 1)
    assert count([*passed, ("stamo.cli.main", "a")]) == (3, 2, 2)
    assert "3 of 190" in row("tree", "learn", (3, 2, 1))
    assert "191 of 190!" in row("tree", "learn", (191, 2, 1))
    assert set(BUDGET) == {"learn", "link", "link --with"}


def test_a_tool_that_cannot_be_had_stops_nothing(monkeypatch, capsys, tmp_path):
    """Without path and network only a stub is found, which is no browser; one sentence says so."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(get_tools.sys, "executable", str(tmp_path / "no-python"))
    stub = tmp_path / "chromium-browser"
    stub.write_text("#!/bin/sh\nexit 1\n")
    stub.chmod(0o755)
    get_tools.get_chromium()
    get_tools.get_java()
    assert get_tools.find_chromium() is None
    assert get_tools.find_java() is None
    assert "Getting Chromium" in capsys.readouterr().out
