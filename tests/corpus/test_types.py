"""What a name says of an emerging entity, and which names are refused."""

import pytest

from stamo.corpus.types import EmergingEntity
from stamo.errors import SettingsError


@pytest.mark.parametrize(
    ("name", "plain", "line"),
    [
        ("Dawn (spacecraft)", "Dawn", "spacecraft"),
        ("Prometheus (2012 film)", "Prometheus", "2012 film"),
        ("Hurricane Sandy", "Hurricane Sandy", ""),
        ("Go (a) (b)", "Go", "a b"),
    ],
)
def test_what_stands_in_brackets_is_said_of_the_entity(name, plain, line):
    """It tells the name from others like it, unless a person wrote what does."""
    entity = EmergingEntity(name, (plain,))
    assert (entity.plain_name, entity.line) == (plain, line)
    assert EmergingEntity(name, (plain,), "NASA probe").line == "NASA probe"


@pytest.mark.parametrize(
    ("name", "aliases", "message"),
    [
        ("Rey\x1b[31m", ("Rey",), "control character"),
        ("Rey", ("Rey\x07",), "control character"),
        ("Rey", ("R\ud800y",), "control character"),
        ("Rey", ("Rey\nSkywalker",), "control character"),
        ("Rey", ("x" * 501,), "501 characters"),
        ("Rey", "Rey", r"give a tuple: \('Rey',\)"),
    ],
)
def test_names_that_nobody_can_use_are_refused(name, aliases, message):
    """Control characters steer a terminal; each letter of a text would be a name."""
    for make in (EmergingEntity, EmergingEntity.named):
        with pytest.raises(SettingsError, match=message):
            make(name, aliases)
