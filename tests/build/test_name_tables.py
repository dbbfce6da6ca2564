"""Names on their way from the database to the tables that find them."""

import numpy as np
import pyarrow as pa
import pytest

from stamo.build import export as name_tables
from stamo.build.export import (
    LISTED_FILE,
    NameWriter,
    StagedNames,
    write_matcher,
    write_strings,
)
from stamo.kb.manifest import ALIAS_COUNTS, MATCHER
from stamo.kb.matching import NameMatcher
from stamo.kb.storage import StringTable, save_array

NAMES = ["Brig", "Corm", "New York", "Ähre", "of", "York", "Zug"]


@pytest.fixture
def staged(tmp_path, monkeypatch):
    monkeypatch.setattr(name_tables, "NAMES_PER_BATCH", 3)
    with NameWriter(tmp_path / "names.arrow") as writer:
        writer.append(pa.array(NAMES[:5]))
        writer.append(pa.array(NAMES[5:]))
    assert writer.n_names == len(NAMES)
    return tmp_path / "names.arrow"


def test_staged_names_come_in_order_as_often_as_asked(staged):
    """Whatever the batches they were written in."""
    names = StagedNames(staged)
    assert list(names) == NAMES
    assert list(names) == NAMES
    assert [len(batch) for batch in names.batches()] == [3, 2, 2]


def test_strings_are_numbered_in_the_order_of_the_file(staged, tmp_path):
    """The table finds every name under its place in the file."""
    write_strings(staged, tmp_path, "aliases")
    table = StringTable.open(tmp_path, "aliases")
    assert table.find_many(NAMES).tolist() == list(range(len(NAMES)))


def test_matcher_knows_linked_and_listed_names_only(staged, tmp_path):
    """A name keeps its number over all batches; one neither linked nor listed is not found."""
    save_array(tmp_path / ALIAS_COUNTS, [1, 0, 4, 1, 0, 0, 2], np.int32)
    for listed, names in ((None, [0, 6, 2]), (1, [1, 0, 6, 2])):
        save_array(tmp_path / LISTED_FILE, np.arange(len(NAMES)) == listed, np.bool_)
        write_matcher(staged, tmp_path)
        found = NameMatcher.open(tmp_path, MATCHER).find("Corm of Brig, York of Zug, New York")
        assert found.names.tolist() == names


def test_no_names_are_a_file_too(tmp_path):
    """A dump without redirects has none."""
    with NameWriter(tmp_path / "none.arrow"):
        pass
    write_strings(tmp_path / "none.arrow", tmp_path, "redirects")
    assert len(StringTable.open(tmp_path, "redirects")) == 0
