"""Labels as files: the whole log as JSON lines (lossless), or what holds now as a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict

from stamo.corpus.formats.jsonl import parse_json
from stamo.errors import CorpusFormatError
from stamo.workspace.labels.events import (
    EMERGING_CHOICE,
    NONE,
    SKIP,
    LabelEvent,
    event_from_json,
    event_to_json,
    to_timestamp,
)

MARKS = (EMERGING_CHOICE, NONE, SKIP)
COLUMNS = ("document", "mention", "surface", "start", "end", "choice", "labeller", "at")


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
        writer.writerow([_harmless(row[name]) for name in COLUMNS])
    return file.getvalue()


def _harmless(value: str | int) -> str | int:
    is_formula = str(value).startswith(("=", "+", "-", "@", "\t", "\r")) and value not in MARKS
    return f"'{value}" if is_formula else value
