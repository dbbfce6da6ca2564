"""The main content of web pages: title and text, without menus, scripts or markup."""

from __future__ import annotations

from collections.abc import Iterator

from stamo.corpus.formats.base import ReadItem, ReadTask, read_whole
from stamo.corpus.formats.html_process import extract_html
from stamo.corpus.skips import NO_MENTION, BadRecordError, cut_text
from stamo.corpus.types import Document


def read_html(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read the page."""
    raw = read_whole(blocks, task.limits.max_record_bytes + 1)
    yield 1, task.take(task.file, read_page, raw) if task.first < 1 else None


def read_page(
    raw: bytes, where: str, task: ReadTask, *, id: str = "", charset: str | None = None
) -> Document:
    """Turn one page into a document.

    Args:
        raw: The page as it was sent.
        where: Where the page is, for a person to look up.
        task: The file being read.
        id: The page's own id; made from the place and the text when empty.
        charset: The character set of the HTTP header, if any.

    Raises:
        CorpusFormatError: It is left out; the message is a short reason.
    """
    if len(raw) > task.limits.max_record_bytes:
        raise BadRecordError("page larger than the limit")
    if task.matcher and not task.matcher.may_be_in_html(raw):
        raise BadRecordError(NO_MENTION)
    page = extract_html(raw, charset)
    if not page.text:
        raise BadRecordError("no main content")
    text = cut_text(page.text, task.limits, where, task.on_skip)
    return Document(task.id_of(id, where, text), text, title=page.title or None)
