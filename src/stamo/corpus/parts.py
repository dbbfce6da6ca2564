"""Long texts in parts, so that memory is bounded by the window and not by the text.

A part ends with a paragraph, a sentence or at least a word, and never inside a given mention.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.types import Document
from stamo.errors import CorpusFormatError

_BOUNDARIES = (("\n\n",), ("\n",), (". ", "! ", "? ", "。", "؟ ", "। "), (" ",))


@dataclass(frozen=True, slots=True)
class Part:
    """A document, or a part of a long one that starts at `offset`."""

    document: Document
    number: int | None = None
    """None when the document is whole."""
    offset: int = 0

    @property
    def id(self) -> str:
        """The document's id."""
        return self.document.id


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A document that could not be read, and why."""

    id: str
    error: str
    number: int | None = None


ReadPart = Part | Unreadable


def find_cut(text: str, window: int, begin: int = 0) -> int:
    """Return where to cut at most `window` characters after `begin`, in the second half.

    The end of a paragraph is best, then of a line, a sentence, a word.
    """
    limit = begin + window
    for boundaries in _BOUNDARIES:
        cuts = [text.rfind(sign, begin + window // 2, limit) + len(sign) for sign in boundaries]
        found = [cut for cut, sign in zip(cuts, boundaries, strict=True) if cut >= len(sign)]
        if found:
            return max(found)
    return limit


def split_document(document: Document, window: int) -> Iterator[Part]:
    """Cut a document that is longer than the window; never inside one of its mentions."""
    text = document.text
    if len(text) <= window:
        yield Part(document)
        return
    begin = number = 0
    mentions = sorted(document.mentions, key=lambda m: m.start)
    while begin < len(text):
        end = len(text) if len(text) - begin <= window else find_cut(text, window, begin)
        for mention in mentions:
            if mention.start < end < mention.end:
                end = mention.start if mention.start > begin else mention.end
        inside = tuple(
            replace(m, start=m.start - begin, end=m.end - begin)
            for m in mentions
            if begin <= m.start and m.end <= end
        )
        piece = replace(document, text=text[begin:end], mentions=inside)
        yield Part(piece, number, begin)
        begin, number = end, number + 1


MAX_ID_CHARACTERS = 512
NO_MENTION = "contains no alias"
"""The one reason that is no fault: the document does not speak of the entity's names."""


@dataclass(frozen=True, slots=True)
class Skip:
    """One or more records that were left out, or mended and kept."""

    reason: str
    where: str
    """The file and record, for a person to look up."""
    count: int = 1
    kept: bool = False
    """True where the document was mended (cut, characters replaced) and still handed on."""
    advice: str = ""
    """What to do about this one, besides its reason."""

    @property
    def sentence(self) -> str:
        """Say what happened to a person who waits for this document."""
        return f"{self.where}: {self.reason}{self.advice and f'; {self.advice}'}."


class BadRecordError(CorpusFormatError):
    """A record that is no document: its message is a short reason to count it by."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.advice = advice


OnSkip = Callable[[Skip], None]


def ignore_skips(skip: Skip) -> None:
    """Take a skip and do nothing with it."""


@dataclass
class SkipCounter:
    """Count skips by reason; an instance is an `OnSkip`."""

    skipped: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """Where each reason was met first."""

    def __call__(self, skip: Skip) -> None:
        """Count one skip."""
        (self.mended if skip.kept else self.skipped)[skip.reason] += skip.count
        self.examples.setdefault(skip.reason, skip.where)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much of one document is read at most, so that no input can exhaust the memory."""

    max_characters: int = 2_000_000
    """A longer text is cut at the last white space before this length."""
    max_record_bytes: int = 16_000_000
    """A longer JSON line, HTML page or WARC record is left out."""
    max_line_bytes: int | None = None
    """Where it is given, JSON lines may be as long as this."""


def cut_text(text: str, limits: ReadLimits, where: str, on_skip: OnSkip) -> str:
    """Return `text`, cut between two words and counted where it is longer than the limit."""
    if len(text) <= limits.max_characters:
        return text
    on_skip(Skip(f"text cut at {limits.max_characters:,} characters", where, kept=True))
    head = text[: limits.max_characters]
    # Look for white space near the end only: a text without any stays within the limit too.
    tail = max(len(head) - 1000, 1)
    cut = max((head.rfind(space, tail) for space in " \n\t"), default=-1)
    return head[:cut] if cut > 0 else head


def decode_utf8(raw: bytes, where: str, on_skip: OnSkip) -> str:
    """Decode UTF-8; invalid bytes become U+FFFD and are counted."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        on_skip(Skip("invalid UTF-8 replaced", where, kept=True))
        return raw.decode("utf-8", "replace")


def clean_surrogates(text: str) -> str:
    r"""Replace lone surrogates, which JSON escapes can smuggle in and no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Escapes may also spell a pair one by one, which is a character.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def make_id(place: str, text: str) -> str:
    """Make an id that stays the same on every machine and differs for different texts."""
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{clean_id(place)}:{digest}"


def clean_id(value: str) -> str:
    """Return a printable id of bounded length; what is cut is replaced by a digest."""
    printable = "".join(c if c.isprintable() else "�" for c in clean_surrogates(value)).strip()
    if len(printable) <= MAX_ID_CHARACTERS:
        return printable
    digest = hashlib.blake2b(printable.encode(), digest_size=6).hexdigest()
    return f"{printable[: MAX_ID_CHARACTERS - 16]}~{digest}"


UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

ReadItem = tuple[int, Document | ReadPart | None]
"""The number of records read so far, and what the last one gave, if anything."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What a format needs to know about the file it reads.

    Documents are collected or linked. To collect, they are tidied: long texts are cut, empty ones
    left out, broken characters replaced, ids made unique and printable. To link (`window`), they
    come as they were written, long texts in parts, and what cannot be read is a fault.
    """

    on_skip: OnSkip
    limits: ReadLimits
    matcher: AliasMatcher | None = None
    """Documents that cannot contain any of its aliases are left out before they are parsed."""
    window: int | None = None
    """Characters of a part; None tidies documents and leaves them whole."""
    place: str = ""
    """The file's name inside its source; part of the ids that documents get."""
    file: str = ""
    """What to call the file as a whole."""
    first: int = 0
    """The record to start with, when an interrupted reading goes on."""
    path: Path | BinaryIO | None = None
    """A Parquet file, which is not read from front to back; None for a pipe or a compressed one."""
    text_column: str = ""
    """The column of a table that holds the texts; one of the usual names without it."""
    before: int = 0
    """Records of the file that lie before the bytes that are read, when others read those."""
    groups: tuple[int, int] | None = None
    """The row groups of a Parquet file that are read, the second exclusive; None is all."""

    def where(self, kind: str, number: int) -> str:
        """Name one record of the file, for a person to look up."""
        tidied = self.window is None
        return f"{self.place} {kind} {number}" if tidied else f"{self.place}:{number}"

    def id_of(self, given: str, where: str, text: str) -> str:
        """Return the id of a document that may bring its own."""
        if self.window is not None:
            return given or where
        return clean_id(given) or make_id(self.place, text)

    def take(
        self, where: str, make: Callable[..., Document | None], *record: Any
    ) -> Document | None:
        """Make a document of a record, which the maker gets with place and task; or count why not.

        Args:
            where: Where the record is, for a person to look up.
            make: Raises a `CorpusFormatError` where the record is none; its message is the reason.
            record: The record, as the maker takes it.
        """
        try:
            return make(*record, where, self)
        except CorpusFormatError as error:
            self.skip(str(error), where, advice=getattr(error, "advice", ""))
            return None

    def skip(self, reason: str, where: str, count: int = 1, advice: str = "") -> None:
        """Count records that are left out."""
        self.on_skip(Skip(reason, where, count, advice=advice))


@dataclass(frozen=True, eq=False)
class Format:
    """One format of documents."""

    read: Callable[[Iterator[bytes], ReadTask], Iterator[ReadItem]]
    """Reads the documents of a file from its decompressed bytes, past what is broken."""
    suffixes: tuple[str, ...]
    """The endings of file names, before that of a compression."""
    begins: re.Pattern[bytes] | None = None
    """How files of this format begin, behind white space; None: as any text may."""


def read_whole(blocks: Iterator[bytes], max_bytes: int) -> bytes:
    """Join blocks up to `max_bytes`; what comes after is not read."""
    taken = []
    size = 0
    for block in blocks:
        taken.append(block[: max_bytes - size])
        size += len(taken[-1])
        if size >= max_bytes:
            break
    return b"".join(taken)
