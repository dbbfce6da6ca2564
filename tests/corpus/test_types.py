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
    """It tells the name from others like it; text says the name without it."""
    entity = EmergingEntity(name, (plain,))
    assert (entity.plain_name, entity.line) == (plain, line)


def test_a_written_line_comes_first():
    """What a person wrote stands for what the brackets say."""
    assert EmergingEntity("Dawn (spacecraft)", ("Dawn",), "NASA probe").line == "NASA probe"


@pytest.mark.parametrize("make", [EmergingEntity, EmergingEntity.named])
def test_one_text_is_no_tuple_of_aliases(make):
    """An alias without its brackets is refused: each of its letters would be a name."""
    with pytest.raises(SettingsError, match=r"give a tuple: \('Rey',\)"):
        make("Rey Skywalker", "Rey")
