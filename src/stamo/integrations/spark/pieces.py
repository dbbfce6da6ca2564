"""Files in pieces that many machines read, each on its own, to the same records as one reader.

A file is one piece, but for large ones that can be cut: plain JSON lines at line breaks, Parquet
between row groups. Files are paths that every machine sees, or addresses such as s3:// and hdfs://.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from stamo.corpus.reading import (
    STDIN,
    BadRecordError,
    InputFile,
    ReadItem,
    ReadTask,
    choose_format,
    open_file,
    read_items,
)
from stamo.errors import CorpusFormatError
from stamo.system.streams import UTF_16_MARKS, compression

PIECE_BYTES = 64 << 20
"""What one task reads, as it is stored; smaller files are put together."""
COUNTED_HERE = 64 << 20
"""Up to so many bytes, counting lines takes less time than sending out for it."""
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Some of the records of one file."""

    file: InputFile
    size: int
    """Bytes to read."""
    start: int = 0
    end: int | None = None
    """Lines that begin between these bytes belong to the piece; None is the end of the file."""
    groups: tuple[int, int] | None = None
    """Row groups of a Parquet file, the second exclusive; None is all."""
    before: int = 0
    """Records of the file before this piece."""

    @property
    def path(self) -> str:
        """Where every machine finds the file."""
        given = self.file.path
        return given if "://" in given else str(Path(given).absolute())


CountLines = Callable[[Callable[[FilePiece], int], Iterable[FilePiece]], Iterable[int]]
"""Runs a function over pieces: `map`, or the same on many machines."""


def plan_pieces(
    files: Sequence[InputFile],
    piece_bytes: int = PIECE_BYTES,
    *,
    json_lines: bool = False,
    run: CountLines = map,
) -> list[FilePiece]:
    """Cut files into pieces, in their order.

    Args:
        files: What `list_files` found.
        piece_bytes: About how large a piece is, at most one and a half times that.
        json_lines: Whether every file holds JSON lines, whatever it looks like.
        run: Counts the lines of pieces of large files, so that each knows its line numbers.

    Raises:
        CorpusFormatError: A file is standard input.
    """
    if any(file.path == STDIN for file in files):
        raise CorpusFormatError(
            "Standard input cannot be read by many machines; give files, folders or addresses."
        )
    pieces = [piece for file in files for piece in _cut(file, piece_bytes, json_lines)]
    # What follows the last piece of a file has numbers of its own.
    lines = [piece for piece, following in pairwise(pieces) if following.start]
    count = map if sum(piece.size for piece in lines) <= COUNTED_HERE else run
    counts = dict(zip(lines, count(count_line_ends, lines), strict=True))
    numbered, n = [], 0
    for piece in pieces:
        n = n if piece.start else 0
        numbered.append(piece if piece.end is None else replace(piece, before=n))
        n += counts.get(piece, 0)
    return numbered


def _cut(file: InputFile, piece_bytes: int, json_lines: bool) -> Iterator[FilePiece]:
    n_pieces = round(file.size / piece_bytes)
    if file.fault or n_pieces <= 1:
        yield FilePiece(file, file.size)
    elif file.name.lower().endswith(".parquet"):
        yield from _cut_table(file, piece_bytes)
    elif _is_plain_lines(file, json_lines):
        step = -(-file.size // n_pieces)  # all alike: a crumb at the end is a task, too
        for start in range(0, file.size, step):
            end = min(start + step, file.size)
            yield FilePiece(file, end - start, start, end)
    else:
        yield FilePiece(file, file.size)


def _is_plain_lines(file: InputFile, json_lines: bool) -> bool:
    with open_file(file.path) as opened:
        head = opened.read(4096)
    if compression(head) is not None or head.startswith(UTF_16_MARKS):
        return False
    try:
        return json_lines or choose_format(file.name, head) == "lines"
    except BadRecordError:
        return False


def _cut_table(file: InputFile, piece_bytes: int) -> Iterator[FilePiece]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_file(file.path) as opened:
            metadata = pq.read_metadata(opened)
    except (pa.ArrowException, OSError):
        yield FilePiece(file, file.size)  # its reader says what is wrong
        return
    first = size = before = n_rows = 0
    for group in range(metadata.num_row_groups):
        stored = metadata.row_group(group)
        size += sum(stored.column(i).total_compressed_size for i in range(stored.num_columns))
        n_rows += stored.num_rows
        if size >= piece_bytes or group == metadata.num_row_groups - 1:
            yield FilePiece(file, size, groups=(first, group + 1), before=before)
            first, size, before, n_rows = group + 1, 0, before + n_rows, 0


def bundle(pieces: Iterable[FilePiece], n_bytes: int = PIECE_BYTES) -> list[list[FilePiece]]:
    """Put neighbouring pieces together until they are worth a task, to about `n_bytes` each."""
    bundles: list[list[FilePiece]] = []
    size = n_bytes
    for piece in pieces:
        if size + piece.size / 2 >= n_bytes:
            bundles.append([])
            size = 0
        bundles[-1].append(piece)
        size += piece.size
    return bundles


def count_line_ends(piece: FilePiece) -> int:
    """Count the line breaks between the bytes of a piece."""
    n, left = 0, piece.size
    with open_file(piece.path) as file:
        file.seek(piece.start)
        while left and (block := file.read(min(left, _BLOCK))):
            n += block.count(b"\n")
            left -= len(block)
    return n


def read_piece(piece: FilePiece, task: ReadTask, form: str = "") -> Iterator[ReadItem]:
    """Read the records of one piece."""
    if piece.end is None:
        task = replace(task, before=piece.before, groups=piece.groups)
        yield from read_items(piece.file._replace(path=piece.path), task, form=form)
        return
    with open_file(piece.path) as file:
        begin = _line_end(file, piece.start - 1) if piece.start else 0
        end = _line_end(file, piece.end - 1)
    if begin < piece.end:
        task = replace(task, span=(begin, end), before=piece.before + (begin > piece.start))
        yield from read_items(piece.file._replace(path=piece.path), task, form="lines")


def _line_end(file: BinaryIO, at: int) -> int:
    """Return where the line of a byte ends, behind its line break, or the file."""
    file.seek(at)
    while block := file.read(_BLOCK):
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(block)
    return at
