"""Many workspaces are fed in one pass, and each ends as if it had been alone."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from stamo.corpus.reading import read_files
from stamo.corpus.types import EmergingEntity
from stamo.errors import CorpusFormatError, WorkspaceError
from stamo.workspace import collect as collecting
from stamo.workspace.collect import CollectSettings, collect, collect_many
from stamo.workspace.documents import DocumentParts
from stamo.workspace.folder import Workspace
from tests.workspace.small_world import NOON

BATCH = CollectSettings(batch_size=8)


def make(path, entity):
    return Workspace.create(path, entity, created_by="ada", at=NOON)


def entities(small):
    """Those of the world, one that nothing mentions, and one that shares a name."""
    first, second = small.world.emerging
    twin = EmergingEntity("Twin", (first.aliases[0], second.aliases[0]))
    return [first, second, EmergingEntity("Nobody", ("Xyzzyq",)), twin]


def make_all(folder, small):
    return [make(folder / f"w{i}", entity) for i, entity in enumerate(entities(small))]


@pytest.fixture(scope="module")
def alone(small, kb, trained, tmp_path_factory):
    """The same workspaces, collected one after the other."""
    spaces = make_all(tmp_path_factory.mktemp("alone"), small)
    pile = small.world.paths.pile_path
    found = [collect(space, [pile], kb, trained, settings=BATCH) for space in spaces]
    return list(zip(spaces, found, strict=True))


def test_one_pass_gives_what_each_would_get_alone(small, kb, trained, alone, tmp_path):
    """Documents, parts, counts and positions are the same; the sources are opened once."""
    opened = []

    def read(files, **arguments):
        opened.append(files)
        return read_files(files, **arguments)

    spaces, pile = make_all(tmp_path, small), small.world.paths.pile_path
    found = collect_many(spaces, [pile], kb, trained, settings=BATCH, read=read)
    assert len(opened) == 1
    for space, one, (other, expected) in zip(spaces, found, alone, strict=True):
        assert list(space.documents) == list(other.documents)
        # What contains no alias of anybody is met elsewhere first.
        assert replace(one, examples={}) == replace(expected, examples={})
    assert found[0].n_kept > 20
    assert found[2].n_kept == 0
    assert found[2].n_read == found[0].n_read


def test_a_killed_pass_goes_on_for_all(small, kb, trained, alone, tmp_path, monkeypatch):
    """After kill -9 all stand somewhere; going on reads what is left and ends the same."""
    spaces = make_all(tmp_path, small)
    script = f"""
import os, signal
from pathlib import Path
from tests.workspace.small_world import SmallWorld
from tests.workspace.test_collect_many import BATCH
from stamo.workspace.collect import collect_many
from stamo.workspace.folder import Workspace
small = SmallWorld(Path({str(small.folder)!r}))
calls = []
def die(reached):
    calls.append(1)
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
spaces = [Workspace.open(Path({str(tmp_path)!r}) / f"w{{i}}") for i in range(4)]
collect_many(spaces, [small.world.paths.pile_path], small.kb, small.trained, settings=BATCH,
             origin=small.origin, on_progress=die)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    manifests = [space.documents.manifest for space in spaces]
    assert not any(manifest.complete for manifest in manifests)
    assert all(manifest.state["kb"] == str(small.kb_path) for manifest in manifests)
    found = collect_many(spaces, [], kb, trained, settings=BATCH)
    for space, one, (other, expected) in zip(spaces, found, alone, strict=True):
        assert list(space.documents) == list(other.documents)
        assert one.skipped == expected.skipped
        assert (one.n_kept, one.n_mentions) == (expected.n_kept, expected.n_mentions)


def test_reading_is_written_down_by_bytes(small, kb, trained, tmp_path, monkeypatch):
    """A crawl without any mention still leaves how far it was read."""
    source = tmp_path / "dull"
    source.mkdir()
    line = json.dumps({"text": "nothing to see here " * 500}) + "\n"
    for i in range(3):
        (source / f"{i}.jsonl").write_text(line * 150)
    monkeypatch.setattr(collecting, "CHECKPOINT_BYTES", 1_000_000)
    space = make(tmp_path / "w", small.entity)
    shares = []

    def stop(reached):
        shares.append(reached.share)
        if len(shares) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(space, [source], kb, trained, origin=small.origin, on_progress=stop)
    assert 0 < shares[0] < shares[1] < 1
    left = space.documents.manifest
    assert left.state["position"][1].startswith("dull/")
    assert "interrupted" in space.status().next_step
    found = collect(space, [], kb, trained)
    assert found.skipped == {"contains no alias": 450}


def test_what_is_written_down_does_not_grow_with_the_workspaces(
    small, kb, trained, tmp_path, monkeypatch
):
    """Where nothing waits, one workspace after the other notes how far the crawl was read."""
    source = tmp_path / "dull"
    source.mkdir()
    line = json.dumps({"text": "nothing to see here " * 5000}) + "\n"
    for i in range(20):
        (source / f"{i}.jsonl").write_text(line * 10)
    n_checkpoints = 20
    monkeypatch.setattr(collecting, "CHECKPOINT_BYTES", 1_000_000)
    spaces = [
        make(tmp_path / f"n{i}", EmergingEntity(f"Nobody {i}", (f"Xyzzyq{i}",))) for i in range(8)
    ]
    written, append = [], DocumentParts.append

    def note(parts, documents, **state):
        written.append(parts.folder)
        return append(parts, documents, **state)

    monkeypatch.setattr(DocumentParts, "append", note)
    found = collect_many(spaces, [source], kb, trained)
    assert all(one.skipped == {"contains no alias": 200} for one in found)
    begun_and_done = 2 * len(spaces)
    assert n_checkpoints > len(spaces)
    assert begun_and_done < len(written) <= begun_and_done + n_checkpoints
    assert all(written.count(space.documents.folder) > 2 for space in spaces)


def test_sources_that_are_missing_change_nothing(small, kb, trained, tmp_path):
    """A misspelled file is refused before any workspace remembers it."""
    space = make(tmp_path / "w", small.entity)
    with pytest.raises(CorpusFormatError, match="no file or folder"):
        collect_many([space], [tmp_path / "none.jsonl"], kb, trained)
    with pytest.raises(CorpusFormatError, match="The sources are one text"):
        collect_many([space], str(small.world.paths.pile_path), kb, trained)
    assert not space.documents.manifest.state
    with pytest.raises(WorkspaceError, match="named twice"):
        collect_many([space, space], [small.world.paths.pile_path], kb, trained)


def test_workspaces_that_wait_for_different_sources(small, kb, trained, alone, tmp_path):
    """One is complete and one is new: the new source is read once, both take it."""
    old = make(tmp_path / "old", small.entity)
    first = tmp_path / "first.jsonl"
    first.write_text(json.dumps({"id": "x1", "text": f"{small.entity.aliases[0]} slept."}) + "\n")
    collect(old, [first], kb, trained, settings=BATCH)
    fresh = make(tmp_path / "fresh", small.entity)
    pile = small.world.paths.pile_path
    found = collect_many([old, fresh], [pile], kb, trained, settings=BATCH)
    assert found[0].n_kept == found[1].n_kept + 1
    assert found[0].n_new == found[1].n_new == alone[0][1].n_kept
    with pytest.raises(WorkspaceError, match="is collected for all 2 workspaces"):
        collect_many([old, fresh], [pile], kb, trained)


def test_a_workspace_that_has_all_does_not_hold_up_the_others(small, kb, trained, alone, tmp_path):
    """An entity joins a folder that is fed already: it is fed, and the others stay as they are."""
    old, late = (make(tmp_path / name, small.entity) for name in ("old", "late"))
    pile = small.world.paths.pile_path
    first = collect(old, [pile], kb, trained, settings=BATCH)
    before = old.documents.manifest
    found = collect_many([old, late], [pile], kb, trained, settings=BATCH)
    assert found[0] == replace(first, n_new=0)
    assert old.documents.manifest == before
    assert found[1] == alone[0][1]


def test_never_more_than_asked_for(small, kb, trained, tmp_path):
    """`max_documents` is exact, and another workspace goes on."""
    few = CollectSettings(batch_size=8, max_documents=5)
    spaces = make_all(tmp_path, small)[:2]
    found = collect_many(spaces, [small.world.paths.pile_path], kb, trained, settings=few)
    assert [one.n_kept for one in found] == [5, 5]
    assert all(space.status().is_collected for space in spaces)
