"""`stamo labels`: labels leave a workspace and come back."""

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from stamo.cli.main import create_app
from stamo.corpus.types import Document, EmergingEntity, Mention
from stamo.errors import CorpusFormatError, SettingsError, WorkspaceError
from stamo.workspace.folder import Workspace
from stamo.workspace.labels.events import LabelTarget

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


@pytest.mark.parametrize("form", ["label-studio", "jsonl"])
def test_labels_come_back_in_another_workspace(tmp_path, form):
    """What is exported from one workspace can be imported into another, unchanged."""
    source = make(tmp_path / "a", labelled=True)
    target = make(tmp_path / "b", labelled=False)
    file = tmp_path / "labels"
    assert "Wrote 1 labels" in run("export", source.path, file, "--as", form).output
    assert "Added 1" in run("import", target.path, file, "--as", form).output
    with source.open_labels() as one, target.open_labels() as other:
        assert one.current() == other.current()
    assert "Added 0" in run("import", target.path, file, "--as", form).output


def test_unlabelled_documents_can_go_to_label_studio(tmp_path):
    """With --all the tasks hold every document, for people to label there."""
    made = make(tmp_path / "a", labelled=False)
    run("export", made.path, tmp_path / "tasks.json", "--all")
    (task,) = json.loads((tmp_path / "tasks.json").read_text())
    assert task["data"]["text"] == DOCUMENT.text


def test_a_table_is_for_reading_only(tmp_path):
    """CSV can be written, not read back; the error says what to use."""
    made = make(tmp_path / "a", labelled=True)
    run("export", made.path, tmp_path / "labels.csv", "--as", "csv")
    assert "@emerging" in (tmp_path / "labels.csv").read_text()
    with pytest.raises(SettingsError, match="--as jsonl"):
        run("import", made.path, tmp_path / "labels.csv", "--as", "csv")


def test_bad_files_add_nothing(tmp_path):
    """A missing or foreign file is one clear error, and no label is added."""
    made = make(tmp_path / "a", labelled=False)
    with pytest.raises(WorkspaceError, match="cannot be read"):
        run("import", made.path, tmp_path / "nowhere.json")
    (tmp_path / "bad.json").write_text('[{"data": 7}]')
    with pytest.raises(CorpusFormatError, match="Task 1"):
        run("import", made.path, tmp_path / "bad.json")
    with made.open_labels() as store:
        assert not store.events()
