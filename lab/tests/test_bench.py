"""The command `stamo bench build`."""

import json

import pytest
from typer.testing import CliRunner

from stamo.cli.output import parse_sizes
from stamo.errors import SettingsError
from stamo_lab.bench import build as bench
from stamo_lab.bench.build import BuildBench, Measured, Usage
from stamo_lab.cli.main import create_app

OURS = Measured(
    "stamo",
    100.0,
    Usage(20.0, 400_000_000, 300_000_000, 35.0),
    50_000_000,
    {"articles": 70, "entities": 900, "aliases": 1000},
    {"reading the dump": 12.5},
)
THEIRS = Measured(
    "wikipedia2vec",
    100.0,
    Usage(150.0, 800_000_000, 450_000_000, 260.0),
    60_000_000,
    {"articles": 70, "entities": 100, "aliases": 110},
    {"dump db": 99.5},
)


@pytest.fixture
def app():
    return create_app()


@pytest.fixture
def asked(monkeypatch):
    """Stand in for the measurement; keep what it was asked for."""
    calls = []

    def fake(dump, args, say):
        calls.append((dump, args))
        return BuildBench((OURS,), None if args.ours_only else THEIRS)

    monkeypatch.setattr(bench, "bench_build", fake)
    return calls


def run(app, *arguments):
    return CliRunner().invoke(app, ["bench", "build", *arguments], env={"COLUMNS": "150"})


def test_table_shows_both_programs_and_their_ratio(app, asked):
    """Seconds stand side by side with how many times as long the other program takes."""
    result = run(app, "dump.xml", "--workers", "3", "--sizes", "10,20")
    assert result.exit_code == 0, result.output
    (line,) = (line for line in result.output.splitlines() if line.startswith("│ seconds"))
    assert [cell.strip() for cell in line.split("│")[2:5]] == ["20.0", "150.0", "7.50"]
    assert "3 processes" in result.output
    assert asked[0][1].workers == 3
    assert asked[0][1].sizes == (10, 20)


def test_ours_only_shows_the_sizes_alone(app, asked):
    """Without the other program there is nothing to compare with."""
    result = run(app, "dump.xml", "--ours-only")
    assert result.exit_code == 0, result.output
    assert "wikipedia2vec" not in result.output
    assert "MB per second" in result.output


def test_json_holds_the_speedup(app, asked):
    """Programs read the same numbers."""
    result = run(app, "dump.xml", "--json")
    record = json.loads(result.stdout)
    assert record["speedup"] == 7.5
    assert record["ours"][0]["usage"]["peak_resident"] == 400_000_000


def test_sizes_are_whole_numbers():
    """A wrong list of sizes is told with an example of a right one."""
    assert parse_sizes("25, 50") == (25, 50)
    assert parse_sizes("") == ()
    with pytest.raises(SettingsError, match="25,50,100"):
        parse_sizes("25;50")
