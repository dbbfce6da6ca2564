"""Labels in files: the log as JSON lines, what holds now as a table, or tasks of Label Studio.

The tasks lose nothing of who chose what, when, and what was undone. There is one task per
document. Its annotations, one per labeller, show what holds now as regions with one label each: an
entity's title, `@emerging`, `@none` or `@skip`. The whole log lies in the task's data, which Label
Studio keeps as it is.

Importing tasks first joins the log, then adds each region whose label differs from what holds:
corrections made in Label Studio, or all labels of a project that was never ours. A region that was
deleted in Label Studio does not undo a label here. Importing a file twice adds nothing the second
time.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from stamo.corpus.formats import parse_json
from stamo.corpus.tables import RowError, read_rows
from stamo.corpus.types import Document, Mention
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

LOG, TABLE, TASKS = "jsonl", "csv", "label-studio"
MARKS = (EMERGING_CHOICE, NONE, SKIP)
NEEDED = ("document", "start", "end", "choice")
COLUMNS = ("document", "mention", "surface", "start", "end", "choice", "labeller", "at")
_Record = dict[str, Any]
_Said = tuple[LabelEvent, datetime]
"""What a file says of a mention, and when it first may have said so: what the log says later is
known already."""


class UnknownMentionError(CorpusFormatError):
    """A label of a document or a mention that is not collected."""


def export_labels(
    store: LabelStore, form: str, documents: Iterable[Document] = (), *, everything: bool = False
) -> str:
    """Write labels as the text of a file.

    Args:
        store: The labels.
        form: `jsonl` is the whole log, `csv` a table of what holds now, `label-studio` tasks.
        documents: Those of the tasks.
        everything: Whether documents without any label become tasks too; their candidate mentions
            are listed in the task's data, for people to label in Label Studio.
    """
    if form == LOG:
        records = map(event_to_json, store.events())
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    if form == TABLE:
        file = io.StringIO(newline="")
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for label in store.current():
            row = event_to_json(label)
            # A text that a spreadsheet would take for a formula gets an apostrophe in front.
            cells = (row[name] for name in COLUMNS)
            writer.writerow([cell if cell in MARKS else inert_cell(cell) for cell in cells])
        return file.getvalue()
    events_of: dict[str, list[LabelEvent]] = defaultdict(list)
    labels_of: dict[str, list[LabelEvent]] = defaultdict(list)
    for event in store.events():
        events_of[event.target.document].append(event)
    for event in store.current_by_labeller():
        labels_of[event.target.document].append(event)
    by_id = {document.id: document for document in documents}
    # Events of documents that are not there any more still belong to the log.
    by_id |= {id: Document(id, "") for id in events_of if id not in by_id}
    tasks = [
        _task(document, events_of.get(id, []), labels_of.get(id, []))
        for id, document in by_id.items()
        if id in events_of or everything
    ]
    return json.dumps(tasks, indent=1, ensure_ascii=False) + "\n"


def import_labels(
    store: LabelStore,
    text: str,
    documents: Iterable[Document],
    *,
    labeller: str,
    at: datetime,
    form: str = "",
    on_unknown: Callable[[str], None] | None = None,
) -> int:
    """Add the labels of a file, all of them or none; return how many were new.

    Args:
        store: Where they go.
        text: What the file holds.
        documents: The collected documents. A row of a table names one by its id, a task by its
            `document_id` or its text.
        labeller: Who labelled, where the file does not say.
        at: When, where the file does not say.
        form: See `export_labels`; told by the beginning of the file by default.
        on_unknown: Called with a sentence for each label of a mention that is not collected, which
            is left out; such a file is refused without.

    Raises:
        CorpusFormatError: The file has another form; the message names the line or task.
        UnknownMentionError: It labels a mention that is not collected.
    """
    form = form or detect_form(text)
    if form == LOG:
        return store.merge(_read_log(text))
    by_id = {document.id: document for document in documents}
    if form == TABLE:
        return add_changes(store, _read_table(text, by_id, labeller, at, on_unknown))
    tasks = parse_json(text)
    by_text = {document.text: document for document in by_id.values()}
    events: list[LabelEvent] = []
    choices: list[_Said] = []
    for number, task in enumerate(tasks if isinstance(tasks, list) else [tasks], start=1):
        try:
            data = _expect(task, "data", dict, "a task")
            events += map(event_from_json, _expect(data, "stamo_events", list, "data", []))
            document = by_id.get(data.get("document_id", "")) or by_text.get(data.get("text", ""))
            leave_out = partial(_leave_out, on_unknown, f"Task {number} cannot be imported")
            choices += _read_choices(task, data, document, labeller, at, leave_out)
        except UnknownMentionError:
            raise
        except (CorpusFormatError, TypeError) as error:
            raise CorpusFormatError(f"Task {number} cannot be imported: {error}") from error
    with store.together():
        return store.merge(events) + add_changes(store, choices)


def _leave_out(on_unknown: Callable[[str], None] | None, place: str, what: str) -> None:
    """Tell of a label that is left out, or refuse the file where nobody listens."""
    if on_unknown is None:
        raise UnknownMentionError(f"{place}: {what}")
    on_unknown(f"{place}: {what}")


def detect_form(text: str) -> str:
    """Tell what a file of labels is: `label-studio`, `jsonl` (the log) or `csv`.

    Raises:
        CorpusFormatError: None of them.
    """
    start = text.lstrip()
    head = start.partition("\n")[0]
    if start.startswith("["):
        return TASKS
    if start.startswith("{"):
        # A log has one event on a line; a single task of Label Studio is an object with data.
        return LOG if '"uid"' in head or '"data"' not in start else TASKS
    if "document" in head and "choice" in head:
        return TABLE
    raise CorpusFormatError(
        f"It begins with {head[:60]!r}: neither a log of labels, nor a table with the columns "
        f"{', '.join(NEEDED)}, nor Label Studio's JSON."
    )


def add_changes(store: LabelStore, labels: Iterable[_Said]) -> int:
    """Add each label that differs from what holds; return how many, all of them or none.

    An old file does not bring back what was changed or undone here since.
    """
    with store.together():
        holds = {(e.labeller, e.target.place): e.choice for e in store.current_by_labeller()}
        said = {(e.labeller, e.target.place, e.choice): e.at for e in store.events()}
        n_changes = 0
        for label, since in labels:
            who, place, choice = label.labeller, label.target.place, store.kept_as(label.choice)
            last_said = said.get((who, place, choice))
            is_known = last_said is not None and last_said >= since
            if holds.get((who, place)) != choice and not is_known:
                store.add(label.target, choice, labeller=who, at=label.at)
                holds[who, place] = choice
                n_changes += 1
        return n_changes


def _read_log(text: str) -> Iterator[LabelEvent]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield event_from_json(parse_json(line))
            except CorpusFormatError as error:
                raise CorpusFormatError(f"Line {number} holds no label event: {error}") from error


def _read_table(
    text: str,
    documents: Mapping[str, Document],
    labeller: str,
    at: datetime,
    on_unknown: Callable[[str], None] | None,
) -> Iterator[_Said]:
    """Read a table: ours, or any with the columns document, start, end and choice."""
    number = 1
    try:
        rows = read_rows([text.encode("utf-8", "replace")], delimiters=",;\t")
        _, headings = next(rows, (1, []))
        for name in NEEDED:
            if name not in headings:
                raise CorpusFormatError(
                    f"the table has no column {name!r}; it needs {', '.join(NEEDED)}."
                )
        for line, cells in rows:
            if not cells:
                continue
            number, row = line, dict(zip(headings, map(bare_cell, cells), strict=False))
            name, choice = row.get("document", ""), row.get("choice", "")
            try:
                start, end = int(row.get("start", "")), int(row.get("end", ""))
                when = datetime.fromisoformat(row["at"]) if row.get("at") else at
            except ValueError as error:
                raise CorpusFormatError(
                    f"start and end must be whole numbers and the time in ISO form ({error})."
                ) from error
            try:
                if name not in documents:
                    raise UnknownMentionError(f"there is no collected document {name[:80]!r}.")
                target = find_target(documents[name], start, end)
            except UnknownMentionError as error:
                _leave_out(on_unknown, f"Line {number}", str(error))
                continue
            if (row.get("surface") or target.surface) not in target.surface:
                raise CorpusFormatError(
                    f"the mention there is {target.surface!r}, not {row['surface']!r}."
                )
            who = row.get("labeller") or labeller
            if choice == UNDO:
                raise CorpusFormatError("a table cannot take labels back; import the log.")
            yield _said(target, choice, who, when), when
    except RowError as error:
        raise CorpusFormatError(f"Line {error.line}: {error}") from error
    except UnknownMentionError:
        raise
    except CorpusFormatError as error:
        raise CorpusFormatError(f"Line {number}: {error}") from error


def find_target(document: Document, start: int, end: int) -> LabelTarget:
    """Return the candidate mention of a document at a place, or the longer one around it.

    Other tools mark "Sandy" where the candidate is "Hurricane Sandy".

    Raises:
        UnknownMentionError: There is none.
    """
    around = None
    for index, mention in enumerate(document.mentions):
        if (mention.start, mention.end) == (start, end):
            return LabelTarget.of(document.id, index, mention)
        if mention.entity is None and mention.start <= start < end <= mention.end:
            around = LabelTarget.of(document.id, index, mention)
    if around is not None:
        return around
    raise UnknownMentionError(
        f"its region {start}-{end} is no candidate mention of the document {document.id!r}."
    )


def _task(document: Document, events: list[LabelEvent], labels: list[LabelEvent]) -> _Record:
    results: dict[str, list[_Record]] = defaultdict(list)
    for label in labels:
        results[label.labeller].append(
            {
                "id": label.uid[:16],
                "type": "labels",
                "from_name": "label",
                "to_name": "text",
                "value": _marked(label.target) | {"labels": [label.choice]},
                "meta": {"labeller": label.labeller, "at": to_timestamp(label.at)},
            }
        )
    return {
        "data": {
            "text": document.text,
            "document_id": document.id,
            "title": document.title or "",
            "candidates": [_marked(m) for m in document.mentions if m.entity is None],
            "stamo_events": [event_to_json(event) for event in events],
        },
        "annotations": [{"result": regions} for regions in results.values()],
    }


def _marked(part: Mention | LabelTarget) -> _Record:
    return {"start": part.start, "end": part.end, "text": part.surface}


def _read_choices(
    task: _Record,
    data: _Record,
    document: Document | None,
    labeller: str,
    at: datetime,
    leave_out: Callable[[str], None],
) -> Iterator[_Said]:
    if document is None:
        if not data.get("stamo_events"):  # of our own export of a document that is gone
            leave_out("it is about none of the collected documents; import it where they are.")
        return
    if data.get("text") != document.text:
        raise CorpusFormatError(f"its text is not that of the document {document.id!r}.")
    for annotation in _expect(task, "annotations", list, "a task", []):
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        user = annotation.get("completed_by")
        user = user.get("email", user.get("id")) if isinstance(user, dict) else user
        made = annotation.get("updated_at") or annotation.get("created_at")
        result = _expect(annotation, "result", list, "an annotation")
        marked = [part for part in result if isinstance(part, dict)]
        regions: dict[object, _Record] = {}
        for kind in ("labels", "choices"):  # a choice under the id of a label is what is meant
            for n, part in enumerate(marked):
                if part.get("type") == kind:
                    regions[part.get("id", n)] = part
        for region in regions.values():
            value = _expect(region, "value", dict, "a region")
            chosen = _expect(value, region["type"], list, "a region's value")
            if len(chosen) != 1:
                raise CorpusFormatError(
                    f"a region has {len(chosen)} labels; each needs exactly one."
                )
            meta = region["meta"] if isinstance(region.get("meta"), dict) else {}
            who = meta.get("labeller") or ("" if user is None else str(user)) or labeller
            try:
                target = find_target(document, *_span(value, document))
            except UnknownMentionError as error:
                leave_out(str(error))
                continue
            times = [_time(stamp) for stamp in (made, meta.get("at")) if stamp] or [at]
            yield _said(target, chosen[0], who, times[0]), min(times)


def _said(target: LabelTarget, choice: str, who: str, at: datetime) -> LabelEvent:
    """Return a label of a file, checked; it gets its uid where it is added."""
    check_label(target, choice, who)
    to_timestamp(at)
    return LabelEvent("", who, at, target, choice)


def _time(stamp: object) -> datetime:
    try:
        at = datetime.fromisoformat(str(stamp))
    except ValueError as error:
        raise CorpusFormatError(f"its time {stamp!r} is not in ISO form.") from error
    to_timestamp(at)
    return at


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


def _expect(record: Any, name: str, kind: type, what: str, default: Any = None) -> Any:
    if not isinstance(record, dict):
        raise CorpusFormatError(f"{what} is not a JSON object.")
    value = record.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = {dict: "object", list: "list", int: "whole number"}[kind]
        raise CorpusFormatError(f"{what} has no {expected} {name!r}.")
    return value
