"""Freebase's ids and the lines of FACC1: which stretch of which page names which entity.

FACC1 is tab-separated, one mention per line: TREC id, encoding, mention, first byte, byte after the
last, posterior given mention and context, posterior given context only, Freebase mid.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stamo.corpus.skips import OnSkip, Skip, ignore_skips
from stamo.errors import CorpusFormatError
from stamo.system.streams import read_blocks, read_line_blocks

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


class _Run(NamedTuple):
    """Consecutive lines of one file that annotate pages of one WARC file."""

    path: Path
    first: int
    last: int


class AnnotationIndex:
    """Find a page's annotations while only those of its WARC file are held in memory."""

    def __init__(self, paths: Sequence[str | Path], on_skip: OnSkip) -> None:
        self._on_skip = on_skip
        self._runs: dict[str, list[_Run]] = defaultdict(list)
        for path in map(Path, paths):
            self._scan(path)
        self._segment = ""
        self._held: dict[str, list[Annotation]] = {}

    def of(self, trec_id: str) -> list[Annotation]:
        """Return the annotations of one page."""
        segment = _segment_of(trec_id)
        if segment != self._segment:
            self._segment, self._held = segment, self._load(segment)
        return self._held.get(trec_id, [])

    def _scan(self, path: Path) -> None:
        for number, line in _read_lines(path, self._on_skip):
            segment = _segment_of(line.partition("\t")[0])
            if not segment:
                self._on_skip(Skip("annotation without TREC id", f"{path.name} line {number}"))
                continue
            runs = self._runs[segment]
            if runs and runs[-1].path == path and runs[-1].last == number - 1:
                runs[-1] = _Run(path, runs[-1].first, number)
            else:
                runs.append(_Run(path, number, number))

    def _load(self, segment: str) -> dict[str, list[Annotation]]:
        found: dict[str, list[Annotation]] = defaultdict(list)
        for run in self._runs.get(segment, ()):
            for number, line in _read_lines(run.path, ignore_skips):
                if number > run.last:
                    break
                if number < run.first:
                    continue
                try:
                    annotation = parse_annotation(line)
                except CorpusFormatError as error:
                    self._on_skip(Skip(str(error), f"{run.path.name} line {number}"))
                else:
                    found[annotation.document].append(annotation)
        return found


def _segment_of(trec_id: str) -> str:
    """Name the WARC file of a page: `clueweb12-0000tw-00-00007` is in `clueweb12-0000tw-00`."""
    return trec_id.rpartition("-")[0]


def _read_lines(path: Path, on_skip: OnSkip) -> Iterator[tuple[int, str]]:
    def on_fault(reason: str) -> None:
        on_skip(Skip(reason, path.name))

    number = 0
    with path.open("rb") as file:
        blocks = read_blocks(file, on_fault)
        for block in read_line_blocks(blocks, MAX_LINE_BYTES, lambda: on_fault("line too long")):
            for line in block[:-1].split(b"\n"):
                number += 1
                if line.strip():
                    yield number, line.decode("utf-8", "replace").rstrip("\r")
