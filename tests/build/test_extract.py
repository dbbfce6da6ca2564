"""What a worker makes of a chunk."""

import pytest

from stamo.build.dump import DumpReader
from stamo.build.staging import extract_chunk, is_held_out
from stamo.kb.base import normalise_surface, normalise_surfaces
from tests.build.dumps import write_dump


def extract(tmp_path, pages, held_out=0.0):
    """Extract a dump that is a single chunk."""
    with DumpReader(write_dump(tmp_path / "dump.xml", pages)) as reader:
        (chunk,) = reader.chunks()
        return extract_chunk(chunk, reader.site, held_out)


def test_what_is_left_out_is_counted(tmp_path):
    """Empty pages, redirects to other namespaces and links to images are counted by reason."""
    pages = [
        ("Blank", " \n "),
        ("Away", "#REDIRECT [[Wikipedia:Rules]]"),
        ("Brig", "[[Image:Brig.jpg|thumb|A view]] [[Category:Towns]]"),
    ]
    part = extract(tmp_path, pages)
    assert part.skipped["empty page"] == 1
    assert part.skipped["redirect out of the articles"] == 1
    assert part.skipped["link: file"] == 1
    assert part.skipped["link: category"] == 1
    assert len(part.pages) == 1


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_held_out_share_is_about_as_asked(share):
    """The share of held-out titles is close to the setting and fixed by the title alone."""
    titles = [f"Title {i}" for i in range(4000)]
    chosen = [title for title in titles if is_held_out(title, share)]
    assert abs(len(chosen) / len(titles) - share) < 0.02
    assert chosen == [title for title in titles if is_held_out(title, share)]


@pytest.mark.parametrize(
    "surfaces", [[], ["a b", "c"], ["a  b", "c"], [" a", "b"], ["a", "b "], ["a\tb"], ["e\u0301"]]
)
def test_many_surfaces_are_normalised_like_each(surfaces):
    """Normalising together and one by one gives the same: spaces joined, accents composed."""
    assert normalise_surface("  New\n York\u00a0City, Cafe\u0301 ") == "New York City, Café"
    assert normalise_surfaces(surfaces) == [normalise_surface(surface) for surface in surfaces]
