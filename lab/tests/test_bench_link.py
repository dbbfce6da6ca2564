"""`stamo-lab bench link` from the outside."""

import io
import json
from pathlib import Path

from rich.console import Console
from typer.testing import CliRunner

import stamo
from stamo_lab.bench.link import Speed, SpeedReport
from stamo_lab.cli.bench import print_speeds
from stamo_lab.cli.main import create_app
from tests.linking.small import untrained, world_kb


def test_bench_link(tmp_path):
    """The benchmark reports every way to link, as a table or as JSON."""
    kb = world_kb()
    model = tmp_path / "world.safetensors"
    untrained(kb).save(model)
    source = Path(stamo.__file__).parents[1]
    args = ("--documents", 4, "--length", 400, "--workers", 2, "--seconds", 0, "--before", source)
    line = ["bench", "link", str(kb.path), str(model), *map(str, args), "--json"]
    result = CliRunner().invoke(create_app(), line, catch_exceptions=False)
    report = json.loads(result.stdout)
    assert report["n_documents"] == 4
    alone, together, prior, *before, plain = report["ways"]
    assert alone["ratio"] == 1.0
    assert report["n_scored"] > 0
    assert plain["name"] == "mention by mention"
    assert [way["name"] for way in before] == ["before, 1 process", "before, 2 processes"]
    linked = [round(w["mentions_per_second"] * w["seconds"]) for w in (alone, together, *before)]
    assert linked[0] > 0
    assert linked == linked[:1] * 4
    assert prior["megabytes_per_second"] > 0
    console = Console(file=io.StringIO(), width=120)
    print_speeds(
        SpeedReport(**report | {"ways": [Speed(**way) for way in report["ways"]]}), console
    )
    assert "before, 2 processes" in console.file.getvalue()
