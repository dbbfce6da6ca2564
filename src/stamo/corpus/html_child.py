"""Decode a web page and extract it; runs in a process of its own, where it is bounded."""

from __future__ import annotations

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5
from resiliparse.parse.html import HTMLTree

from stamo.corpus.types import clean_surrogates


def decode_html(raw: bytes, charset: str | None = None) -> str:
    """Decode a page by its declared character set, or by what its bytes look like.

    Args:
        raw: The page as it was sent.
        charset: What the HTTP header says, if anything; it wins over the page's own declaration.
    """
    known = map_encoding_to_html5(charset, fallback_utf8=False) if charset else None
    encoding = known or detect_encoding(raw, from_html_meta=True)
    return clean_surrogates(str(bytes_to_str(raw, encoding, errors="replace")))


def extract_tree(html: str) -> tuple[str, str]:
    """Extract title and main content; nothing in the page is run or fetched."""
    tree = HTMLTree.parse(html)
    options = {"links": False, "list_bullets": False, "alt_texts": False}
    text = extract_plain_text(tree, main_content=True, **options)
    if not text.strip():
        # The heuristics find no main part in very short pages.
        text = extract_plain_text(tree, main_content=False, **options)
    return " ".join((tree.title or "").split()), text.strip()
