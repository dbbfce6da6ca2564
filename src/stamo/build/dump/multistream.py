"""Find byte ranges of whole streams in a multistream .bz2, so that workers decompress in parallel.

Wikimedia's multistream archives are many small bzip2 streams of about 100 pages each; the index
beside the archive says at which byte the stream of each page begins (lines "offset:page id:title").
Without an index the streams are found by the ten bytes that each begins with.
"""

import bz2
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from stamo.build.dump.splitter import MAX_SITE_BYTES, PAGE_START, PageLimits
from stamo.errors import DumpError
from stamo.system.streams import ByteSource, ByteStream

MAX_RANGE_BYTES = 64 << 20
"""Compressed length above which a range is not one of a usual multistream archive."""

MAX_FOUND_BYTES = 8 << 20
"""The same where no index says how an archive was made: its pages fit in a worker's memory."""

_STREAM_START = re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)")
_LINE = re.compile(rb"^(\d{1,18}):\d+:", re.MULTILINE)
_MAX_LINE_BYTES = 1 << 16
# bzip2 makes about a quarter of wikitext, so a range holds about chunk_bytes of pages.
_RATIO = 4
_N_PROBES = 16
_N_PROBES_FOUND = 4  # its second stream was looked at already, and each decompresses a block
_SCAN_BYTES = 1 << 20
_START_BYTES = 10


@dataclass(frozen=True, slots=True)
class StreamRange:
    """Whole bzip2 streams that lie between two bytes of a file."""

    path: Path
    start: int
    end: int
    limits: PageLimits
    expects_end: bool
    """Whether the dump's closing tag belongs to this range."""


def find_index(dump_path: Path) -> Path | None:
    """Return the index that lies beside a multistream dump under Wikimedia's name, if any."""
    name = dump_path.name
    if "multistream" not in name:
        return None
    renamed = name.replace("multistream", "multistream-index", 1).replace(".xml", ".txt", 1)
    for candidate in (renamed, renamed.removesuffix(".bz2")):
        path = dump_path.with_name(candidate)
        if candidate != name and path.is_file():
            return path
    return None


def plan_ranges(
    dump_path: Path, index_path: Path, limits: PageLimits, *, expects_end: bool
) -> list[StreamRange]:
    """Group the streams of an archive into ranges that cover it from its first byte to its last.

    Raises:
        DumpError: The index cannot be read or does not belong to the archive.
    """
    n_bytes = dump_path.stat().st_size
    # A shorter archive than the index describes is a broken download; what is there is read.
    offsets = [offset for offset in sorted(read_offsets(index_path)) if 0 < offset < n_bytes]
    cuts = [0]
    for offset in offsets:
        if offset - cuts[-1] >= _least_bytes(limits):
            cuts.append(offset)
    with dump_path.open("rb") as file:
        if (misfit := _first_misfit(file, cuts, _N_PROBES)) is not None:
            raise DumpError(
                f"The index {index_path} does not belong to {dump_path}: no stream of pages begins "
                f"at byte {misfit:,}; remove the index or download the one of the same date."
            )
    if _longest(cuts, n_bytes) > MAX_RANGE_BYTES:
        raise DumpError(f"The index {index_path} does not cover {dump_path}; download it anew.")
    return _ranges(dump_path, cuts, n_bytes, limits, expects_end=expects_end)


def find_ranges(
    dump_path: Path, limits: PageLimits, *, expects_end: bool
) -> list[StreamRange] | None:
    """Group the streams of an archive without an index; None unless it is surely a multistream."""
    n_bytes = dump_path.stat().st_size
    with dump_path.open("rb") as file:
        if not _has_header_stream(file):
            return None
        cuts = [0, *_find_cuts(file, _least_bytes(limits))]
        if _longest(cuts, n_bytes) > MAX_FOUND_BYTES:
            return None
        if _first_misfit(file, cuts, _N_PROBES_FOUND) is not None:
            return None
    return _ranges(dump_path, cuts, n_bytes, limits, expects_end=expects_end)


def _least_bytes(limits: PageLimits) -> int:
    return max(1, limits.chunk_bytes // _RATIO)


def _longest(cuts: list[int], n_bytes: int) -> int:
    return max(end - start for start, end in pairwise([*cuts, n_bytes]))


def _ranges(
    dump_path: Path, cuts: list[int], n_bytes: int, limits: PageLimits, *, expects_end: bool
) -> list[StreamRange]:
    return [
        StreamRange(dump_path, start, end, limits, expects_end and end == n_bytes)
        for start, end in pairwise([*cuts, n_bytes])
    ]


def _has_header_stream(file: BinaryIO) -> bool:
    """Tell whether the first stream ends before the first page, and pages begin the second."""
    member = bz2.BZ2Decompressor()
    try:
        header = member.decompress(file.read(MAX_SITE_BYTES), MAX_SITE_BYTES)
    except OSError:
        return False
    after = member.unused_data
    return (
        member.eof
        and not PAGE_START.search(header)
        and bool(_STREAM_START.match(after))
        and _begins_with_page(after)
    )


def _find_cuts(file: BinaryIO, least_bytes: int) -> Iterator[int]:
    """Yield where streams begin, each at least so many bytes behind the one before."""
    position = least_bytes
    while True:
        file.seek(position)
        block = file.read(_SCAN_BYTES)
        if found := _STREAM_START.search(block):
            yield position + found.start()
            position += found.start() + least_bytes
        elif len(block) == _SCAN_BYTES:
            position += _SCAN_BYTES - _START_BYTES + 1  # a start may be cut in two
        else:
            return


def read_offsets(index_path: Path) -> set[int]:
    """Return the distinct stream offsets of an index, plain or compressed.

    Raises:
        DumpError: The file cannot be read or is not an index.
    """
    try:
        with index_path.open("rb") as file:
            stream = ByteStream(ByteSource(file))
            offsets = {
                int(offset)
                for lines in _whole_lines(stream)
                for offset in _offsets(lines, index_path)
            }
    except OSError as error:
        raise DumpError(f"The index {index_path} cannot be read: {error}.") from error
    if not offsets:
        raise DumpError(f"The index {index_path} is empty; expected lines offset:page id:title.")
    return offsets


def _whole_lines(stream: ByteStream) -> Iterator[bytes]:
    rest = b""
    for block in stream:
        lines, newline, rest = (rest + block).rpartition(b"\n")
        yield lines + newline
        if len(rest) > _MAX_LINE_BYTES:
            break
    yield rest


def _offsets(lines: bytes, index_path: Path) -> set[bytes]:
    found = _LINE.findall(lines)
    n_lines = lines.count(b"\n") + (not lines.endswith(b"\n") and bool(lines))
    if len(found) != n_lines:
        raise DumpError(
            f"The index {index_path} holds lines that are not offset:page id:title; "
            "expected the multistream-index file that belongs to the dump."
        )
    return set(found)


def _first_misfit(file: BinaryIO, cuts: list[int], n_probes: int) -> int | None:
    """Look at the first bytes at every cut, and at the first page at some of them."""
    step = max(1, len(cuts) // n_probes)
    for number, offset in enumerate(cuts[1:]):
        file.seek(offset)
        start = file.read(_START_BYTES)
        if not _STREAM_START.match(start) and not _is_cut_start(start):
            return offset
        if number % step == 0 and not _begins_with_page(start + file.read(1 << 20)):
            return offset
    return None


def _is_cut_start(start: bytes) -> bool:
    return len(start) < _START_BYTES and b"BZh91AY&SY".startswith(start)


def _begins_with_page(data: bytes) -> bool:
    """Tell whether a stream may hold pages; one that is damaged or cut is its reader's business."""
    try:
        text = bz2.BZ2Decompressor().decompress(data, 1 << 10)
    except OSError:
        return True
    return not text or text.lstrip().startswith((b"<page", b"</mediawiki"))
