import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stamo.cli import demo
from stamo.cli.main import create_app
from stamo.packs.pack import EntityPack
from stamo.workspace.folder import Workspace


@pytest.mark.slow
def test_the_demo_for_programs(tmp_path, monkeypatch):
    """The result alone is on stdout, the story elsewhere."""
    monkeypatch.setattr(demo, "N_PAIRS", 300)
    monkeypatch.setattr(demo, "N_EPOCHS", 1)
    app = create_app(["demo"])
    arguments = ["demo", str(tmp_path / "demo"), "--json"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    record = json.loads(result.stdout)
    assert Path(record["report"]).exists()
    assert set(record["linked"]["with the learned pack"]) == {"n", "emerging", "accuracy"}
    assert "The report" in result.stderr


@pytest.mark.slow
def test_the_demo_tells_the_whole_story(tmp_path, monkeypatch):
    """It ends with a pack that links better than none, a report, and unchanged artifacts."""
    monkeypatch.setattr(demo, "N_PAIRS", 600)
    monkeypatch.setattr(demo, "N_EPOCHS", 3)
    app = create_app(["demo"])
    out = tmp_path / "demo"
    arguments = ["demo", str(out)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "120"}, catch_exceptions=False)
    assert result.exit_code == 0
    text = result.output
    for part in (
        "meaning",
        "world's own answers",
        "before",
        "after",
        "without the pack",
        "Unchanged:",
    ):
        assert part in text
    assert str((out / "workspace" / "report.html").resolve()) in text.replace("\n", "")
    workspace = Workspace.open(out / "workspace")
    assert workspace.status().labels.n_labelled == 20
    EntityPack.load(out / "workspace" / "packs" / "workspace.stamo")
    rows = {
        line.split("  ")[0].strip(): float(line.split()[-1])
        for line in map(str.strip, text.splitlines())
        if line.startswith(("without the pack", "with the learned pack"))
    }
    assert rows["with the learned pack"] > rows["without the pack"]
    assert str(tmp_path) in text
