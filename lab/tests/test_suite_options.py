"""Options of `stamo-lab suite` that a suite would ignore are refused before anything is read."""

import json

import pytest
from typer.testing import CliRunner

from stamo.errors import SettingsError
from stamo_lab.cli.main import create_app


def refused(line):
    """Return the sentence with which a command is refused."""
    done = CliRunner().invoke(create_app(), ["suite", *line.split()])
    assert isinstance(done.exception, SettingsError), done.output
    return str(done.exception)


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("natural", "--level easy"),
        ("natural", "--corpus news.jsonl"),
        ("conflated", "--frequency 1 2"),
        ("conflated", "--labels judged.tsv"),
        ("facc1", "--model deeped.safetensors"),
        ("wild", "--least-documents 3"),
        ("wild", "--seed 0"),
    ],
)
def test_making_refuses_options_of_other_suites(tmp_path, kind, option):
    """The sentence names the option, also where its value is the default, and whose it is."""
    sentence = refused(f"make {kind} --kb {tmp_path} --out {tmp_path / 'suite'} {option}")
    assert sentence.startswith(f"{option.split()[0]} would be ignored: it is for a suite of kind ")
    assert f"this one is {kind};" in sentence


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("wild", "--labels 5"),
        ("wild", "--models yamada"),
        ("wild", "--bert"),
        ("wild", "--split all"),
        ("conflated", "--labels-by advisor"),
        ("natural", "--no-description"),
    ],
)
def test_running_refuses_options_of_other_suites(tmp_path, kind, option):
    """Twenty labels where five were asked for would be found out only in the tables."""
    (tmp_path / "manifest.json").write_text(json.dumps({"kind": kind}))
    sentence = refused(f"run {tmp_path} --kb {tmp_path} --out {tmp_path / 'runs'} {option}")
    assert "would be ignored" in sentence
    assert f"this one is {kind};" in sentence
