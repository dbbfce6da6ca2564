"""What a name says of an emerging entity, and which names are refused."""

import pytest

from stamo.corpus.types import EmergingEntity
from stamo.errors import SettingsError


@pytest.mark.parametrize(
    ("name", "aliases", "plain", "line"),
    [
        ("Dawn (spacecraft)", ("Dawn",), "Dawn", "spacecraft"),
        ("Prometheus (2012 film)", ("Prometheus",), "Prometheus", "2012 film"),
        ("Hurricane Sandy", ("Sandy",), "Hurricane Sandy", "hurricane"),
        ("Katy Perry", ("Perry", "Katy Perry"), "Katy Perry", "katy"),
        ("Falcon 9", ("Falcon",), "Falcon 9", ""),
        ("J. Rowling", ("Rowling",), "J. Rowling", ""),
        ("Adele", ("Adele",), "Adele", ""),
    ],
)
def test_a_name_says_what_it_adds_to_its_shortest_alias(name, aliases, plain, line):
    """The brackets, else its other words; numbers and initials say nothing."""
    entity = EmergingEntity(name, aliases)
    assert entity.plain_name == plain
    assert entity.line.casefold() == line


def test_a_written_line_comes_first():
    """What a person wrote stands for what the name says."""
    assert EmergingEntity("Dawn (spacecraft)", ("Dawn",), "NASA probe").line == "NASA probe"


@pytest.mark.parametrize("make", [EmergingEntity, EmergingEntity.named])
def test_one_text_is_no_tuple_of_aliases(make):
    """An alias without its brackets is refused: each of its letters would be a name."""
    with pytest.raises(SettingsError, match=r"give a tuple: \('Rey',\)"):
        make("Rey Skywalker", "Rey")
