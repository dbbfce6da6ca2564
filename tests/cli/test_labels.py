"""`stamo labels`: labels leave a workspace and come back."""

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from stamo.cli.main import create_app
from stamo.corpus.types import Document, EmergingEntity, Mention
from stamo.errors import CorpusFormatError
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import LabelTarget

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
DOCUMENT = Document("d1", "Rey sleeps. Rey eats.", (Mention("Rey", 0, 3), Mention("Rey", 12, 15)))


def make(path, *, labelled):
    entity = EmergingEntity("Rey Skywalker", ("Rey",))
    made = Workspace.create(path, entity, created_by="ada", at=NOON)
    made.documents.append([DOCUMENT], state={}, complete=True)
    if labelled:
        with made.open_labels() as store:
            target = LabelTarget.of("d1", 0, DOCUMENT.mentions[0])
            store.add(target, "@emerging", labeller="ada", at=NOON)
    return made


def run(*arguments):
    return CliRunner().invoke(
        create_app(), ["labels", *map(str, arguments)], catch_exceptions=False
    )


@pytest.mark.parametrize("form", ["label-studio", "jsonl", "csv"])
def test_labels_come_back_in_another_workspace(tmp_path, form):
    """What is exported from one workspace can be imported into another, unchanged."""
    source = make(tmp_path / "a", labelled=True)
    target = make(tmp_path / "b", labelled=False)
    file = tmp_path / "labels"
    assert "Wrote 1 label " in run("export", source.path, file, "--as", form).output
    assert "Added 1" in run("import", target.path, file).output
    with source.open_labels() as one, target.open_labels() as other:
        assert one.current() == other.current()
    assert "Added 0" in run("import", target.path, file).output


def test_results_for_programs(tmp_path):
    """Export and import say as JSON what they did."""
    source, file = make(tmp_path / "a", labelled=True), tmp_path / "labels.csv"
    done = json.loads(run("export", source.path, file, "--as", "csv", "--json").stdout)
    assert done == {"file": str(file), "format": "csv", "labels": 1}
    target = make(tmp_path / "b", labelled=False)
    assert json.loads(run("import", target.path, file, "--json").stdout)["added"] == 1


@pytest.mark.parametrize(
    ("name", "start"), [("a.csv", "document,"), ("a.jsonl", '{"'), ("a.json", "[")]
)
def test_the_ending_tells_the_format(tmp_path, name, start):
    """A table is written to a file of tables; "-" is standard output, not a file."""
    source = make(tmp_path / "a", labelled=True)
    run("export", source.path, tmp_path / name)
    assert (tmp_path / name).read_text().startswith(start)
    shown = run("export", source.path, "-", "--as", "csv").stdout
    assert shown == (tmp_path / name).read_text() or name != "a.csv"
    assert shown.startswith("document,")


def test_a_place_inside_a_candidate_is_that_candidate(tmp_path):
    """Another tool may have marked only a part of the longer name."""
    made = make(tmp_path / "a", labelled=False)
    mention = DOCUMENT.mentions[0]
    table = f"document,start,end,choice\nd1,{mention.start + 1},{mention.end},@emerging\n"
    (tmp_path / "labels.csv").write_text(table)
    assert "Added 1" in run("import", made.path, tmp_path / "labels.csv").output
    with made.open_labels() as store:
        assert [event.target.surface for event in store.current()] == [mention.surface]


def test_unlabelled_documents_can_go_to_label_studio(tmp_path):
    """With --all the tasks hold every document, for people to label there."""
    made = make(tmp_path / "a", labelled=False)
    run("export", made.path, tmp_path / "tasks.json", "--all")
    (task,) = json.loads((tmp_path / "tasks.json").read_text())
    assert task["data"]["text"] == DOCUMENT.text


def test_a_table_of_another_tool_needs_four_columns(tmp_path):
    """Semicolons, a byte-order mark and a missing labeller are fine."""
    made = make(tmp_path / "a", labelled=False)
    table = "\ufeffdocument;start;end;choice\r\nd1;12;15;'-Rey\r\n"
    (tmp_path / "t.csv").write_text(table, encoding="utf-8")
    run("import", made.path, tmp_path / "t.csv", "--who", "Bob")
    with made.open_labels() as store:
        (label,) = store.current()
    assert (label.choice, label.labeller, label.target.mention) == ("-Rey", "Bob", 1)


@pytest.mark.parametrize("choice", ["Rey Skywalker", "@emerging"])
def test_a_table_may_call_the_entity_by_its_name(tmp_path, choice):
    """It is a label of the entity, not of another one; a second import adds nothing."""
    made = make(tmp_path / "a", labelled=False)
    (tmp_path / "t.csv").write_text(f"document,start,end,choice\nd1,0,3,{choice}\n")
    run("import", made.path, tmp_path / "t.csv")
    with made.open_labels() as store:
        assert store.progress().n_emerging == 1
        assert store.progress().n_other == 0
    assert "Added 0" in run("import", made.path, tmp_path / "t.csv").output


GOOD = "d1,0,Rey,0,3,@none,ada,2026-01-02T12:00:00+00:00"
HEAD = "document,mention,surface,start,end,choice,labeller,at"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEAD}\n{GOOD}\nd2,0,Rey,0,3,@none,ada,", "Line 3: there is no collected document 'd2'"),
        (f"{HEAD}\n{GOOD}\nd1,0,Rey,0,4,@none,ada,", "Line 3: its region 0-4"),
        (f"{HEAD}\n{GOOD}\nd1,0,Kylo,0,3,@none,ada,", "Line 3: the mention there is 'Rey'"),
        (f"{HEAD}\n{GOOD}\nd1,0,Rey,zero,3,@none,ada,", "Line 3: start and end must be"),
        (f"{HEAD}\n{GOOD}\nd1,0,Rey,12,15,,ada,", "Line 3: The choice of a label"),
        ("document,choice\nd1,@none", "Line 1: the table has no column 'start'"),
        ('{"uid": "x"}', "Line 1 holds no label event: A label event lacks 'document', 'mention'"),
        ('[\n{"data": {"text": "x"}}]', "Task 1 cannot be imported"),
        ("once upon a time", "It begins with .*neither a log of labels"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(tmp_path, text, message):
    """The error names the file and the line, and nothing of the file is added."""
    made = make(tmp_path / "a", labelled=False)
    file = tmp_path / "odd-name"
    file.write_text(text)
    with pytest.raises(CorpusFormatError, match=f"odd-name: {message}"):
        run("import", made.path, file)
    with made.open_labels() as store:
        assert not store.events()


def test_an_old_table_does_not_bring_back_what_was_changed(tmp_path):
    """Exported, changed here, imported again: the change stays."""
    made = make(tmp_path / "a", labelled=True)
    run("export", made.path, tmp_path / "t.csv", "--as", "csv")
    with made.open_labels() as store:
        target = LabelTarget.of("d1", 0, DOCUMENT.mentions[0])
        store.add(target, "@none", labeller="ada", at=NOON.replace(hour=13))
    assert "Added 0" in run("import", made.path, tmp_path / "t.csv").output


def test_bad_files_add_nothing(tmp_path):
    """A missing or foreign file is one clear error, and no label is added."""
    made = make(tmp_path / "a", labelled=False)
    with pytest.raises(CorpusFormatError, match=r"read \(No such file or directory\); give"):
        run("import", made.path, tmp_path / "nowhere.json")
    (tmp_path / "bad.csv").write_bytes(b"\xe9")
    with pytest.raises(CorpusFormatError, match="not valid UTF-8"):
        run("import", made.path, tmp_path / "bad.csv")
    with made.open_labels() as store:
        assert not store.events()


def test_labellers_are_compared(tmp_path):
    """Two people's tables: how often they agree, and where they do not."""
    space = make(tmp_path / "a", labelled=True)
    assert "No two people" in run("agreement", space.path).output
    table = tmp_path / "bo.csv"
    table.write_text("document,start,end,choice\nd1,0,3,@emerging\nd1,12,15,@none\n")
    assert "Added 2" in run("import", space.path, table, "--who", "bo").output
    result = json.loads(run("agreement", space.path, "--json").stdout)
    assert result == {
        "pairs": [{"first": "ada", "second": "bo", "n": 1, "n_same": 1, "kappa": None}],
        "disputes": [],
    }
    table.write_text("document,start,end,choice\nd1,0,3,@skip\nd1,12,15,@emerging\n")
    assert "Added 2" in run("import", space.path, table, "--who", "cleo").output
    result = json.loads(run("agreement", space.path, "--json").stdout)
    assert [(p["first"], p["second"], p["n"]) for p in result["pairs"]] == [
        ("ada", "bo", 1),
        ("bo", "cleo", 1),
    ]
    answers = {"bo": "@none", "cleo": "@emerging"}
    assert result["disputes"] == [
        {"document": "d1", "start": 12, "surface": "Rey", "answers": answers}
    ]
    said = run("agreement", space.path).output
    assert "bo: none of these; cleo: Rey Skywalker" in said
