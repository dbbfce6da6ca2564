"""News feeds, RSS and Atom: one document for each item, its markup taken off.

The XML is read as a stream with entities switched off, so that it can neither reach other files
nor grow; a feed that is cut off gives the items before the cut.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from xml.sax import SAXException
from xml.sax.handler import ContentHandler, feature_namespaces

from stamo.corpus.formats.base import ReadItem, ReadTask
from stamo.corpus.formats.html_process import extract_html
from stamo.corpus.formats.rows import row_document
from stamo.corpus.types import Document
from stamo.errors import need

if TYPE_CHECKING:
    from xml.sax.xmlreader import IncrementalParser

MAX_FEED_BYTES = 64 << 20
MAX_FEED_DEPTH = 512
MAX_FEED_TAG = 4 << 20
"""Bytes of one tag with its attributes, or of a comment: the parser holds it until it ends."""
MAX_FEED_NAMES = 50_000
"""Different names of elements and attributes: the parser keeps them all."""
XML_PROLOGUE = re.compile(rb"(?:<\?.{0,500}?\?>|<!--.{0,2000}?-->|\s)++", re.DOTALL)
"""What may stand before the root of an XML file."""

_ENCODING = re.compile(rb"\s*<\?xml\b[^<>]{0,200}?\bencoding\s*=\s*[\"']([\w.-]{1,40})[\"']")
_SEVERAL_BYTES = {
    **dict.fromkeys(("gb2312", "gbk", "x-gbk", "gb18030"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "windows-949"), "cp949"),
    **{"big5": "big5hkscs", "big5-hkscs": "big5hkscs", "euc-jp": "euc_jp"},
    "iso-2022-jp": "iso2022_jp",
}
"""Encodings that the parser does not know, each read as the largest that goes by its name."""
_ITEMS = {"item", "entry"}
_TEXTS = ("encoded", "content", "description", "summary")
_IDS = ("guid", "id", "link")
_FIELDS = {"title", *_TEXTS, *_IDS}
_BLOCKS = {"p", "div", "br", "li", "h1", "h2", "h3", "h4", "blockquote", "tr"}
_MARKUP = re.compile(r"<[a-zA-Z/!]|&[#\w]{1,30};")


def read_feed(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read one document per item."""
    number = 0
    feed = _FeedStream(task.limits.max_record_bytes)
    for block in blocks:
        for item in feed.items_of(block):
            number += 1
            where, is_new = task.where("item", number), number > task.first
            yield number, task.take(where, _document, item, number) if is_new else None
        if feed.fault:
            break
    feed.end()
    if feed.n_long:
        task.skip("item larger than the limit", task.file, feed.n_long)
    if feed.fault:
        task.skip(feed.fault, task.file, advice=f"{number} items before it were read")


class _FeedStream:
    """Reads a feed piece by piece; at a fault it says what is wrong and ends."""

    def __init__(self, max_item: int) -> None:
        make_parser = need("defusedxml.sax", "web", "A feed", package="defusedxml").make_parser
        self.fault = ""
        self._items = _Items(max_item)
        self._size = 0
        self._decode: Callable[[bytes], bytes | str] | None = None
        self._n_quiet = 0
        """Bytes since the last that meant something."""
        self._parser: IncrementalParser = make_parser()
        self._parser.setFeature(feature_namespaces, True)
        self._parser.setContentHandler(self._items)

    @property
    def n_long(self) -> int:
        """Items that were left out because they are too long."""
        return self._items.n_long

    def items_of(self, block: bytes) -> list[dict[str, str]]:
        """Return the items that end with this block."""
        self._size += len(block)
        if self._size > MAX_FEED_BYTES:
            self.fault = "feed larger than the limit"
            return []
        self._try(lambda: self._parser.feed(self._decoded(block)))
        self._n_quiet = 0 if self._items.hears() else self._n_quiet + len(block)
        if self._n_quiet > MAX_FEED_TAG:
            self.fault = self.fault or "tag longer than the limit"
        return self._items.take()

    def _decoded(self, block: bytes) -> bytes | str:
        """Decode what the parser cannot: encodings of several bytes, as the feed declares them."""
        if self._decode is None:
            self._decode = _decoder_of(block)
        return self._decode(block)

    def end(self) -> None:
        """Check that nothing is missing."""
        if not self.fault:
            self._try(self._parser.close)

    def _try(self, step: Callable[[], object]) -> None:
        from defusedxml.common import DefusedXmlException

        try:
            step()
        except DefusedXmlException:
            self.fault = "XML that declares entities"
        except _OddFeedError as error:
            self.fault = str(error)
        except LookupError:
            self.fault = "XML in an encoding that is not known"
        except (SAXException, ValueError):
            self.fault = "not well-formed XML"


def _decoder_of(start: bytes) -> Callable[[bytes], bytes | str]:
    """Return what decodes a feed that starts so; most encodings are left to the parser."""
    declared = _ENCODING.match(start)
    codec = _SEVERAL_BYTES.get(declared[1].decode("ascii").lower()) if declared else None
    return codecs.getincrementaldecoder(codec)("replace").decode if codec else bytes


def _document(item: dict[str, str], number: int, where: str, task: ReadTask) -> Document:
    texts = [item[name] for name in _TEXTS if item.get(name, "").strip()]
    body = plain_text(max(texts, key=len)) if texts else ""
    title = " ".join(plain_text(item.get("title", "")).split())
    # A headline is part of what an item says, and often all of it.
    text = f"{title}\n\n{body}".strip() if not body.startswith(title) else body
    id = next((item[name].strip() for name in _IDS if item.get(name, "").strip()), "")
    return row_document(text, id, title, number, where, task)


def plain_text(content: str) -> str:
    """Take the markup off a piece of a feed, which may be HTML or plain text.

    Raises:
        CorpusFormatError: The markup takes too much time or memory.
        MissingExtraError: There is markup and the extra `web` is not installed.
    """
    if not _MARKUP.search(content):
        return content.strip()
    return extract_html(f"<html><body><main>{content}</main></body></html>").text


class _OddFeedError(Exception):
    """The parser would have to keep too much."""


class _Items(ContentHandler):
    """Collects the fields of items as they come."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.n_long = 0
        self._max = max_bytes
        self._done: list[dict[str, str]] = []
        self._item: dict[str, str] | None = None
        self._field = ""
        self._parts: list[str] = []
        self._depth = 0
        """Of an element inside of a field."""
        self._level = 0
        self._names: set[Any] = set()
        self._hears = False
        self._size = 0

    def hears(self) -> bool:
        """Tell whether anything came since the last call."""
        heard, self._hears = self._hears, False
        return heard

    def take(self) -> list[dict[str, str]]:
        done, self._done = self._done, []
        return done

    def startElementNS(self, name: Any, qname: Any, attrs: Any) -> None:  # noqa: N802
        tag = name[1]
        self._hears = True
        self._level += 1
        if self._level > MAX_FEED_DEPTH:
            raise _OddFeedError(f"XML of more than {MAX_FEED_DEPTH} levels")
        self._names.update((name, *attrs.keys()))
        if len(self._names) > MAX_FEED_NAMES:
            raise _OddFeedError(f"XML of more than {MAX_FEED_NAMES} names")
        if self._item is None:
            if tag in _ITEMS:
                self._item, self._size = {}, 0
        elif not self._field:
            self._field, self._parts, self._depth = tag, [], 0
            if tag == "link" and (address := attrs.get((None, "href"))):
                self._parts.append(address)
        else:
            self._depth += 1
            if tag in _BLOCKS:
                self._parts.append("\n")

    def endElementNS(self, name: Any, qname: Any) -> None:  # noqa: N802
        self._level -= 1
        if self._item is None:
            return
        if self._field and self._depth:
            self._depth -= 1
        elif self._field:
            if self._field in _FIELDS:
                self._item.setdefault(self._field, "".join(self._parts))
            self._field = ""
        else:
            if self._size > self._max:
                self.n_long += 1
            else:
                self._done.append(self._item)
            self._item = None

    def characters(self, content: str) -> None:
        self._hears = True
        if self._item is None or not self._field:
            return
        self._size += len(content)
        if self._size > self._max:
            self._parts = []
        else:
            self._parts.append(content)
