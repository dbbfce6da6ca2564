"""A small fixed part of the campaign: the same trials on every run."""

import random
import subprocess
import sys
from contextlib import suppress

import pytest

from stamo.errors import StamoError
from stamo_lab.campaign import folders, formats, inputs, readers, sources
from tests.documents import ROOT


def attack(trial, n):
    for number in range(n):
        with suppress(StamoError):  # refused in a sentence
            trial(random.Random(number))


@pytest.mark.parametrize("name", sorted(readers.SEEDS))
def test_damaged_files_are_read_or_refused(tmp_path, name):
    """No damage to a file of documents is anything but a skip or one of our errors."""
    attack(lambda rng: readers.read_file(tmp_path, name, rng), 150)


def test_damaged_labels_are_read_or_refused(tmp_path):
    """Flipped bits in a log of labels are one of our errors, or harmless."""
    with inputs.LabelStore.open(tmp_path / "good.sqlite") as store:
        for number in range(10):
            inputs.add_label(store, number)
    attack(lambda rng: inputs.open_labels(tmp_path, rng), 60)
    attack(lambda rng: inputs.import_labels(tmp_path, rng), 100)


@pytest.mark.parametrize(
    "trial",
    [
        *(readers.read_json_lines, readers.read_warc, readers.read_archive),
        *(readers.read_annotations, formats.read_feed, formats.read_table, formats.read_nif),
        *(formats.read_parquet, sources.read_notes, sources.read_entity_table),
        *(sources.declare_entities, folders.import_table, folders.open_workspace),
        folders.look_at_found,
    ],
    ids=lambda trial: trial.__name__,
)
def test_odd_documents_are_read_or_refused(tmp_path, trial):
    """Heads that lie, values that mean nothing and broken archives hide no good record."""
    attack(lambda rng: trial(tmp_path, rng), 60)


def test_odd_wikitext_is_cleaned():
    """Pieces of wikitext in any order become some text."""
    attack(readers.clean_wikitext, 100)


def test_odd_tasks_of_label_studio_are_imported_or_refused(tmp_path):
    """A refused import adds nothing."""
    attack(lambda rng: inputs.import_from_label_studio(tmp_path, rng), 100)
    inputs._kept.pop("store").close()


@pytest.mark.slow
def test_kills_full_disks_and_odd_requests_harm_nothing():
    """A few faults of labelling and a round of requests, as `make campaign` tries them."""
    command = "-m stamo_lab.campaign kills disks requests --only label --kills 8 --seconds 0.1"
    done = subprocess.run(
        [sys.executable, *command.split()], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| kills, label | 8 |" in done.stdout


def test_odd_headers_are_judged():
    """The guard of the service has an answer to any headers."""
    attack(inputs.judge_request, 500)


def test_a_seed_gives_the_same_trials():
    """A failure of the campaign can be repeated."""
    data = b"some bytes to change" * 10
    assert [readers.mutate(data, random.Random(i)) for i in range(20)] == [
        readers.mutate(data, random.Random(i)) for i in range(20)
    ]
