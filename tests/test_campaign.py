"""A small fixed part of the campaign: the same trials on every run."""

import random
from contextlib import suppress

import pytest

from stamo.errors import StamoError
from tools.campaign import inputs, readers


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


def test_odd_headers_are_judged():
    """The guard of the service has an answer to any headers."""
    attack(inputs.judge_request, 500)


def test_a_seed_gives_the_same_trials():
    """A failure of the campaign can be repeated."""
    data = b"some bytes to change" * 10
    assert [readers.mutate(data, random.Random(i)) for i in range(20)] == [
        readers.mutate(data, random.Random(i)) for i in range(20)
    ]
