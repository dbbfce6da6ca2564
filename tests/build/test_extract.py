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


def test_pages_are_told_apart(tmp_path):
    """Articles, redirects and disambiguation pages get their kind; only articles have text."""
    pages = [
        ("Brig", "A town."),
        ("brigg", "#REDIRECT [[brig#History]]"),
        ("Avalon", "[[Avalon (film)]] or else {{disambig}}"),
    ]
    part = extract(tmp_path, pages)
    rows = part.pages.to_pylist()
    assert [(r["title"], r["kind"], r["target"]) for r in rows] == [
        ("Brig", "article", None),
        ("Brigg", "redirect", "Brig"),
        ("Avalon", "disambiguation", None),
    ]
    assert [r["position"] for r in rows] == sorted(r["position"] for r in rows)
    assert part.texts["title"].to_pylist() == ["Brig"]


def test_links_carry_span_surface_and_target(tmp_path):
    """The span of each link cuts its surface out of the text; links in tables have none."""
    text = "See the [[lake corm|big  lake]].\n{|\n| [[Brig]]\n|}\n"
    part = extract(tmp_path, [("A", text)])
    inside, outside = part.links.to_pylist()
    shown = part.texts["text"][0].as_py()
    assert shown[inside["start"] : inside["stop"]].split() == ["big", "lake"]
    assert (inside["surface"], inside["target"]) == ("big lake", "Lake corm")
    assert (outside["start"], outside["surface"], outside["target"]) == (-1, "Brig", "Brig")


def test_link_text_as_long_as_a_sentence_is_no_name(tmp_path):
    """The link stays, its surface does not become an alias."""
    part = extract(tmp_path, [("A", f"[[Brig|{'very long ' * 30}]]")])
    assert part.links["surface"].to_pylist() == [""]
    assert part.links["target"].to_pylist() == ["Brig"]


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


def test_larger_share_keeps_what_a_smaller_one_held_out():
    """Raising the share only adds articles, so that experiments stay comparable."""
    titles = [f"Title {i}" for i in range(2000)]
    small = {title for title in titles if is_held_out(title, 0.1)}
    assert small < {title for title in titles if is_held_out(title, 0.3)}


def test_surfaces_are_written_one_way():
    """White space is joined and accents are composed."""
    assert normalise_surface("  New\n York\u00a0City ") == "New York City"
    assert normalise_surface("Cafe\u0301") == "Café"


@pytest.mark.parametrize(
    "surfaces", [[], ["a b", "c"], ["a  b", "c"], [" a", "b"], ["a", "b "], ["a\tb"], ["e\u0301"]]
)
def test_many_surfaces_are_normalised_like_each(surfaces):
    """Normalising together and one by one gives the same."""
    assert normalise_surfaces(surfaces) == [normalise_surface(surface) for surface in surfaces]
