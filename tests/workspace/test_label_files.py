"""Labels go to files and come back without loss; foreign files are checked."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from stamo.corpus.types import Corpus, Document, Mention
from stamo.errors import CorpusFormatError
from stamo.workspace import label_files
from stamo.workspace.label_files import TABLE, TASKS, export_labels, import_labels
from stamo.workspace.labels import EMERGING_CHOICE, NONE, LabelStore, LabelTarget

AT = datetime(2024, 5, 1, 12, tzinfo=UTC)
LATER = AT + timedelta(days=1)
TEXT = "🚀 Rey met Finn <script>"
CORPUS = Corpus(
    (
        Document("a", TEXT, (Mention("Rey", 2, 5), Mention("Finn", 10, 14, "Finn")), "Title"),
        Document("b", "About Rey", (Mention("Rey", 6, 9),)),
    )
)
REY_A = LabelTarget("a", 0, "Rey", 2, 5)
REY_B = LabelTarget("b", 0, "Rey", 6, 9)


@pytest.fixture
def stores(tmp_path):
    with LabelStore.open(tmp_path / "one") as one, LabelStore.open(tmp_path / "two") as two:
        yield one, two


def fill(store):
    store.add(REY_A, EMERGING_CHOICE, labeller="ada", at=AT)
    store.add(REY_A, 'Rey & "co" <x>', labeller="bob", at=AT, only=True)
    store.add(REY_B, NONE, labeller="ada", at=AT)
    store.undo(labeller="ada", at=AT)
    store.add(LabelTarget("gone", 0, "Rey", 0, 3), NONE, labeller="ada", at=AT)


def bring(store, tasks):
    text = tasks if isinstance(tasks, str) else json.dumps(tasks, indent=1)
    return import_labels(store, text, CORPUS, labeller="importer", at=LATER)


def export_tasks(store, **options):
    return json.loads(export_labels(store, TASKS, CORPUS, **options))


def test_the_round_trip_loses_nothing(stores):
    """Labels, labellers, times, undone labels and vanished documents all come back."""
    one, two = stores
    fill(one)
    assert bring(two, export_tasks(one)) == 5
    order = {"key": lambda e: e.uid}
    assert sorted(two.events(), **order) == sorted(one.events(), **order)
    assert sorted(two.current(), **order) == sorted(one.current(), **order)
    assert bring(two, export_tasks(one)) == 0


def test_tasks_have_the_form_of_label_studio(stores):
    """Text in the data, one annotation per labeller, one region per mention with one label."""
    one, _ = stores
    fill(one)
    task = export_tasks(one)[0]
    assert task["data"]["text"] == TEXT
    assert task["data"]["candidates"] == [{"start": 2, "end": 5, "text": "Rey"}]
    assert len(task["annotations"]) == 2
    (region,) = task["annotations"][0]["result"]
    assert (region["type"], region["from_name"], region["to_name"]) == ("labels", "label", "text")
    assert region["value"] == {"start": 2, "end": 5, "text": "Rey", "labels": [EMERGING_CHOICE]}


def test_corrections_made_there_are_added(stores):
    """A changed label becomes a new event of its labeller; importing again adds nothing."""
    one, _ = stores
    fill(one)
    tasks = export_tasks(one)
    annotation = tasks[0]["annotations"][0]
    annotation["result"][0]["value"]["labels"] = [NONE]
    annotation["updated_at"] = "2024-05-02T08:00:00.5Z"
    assert bring(one, tasks) == 1
    last = one.events()[-1]
    assert (last.labeller, last.choice) == ("ada", NONE)
    assert last.at == datetime(2024, 5, 2, 8, 0, 0, 500_000, tzinfo=UTC)
    assert bring(one, tasks) == 0


def test_an_old_file_brings_nothing_back(stores):
    """What was changed or undone here after the export stays so."""
    one, _ = stores
    one.add(REY_A, EMERGING_CHOICE, labeller="ada", at=AT)
    one.add(REY_B, EMERGING_CHOICE, labeller="bob", at=AT)
    tasks = export_tasks(one)
    one.add(REY_A, NONE, labeller="ada", at=LATER)
    one.undo(labeller="bob", at=LATER)
    assert bring(one, tasks) == 0
    assert [e.choice for e in one.current()] == [NONE]


def foreign(**changes):
    value = {"start": 2, "end": 5, "text": "Rey", "labels": [EMERGING_CHOICE]} | changes
    region = {"id": "r", "type": "labels", "value": value}
    annotation = {"completed_by": {"id": 3, "email": "eve@example.org"}, "result": [region]}
    return {"data": {"text": TEXT}, "annotations": [annotation]}


def test_a_foreign_project_is_read(stores):
    """A project that was never ours is matched by its text; its users are the labellers."""
    one, _ = stores
    cancelled = foreign()
    cancelled["annotations"][0]["was_cancelled"] = True
    assert bring(one, [cancelled, foreign()]) == 1
    (event,) = one.current()
    assert (event.labeller, event.at, event.target) == ("eve@example.org", LATER, REY_A)


def test_choices_per_region_and_browser_offsets(stores):
    """A choice made for a region is its label; offsets that count UTF-16 units are understood."""
    one, _ = stores
    task = foreign(start=3, end=6)
    regions = task["annotations"][0]["result"]
    chosen = {"start": 3, "end": 6, "text": "Rey", "choices": ["Rey (name)"]}
    regions += [{"id": "r", "type": "choices", "value": chosen}, {"type": "relation"}]
    bring(one, [task])
    (event,) = one.current()
    assert (event.target, event.choice) == (REY_A, "Rey (name)")


def broken(change):
    task = foreign()
    change(task)
    return task


@pytest.mark.parametrize(
    ("task", "match"),
    [
        ("text", "not a JSON object"),
        ({}, "no object 'data'"),
        ({"data": {"text": "unknown"}}, "none of the collected"),
        ({"data": {"text": ["x"]}}, "cannot be imported"),
        ({"data": {"text": TEXT, "stamo_events": [{}]}}, "label event"),
        ({"data": {"text": "x", "document_id": "a"}}, "its text is not"),
        (foreign(start=-1), "does not stand"),
        (foreign(end=9999), "does not stand"),
        (foreign(start="2"), "no whole number"),
        (foreign(text="Finn"), "does not stand"),
        (foreign(start=0, end=1, text=None), "no candidate mention"),
        (foreign(labels=[]), "0 labels"),
        (foreign(labels=["x", "y"]), "2 labels"),
        (foreign(labels=[5]), "choice"),
        (broken(lambda t: t["annotations"][0].update(updated_at="yesterday")), "ISO"),
        (broken(lambda t: t["annotations"][0].update(updated_at="2024-05-01T00:00")), "zone"),
        (broken(lambda t: t["annotations"][0].update(result="x")), "no list 'result'"),
        (broken(lambda t: t.update(annotations=5)), "no list 'annotations'"),
    ],
)
def test_bad_tasks_are_named_and_nothing_is_added(stores, task, match):
    """The sentence names the task and what is wrong with it; the good tasks wait."""
    one, _ = stores
    with pytest.raises(CorpusFormatError, match=match) as caught:
        bring(one, [foreign(), task])
    assert "Task 2" in str(caught.value)
    assert one.events() == []


def test_an_import_that_is_interrupted_adds_nothing(stores, monkeypatch):
    """The log and the choices of a file are added together."""
    one, two = stores
    fill(one)
    tasks = export_tasks(one)
    monkeypatch.setattr(label_files, "add_changes", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bring(two, tasks)
    assert two.events() == []


def test_a_table_opens_in_any_spreadsheet_and_holds_no_formula(stores):
    """One row per mention; what a spreadsheet would run is text there, our marks stay."""
    one, two = stores
    one.add(LabelTarget("=1+1", 0, "@SUM(A1)", 0, 3), EMERGING_CHOICE, labeller="-2+3", at=AT)
    one.add(REY_B, 'Rey, "the" one', labeller="bob\n", at=AT, only=True)
    table = export_labels(one, TABLE)
    first, second = csv.DictReader(io.StringIO(table, newline=""))
    assert (first["document"], first["surface"], first["labeller"]) == (
        "'=1+1",
        "'@SUM(A1)",
        "'-2+3",
    )
    assert (first["choice"], first["at"]) == (EMERGING_CHOICE, "2024-05-01T12:00:00.000000+00:00")
    assert (second["choice"], second["labeller"]) == ('Rey, "the" one', "bob\n")
    head, _, rest = table.partition("\r\n")
    assert bring(two, f"{head}\r\n{rest.partition('b,0')[1]}{rest.partition('b,0')[2]}") == 1
    (label,) = two.current()
    assert (label.target, label.choice, label.only) == (REY_B, 'Rey, "the" one', True)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('\n{"uid": 1}', "Line 2 holds no label event"),
        ('{"uid"', "Line 1"),
        ('"document"x,start,end,choice\n', "Line 1"),
        ("document,start,end,choice\nb,0,2,@none\n", "no candidate mention"),
        ("document,start,end,choice\nb,6,9,@undo\n", "import the log"),
        ("document,start,end,choice,at\nb,6,9,@none,2024-05-01\n", "time zone"),
    ],
)
def test_bad_files_are_told_by_their_lines(stores, text, match):
    """One sentence names what is wrong, and nothing is added."""
    with pytest.raises(CorpusFormatError, match=match):
        bring(stores[0], text)
    assert stores[0].events() == []
