"""Labels to and from Label Studio's JSON, without losing who chose what, when, and what was undone.

Export writes one task per document. Its annotations, one per labeller, show what holds now as
regions with one label each: an entity's title, `@emerging`, `@none` or `@skip`. The whole log lies
in the task's data, which Label Studio keeps as it is.

Import first joins the log, then adds each region whose label differs from what holds: corrections
made in Label Studio, or all labels of a project that was never ours. A region that was deleted in
Label Studio does not undo a label here. Importing a file twice adds nothing the second time.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from stamo.corpus.formats import parse_json
from stamo.corpus.types import Corpus, Document, Mention
from stamo.errors import CorpusFormatError
from stamo.system.files import bare_cell, inert_cell
from stamo.workspace.labels import (
    EMERGING_CHOICE,
    NONE,
    SKIP,
    UNDO,
    LabelEvent,
    LabelStore,
    LabelTarget,
    check_label,
    event_from_json,
    event_to_json,
    to_timestamp,
)

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


_BETWEEN = re.compile(r"[\s,]*")
FROM_NAME, TO_NAME = "label", "text"
_Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import added."""

    n_tasks: int
    n_events: int
    """Events of the log that were not here yet."""
    n_changes: int
    """Labels that were chosen or corrected in Label Studio."""


def export_tasks(store: LabelStore, corpus: Corpus, *, only_labelled: bool = True) -> list[_Record]:
    """Write labels as Label Studio tasks.

    Args:
        store: The labels.
        corpus: The documents.
        only_labelled: Leave out documents without any event; their candidate mentions are listed
            in the task's data, for people to label in Label Studio.
    """
    events, labels = _by_document(store.events()), _by_document(store.current_by_labeller())
    documents = {document.id: document for document in corpus}
    # Events of documents that are not there any more still belong to the log.
    documents |= {id: Document(id, "") for id in events if id not in documents}
    return [
        _task(document, events.get(document.id, []), labels.get(document.id, []))
        for document in documents.values()
        if document.id in events or not only_labelled
    ]


def tasks_json(tasks: list[_Record]) -> str:
    """Write tasks as the text of a JSON file."""
    return json.dumps(tasks, indent=1, ensure_ascii=False) + "\n"


def import_tasks(
    store: LabelStore, text: str, corpus: Corpus, *, labeller: str, at: datetime
) -> ImportReport:
    """Add the labels of a Label Studio export.

    Args:
        store: Where they go.
        text: The exported JSON.
        corpus: The documents; a task is matched by its `document_id`, else by its text.
        labeller: Who labelled, where the file does not say.
        at: When, where the file does not say.

    Raises:
        CorpusFormatError: The file has another form; the message names the task, nothing is added.
    """
    tasks = parse_json(text)
    tasks = tasks if isinstance(tasks, list) else [tasks]
    by_id = {document.id: document for document in corpus}
    by_text = {document.text: document for document in corpus}
    events: list[LabelEvent] = []
    choices: list[ForeignLabel] = []
    for number, task in enumerate(tasks, start=1):
        try:
            data = _expect(task, "data", dict, "a task")
            events += map(event_from_json, _expect(data, "stamo_events", list, "data", []))
            document = by_id.get(data.get("document_id", "")) or by_text.get(data.get("text", ""))
            choices += _read_choices(task, data, document, labeller, at)
        except (CorpusFormatError, TypeError) as error:
            line = _line_of_task(text, number)
            raise CorpusFormatError(
                f"Task {number} (line {line}) cannot be imported: {error}"
            ) from error
    with store.together():
        n_events = store.merge(events)
        n_changes = add_changes(store, choices)
    return ImportReport(len(tasks), n_events, n_changes)


def _line_of_task(text: str, number: int) -> int:
    """Return the line on which a task of a list begins; the first where there is no list."""
    start = place = text.find("[") + 1
    if not text.lstrip().startswith("["):
        return 1
    for _ in range(number):
        start = _BETWEEN.match(text, place).end()  # type: ignore[union-attr]
        place = json.JSONDecoder().raw_decode(text, start)[1]
    return text.count("\n", 0, start) + 1


def _by_document(events: Iterable[LabelEvent]) -> dict[str, list[LabelEvent]]:
    found: dict[str, list[LabelEvent]] = defaultdict(list)
    for event in events:
        found[event.target.document].append(event)
    return found


def _task(document: Document, events: list[LabelEvent], labels: list[LabelEvent]) -> _Record:
    labellers = dict.fromkeys(label.labeller for label in labels)
    return {
        "data": {
            "text": document.text,
            "document_id": document.id,
            "title": document.title or "",
            "candidates": [_marked(m) for m in document.mentions if m.entity is None],
            "stamo_events": [event_to_json(event) for event in events],
        },
        "annotations": [
            {"result": [_region(label) for label in labels if label.labeller == labeller]}
            for labeller in labellers
        ],
    }


def _region(label: LabelEvent) -> _Record:
    return {
        "id": label.uid[:16],
        "type": "labels",
        "from_name": FROM_NAME,
        "to_name": TO_NAME,
        "value": _marked(label.target) | {"labels": [label.choice]},
        "meta": {"labeller": label.labeller, "at": to_timestamp(label.at)},
    }


def _marked(part: Mention | LabelTarget) -> _Record:
    return {"start": part.start, "end": part.end, "text": part.surface}


def _read_choices(
    task: _Record, data: _Record, document: Document | None, labeller: str, at: datetime
) -> Iterator[ForeignLabel]:
    if document is None:
        if data.get("stamo_events"):
            return  # our own export of a document that is gone: its log is all there is
        raise CorpusFormatError(
            "it is about none of the collected documents; import it where they were collected."
        )
    if data.get("text") != document.text:
        raise CorpusFormatError(f"its text is not that of the document {document.id!r}.")
    for annotation in _expect(task, "annotations", list, "a task", []):
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        regions: dict[object, list[_Record]] = defaultdict(list)
        for n, region in enumerate(_expect(annotation, "result", list, "an annotation")):
            if isinstance(region, dict) and region.get("type") in ("labels", "choices"):
                regions[region.get("id", n)].append(region)
        for parts in regions.values():
            yield _read_region(parts, annotation, document, labeller, at)


def _read_region(
    parts: list[_Record], annotation: _Record, document: Document, labeller: str, at: datetime
) -> ForeignLabel:
    # A region may have a label and, under the same id, a choice made for it: the choice is meant.
    part = sorted(parts, key=lambda part: str(part["type"]))[0]
    value = _expect(part, "value", dict, "a region")
    chosen = _expect(value, part["type"], list, "a region's value")
    if len(chosen) != 1:
        raise CorpusFormatError(f"a region has {len(chosen)} labels; each needs exactly one.")
    start, end = _span(value, document)
    target = find_target(document, start, end)
    meta = part["meta"] if isinstance(part.get("meta"), dict) else {}
    who = meta.get("labeller") or _user(annotation) or labeller
    check_label(target, chosen[0], who)
    edited = _time(annotation.get("updated_at") or annotation.get("created_at"))
    first = _time(meta.get("at"))
    times = [time for time in (edited, first) if time is not None] or [at]
    return ForeignLabel(target, chosen[0], who, times[0], min(times))


def _span(value: _Record, document: Document) -> tuple[int, int]:
    start, end = (_expect(value, name, int, "a region's value") for name in ("start", "end"))
    text = value.get("text")
    if 0 <= start < end <= len(document.text) and text in (None, document.text[start:end]):
        return start, end
    # A browser counts characters beyond the basic plane as two.
    units = document.text.encode("utf-16-le")
    if 0 <= start < end and units[2 * start : 2 * end].decode("utf-16-le", "replace") == text:
        first = len(units[: 2 * start].decode("utf-16-le", "replace"))
        return first, first + len(str(text))
    if any((m.start, m.end, m.surface) == (start, end, text) for m in document.mentions):
        return start, end
    raise CorpusFormatError(f"its region {start}-{end} does not stand in the text as {text!r}.")


def _user(annotation: _Record) -> str:
    user = annotation.get("completed_by")
    user = user.get("email", user.get("id")) if isinstance(user, dict) else user
    return "" if user is None else str(user)


def _time(stamp: object) -> datetime | None:
    if not stamp:
        return None
    try:
        time = datetime.fromisoformat(str(stamp))
    except ValueError as error:
        raise CorpusFormatError(f"its time {stamp!r} is not in ISO form.") from error
    to_timestamp(time)
    return time


def _expect(record: Any, name: str, kind: type, what: str, default: Any = None) -> Any:
    if not isinstance(record, dict):
        raise CorpusFormatError(f"{what} is not a JSON object.")
    value = record.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = {dict: "object", list: "list", int: "whole number"}[kind]
        raise CorpusFormatError(f"{what} has no {expected} {name!r}.")
    return value
