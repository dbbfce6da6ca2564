"""What a name says of an emerging entity."""

import pytest

from stamo.corpus.types import EmergingEntity


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
