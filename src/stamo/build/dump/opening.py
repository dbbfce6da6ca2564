"""Open a dump: a file or standard input, its compression told from the first bytes."""

import os
import sys
from pathlib import Path
from typing import BinaryIO

from stamo.errors import DumpError
from stamo.system.streams import (
    PLAIN,
    UNSUPPORTED,
    ByteSource,
    ByteStream,
    StreamFault,
    compression,
)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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


def open_stream(file: BinaryIO, name: str) -> ByteStream:
    """Return the decompressed bytes of an open dump.

    Raises:
        DumpError: It cannot be read, or is no dump.
    """
    source = ByteSource(file)
    try:
        return ByteStream(source, detect(source.peek(64), name))
    except StreamFault as fault:
        raise DumpError(f"{name} cannot be read: {fault}.") from fault


def detect(start: bytes, name: str) -> str:
    """Tell the format of a dump from its first bytes: a compression, or plain XML.

    Raises:
        DumpError: It is none of them.
    """
    if kind := compression(start):
        return kind
    if start.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"<"):
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
        f"{name} begins with the bytes {start[:8]!r}; expected a MediaWiki XML dump in UTF-8, "
        "plain or compressed as .gz, .bz2, .xz or .zst."
    )
