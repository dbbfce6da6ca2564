"""The documentation as a site: built strictly, every link checked, nothing from elsewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from tests.documents import ROOT, pages


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning of the builder, such as of a dead link, is an error."""
    path = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return path


class Page(HTMLParser):
    """What a page loads, links to and can be linked at."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.add(values.get("id"))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") != "canonical":
            self.loads.append(values.get("href") or "")
        elif tag in ("script", "img", "iframe"):
            self.loads.append(values.get("src") or "")


def test_every_page_is_in_the_site(site):
    """A page that is not in the navigation would be lost."""
    names = {path.stem for path in pages() if path.parent == ROOT / "docs"}
    assert names <= {path.stem for path in site.glob("*.html")}
    assert (site / "notebooks" / "new-entity.ipynb").exists()


def test_every_link_leads_somewhere(site):
    """Files and anchors, as the browser resolves them."""
    found = {path: Page(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}
    n_checked = 0
    for path, page in found.items():
        for link in page.links:
            if path.name == "404.html" or re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path.name} links to {link}"
            if anchor and target.suffix == ".html":
                assert anchor in found[target].ids, f"{path.name} links to {link}"
                n_checked += 1
    assert n_checked > 50


def test_nothing_is_loaded_from_elsewhere(site):
    """The site can be read without a network, and tells nobody who reads it."""
    for path in site.glob("*.html"):
        for address in Page(path.read_text(encoding="utf-8")).loads:
            assert not re.match(r"(https?:)?//", address), f"{path.name} loads {address}"
