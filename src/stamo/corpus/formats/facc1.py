"""The paper's own corpus: ClueWeb12 pages with the Freebase annotations of FACC1.

FACC1 counts in bytes of the page as it was crawled, in the encoding it names, while we keep only
the main content as text.

How a mention finds its place: the bytes at its offsets must spell it, then two signs from Unicode's
private use area are put around it, and the marked page goes through main-content extraction. Where
the signs come out is the mention's place in the text. Signs that do not come out belong to a
mention in a menu, a script or an attribute; it is counted and left out. Whether offsets count from
the first byte of the page or of the HTTP header is settled page by page: whichever spells more.
"""

from __future__ import annotations

import codecs
import html as entities
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stamo.corpus.formats.freebase import Annotation, AnnotationIndex
from stamo.corpus.formats.html_process import extract_html
from stamo.corpus.formats.http import header_size, parse_http
from stamo.corpus.formats.warc import read_records
from stamo.corpus.skips import OnSkip, ReadLimits, Skip, clean_surrogates, ignore_skips
from stamo.corpus.types import Document, Mention
from stamo.errors import CorpusFormatError
from stamo.system.streams import read_blocks

_OPEN, _CLOSE, _DIGIT_0 = "\ue000", "\ue001", 0xE010
_MARK = re.compile("\ue000([\ue010-\ue019]+)|\ue001")
_MARK_CHARACTERS = re.compile("[\ue000\ue001\ue010-\ue019]")


_NO_PAGES = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape"})


def read_facc1(
    warc_paths: Sequence[str | Path],
    annotation_paths: Sequence[str | Path],
    title_by_mid: Mapping[str, str],
    *,
    on_skip: OnSkip = ignore_skips,
) -> Iterator[Document]:
    """Join ClueWeb12 pages with their annotations; pages without any linked mention are left out.

    Args:
        warc_paths: ClueWeb12 files (`0000tw-00.warc.gz`), whose records carry a `WARC-TREC-ID`.
        annotation_paths: FACC1 files that annotate these pages, divided in any way.
        title_by_mid: See `read_freebase_keys`.
        on_skip: Called for every page and mention that is left out.
    """
    index, limits = AnnotationIndex(annotation_paths, on_skip), ReadLimits()
    for path in map(Path, warc_paths):
        for trec_id, block in _read_pages(path, limits, on_skip):
            annotations = index.of(trec_id)
            if not annotations:
                on_skip(Skip("page without annotations", trec_id))
                continue
            document = annotate_page(block, annotations, title_by_mid, on_skip, limits)
            if document is not None:
                yield document


def annotate_page(
    block: bytes,
    annotations: Sequence[Annotation],
    title_by_mid: Mapping[str, str],
    on_skip: OnSkip,
    limits: ReadLimits,
) -> Document | None:
    """Turn one crawled page (HTTP header and body) into a document with linked mentions."""
    trec_id = annotations[0].document
    linked = [a for a in annotations if a.mid in title_by_mid]
    if len(linked) < len(annotations):
        n_unknown = len(annotations) - len(linked)
        on_skip(Skip("mention of an entity without Wikipedia title", trec_id, n_unknown))
    message = parse_http(block, limits.max_record_bytes)
    body = message.body if message else block
    encoding = _codec(annotations[0].encoding)
    body, placed = _place(block, body, linked, encoding)
    if len(placed) < len(linked):
        on_skip(Skip("mention not at its byte offsets", trec_id, len(linked) - len(placed)))
    if not placed:
        return None
    try:
        page = extract_html(_mark(body, placed, encoding))
    except CorpusFormatError as error:
        on_skip(Skip(str(error), trec_id))
        return None
    text, spans = _unmark(page.text)
    mentions = [
        Mention(text[i:j], i, j, title_by_mid[placed[number].mid])
        for number, (i, j) in sorted(spans.items(), key=lambda item: item[1])
        if j <= limits.max_characters
    ]
    if len(mentions) < len(placed):
        on_skip(Skip("mention outside the main content", trec_id, len(placed) - len(mentions)))
    title = _MARK_CHARACTERS.sub("", page.title) or None
    text = text[: limits.max_characters]
    return Document(trec_id, text, tuple(mentions), title) if mentions else None


def _place(
    block: bytes, body: bytes, annotations: Sequence[Annotation], encoding: str
) -> tuple[bytes, list[Annotation]]:
    """Return the page that the offsets count in, and the annotations they spell, in order."""
    in_body = _spelled(body, annotations, encoding)
    in_block = _spelled(block, annotations, encoding)
    if len(in_block) > len(in_body):
        size = header_size(block)
        body = block[size:]
        shifted = (replace(a, start=a.start - size, end=a.end - size) for a in in_block)
        in_body = [a for a in shifted if a.start >= 0]
    separate: list[Annotation] = []
    for annotation in sorted(in_body, key=lambda a: (a.start, -a.end)):
        if not separate or annotation.start >= separate[-1].end:
            separate.append(annotation)
    return body, separate


def _spelled(raw: bytes, annotations: Iterable[Annotation], encoding: str) -> list[Annotation]:
    def spells(annotation: Annotation) -> bool:
        found = raw[annotation.start : annotation.end].decode(encoding, "replace")
        return _plain(found) == _plain(annotation.mention)

    return [annotation for annotation in annotations if spells(annotation)]


def _plain(text: str) -> str:
    return " ".join(entities.unescape(text).split())


def _codec(name: str) -> str:
    """Return a codec of texts; some that Python knows are none, or take quadratic time."""
    try:
        codec = codecs.lookup(name).name
        b" ".decode(codec, "replace")
    except (LookupError, ValueError):
        return "utf-8"
    return "utf-8" if codec in _NO_PAGES else codec


def _mark(raw: bytes, annotations: Sequence[Annotation], encoding: str) -> str:
    """Decode a page with each annotated mention between two signs that carry its number."""
    parts = []
    at = 0
    for number, annotation in enumerate(annotations):
        digits = "".join(chr(_DIGIT_0 + int(digit)) for digit in str(number))
        before, mention = raw[at : annotation.start], raw[annotation.start : annotation.end]
        parts += [_decode(before, encoding), _OPEN, digits, _decode(mention, encoding), _CLOSE]
        at = annotation.end
    return "".join([*parts, _decode(raw[at:], encoding)])


def _decode(raw: bytes, encoding: str) -> str:
    return clean_surrogates(_MARK_CHARACTERS.sub("", raw.decode(encoding, "replace")))


def _unmark(text: str) -> tuple[str, dict[int, tuple[int, int]]]:
    """Take the signs out of a text; return where the mention of each number stands in it."""
    parts: list[str] = []
    spans: dict[int, tuple[int, int]] = {}
    at = length = start = 0
    number = -1
    for sign in _MARK.finditer(text):
        parts.append(text[at : sign.start()])
        length += len(parts[-1])
        at = sign.end()
        if sign.group(1):
            number, start = int("".join(str(ord(c) - _DIGIT_0) for c in sign.group(1))), length
        elif number >= 0 and length > start:
            spans.setdefault(number, (start, length))
            number = -1
    parts.append(text[at:])
    return _MARK_CHARACTERS.sub("", "".join(parts)), spans


def _read_pages(path: Path, limits: ReadLimits, on_skip: OnSkip) -> Iterator[tuple[str, bytes]]:
    def on_fault(reason: str) -> None:
        on_skip(Skip(reason, path.name))

    with path.open("rb") as file:
        blocks = read_blocks(file, on_fault)
        for record in read_records(blocks, limits.max_record_bytes, on_fault):
            if record is None or record.type != "response":
                continue
            trec_id = record.headers.get("warc-trec-id")
            if trec_id:
                yield trec_id, record.block
            else:
                on_skip(Skip("response without WARC-TREC-ID", path.name))
