"""The bench of a pass finds what is there, and says how much faster one pass is than many."""

import json

import pytest
from typer.testing import CliRunner

from stamo.cli.main import create_app
from stamo.errors import SettingsError
from stamo.replication.bench_collect import draw_names, measure_passes


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("crawl") / "crawl.jsonl"
    names = [f"{a}{b}or" for a in ("Ald", "Bem", "Cur", "Dov") for b in ("ar", "in", "em", "os")]
    filler = "and so it went on for a while " * 20
    texts = (f"Here {name} came. {filler}" for name in names for _ in range(1))
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def test_every_size_is_measured(source):
    """Each entity's names are found once, and ratios are to the first size."""
    speed = measure_passes([source], (1, 4), n_aliases=2)
    one, four = speed.passes
    assert (one.n_documents, four.n_documents) == (2, 8)
    assert one.ratio == one.scan_ratio == 1
    assert four.ratio == pytest.approx(one.seconds / four.seconds)
    assert speed.n_bytes == source.stat().st_size


def test_too_few_names_are_told(source):
    """A text without enough rare names is refused with the numbers."""
    with pytest.raises(SettingsError, match="hold 16 rare names, 50 are needed"):
        draw_names([source], 50)


def test_the_command_prints_json(source):
    """A program gets the same figures."""
    result = CliRunner().invoke(
        create_app(), ["bench", "collect", str(source), "--entities", "1,2", "--json"]
    )
    assert [one["n_entities"] for one in json.loads(result.stdout)["passes"]] == [1, 2]
