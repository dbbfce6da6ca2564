"""Write the world's encyclopaedia as a MediaWiki XML dump (export format 0.11)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha1
from typing import IO
from xml.sax.saxutils import escape, quoteattr

from stamo_lab.world.articles import Titles, write_article, write_disambiguation
from stamo_lab.world.catalogue import Catalogue

NAMESPACES = {
    -2: "Media", -1: "Special", 0: "", 1: "Talk", 2: "User", 3: "User talk", 4: "Project",
    5: "Project talk", 6: "File", 7: "File talk", 8: "MediaWiki", 9: "MediaWiki talk",
    10: "Template", 11: "Template talk", 12: "Help", 13: "Help talk", 14: "Category",
    15: "Category talk",
}  # fmt: skip
HEADER = """\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Almanac of the Provinces</sitename>
    <dbname>provinces</dbname>
    <base>http://www.example.org/wiki/Main_Page</base>
    <generator>MediaWiki 1.39.0</generator>
    <case>first-letter</case>
    <namespaces>"""
EDITORS = ("Quillon", "Marrowfat", "Tessellate", "Old Almanac", "Brimble")
OTHER_PAGES = (
    (10, "Template:Reflist", "<references/><noinclude>Shows the notes.</noinclude>"),
    (10, "Template:Disambiguation", "''This page lists things of the same name.''"),
    (1, "Talk:Football", "Should the rules have [[Goalkeeper|a section]] of their own? ~~~~"),
    (2, "User:Brimble", "I write about [[bird]]s and correct commas."),
    (4, "Project:About", "This encyclopaedia is '''invented'''."),
    (6, "File:Map.png", "A map of the provinces."),
    (14, "Category:Football", "[[Category:Topics]]"),
)


@dataclass(frozen=True, slots=True)
class DumpPage:
    """A page before it becomes XML."""

    namespace: int
    title: str
    text: str
    redirect: str | None = None


def dump_pages(
    catalogue: Catalogue, titles: Titles, citations: Mapping[int, list[int]], seed: int
) -> Iterator[DumpPage]:
    """Yield the pages of the dump one by one, each from a random stream of its own."""
    yield from (DumpPage(*page) for page in OTHER_PAGES)
    for title, (topic, text) in catalogue.lexicon.concepts.items():
        yield DumpPage(0, title, f"{text}\n\n[[Category:{topic.capitalize()}]]")
    for entity in catalogue.entities:
        rng = random.Random(f"{seed}/article/{entity.index}")
        cited = citations.get(entity.index, [])
        yield DumpPage(0, entity.title, write_article(entity, catalogue, titles, cited, rng))
    for title, target, entity_index in titles.redirects:
        rng = random.Random(f"{seed}/redirect/{entity_index}/{title}")
        section = "#History" if rng.random() < 0.05 else ""
        mark = rng.choice(["#REDIRECT ", "#REDIRECT ", "#redirect", "#Redirect: "])
        note = "\n\n{{R from other name}}" if rng.random() < 0.3 else ""
        yield DumpPage(0, title, f"{mark}[[{target}{section}]]{note}", redirect=target)
    for title, members in titles.disambiguations:
        rng = random.Random(f"{seed}/disambiguation/{title}")
        yield DumpPage(0, title, write_disambiguation(title, members, catalogue, rng))


def write_dump(pages: Iterable[DumpPage], stream: IO[bytes], seed: int) -> int:
    """Write a dump and return the number of its pages."""
    stream.write(_header().encode())
    n_pages = 0
    rng = random.Random(f"{seed}/revisions")
    for n_pages, page in enumerate(pages, start=1):
        stream.write(_page_xml(page, n_pages, rng).encode())
    stream.write(b"</mediawiki>\n")
    return n_pages


def _header() -> str:
    rows = [
        f'      <namespace key="{key}" case="first-letter"'
        + (f">{name}</namespace>" if name else " />")
        for key, name in NAMESPACES.items()
    ]
    return "\n".join([HEADER, *rows, "    </namespaces>", "  </siteinfo>", ""])


def _page_xml(page: DumpPage, number: int, rng: random.Random) -> str:
    data = page.text.encode()
    digest = sha1(data, usedforsecurity=False).hexdigest()
    month, day = rng.randint(1, 12), rng.randint(1, 28)
    clock = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"
    redirect = page.redirect
    lines = [
        "  <page>",
        f"    <title>{escape(page.title)}</title>",
        f"    <ns>{page.namespace}</ns>",
        f"    <id>{number * 3 + 7}</id>",
        *([f"    <redirect title={quoteattr(redirect)} />"] if redirect else []),
        "    <revision>",
        f"      <id>{number * 17 + 1000}</id>",
        f"      <timestamp>2019-{month:02d}-{day:02d}T{clock}Z</timestamp>",
        "      <contributor>",
        f"        <username>{rng.choice(EDITORS)}</username>",
        f"        <id>{rng.randint(2, 99)}</id>",
        "      </contributor>",
        "      <model>wikitext</model>",
        "      <format>text/x-wiki</format>",
        f'      <text bytes="{len(data)}" sha1="{digest}" xml:space="preserve">'
        f"{escape(page.text)}</text>",
        f"      <sha1>{digest}</sha1>",
        "    </revision>",
        "  </page>",
        "",
    ]
    return "\n".join(lines)
