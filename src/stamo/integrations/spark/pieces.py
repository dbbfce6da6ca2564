"""Sources in pieces that many machines read, each on its own, to the same documents as one reader.

A file is one piece, but for large ones that can be cut: plain JSON lines at line breaks, Parquet
between row groups. Files are paths that every machine sees, or addresses such as s3:// and hdfs://.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from stamo.corpus.reading import (
    LINES,
    PARQUET,
    STDIN,
    ReadChunk,
    ReadItem,
    ReadTask,
    choose_format,
    list_files,
    read_in_chunks,
    read_opened,
    task_of,
)
from stamo.errors import CorpusFormatError
from stamo.system.streams import compression

PIECE_BYTES = 64 << 20
"""What one task reads, as it is stored; smaller files are put together."""
COUNTED_HERE = 64 << 20
"""Up to so many bytes, counting lines takes less time than sending out for it."""
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Some of the records of one file."""

    source: int
    """Index of the source that the file belongs to."""
    name: str
    """The file inside the source, by its name."""
    path: str
    """Where every machine finds the file."""
    given: str
    """The same as the caller wrote it, for ids and faults."""
    size: int
    """Bytes to read."""
    fault: str = ""
    """Why the file is not read."""
    start: int = 0
    end: int | None = None
    """Lines that begin between these bytes belong to the piece; None is the end of the file."""
    groups: tuple[int, int] | None = None
    """Row groups of a Parquet file, the second exclusive; None is all."""
    before: int = 0
    """Records of the file before this piece."""
    json_lines: bool = False
    """Whether it holds JSON lines, whatever it looks like."""


CountLines = Callable[[Callable[[FilePiece], int], Iterable[FilePiece]], Iterable[int]]
"""Runs a function over pieces: `map`, or the same on many machines."""


def plan_pieces(
    sources: Sequence[str],
    piece_bytes: int = PIECE_BYTES,
    *,
    json_lines: bool = False,
    run: CountLines = map,
) -> list[FilePiece]:
    """Cut sources into pieces in the order in which one reader would read them.

    Args:
        sources: Files, folders or addresses of either.
        piece_bytes: About how large a piece is, at most one and a half times that.
        json_lines: Whether every file holds JSON lines, whatever it looks like.
        run: Counts the lines of pieces of large files, so that each knows its line numbers.

    Raises:
        CorpusFormatError: A source does not exist or is standard input.
    """
    pieces = [
        piece
        for whole in list_pieces(sources)
        for piece in _cut(replace(whole, json_lines=json_lines), piece_bytes)
    ]
    # What follows the last piece of a file has numbers of its own.
    lines = [piece for piece, following in pairwise(pieces) if following.start]
    count = map if sum(piece.size for piece in lines) <= COUNTED_HERE else run
    counts = dict(zip(lines, count(count_line_ends, lines), strict=True))
    return list(_numbered(pieces, counts))


def list_pieces(sources: Sequence[str]) -> Iterator[FilePiece]:
    """List the files of sources, each as one piece, in the order of one reader.

    Raises:
        CorpusFormatError: A source does not exist or is standard input.
    """
    for number, source in enumerate(sources):
        for piece in _files(source):
            yield replace(piece, source=number)


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


def read_pieces(
    pieces: Iterable[FilePiece], window: int, text_column: str = ""
) -> Iterator[ReadChunk]:
    """Read pieces to link them, as `read_chunks` reads whole sources."""
    return read_in_chunks(
        lambda task: (item for piece in pieces for _, item in read_piece(piece, task)),
        window,
        text_column,
    )


def read_piece(piece: FilePiece, task: ReadTask) -> Iterator[ReadItem]:
    """Read one piece as the task wants it."""
    task = replace(task_of(task, piece.name, piece.given), before=piece.before)
    try:
        if piece.fault:
            raise OSError(piece.fault)
        file = _open_file(piece.path)
    except OSError as error:
        reason = piece.fault or f"file cannot be opened ({error.strerror or error})"
        task.skip(reason, task.file, advice="" if piece.fault else "check the path")
        yield piece.before, None
        return
    with file:
        path = Path(piece.path)
        if piece.end is None:
            form = LINES if piece.json_lines else None
            if not piece.size and task.window is None:
                task.skip("empty file", task.file)
            task = replace(task, groups=piece.groups)
            if "://" in piece.path and _is_table(piece):
                # Opened anew: it is read by place, and the other from front to end.
                with _open_file(piece.path) as table:
                    yield from read_opened(file, path, replace(task, path=table), form)
            else:
                yield from read_opened(file, path, task, form)
        elif (lines := _Lines.of(file, piece)) is not None:
            first = piece.before + lines.n_before
            yield from read_opened(lines, path, replace(task, before=first), LINES)


def count_line_ends(piece: FilePiece) -> int:
    """Count the line breaks between the bytes of a piece."""
    n, left = 0, piece.size
    with _open_file(piece.path) as file:
        file.seek(piece.start)
        while left and (block := file.read(min(left, _BLOCK))):
            n += block.count(b"\n")
            left -= len(block)
    return n


class _Lines:
    """The lines that begin inside a piece, whole."""

    def __init__(self, file: BinaryIO, left: int, n_before: int) -> None:
        self._file, self._left, self.n_before = file, left, n_before
        self._is_done = False

    @classmethod
    def of(cls, file: BinaryIO, piece: FilePiece) -> _Lines | None:
        """Find the first line; None where no line begins inside the piece."""
        assert piece.end is not None
        if not piece.start:
            return cls(file, piece.end, 0)
        file.seek(piece.start - 1)
        if file.read(1) == b"\n":
            return cls(file, piece.end - piece.start, 0)
        skipped = _to_line_end(file)
        begin = piece.start + skipped
        if begin >= piece.end:
            return None
        file.seek(begin)
        return cls(file, piece.end - begin, 1)

    def read(self, size: int = _BLOCK) -> bytes:
        """Read on; the last line is read to its end, beyond the piece if need be."""
        if self._is_done:
            return b""
        beyond = not self._left
        data = self._file.read(min(size, _BLOCK) if beyond else min(size, self._left))
        if beyond:
            found = data.find(b"\n")
            data = data[: found + 1] if found >= 0 else data
        else:
            self._left -= len(data)
        self._is_done = not data or (not self._left and data.endswith(b"\n"))
        return data


def _to_line_end(file: BinaryIO) -> int:
    """Return how many bytes there are up to the next line break, with it, or to the end."""
    n = 0
    while block := file.read(_BLOCK):
        found = block.find(b"\n")
        if found >= 0:
            return n + found + 1
        n += len(block)
    return n


def _numbered(pieces: Iterable[FilePiece], counts: dict[FilePiece, int]) -> Iterator[FilePiece]:
    """Give pieces of lines the number of line breaks before them."""
    n = 0
    for piece in pieces:
        if piece.end is not None:
            n = n if piece.start else 0
            yield replace(piece, before=n)
            n += counts.get(piece, 0)
        else:
            yield piece


def _cut(piece: FilePiece, piece_bytes: int) -> Iterator[FilePiece]:
    n_pieces = round(piece.size / piece_bytes)
    if piece.fault or n_pieces <= 1:
        yield piece
    elif _is_table(piece):
        yield from _cut_table(piece, piece_bytes)
    elif _is_plain_lines(piece):
        step = -(-piece.size // n_pieces)  # all alike: a crumb at the end is a task, too
        for start in range(0, piece.size, step):
            end = min(start + step, piece.size)
            yield replace(piece, start=start, end=end, size=end - start)
    else:
        yield piece


def _is_table(piece: FilePiece) -> bool:
    return piece.name.lower().endswith(PARQUET.suffixes)


def _is_plain_lines(piece: FilePiece) -> bool:
    with _open_file(piece.path) as file:
        head = file.read(4096)
    if compression(head) is not None:
        return False
    return piece.json_lines or choose_format(piece.name, head) is LINES


def _cut_table(piece: FilePiece, piece_bytes: int) -> Iterator[FilePiece]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with _open_file(piece.path) as file:
            metadata = pq.read_metadata(file)
    except (pa.ArrowException, OSError):
        yield piece  # its reader says what is wrong
        return
    first = size = before = n_rows = 0
    for group in range(metadata.num_row_groups):
        stored = metadata.row_group(group)
        size += sum(stored.column(i).total_compressed_size for i in range(stored.num_columns))
        n_rows += stored.num_rows
        if size >= piece_bytes or group == metadata.num_row_groups - 1:
            yield replace(piece, groups=(first, group + 1), before=before, size=size)
            first, size, before, n_rows = group + 1, 0, before + n_rows, 0


def _files(source: str) -> Iterator[FilePiece]:
    """List the files of a source, each as one piece."""
    if source == STDIN:
        raise CorpusFormatError(
            "Standard input cannot be read by many machines; give files, folders or addresses."
        )
    if "://" in source:
        yield from _remote_files(source)
        return
    if not Path(source).exists():
        raise CorpusFormatError(
            f"There is no file or folder {source!r}; give the path of existing documents."
        )
    for entry in list_files(source):
        size = 0 if entry.fault else entry.path.stat().st_size
        path = str(entry.path.absolute())
        yield FilePiece(0, entry.name, path, str(entry.path), size, entry.fault)


def _remote_files(source: str) -> Iterator[FilePiece]:
    from pyarrow import fs

    system, root = _file_system(source)
    found = system.get_file_info(root)
    if found.type == fs.FileType.NotFound:
        raise CorpusFormatError(
            f"There is nothing at {source!r}; give the address of existing documents."
        )
    base = source[: len(source) - len(root)] if source.endswith(root) else source.split("://")[0]
    base = base if base.endswith("/") or base.endswith("://") else f"{base}://"
    if found.type == fs.FileType.File:
        yield FilePiece(0, Path(root).name, source, source, found.size)
        return
    label = Path(root).name
    infos = system.get_file_info(fs.FileSelector(root, recursive=True))
    names = {info.path: Path(info.path).relative_to(root).as_posix() for info in infos}
    for info in sorted(infos, key=lambda info: names[info.path]):
        hidden = any(part.startswith(".") for part in names[info.path].split("/"))
        if info.type == fs.FileType.File and not hidden:
            path = f"{base}{info.path}"
            yield FilePiece(0, f"{label}/{names[info.path]}", path, path, info.size)


def _file_system(address: str) -> tuple[Any, str]:
    import pyarrow as pa
    from pyarrow import fs

    try:
        return fs.FileSystem.from_uri(address)  # type: ignore[no-any-return]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorpusFormatError(
            f"{address!r} cannot be reached ({error}); give a path or an address such as s3://."
        ) from error


def _open_file(path: str) -> BinaryIO:
    if "://" not in path:
        return Path(path).open("rb")
    system, inside = _file_system(path)
    return system.open_input_file(inside)  # type: ignore[no-any-return]
