"""Reading the head of a dump and writing titles the wiki's way."""

import pytest

from stamo.build.site import Site
from stamo.build.wikilinks import simple_titles

NEW_HEADER = b"""<mediawiki version="0.11" xml:lang="de">
  <siteinfo>
    <dbname>dewiki</dbname>
    <case>case-sensitive</case>
    <namespaces>
      <namespace key="0" case="case-sensitive"/>
      <namespace case='first-letter' key='2'>Benutzer</namespace>
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
      <namespace key="102" case="first-letter">Fragen &amp; Antworten</namespace>
    </namespaces>
  </siteinfo>"""


def test_newest_export_version():
    """Attributes in any order and quotes, self-closed elements and references are read."""
    site = Site.parse(NEW_HEADER)
    assert (site.language, site.case_first) == ("de", False)
    assert site.namespaces["benutzer"] == 2
    assert site.namespaces["kategorie"] == 14
    assert site.namespaces["fragen & antworten"] == 102


def test_english_names_and_old_file_names_always_work():
    """A German wiki also understands `Category:`, `Image:`, `File:` and its own older `Bild:`."""
    site = Site.parse(NEW_HEADER)
    assert {site.namespaces[name] for name in ("image", "file", "bild", "datei")} == {6}
    assert site.namespaces["category"] == 14


def test_namespace_wins_over_interwiki():
    """A wiki whose own namespace is called like a sister project keeps it as a namespace."""
    header = b'<siteinfo><namespaces><namespace key="4">Meta</namespace></namespaces></siteinfo>'
    assert "meta" not in Site.parse(header).interwiki


@pytest.mark.parametrize("header", [b"", b"\xff\xfe\x00", b"<page>", b"<siteinfo><namespace key="])
def test_no_siteinfo_gives_defaults(header):
    """What is no header at all reads as an English wiki."""
    assert Site.parse(header) == Site.parse(b"")
    assert Site.parse(header).namespaces["talk"] == 1


def test_entities_of_a_dtd_are_not_expanded():
    """A reference that XML does not know stays as it is, however it is declared."""
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><siteinfo>'
    site = Site.parse(bomb + b'<namespace key="9">&b;&b;</namespace></siteinfo>')
    assert site.namespaces["&b;&b;"] == 9


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        ("  new_york__city ", "New york city"),
        ("AT&amp;T", "AT&T"),
        ("rock &#39;n&#39; roll", "Rock 'n' roll"),
        ("e\u0301cole", "École"),
        ("\u200eאב\u200f", "אב"),
        ("საქართველო", "საქართველო"),
        ("", ""),
    ],
)
def test_normalise_title(raw, title):
    """Titles are written one way whatever the link looked like."""
    assert Site().normalise_title(raw) == title


def test_case_sensitive_wiki_keeps_the_first_letter():
    """Only a first-letter wiki raises the first letter."""
    assert Site(case_first=False).normalise_title("iPod") == "iPod"
    assert Site().normalise_title("iPod") == "IPod"


@pytest.mark.parametrize(("language", "title"), [("tr", "İzmir"), ("az", "İzmir"), ("pl", "Izmir")])
def test_the_capital_of_i_is_that_of_the_language(language: str, title: str):
    site = Site(language=language)
    assert site.normalise_title("izmir") == title
    assert simple_titles(["izmir"], site) == [title]
