"""The paper's own corpus: ClueWeb12 pages with the Freebase annotations of FACC1.

FACC1 is tab-separated, one mention per line: TREC id, encoding, mention, first byte, byte after the
last, posterior given mention and context, posterior given context only, Freebase mid. It counts in
bytes of the page as it was crawled, in the encoding it names, while we keep only the main content
as text.

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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stamo.corpus.reading import MAX_CHARACTERS, MAX_RECORD_BYTES, OnSkip, Skip, ignore_skips
from stamo.corpus.types import Document, Mention, clean_surrogates
from stamo.corpus.web import extract_html, parse_http, read_records, split_head
from stamo.errors import CorpusFormatError
from stamo.system.streams import ByteStream, read_line_blocks

_OPEN, _CLOSE, _DIGIT_0 = "\ue000", "\ue001", 0xE010
_MARK = re.compile("\ue000([\ue010-\ue019]+)|\ue001")
_MARK_CHARACTERS = re.compile("[\ue000\ue001\ue010-\ue019]")


_NO_PAGES = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape"})
MAX_LINE_BYTES = 1 << 20
_MID = re.compile(r"/?m[./](\w+)")


@dataclass(frozen=True, slots=True)
class Annotation:
    """One line of FACC1."""

    document: str
    encoding: str
    mention: str
    start: int
    end: int
    confidence: float
    """The posterior given both the mention and its context."""
    mid: str


def parse_annotation(line: str) -> Annotation:
    """Parse one line of FACC1.

    Raises:
        CorpusFormatError: It does not have the eight columns; the message is a short reason.
    """
    columns = line.rstrip("\r\n").split("\t")
    if len(columns) != 8:
        raise CorpusFormatError("annotation without eight columns")
    document, encoding, mention, start, end, confidence, _, mid = columns
    try:
        first, last, posterior = int(start), int(end), float(confidence)
    except ValueError:
        raise CorpusFormatError("annotation with a bad number") from None
    if not 0 <= first < last:
        raise CorpusFormatError("annotation with a bad span")
    return Annotation(document, encoding, mention, first, last, posterior, normalise_mid(mid))


def normalise_mid(mid: str) -> str:
    """Write a Freebase id as `/m/0abc`, also from `m.0abc` and from a full address.

    Raises:
        CorpusFormatError: It is no Freebase id; the message is a short reason.
    """
    found = _MID.fullmatch(mid.strip().strip("<>").rpartition("/ns/")[2])
    if not found:
        raise CorpusFormatError("bad Freebase id")
    return f"/m/{found.group(1)}"


def read_freebase_keys(
    path: str | Path, title_by_page_id: Mapping[int, str], *, on_skip: OnSkip = ignore_skips
) -> dict[str, str]:
    """Map Freebase ids to Wikipedia titles by the attribute `key:wikipedia.en_id`.

    Args:
        path: Either two columns (mid, Wikipedia page id), or the triples of a Freebase dump, of
            which only those of this attribute are read; compressed or not.
        title_by_page_id: The pages of the knowledge base.
        on_skip: Called for lines without this form, and for pages the knowledge base lacks.
    """
    title_by_mid: dict[str, str] = {}
    for number, line in _read_lines(Path(path), on_skip):
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) >= 3 and "wikipedia.en_id" not in columns[1]:
            continue
        where = f"{Path(path).name} line {number}"
        try:
            page_id = int(columns[1 if len(columns) == 2 else 2].strip('"'))
            mid = normalise_mid(columns[0])
        except (IndexError, ValueError):
            on_skip(Skip("line without Freebase id and page id", where))
            continue
        if page_id in title_by_page_id:
            # An entity may have keys of several pages (merged ones); the first one counts.
            title_by_mid.setdefault(mid, title_by_page_id[page_id])
        else:
            on_skip(Skip("Wikipedia page that the knowledge base lacks", where))
    return title_by_mid


def _annotations(paths: Sequence[str | Path], on_skip: OnSkip) -> dict[str, list[Annotation]]:
    """Return the annotations by page."""
    found: dict[str, list[Annotation]] = defaultdict(list)
    for path in map(Path, paths):
        for number, line in _read_lines(path, on_skip):
            try:
                annotation = parse_annotation(line)
            except CorpusFormatError as error:
                on_skip(Skip(str(error), f"{path.name} line {number}"))
            else:
                found[annotation.document].append(annotation)
    return found


def _read_lines(path: Path, on_skip: OnSkip) -> Iterator[tuple[int, str]]:
    def on_fault(reason: str) -> None:
        on_skip(Skip(reason, path.name))

    number = 0
    with path.open("rb") as file:
        blocks = iter(ByteStream(file, on_fault=on_fault))
        for block in read_line_blocks(blocks, MAX_LINE_BYTES, lambda: on_fault("line too long")):
            for line in block[:-1].split(b"\n"):
                number += 1
                if line.strip():
                    yield number, line.decode("utf-8", "replace").rstrip("\r")


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
        annotation_paths: FACC1 files that annotate these pages, divided in any way; held in memory.
        title_by_mid: See `read_freebase_keys`.
        on_skip: Called for every page and mention that is left out.
    """
    by_page = _annotations(annotation_paths, on_skip)
    for path in map(Path, warc_paths):
        for trec_id, block in _read_pages(path, on_skip):
            annotations = by_page.get(trec_id, [])
            if not annotations:
                on_skip(Skip("page without annotations", trec_id))
                continue
            document = annotate_page(block, annotations, title_by_mid, on_skip)
            if document is not None:
                yield document


def annotate_page(
    block: bytes,
    annotations: Sequence[Annotation],
    title_by_mid: Mapping[str, str],
    on_skip: OnSkip,
) -> Document | None:
    """Turn one crawled page (HTTP header and body) into a document with linked mentions."""
    trec_id = annotations[0].document
    linked = [a for a in annotations if a.mid in title_by_mid]
    if len(linked) < len(annotations):
        n_unknown = len(annotations) - len(linked)
        on_skip(Skip("mention of an entity without Wikipedia title", trec_id, n_unknown))
    message = parse_http(block, MAX_RECORD_BYTES)
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
        if j <= MAX_CHARACTERS
    ]
    if len(mentions) < len(placed):
        on_skip(Skip("mention outside the main content", trec_id, len(placed) - len(mentions)))
    title = _MARK_CHARACTERS.sub("", page.title) or None
    text = text[:MAX_CHARACTERS]
    return Document(trec_id, text, tuple(mentions), title) if mentions else None


def _place(
    block: bytes, body: bytes, annotations: Sequence[Annotation], encoding: str
) -> tuple[bytes, list[Annotation]]:
    """Return the page that the offsets count in, and the annotations they spell, in order."""
    in_body = _spelled(body, annotations, encoding)
    in_block = _spelled(block, annotations, encoding)
    if len(in_block) > len(in_body):
        size = split_head(block)[1] if block.startswith(b"HTTP/") else 0
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


def _read_pages(path: Path, on_skip: OnSkip) -> Iterator[tuple[str, bytes]]:
    def on_fault(reason: str) -> None:
        on_skip(Skip(reason, path.name))

    with path.open("rb") as file:
        stream = ByteStream(file, on_fault=on_fault)
        stream.skips_damage = True
        for record in read_records(iter(stream)):
            if isinstance(record, str):
                on_fault(record)
                continue
            if record.type != "response":
                continue
            trec_id = record.headers.get("warc-trec-id")
            if trec_id:
                yield trec_id, record.block
            else:
                on_skip(Skip("response without WARC-TREC-ID", path.name))
