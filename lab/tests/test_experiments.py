"""Experiment files: every row of the paper's tables can be loaded, and says what is printed."""

from collections import Counter
from pathlib import Path

import pytest

from stamo.errors import SettingsError
from stamo.models.store import MODELS
from stamo_lab.methods import METHODS
from stamo_lab.tables import EXPERIMENTS, PRINTED, load_experiment

FILES = sorted(EXPERIMENTS.glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_holds_a_printed_row(path):
    """Method and model exist, and the numbers are those of the table."""
    experiment = load_experiment(path)
    assert experiment in PRINTED
    assert experiment.method in METHODS
    assert experiment.model in {*MODELS, ""}


def test_every_printed_row_has_a_file():
    """No row of Tables 3 to 5 is left out, and each is found by its name alone."""
    n_rows = Counter(row.table for row in PRINTED)
    assert n_rows == {3: 14, 4: 4, 5: 4}
    assert load_experiment(Path("table4-stamo")) in PRINTED


def test_bad_file_is_an_error(tmp_path):
    """The message names the file and where good ones are."""
    path = tmp_path / "bad.toml"
    path.write_text("table = 'three'")
    with pytest.raises(SettingsError, match="experiments/"):
        load_experiment(path)
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        load_experiment(tmp_path / "missing.toml")
