"""A workspace says where it stands, and no crash or odd name breaks it."""

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime

import pytest
import zstandard

from stamo.corpus.types import Document, EmergingEntity, Mention
from stamo.errors import WorkspaceError
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import EMERGING_CHOICE, LabelTarget

AT = datetime(2024, 5, 1, 12, tzinfo=UTC)
ZSTD = zstandard.ZstdCompressor()
REY = EmergingEntity("Rey Skywalker", ("Rey", "Rey Skywalker"))


def create(path, entity=REY):
    return Workspace.create(path, entity, created_by="ada", at=AT)


def documents(*ids):
    return [
        Document(id, "Rey met Finn", (Mention("Rey", 0, 3), Mention("Finn", 8, 12, "Finn")))
        for id in ids
    ]


def test_a_workspace_opens_as_it_was_created(tmp_path):
    """Name, aliases, author and time come back; odd names stay data and never become paths."""
    for n, name in enumerate(["Rey", "../../etc", "a/b", "Ünïcode 雷 🚀", "a:b", "."]):
        entity = EmergingEntity(name, (name + "!",))
        created = create(tmp_path / f"w{n}", entity)
        opened = Workspace.open(tmp_path / f"w{n}")
        assert opened == created
        assert opened.entity == entity
        assert (opened.created_by, opened.created_at) == ("ada", AT)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"w{n}" for n in range(6)]


def test_folders_in_use_are_refused(tmp_path):
    """A workspace is never written over another one or over other files."""
    create(tmp_path / "rey")
    with pytest.raises(WorkspaceError, match="already"):
        create(tmp_path / "rey")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"x")
    with pytest.raises(WorkspaceError, match="other files"):
        create(tmp_path / "photos")
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below", "", "a\0b"):
        with pytest.raises(WorkspaceError):
            create(path)
    (tmp_path / "empty").mkdir()
    assert create(tmp_path / "empty").entity == REY


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (None, "no entity.json"),
        ("", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "not written by stamo"),
        ('{"format": "other"}', "not written by stamo"),
        ('{"format": "stamo-workspace", "version": 99}', "version 99"),
        ('{"format": "stamo-workspace", "version": 2}', "does not describe"),
        (
            '{"format": "stamo-workspace", "version": 2, "name": "x", "aliases": [], '
            '"created_by": "", "created_at": "2024-05-01T00:00:00+00:00"}',
            "does not describe",
        ),
    ],
)
def test_foreign_and_damaged_folders_are_named(tmp_path, content, match):
    """One sentence says what is wrong with a folder that cannot be opened."""
    if content is not None:
        (tmp_path / "entity.json").write_text(content)
    with pytest.raises(WorkspaceError, match=match):
        Workspace.open(tmp_path)


def test_status_leads_through_the_whole_story(tmp_path):
    """After each step, the next one is named."""
    with pytest.raises(WorkspaceError, match="stamo new"):
        Workspace.open(tmp_path / "rey")
    workspace = create(tmp_path / "rey")
    assert "stamo collect" in workspace.status().next_step
    workspace.documents.append([], state={}, complete=True)
    assert "Nothing was kept" in workspace.status().next_step
    workspace.documents.append(documents("a"), state={"position": [0, "a", 1]})
    status = workspace.status()
    assert "interrupted after 1 document;" in status.next_step
    assert (status.n_documents, status.n_mentions, status.is_collected) == (1, 1, False)
    workspace.documents.append(documents("b"), state={}, complete=True)
    assert "Label 2 more mentions" in workspace.status().next_step
    with workspace.open_labels() as labels:
        for id in ("a", "b"):
            labels.add(LabelTarget(id, 0, "Rey", 0, 3), "Rey (name)", labeller="ada", at=AT)
        assert "None of the 2 labels" in workspace.status().next_step
        assert (
            "collect documents that speak of it with: stamo collect" in workspace.status().next_step
        )
        labels.add(LabelTarget("a", 0, "Rey", 0, 3), EMERGING_CHOICE, labeller="ada", at=AT)
    assert "stamo learn" in workspace.status().next_step
    workspace.packs_dir.mkdir()
    (workspace.packs_dir / "other.stamo").touch()
    assert workspace.status().packs == ("other.stamo",)
    assert "stamo report" in workspace.status().next_step
    (workspace.packs_dir / "rey.stamo").touch()
    assert workspace.status().stage == "pack damaged: learn again"


def test_documents_come_back_in_order(tmp_path):
    """Parts are read one after the other; titles, mentions and entities are kept."""
    store = create(tmp_path / "rey").documents
    assert list(store) == []
    first = [Document("../x", "Rey\n雷", (Mention("Rey", 0, 3, None),), "Title"), *documents("b")]
    store.append(first, state={"n": 1})
    store.append(documents("c"), state={"n": 2}, complete=True)
    again = Workspace.open(tmp_path / "rey").documents
    assert list(again) == [*first, *documents("c")]
    assert again.manifest.n_documents == 3
    assert again.manifest.state == {"n": 2}
    names = sorted(p.name for p in (tmp_path / "rey" / "documents").iterdir())
    assert names == ["00000.jsonl.zst", "00001.jsonl.zst", "documents.json"]
    again.clear()
    assert list(again) == []


def test_damaged_parts_are_noticed(tmp_path):
    """A changed or missing part is never read as if it were whole."""
    store = create(tmp_path / "rey").documents
    store.append(documents("a"), state={})
    part = store.folder / "00000.jsonl.zst"
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(WorkspaceError, match="damaged"):
        list(store)
    part.unlink()
    with pytest.raises(WorkspaceError, match="cannot be read"):
        list(store)
    manifest = store.folder / "documents.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": 7}))
    with pytest.raises(WorkspaceError, match="version 7"):
        list(store)
    manifest.write_text("{}")
    with pytest.raises(WorkspaceError, match="collect again"):
        list(store)


@pytest.mark.parametrize("content", [b"no frame", ZSTD.compress(b"[" * 100_000 + b"\n")])
def test_a_part_of_something_else_is_told(tmp_path, content):
    """Also when its digest is right."""
    store = create(tmp_path / "rey").documents
    store.append(documents("a"), state={})
    (store.folder / "00000.jsonl.zst").write_bytes(content)
    manifest = store.folder / "documents.json"
    value = json.loads(manifest.read_text())
    value["parts"][0]["digest"] = hashlib.blake2b(content, digest_size=16).hexdigest()
    manifest.write_text(json.dumps(value))
    with pytest.raises(WorkspaceError, match="holds no documents"):
        list(store)


COLLECT = """
    import sys
    from stamo.corpus.types import Document
    from stamo.workspace.folder import Workspace
    store = Workspace.open(sys.argv[1]).documents
    n = store.manifest.state.get("n", 0)
    while True:
        store.append([Document(f"d{n}", "Rey " * 2000)], state={"n": n + 1})
        n += 1
        print(n, flush=True)
"""


def test_a_killed_collector_leaves_whole_documents(tmp_path):
    """After kill -9, documents and state agree, all acknowledged ones are there, and it goes on."""
    create(tmp_path / "rey")
    acknowledged = 0
    for _ in range(3):
        command = [sys.executable, "-c", textwrap.dedent(COLLECT), str(tmp_path / "rey")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(7):
                acknowledged = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
        store = Workspace.open(tmp_path / "rey").documents
        n = store.manifest.state["n"]
        assert n >= acknowledged
        assert [d.id for d in store] == [f"d{i}" for i in range(n)]


def hold_lock(path, ready, release):
    with Workspace.open(path).lock("collect"):
        ready.set()
        release.wait(30)


def test_a_task_runs_once_at_a_time(tmp_path):
    """A second process is refused while the first one works, and served after it was killed."""
    workspace = create(tmp_path / "rey")
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    process = context.Process(target=hold_lock, args=(workspace.path, ready, release))
    process.start()
    assert ready.wait(300)
    assert (workspace.status().stage, workspace.is_busy("learn")) == ("collecting", False)
    with pytest.raises(WorkspaceError, match="Another process"), workspace.lock("collect"):
        pass
    with workspace.lock("learn"):
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with workspace.lock("collect"):
        pass
