"""The documentation as a site: built strictly, which checks links; nothing from elsewhere."""

import re
import subprocess
import sys

import pytest

from tests.documents import ROOT, pages


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning of the builder, such as of a dead link or anchor, is an error."""
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


def test_every_page_is_in_the_site(site):
    """A page that is not in the navigation would be lost."""
    names = {path.stem for path in pages() if path.parent == ROOT / "docs"}
    assert names <= {path.stem for path in site.glob("*.html")}
    assert (site / "notebooks" / "new-entity.ipynb").exists()


def test_nothing_is_loaded_from_elsewhere(site):
    """The site can be read without a network, and tells nobody who reads it."""
    for path in site.glob("*.html"):
        text = re.sub(r'<link rel="canonical".*?>', "", path.read_text(encoding="utf-8"))
        loads = r'<(?:script|img|iframe)[^>]*\ssrc="([^"]*)|<link[^>]*\shref="([^"]*)'
        for found in re.findall(loads, text):
            assert not re.match(r"(https?:)?//", "".join(found)), f"{path.name} loads {found}"
