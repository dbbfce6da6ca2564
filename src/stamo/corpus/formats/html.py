"""The main content of web pages: title and text, without menus, scripts or markup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stamo.corpus.formats.base import ReadItem, ReadTask, clean_surrogates, read_whole
from stamo.corpus.formats.html_guard import is_excessive
from stamo.corpus.skips import NO_MENTION, cut_text
from stamo.corpus.types import Document
from stamo.errors import CorpusFormatError, MissingExtraError


class WebPage:
    """A file that is one page."""

    suffixes = (".html", ".htm", ".xhtml")

    def recognises(self, start: bytes) -> bool:
        """Tell whether it starts as a page does."""
        return start[:200].lower().startswith((b"<!doctype html", b"<html"))

    def read(self, blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
        """Read the page."""
        raw = read_whole(blocks, task.limits.max_record_bytes + 1)
        yield 1, read_page(raw, task, task.file) if task.first < 1 else None


class HtmlPage(NamedTuple):
    """What a reader of a web page sees."""

    title: str
    text: str


def decode_html(raw: bytes, charset: str | None = None) -> str:
    """Decode a page by its declared character set, or by what its bytes look like.

    Args:
        raw: The page as it was sent.
        charset: What the HTTP header says, if anything; it wins over the page's own declaration.
    """
    try:
        from resiliparse.parse.encoding import (
            bytes_to_str,
            detect_encoding,
            map_encoding_to_html5,
        )
    except ImportError as error:
        raise MissingExtraError("resiliparse", "web") from error
    known = map_encoding_to_html5(charset, fallback_utf8=False) if charset else None
    encoding = known or detect_encoding(raw, from_html_meta=True)
    return clean_surrogates(str(bytes_to_str(raw, encoding, errors="replace")))


def extract_html(html: str) -> HtmlPage:
    """Extract title and main content; nothing in the page is run or fetched.

    Raises:
        CorpusFormatError: The page would take too long; the message is a short reason.
    """
    try:
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.html import HTMLTree
    except ImportError as error:
        raise MissingExtraError("resiliparse", "web") from error
    if is_excessive(html):
        raise CorpusFormatError("HTML with too many nested elements or attributes")
    tree = HTMLTree.parse(html)
    options = {"links": False, "list_bullets": False, "alt_texts": False}
    text = extract_plain_text(tree, main_content=True, **options)
    if not text.strip():
        # The heuristics find no main part in very short pages.
        text = extract_plain_text(tree, main_content=False, **options)
    return HtmlPage(" ".join((tree.title or "").split()), text.strip())


def extract_page(raw: bytes, charset: str | None) -> HtmlPage:
    """Decode a page and extract it: bytes in, text out, so that it can run in another process.

    Raises:
        CorpusFormatError: The page would take too long; the message is a short reason.
    """
    return extract_html(decode_html(raw, charset))


def read_page(
    raw: bytes, task: ReadTask, where: str, *, id: str = "", charset: str | None = None
) -> Document | None:
    """Turn one page into a document, or count why not.

    Args:
        raw: The page as it was sent.
        task: The file being read.
        where: Where the page is, for a person to look up.
        id: The page's own id; made from the place and the text when empty.
        charset: The character set of the HTTP header, if any.
    """
    if len(raw) > task.limits.max_record_bytes:
        task.skip("page larger than the limit", where)
        return None
    if task.matcher and not task.matcher.may_be_in_html(raw):
        task.skip(NO_MENTION, where)
        return None
    try:
        page = extract_page(raw, charset)
    except CorpusFormatError as error:
        task.skip(str(error), where)
        return None
    if not page.text:
        task.skip("no main content", where)
        return None
    text = cut_text(page.text, task.limits, where, task.on_skip)
    return Document(task.id_of(id, where, text), text, title=page.title or None)
