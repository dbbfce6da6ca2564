"""Labels as files: the whole log as JSON lines (lossless), or what holds now as a table.

Both come back; a table, like another tool's file, adds what differs from what holds here.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime

from stamo.corpus.formats.jsonl import parse_json
from stamo.corpus.types import Corpus, Document
from stamo.errors import CorpusFormatError
from stamo.system.cells import bare_cell, inert_cell
from stamo.workspace.labels.events import (
    EMERGING_CHOICE,
    NONE,
    SKIP,
    UNDO,
    LabelEvent,
    LabelTarget,
    check_label,
    event_from_json,
    event_to_json,
    to_timestamp,
)
from stamo.workspace.labels.store import LabelStore

MARKS = (EMERGING_CHOICE, NONE, SKIP)
NEEDED = ("document", "start", "end", "choice")
COLUMNS = ("document", "mention", "surface", "start", "end", "choice", "labeller", "at")


@dataclass(frozen=True, slots=True)
class ForeignLabel:
    """What a file says of a mention."""

    target: LabelTarget
    choice: str
    labeller: str
    at: datetime
    since: datetime
    """When the file first may have said so; what the log says later is known already."""


def add_changes(store: LabelStore, labels: Iterable[ForeignLabel]) -> int:
    """Add each label that differs from what holds; return how many, all of them or none.

    An old file does not bring back what was changed or undone here since.
    """
    with store.together():
        holds = {_place(e.labeller, e.target): e.choice for e in store.current_by_labeller()}
        said = {(_place(e.labeller, e.target), e.choice): e.at for e in store.events()}
        n_changes = 0
        for label in labels:
            place, choice = _place(label.labeller, label.target), store.kept_as(label.choice)
            last_said = said.get((place, choice))
            is_known = last_said is not None and last_said >= label.since
            if holds.get(place) != choice and not is_known:
                store.add(label.target, choice, labeller=label.labeller, at=label.at)
                holds[place] = choice
                n_changes += 1
        return n_changes


def find_target(document: Document, start: int, end: int) -> LabelTarget:
    """Return the candidate mention of a document at a place, or the longer one around it.

    Other tools mark "Sandy" where the candidate is "Hurricane Sandy".

    Raises:
        CorpusFormatError: There is none.
    """
    around = None
    for index, mention in enumerate(document.mentions):
        if (mention.start, mention.end) == (start, end):
            return LabelTarget.of(document.id, index, mention)
        if mention.entity is None and mention.start <= start < end <= mention.end:
            around = LabelTarget.of(document.id, index, mention)
    if around is not None:
        return around
    raise CorpusFormatError(
        f"its region {start}-{end} is no candidate mention of the document {document.id!r}."
    )


def _place(labeller: str, target: LabelTarget) -> tuple[str, str, int, int]:
    return labeller, target.document, target.start, target.end


def detect_form(text: str) -> str:
    """Tell what a file of labels is: `label-studio`, `jsonl` (the log) or `csv`.

    Raises:
        CorpusFormatError: None of them.
    """
    start = text.lstrip()
    head = start.partition("\n")[0]
    if start.startswith("["):
        return "label-studio"
    if start.startswith("{"):
        # A log has one event on a line; a single task of Label Studio is an object with data.
        return "jsonl" if '"uid"' in head or '"data"' not in start else "label-studio"
    if "document" in head and "choice" in head:
        return "csv"
    raise CorpusFormatError(
        f"It begins with {head[:60]!r}: neither a log of labels, nor a table with the columns "
        f"{', '.join(NEEDED)}, nor Label Studio's JSON."
    )


def to_jsonl(events: Iterable[LabelEvent]) -> str:
    """Write events as JSON lines; `from_jsonl` reads them back unchanged."""
    return "".join(json.dumps(event_to_json(e), ensure_ascii=False) + "\n" for e in events)


def from_jsonl(text: str) -> list[LabelEvent]:
    """Read events that `to_jsonl` wrote.

    Raises:
        CorpusFormatError: A line has another form; the message names it.
    """
    events = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            events.append(event_from_json(parse_json(line)))
        except CorpusFormatError as error:
            raise CorpusFormatError(f"Line {number} holds no label event: {error}") from error
    return events


def to_csv(labels: Iterable[LabelEvent]) -> str:
    """Write labels as a table, for instance those of `LabelStore.current`.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    for label in labels:
        row = asdict(label.target) | {"choice": label.choice, "labeller": label.labeller}
        row["at"] = to_timestamp(label.at)
        writer.writerow([v if v in MARKS else inert_cell(v) for v in map(row.__getitem__, COLUMNS)])
    return file.getvalue()


def from_csv(text: str, corpus: Corpus, *, labeller: str, at: datetime) -> list[ForeignLabel]:
    """Read a table of labels: ours, or any with the columns document, start, end and choice.

    Args:
        text: The table; commas, semicolons or tabs divide its columns.
        corpus: The documents that it speaks of.
        labeller: Who labelled, where no column says so.
        at: When, where no column says so.

    Raises:
        CorpusFormatError: A line does not fit; the message names it.
    """
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        headings = reader.fieldnames or ()
    except csv.Error as error:
        raise CorpusFormatError(f"Line 1: {error}") from error
    missing = [name for name in NEEDED if name not in headings]
    if missing:
        raise CorpusFormatError(
            f"Line 1: the table has no column {missing[0]!r}; it needs {', '.join(NEEDED)}."
        )
    documents = {document.id: document for document in corpus}
    labels = []
    try:
        for row in reader:
            plain = {
                name: bare_cell(value) for name, value in row.items() if isinstance(value, str)
            }
            labels.append(_row_label(plain, documents, labeller, at))
    except (CorpusFormatError, csv.Error) as error:
        raise CorpusFormatError(f"Line {reader.line_num}: {error}") from error
    return labels


def _row_label(
    row: dict[str, str], documents: dict[str, Document], labeller: str, at: datetime
) -> ForeignLabel:
    name = row.get("document", "")
    document = documents.get(name)
    if document is None:
        raise CorpusFormatError(f"there is no collected document {name[:80]!r}.")
    try:
        start, end = int(row.get("start", "")), int(row.get("end", ""))
        when = datetime.fromisoformat(row["at"]) if row.get("at") else at
    except ValueError as error:
        raise CorpusFormatError(
            f"start and end must be whole numbers and the time in ISO form ({error})."
        ) from error
    target = find_target(document, start, end)
    if (row.get("surface") or target.surface) not in target.surface:
        raise CorpusFormatError(f"the mention there is {target.surface!r}, not {row['surface']!r}.")
    who = row.get("labeller") or labeller
    check_label(target, row.get("choice", ""), who)
    to_timestamp(when)
    if row["choice"] == UNDO:
        raise CorpusFormatError("a table cannot take labels back; import the log.")
    return ForeignLabel(target, row["choice"], who, when, when)
