"""The bench of a pass finds what is there, and says how much faster one pass is than many."""

import json

import pytest
from typer.testing import CliRunner

from stamo.errors import SettingsError
from stamo_lab.bench.collect import draw_names, measure_passes, measure_whole
from stamo_lab.cli.main import create_app


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


def test_the_whole_is_measured_beside_one_common_name(world, world_kb, world_model):
    """One entity and six of one name each keep about as many documents."""
    one, many = measure_whole([world.paths.pile_path], world_kb, world_model, 6, n_aliases=1)
    assert (one.n_entities, many.n_entities) == (1, 6)
    assert 0.4 * one.n_kept <= many.n_kept <= 2.5 * one.n_kept
    assert one.seconds_per_kept > 0 < many.seconds_per_kept


def test_a_knowledge_base_without_a_model_is_refused(source, tmp_path):
    """Half of what linking needs would measure nothing."""
    arguments = ["bench", "collect", str(source), "--entities", "1", "--kb", str(tmp_path)]
    result = CliRunner().invoke(create_app(), arguments)
    assert "--kb and --model belong together" in str(result.exception)
