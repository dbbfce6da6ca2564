"""Open a dump: a file or standard input, its compression told from the first bytes."""

import os
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from stamo.errors import DumpError
from stamo.system.streams import (
    PLAIN,
    UNSUPPORTED,
    UTF_16_MARKS,
    ByteSource,
    ByteStream,
    StreamFault,
    compression,
    in_utf8,
)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16 = UTF_16_MARKS | {b"<\x00": "utf-16-le", b"\x00<": "utf-16-be"}
"""The encoding by the first two bytes of XML in UTF-16."""


class TranslatedStream(ByteStream):
    """The decompressed bytes of a dump in UTF-8; UTF-16 is told from the first two bytes."""

    encoding: str | None = None
    """The encoding that is being translated, once bytes were handed out."""

    def __iter__(self) -> Iterator[bytes]:
        blocks = super().__iter__()
        first = next(blocks, b"")
        self.encoding = UTF_16.get(first[:2])
        yield from in_utf8(chain([first], blocks), UTF_16)


def open_file(path: str | Path, name: str) -> tuple[BinaryIO, int | None]:
    """Open a dump, or standard input for "-"; return also its size where it has one.

    Raises:
        DumpError: It cannot be opened.
    """
    if str(path) == "-":
        return sys.stdin.buffer, None
    try:
        if Path(path).is_dir():
            raise DumpError(f"{name} is a directory; expected the file of a MediaWiki XML dump.")
        file = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
    except FileNotFoundError as error:
        raise DumpError(f"There is no file {name}; expected a MediaWiki XML dump.") from error
    except (OSError, ValueError) as error:
        raise DumpError(f"{name} cannot be opened: {error}.") from error
    # A named pipe has no size to compare with.
    return file, os.fstat(file.fileno()).st_size or None


def open_stream(file: BinaryIO, name: str) -> TranslatedStream:
    """Return the decompressed bytes of an open dump, in UTF-8.

    Raises:
        DumpError: It cannot be read, or is no dump.
    """
    source = ByteSource(file)
    try:
        return TranslatedStream(source, detect(source.peek(64), name))
    except StreamFault as fault:
        raise DumpError(f"{name} cannot be read: {fault}.") from fault


def detect(start: bytes, name: str) -> str:
    """Tell the format of a dump from its first bytes: a compression, or plain XML.

    Raises:
        DumpError: It is none of them.
    """
    if kind := compression(start):
        return kind
    if start.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"<") or start[:2] in UTF_16:
        return PLAIN
    if not start:
        raise DumpError(f"{name} is empty; expected a MediaWiki XML dump.")
    for magic, kind in UNSUPPORTED.items():
        if start.startswith(magic):
            raise DumpError(
                f"{name} is a {kind} archive, which cannot be streamed; unpack it and pass the "
                "XML file, or pipe the XML in and pass '-'."
            )
    raise DumpError(
        f"{name} begins with the bytes {start[:8]!r}; expected a MediaWiki XML dump in UTF-8 "
        "or UTF-16, plain or compressed as .gz, .bz2, .xz or .zst."
    )
