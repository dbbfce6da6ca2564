"""What a format of documents is, and what its reader is told of the file it reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.parts import ReadPart
from stamo.corpus.skips import OnSkip, ReadLimits, Skip, clean_id, make_id
from stamo.corpus.types import Document
from stamo.errors import CorpusFormatError

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
