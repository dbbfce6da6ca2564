"""Read a crawl on Spark for `stamo.workspace.collect.collect_many`: same documents, same order.

    collect_many(workspaces, sources, kb, trained, reader=spark_reader(spark))

Tasks read pieces of the sources and send back the few documents that may hold a name of any of the
entities; what is kept of them is decided by the workspaces, on the driver, as ever. How far they
came is in the workspaces, so that a run that was killed goes on with the pieces after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, BinaryIO

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.formats.base import ReadTask
from stamo.corpus.pieces import PIECE_BYTES, FilePiece, bundle, list_pieces, plan_pieces, read_piece
from stamo.corpus.readers import Position, Progress, SourceReader
from stamo.corpus.skips import OnSkip, ReadLimits, Skip
from stamo.corpus.types import Document
from stamo.integrations.spark.session import SparkWorkers
from stamo.system.processes import SpreadsWork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ScannedPiece:
    """What reading a piece gave, in its order; all that travels back to the driver."""

    events: list[Skip | tuple[int, Document]]
    """What was left out, and documents with the number of their record."""
    n_records: int
    """Records of the file up to the end of the piece."""


def spark_reader(spark: SparkSession, *, piece_bytes: int = PIECE_BYTES) -> SourceReader:
    """Return what reads sources on Spark.

    Args:
        spark: A session, local or of a cluster.
        piece_bytes: What one task reads.
    """
    return SourceReader(
        partial(_read, workers=SparkWorkers(spark), piece_bytes=piece_bytes),
        _check,
        lambda sources: sum(piece.size for piece in list_pieces(sources)),
    )


def _check(sources: Sequence[str]) -> None:
    list(list_pieces(sources))


def _read(
    sources: Sequence[str],
    *,
    on_skip: OnSkip,
    on_progress: Callable[[Progress], None],
    matcher: AliasMatcher,
    start: Position,
    stdin: BinaryIO | None,
    text_column: str,
    workers: SpreadsWork,
    piece_bytes: int,
) -> Iterator[Document]:
    here = (start.source, start.file)
    pieces = plan_pieces(sources, piece_bytes, run=workers.map)
    left = [piece for piece in pieces if (piece.source, piece.name) >= here]
    n_bytes = sum(piece.size for piece in pieces) - sum(piece.size for piece in left)
    tasks = bundle(left, piece_bytes)
    names = tuple(matcher.aliases), matcher.casefold, matcher.stems
    scan = partial(scan_pieces, names=names, start=start, text_column=text_column)
    for task, scanned in zip(tasks, workers.map(scan, tasks), strict=True):
        for piece, found in zip(task, scanned, strict=True):
            at = Position(piece.source, piece.name)
            for event in found.events:
                if isinstance(event, Skip):
                    on_skip(event)
                    continue
                number, document = event
                yield document
                on_progress(Progress(replace(at, record=number), n_bytes))
            n_bytes += piece.size
            on_progress(Progress(replace(at, record=found.n_records), n_bytes))


def scan_pieces(
    pieces: Sequence[FilePiece],
    names: tuple[tuple[str, ...], bool, tuple[str, ...]],
    start: Position,
    text_column: str = "",
) -> list[ScannedPiece]:
    """Read pieces and keep the documents that may hold a name; runs on the executors."""
    matcher = _matcher(*names)
    return [_scan(piece, matcher, start, text_column) for piece in pieces]


def _scan(
    piece: FilePiece, matcher: AliasMatcher, start: Position, text_column: str
) -> ScannedPiece:
    events: list[Skip | tuple[int, Document]] = []

    def note(skip: Skip) -> None:
        last = events[-1] if events else None
        if isinstance(last, Skip) and (last.reason, last.kept) == (skip.reason, skip.kept):
            events[-1] = replace(last, count=last.count + skip.count)
        else:
            events.append(skip)

    is_begun = (piece.source, piece.name) == (start.source, start.file)
    first = start.record if is_begun else 0
    task = ReadTask(note, ReadLimits(), matcher, first=first, text_column=text_column)
    n_records = max(first, piece.before)
    for number, item in read_piece(piece, task):
        n_records = max(n_records, number)
        if isinstance(item, Document):
            events.append((number, item))
    return ScannedPiece(events, n_records)


@lru_cache(maxsize=1)
def _matcher(names: tuple[str, ...], casefold: bool, stems: tuple[str, ...]) -> AliasMatcher:
    return AliasMatcher(names, casefold=casefold, stems=stems)
