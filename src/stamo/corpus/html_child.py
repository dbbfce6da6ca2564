"""Decode a web page and extract it; runs in the process of `html_process`, where it is bounded.

Pages that are made to exhaust an HTML parser are refused before it sees them. The parser takes time
quadratic in the number of one element's attributes, and extraction takes time proportional to depth
times elements. No page meant for people comes near these limits: a browser nests at most 512
elements. The check reads tags as the HTML standard does, once, left to right.
"""

from __future__ import annotations

import re

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5
from resiliparse.parse.html import HTMLTree

from stamo.corpus.types import clean_surrogates
from stamo.errors import CorpusFormatError

MAX_DEPTH = 512
MAX_ATTRIBUTES = 2000
MAX_WORK = 5_000_000
"""Depth times the number of tags: about two seconds of extraction."""
MAX_TAGS = 250_000
"""Extraction takes time quadratic in the number of siblings: about four seconds."""
MAX_INDENT = 200_000
"""Levels of lists, summed over all items: each item is indented by its level."""
MAX_REBUILT = 500_000
"""Formatting elements that never end, summed over all tags: the parser opens each one again."""
FEW_TAGS = 2000
"""With fewer the page is not looked at: the process that parses it bounds what it can take."""
MAX_UNCLOSED = 100
"""Quotes, comments and scripts that never end; after each, the rest is looked at again."""

_LONG_STRETCH = re.compile(rf"(?:\A|[<>])[^<>]{{{2 * MAX_ATTRIBUTES}}}")
_SPACE = r"[ \t\n\f\r]"
_TAG = re.compile(r"<(?:(!--)|(/?)([a-zA-Z][^ \t\n\f\r/>]*+))")
_ATTRIBUTE = re.compile(
    rf"""(?:{_SPACE}|/)*+(?:(>)|[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+{_SPACE}*+"""
    rf"""(?:={_SPACE}*+(?:"[^"]*+("|\Z)|'[^']*+('|\Z)|[^ \t\n\f\r>]*+))?+)"""
)
# These never contain elements, or a new one ends the one before it.
_FLAT = re.compile(
    r"area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr|"
    r"p|li|dt|dd|option|optgroup|tr|td|th|thead|tbody|tfoot|colgroup|rp|rt"
)
_FORMATTING = frozenset(
    "a b big code em font i nobr s small strike strong tt u".split()  # noqa: SIM905
)
_RAW = re.compile(r"script|style|textarea|title|xmp|iframe|noembed|noframes")


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
    """Extract title and main content; nothing in the page is run or fetched.

    Raises:
        CorpusFormatError: The page would take too long; the message is a short reason.
    """
    if is_excessive(html):
        raise CorpusFormatError("HTML with too many nested elements or attributes")
    tree = HTMLTree.parse(html)
    options = {"links": False, "list_bullets": False, "alt_texts": False}
    text = extract_plain_text(tree, main_content=True, **options)
    if not text.strip():
        # The heuristics find no main part in very short pages.
        text = extract_plain_text(tree, main_content=False, **options)
    return " ".join((tree.title or "").split()), text.strip()


def is_excessive(html: str) -> bool:
    """Tell whether parsing a page would take far longer than its size allows."""
    if html.count("<") < FEW_TAGS and not _LONG_STRETCH.search(html):
        return False
    n_open: dict[str, int] = {}
    depth = deepest = n_tags = n_unclosed = n_formatting = indent = rebuilt = 0
    at = 0
    while tag := _TAG.search(html, at):
        name = (tag.group(3) or "").lower()
        end, n_attributes = _skip_tag(html, tag, name)
        if n_attributes > MAX_ATTRIBUTES:
            return True
        if end < 0:
            # The parser may see this place differently; go on right behind the tag's name.
            n_unclosed += 1
            if n_unclosed > MAX_UNCLOSED:
                return True
        at = max(end, tag.end())
        n_tags += 1
        rebuilt += n_formatting
        indent += n_open.get("ul", 0) + n_open.get("ol", 0) if name == "li" else 0
        if (
            deepest > MAX_DEPTH
            or deepest * n_tags > MAX_WORK
            or n_tags > MAX_TAGS
            or indent > MAX_INDENT
            or rebuilt > MAX_REBUILT
        ):
            return True
        if not name or _FLAT.fullmatch(name):
            continue
        if not tag.group(2):
            n_open[name] = n_open.get(name, 0) + 1
            depth += 1
            deepest = max(deepest, depth)
            n_formatting += name in _FORMATTING
        elif n_open.get(name):
            n_open[name] -= 1
            depth -= 1
            n_formatting -= name in _FORMATTING
    return False


def _skip_tag(html: str, tag: re.Match[str], name: str) -> tuple[int, int]:
    """Return where a tag, comment or script ends, -1 where it never does, and its attributes."""
    if tag.group(1):
        end = html.find("-->", tag.start() + 2)
        return (end + 3 if end >= 0 else -1), 0
    at = tag.end()
    n = 0
    while (attribute := _ATTRIBUTE.match(html, at)) and not attribute.group(1):
        at = attribute.end()
        n += 1
        # An empty group is a quote that runs to the end of the page.
        if attribute.group(2) == "" or attribute.group(3) == "" or n > MAX_ATTRIBUTES:
            return -1, n
    if attribute is None:
        return -1, n
    if not tag.group(2) and _RAW.fullmatch(name):
        closing = re.compile(rf"</{name}(?=[ \t\n\f\r/>])", re.IGNORECASE)
        found = closing.search(html, attribute.end())
        return (found.start() if found else -1), n
    return attribute.end(), n
