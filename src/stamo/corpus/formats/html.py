"""The main content of web pages: title and text, without menus, scripts or markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from stamo.corpus.formats.base import ReadItem, ReadTask, read_whole
from stamo.corpus.formats.html_process import extract
from stamo.corpus.skips import NO_MENTION, cut_text
from stamo.corpus.types import Document
from stamo.errors import CorpusFormatError


class WebPage:
    """A file that is one page."""

    suffixes = (".html", ".htm", ".xhtml")
    begins = re.compile(rb"<!doctype html|<html", re.I)

    def read(self, blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
        """Read the page."""
        raw = read_whole(blocks, task.limits.max_record_bytes + 1)
        yield 1, read_page(raw, task, task.file) if task.first < 1 else None


class HtmlPage(NamedTuple):
    """What a reader of a web page sees."""

    title: str
    text: str


def extract_html(page: str | bytes, charset: str | None = None) -> HtmlPage:
    """Extract title and main content; nothing in the page is run or fetched.

    Args:
        page: The page as it was sent, or decoded.
        charset: What the HTTP header says, if anything; it wins over the page's own declaration.

    Raises:
        CorpusFormatError: The page takes too much time or memory; the message is a short reason.
    """
    title, text = extract(page, charset)
    return HtmlPage(title, text)


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
        page = extract_html(raw, charset)
    except CorpusFormatError as error:
        task.skip(str(error), where)
        return None
    if not page.text:
        task.skip("no main content", where)
        return None
    text = cut_text(page.text, task.limits, where, task.on_skip)
    return Document(task.id_of(id, where, text), text, title=page.title or None)
