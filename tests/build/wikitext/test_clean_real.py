"""Links of real pages, compared one by one with what an independent parser finds."""

import html
import logging
import lzma
import random
import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

from stamo.build.site import LANGUAGE_CODES, SISTER_PROJECTS, Site
from stamo.build.wikitext import clean
from tests.build.wikitext.links import anchors_of

wtp = pytest.importorskip("wikitextparser", reason="the reference parser is not installed")

pytestmark = [pytest.mark.data, pytest.mark.slow]
logger = logging.getLogger(__name__)

N_PAGES = 500
PAGE = re.compile(rb"<page>\s*<title>([^<]*)</title>.*?<text[^>]*>(.*?)</text>", re.DOTALL)


@pytest.fixture(scope="module")
def real_pages(shared_data: Path) -> list[tuple[str, str]]:
    """A seeded sample of (title, wikitext) of pages that are no redirects."""
    with lzma.open(shared_data / "enwik8.xml.xz") as stream:
        dump = stream.read()
    starts = [match.start() for match in re.finditer(rb"<page>", dump)]
    random.Random(20).shuffle(starts)
    pages: list[tuple[str, str]] = []
    for start in starts:
        match = PAGE.match(dump, start, start + 3_000_000)
        if match and not match[2][:9].upper().startswith(b"#REDIRECT"):
            pages.append((html.unescape(match[1].decode()), html.unescape(match[2].decode())))
        if len(pages) == N_PAGES:
            break
    return pages


def reference_title(target: str, site: Site) -> str:
    """Normalise a target independently; an empty string when it leads to no article."""
    target = re.sub(r"<!--.*?-->|</?nowiki>", "", target, flags=re.DOTALL)
    title = html.unescape(unquote(target)).replace("_", " ").strip().removeprefix(":")
    title = " ".join(title.partition("#")[0].split())
    prefix = title.partition(":")[0].strip().lower()
    outside = site.namespaces.keys() | LANGUAGE_CODES | SISTER_PROJECTS
    if (":" in title and prefix in outside) or re.search(r"[\[\]{}<>]|^https?:", title):
        return ""
    return title[:1].upper() + title[1:] if title[:1] != "ß" else title


def reference_label(link: "wtp.WikiLink", trail: str) -> str:
    """Write what a reader sees of a link, independently of our own code."""
    label = link.target.strip() if link.text is None else link.text
    label = label.removeprefix(":") if link.text is None else label
    label = re.sub(r"<br\b[^<>]*>", " ", label + trail)
    label = re.sub(r"\{\{[^{}]*\|([^{}|]*)\}\}", r"\1", label)  # e.g. {{IPA|x}} shows x
    label = re.sub(r"<!--.*?-->|\{\{.*?\}\}|<[^<>]*>|'{2,}", "", label, flags=re.DOTALL)
    return " ".join(html.unescape(label).replace("\xad", "").split())


def reference_links(wikitext: str, site: Site) -> Counter[tuple[str, str]]:
    """Count (target, anchor) of the links to articles that the reference parser finds."""
    links: Counter[tuple[str, str]] = Counter()
    for link in wtp.parse(wikitext).wikilinks:
        title = reference_title(link.target, site)
        trail = re.match(r"[a-z]*", wikitext[link.span[1] : link.span[1] + 50])
        if title and trail:
            links[title, reference_label(link, trail[0])] += 1
    return links


def links_of(page):
    """List (target, anchor) of every link to an article, wherever on the page it stands."""
    inside = [(anchor.target, page.text[anchor.start : anchor.end]) for anchor in anchors_of(page)]
    return inside + [(target, surface) for surface, target in page.other_links]


def test_links_equal_the_reference(real_pages):
    """On 500 random pages at least 99.9 % of the links have the same target and anchor."""
    site = Site()
    n_equal = n_all = 0
    differences = []
    for title, wikitext in real_pages:
        ours, theirs = Counter(links_of(clean(wikitext, site))), reference_links(wikitext, site)
        n_equal += (ours & theirs).total()
        n_all += (ours | theirs).total()
        differences += [f"{title}: only ours {link}" for link in ours - theirs]
        differences += [f"{title}: only theirs {link}" for link in theirs - ours]
    logger.info("%d of %d links are equal; %s", n_equal, n_all, differences)
    assert n_all > 30_000
    assert n_equal / n_all >= 0.999, differences


def test_real_text_is_clean(real_pages):
    """Hardly any page keeps a trace of markup, and every anchor is where its span says."""
    trace = re.compile(r"\{\{|\[\[|\]\]|'''|<(?:br|ref|table|div|font)\b|^\{\||^==", re.MULTILINE)
    n_traces = 0
    for title, wikitext in real_pages:
        page = clean(wikitext, Site(), title)
        n_traces += trace.search(page.text) is not None
        surfaces = [page.text[anchor.start : anchor.end] for anchor in anchors_of(page)]
        assert all(surface and surface == surface.strip() for surface in surfaces)
    assert n_traces <= 0.02 * len(real_pages)
