"""Take the title, identity and newest text out of the bytes of `<page>` elements.

Pages of unwanted namespaces are told by their head alone. The others go to expat, one page as one
document: it begins with its `<page>` tag, so no document type and no entity can be declared in it.
(Searching for tags and unescaping the text took longer than expat on the same pages.)
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from xml.parsers import expat

from stamo.build.dump.site import Site
from stamo.build.dump.splitter import MALFORMED, PAGE_START

OTHER_NAMESPACE = "page outside the wanted namespaces"
OTHER_MODEL = "page whose content is not wikitext"
INVALID_TEXT = "page with invalid characters, which were replaced"
NO_TEXT = "page whose text is not in the dump"

_PAGE_END = re.compile(rb"</page\s*>")
_NAMESPACE = re.compile(rb"<ns>(-?[0-9]{1,9})</ns>")
_TITLE = re.compile(rb"<title>([^<&]*)</title>")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BUFFER_BYTES = 1 << 16
# A page made of tags alone would take expat some thirty times its length in memory.
_TAG_START = re.compile(rb"<[^!]")
_LONGEST_TAG = 1 << 16
_MAX_TAGS = 100_000
_MAX_DEPTH = 16


@dataclass(frozen=True, slots=True)
class RawPage:
    """One page of a dump as it stands there; the title is neither normalised nor resolved."""

    title: str
    namespace: int
    page_id: int
    """The wiki's number for the page; 0 when the dump does not give one."""
    redirect: str | None
    """The target that the dump itself names (export 0.6 and later), not one found in the text."""
    text: str
    """The wikitext of the last revision; empty when the dump does not hold it."""


class _PageSkippedError(Exception):
    """A page is left out; the argument is the reason to count."""


def parse_pages(
    data: bytes, site: Site, namespaces: frozenset[int], counts: Counter[str]
) -> Iterator[RawPage]:
    """Yield the wanted pages in a run of bytes; count the others and the oddities by reason."""
    for start, end in _page_spans(data):
        try:
            page, notes = _read_page(data, start, end, site, namespaces)
        except _PageSkippedError as reason:
            counts[str(reason)] += 1
        else:
            counts.update(notes)
            yield page


def _page_spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Give the bytes of each page; one without its end runs to the start of the next."""
    start = PAGE_START.search(data)
    while start is not None:
        following = PAGE_START.search(data, start.end())
        yield start.start(), len(data) if following is None else following.start()
        start = following


def _read_page(
    data: bytes, start: int, end: int, site: Site, namespaces: frozenset[int]
) -> tuple[RawPage, list[str]]:
    closing = _PAGE_END.search(data, max(start, data.rfind(b"</page", start, end)), end)
    if closing is None:
        raise _PageSkippedError(MALFORMED)
    first = data.find(b"<revision", start, end)
    if _is_elsewhere(data[start : first if first >= 0 else end], site, namespaces):
        raise _PageSkippedError(OTHER_NAMESPACE)
    last = data.rfind(b"<revision", start, end)
    page = data[start : closing.end()]
    if first < last:
        page = data[start:first] + data[last : closing.end()]
    fields, notes = _parse(page)
    return _make_page(fields, site, namespaces, notes), notes


def _is_elsewhere(head: bytes, site: Site, namespaces: frozenset[int]) -> bool:
    """Tell from the head of a page, where it is plain, that the page is in no wanted namespace."""
    if b"<!" in head:
        return False
    if namespace := _NAMESPACE.search(head):
        return int(namespace[1]) not in namespaces
    if b"<ns" in head or not (title := _TITLE.search(head)):
        return False
    # Titles with a reference or invalid bytes are left for the parser to decide.
    return title[1].isascii() and _namespace(title[1].decode(), site) not in namespaces


def _namespace(title: str, site: Site) -> int:
    return site.namespace_of(title)[0]


@dataclass(slots=True)
class _Fields:
    """What one page says, filled by expat's events."""

    head: dict[str, str]
    revision: dict[str, str]
    redirect: str | None = None
    is_shown: bool = False


def _has_long_tag(page: bytes) -> bool:
    for part in page.split(b">"):
        tag = _TAG_START.search(part) if len(part) > _LONGEST_TAG else None
        if tag is not None and len(part) - tag.start() > _LONGEST_TAG:
            return True
    return False


def _parse(page: bytes) -> tuple[_Fields, list[str]]:
    """Parse a page; try again with invalid characters replaced before giving it up."""
    if len(page) > 1 << 20 and (page.count(b"<") > _MAX_TAGS or _has_long_tag(page)):
        raise _PageSkippedError(MALFORMED)
    try:
        return _parse_strictly(page), []
    except expat.ExpatError as error:
        clean = _NOT_XML.sub("\ufffd", page.decode("utf-8", "replace")).encode()
        if clean == page:
            raise _PageSkippedError(MALFORMED) from error
    try:
        return _parse_strictly(clean), [INVALID_TEXT]
    except expat.ExpatError as error:
        raise _PageSkippedError(MALFORMED) from error


def _parse_strictly(page: bytes) -> _Fields:
    fields = _Fields({}, {})
    path: list[str] = []
    parts: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        parts.clear()
        path.append(name)
        if len(path) > _MAX_DEPTH:
            raise _PageSkippedError(MALFORMED)
        if path == ["page", "revision"]:
            fields.revision, fields.is_shown = {}, False
        elif path == ["page", "redirect"]:
            fields.redirect = attributes.get("title")
        elif path == ["page", "revision", "text"]:
            n_bytes = attributes.get("bytes", "").strip().lstrip("0")
            fields.is_shown = "deleted" not in attributes and not n_bytes

    def end(name: str) -> None:
        path.pop()
        if path == ["page"]:
            fields.head[name] = "".join(parts)
        elif path == ["page", "revision"]:
            fields.revision[name] = "".join(parts)
        parts.clear()

    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.buffer_size = _BUFFER_BYTES
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = parts.append
    parser.Parse(page, True)
    return fields


def _make_page(
    fields: _Fields, site: Site, namespaces: frozenset[int], notes: list[str]
) -> RawPage:
    title = fields.head.get("title", "").strip()
    if not title:
        raise _PageSkippedError(MALFORMED)
    page_id = _whole_number(fields.head.get("id", "0"))
    declared = fields.head.get("ns")
    namespace = _namespace(title, site) if declared is None else _whole_number(declared)
    if namespace not in namespaces:
        raise _PageSkippedError(OTHER_NAMESPACE)
    if not _is_wikitext(fields.revision):
        raise _PageSkippedError(OTHER_MODEL)
    text = fields.revision.get("text", "")
    if not text and not fields.is_shown:
        notes.append(NO_TEXT)
    return RawPage(title, namespace, page_id, fields.redirect or None, text)


def _whole_number(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text.strip()):
        raise _PageSkippedError(MALFORMED)
    return int(text)


def _is_wikitext(revision: dict[str, str]) -> bool:
    if "model" in revision:
        return revision["model"].strip() == "wikitext"
    return revision.get("format", "text/x-wiki").strip() == "text/x-wiki"
