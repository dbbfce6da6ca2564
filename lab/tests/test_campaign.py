"""The campaign of hostile input: a short run finds nothing, and injected faults are seen."""

import random

import pytest

from stamo.workspace import label_files
from stamo_lab.campaign import documents, faults, growth, power
from stamo_lab.campaign.__main__ import PARTS, prepare
from stamo_lab.campaign.table import run, show

SEED = "1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the campaign attacks."""
    path = tmp_path_factory.mktemp("campaign")
    made = prepare(path)
    assert not made.n_failed, made.first_failure
    return path


def rows_of(folder, parts, seconds, only=""):
    targets = [t for part in parts for t in part.targets(folder, SEED) if only in t.name]
    return list(run(targets, seconds))


@pytest.mark.slow
def test_a_short_campaign_finds_nothing(folder, capsys):
    """The campaign of a minute ends, prints one table, and nothing has failed."""
    targets = [target for part in PARTS.values() for target in part(folder, SEED)]
    is_well = show(run(targets, 60))
    shown = capsys.readouterr().out
    assert is_well, shown
    for kind in ("readers", "artifacts", "power cuts", "interleavings", "kills", "full disk"):
        assert f"\n| {kind} | " in shown
    assert "\n| all | " in shown


def test_a_label_that_is_not_synced_is_missed(folder, monkeypatch):
    """The simulated power cut finds the labels that a log without syncs loses."""
    add = power.ADD.replace(
        "as store:", "as store:\n        store._connection.execute('PRAGMA synchronous = OFF')"
    )
    monkeypatch.setattr(power, "ADD", add)
    (cut,) = rows_of(folder, [power], 2)
    assert "not tried" in cut.note or "lost" in cut.first_failure


def test_injected_faults_are_seen(folder, monkeypatch):
    """A reader that crashes, labels that are lost and a cleaner that is quadratic are failures."""

    def crash(*given, **options):
        raise KeyError("a fault")

    def forget(store, labels):
        return len(list(labels))

    def slow(text, site):
        return sum(1 for i in range(0, len(text), 40) for _ in range(0, i, 40))

    monkeypatch.setattr(documents, "read_documents", crash)
    monkeypatch.setattr(growth.wikitext, "clean", slow)
    monkeypatch.setattr(label_files, "add_changes", forget)
    crashed, lost, grew = (
        *rows_of(folder, [documents], 0.1, "a.txt"),
        *rows_of(folder, [faults], 1, "kills, label"),
        *rows_of(folder, [growth], 1, "growth, wikitext"),
    )
    assert "KeyError" in crashed.first_failure
    assert "lost" in lost.first_failure
    assert "times as long" in grew.first_failure


def test_a_seed_gives_the_same_trials():
    """A failure of the campaign can be repeated."""
    data = b"some bytes to change" * 10
    first, second = ([documents.mutate(data, random.Random(i)) for i in range(20)] for _ in "ab")
    assert first == second
