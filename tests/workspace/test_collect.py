"""Many workspaces are fed in one pass, each as if it were alone; kills lose no whole file."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from stamo.corpus.reading import read_files
from stamo.corpus.types import EmergingEntity
from stamo.errors import CorpusFormatError, MissingExtraError, WorkspaceError
from stamo.workspace import collect as collecting
from stamo.workspace.collect import COPY, LONGER_NAME, CollectSettings, collect
from stamo.workspace.folder import Workspace
from tests.workspace.small_world import NOON


def make(path, entity):
    return Workspace.create(path, entity, created_by="ada", at=NOON)


def collect_one(space, sources, kb, trained, **options):
    (found,) = collect([space], sources, kb, trained, **options)
    return found


def entities(small):
    """Those of the world, one that nothing mentions, and one that shares a name."""
    first, second = small.world.emerging
    twin = EmergingEntity("Twin", (first.aliases[0], second.aliases[0]))
    return [first, second, EmergingEntity("Nobody", ("Xyzzyq",)), twin]


def make_all(folder, small):
    return [make(folder / f"w{i}", entity) for i, entity in enumerate(entities(small))]


def write_jsonl(path, texts, prefix="d"):
    lines = (json.dumps({"id": f"{prefix}{i}", "text": t}) for i, t in enumerate(texts))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def crawl(small, tmp_path_factory):
    """The pile in five files."""
    folder = tmp_path_factory.mktemp("crawl")
    lines = small.world.paths.pile_path.read_text().splitlines(keepends=True)
    size = -(-len(lines) // 5)
    for i in range(5):
        (folder / f"{i}.jsonl").write_text("".join(lines[i * size : (i + 1) * size]))
    return folder


@pytest.fixture(scope="module")
def alone(small, kb, trained, crawl, tmp_path_factory):
    """The same workspaces, collected one after the other."""
    spaces = make_all(tmp_path_factory.mktemp("alone"), small)
    return [(space, collect_one(space, [crawl], kb, trained)) for space in spaces]


def test_finds_exactly_the_candidate_mentions(small, kb, collected):
    """Every mention with an alias of the entity is kept unlinked; the others are known entities."""
    mine = {
        (d.id, m.start, m.end) for d in collected.documents for m in d.mentions if m.entity is None
    }
    theirs = {
        (record["id"], m["start"], m["end"])
        for record in map(json.loads, small.world.paths.gold_path.read_text().splitlines())
        for m in record["mentions"]
        if m["candidate_of"] == small.entity.id
    }
    assert mine == theirs
    assert len(mine) > 50
    titles = {m.entity for d in collected.documents for m in d.mentions} - {None}
    assert (kb.entity_ids(sorted(titles)) >= 0).all()
    assert len(titles) > 20


def test_one_pass_gives_what_each_would_get_alone(small, kb, trained, crawl, alone, tmp_path):
    """Documents and counts are the same; the sources are opened once."""
    opened = []

    def read(files, **arguments):
        opened.append(files)
        return read_files(files, **arguments)

    spaces = make_all(tmp_path, small)
    found = collect(spaces, [crawl], kb, trained, read=read)
    assert len(opened) == 1
    for space, one, (other, expected) in zip(spaces, found, alone, strict=True):
        assert list(space.documents) == list(other.documents)
        # What contains no alias of anybody is met elsewhere first.
        assert replace(one, examples={}) == replace(expected, examples={})
    assert found[0].n_kept > 20
    assert found[2].n_kept == 0
    n_lines = len(small.world.paths.pile_path.read_text().splitlines())
    assert found[2].n_read == found[0].n_read == n_lines


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.workspace.small_world import SmallWorld
from stamo.workspace import collect as collecting
from stamo.workspace.folder import Workspace
collecting.CHECKPOINT_BYTES = 1
collecting.BATCH_SIZE = 4
small, folder, crawl = (Path(argument) for argument in sys.argv[1:4])
write, n_left = collecting.CollectingSpace.write, [int(sys.argv[4])]
def die(*arguments, **options):
    n_left[0] -= 1
    if n_left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    write(*arguments, **options)
collecting.CollectingSpace.write = die
small = SmallWorld(small)
spaces = [Workspace.open(folder / f"w{i}") for i in range(4)]
collecting.collect(spaces, [crawl], small.kb, small.trained, origin=small.origin)
"""


@pytest.mark.parametrize("n_written", [0, 10])
def test_a_killed_pass_goes_on_behind_whole_files(
    small, kb, trained, crawl, alone, tmp_path, n_written
):
    """After kill -9, also between two workspaces, all end as if nothing had happened."""
    spaces = make_all(tmp_path, small)
    arguments = [str(small.folder), str(tmp_path), str(crawl), str(n_written)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], capture_output=True, check=False
    )
    assert done.returncode == -9, done.stderr
    manifests = [space.documents.manifest for space in spaces]
    assert not any(manifest.complete for manifest in manifests)
    assert all(manifest.state["kb"] == str(small.kb_path) for manifest in manifests)
    read = [len(manifest.state.get("files", [])) for manifest in manifests]
    assert len(set(read)) == (2 if n_written else 1)
    assert (manifests[0].n_documents > 0) == (n_written > 0)
    assert "interrupted" in spaces[0].status().next_step
    # What the process was about to write lies around; it must not be read.
    (spaces[0].documents.folder / "00099.jsonl.zst").write_bytes(b"half")
    found = collect(spaces, [], kb, trained)
    for space, one, (other, expected) in zip(spaces, found, alone, strict=True):
        assert list(space.documents) == list(other.documents)
        assert one.skipped == expected.skipped
        assert (one.n_kept, one.n_mentions) == (expected.n_kept, expected.n_mentions)


def test_how_far_a_large_file_is_read_is_told(small, kb, trained, tmp_path):
    """A crawl without any mention is reported while it is read; interrupted, it begins anew."""
    source = tmp_path / "dull.jsonl"
    source.write_text((json.dumps({"text": "nothing to see here " * 500}) + "\n") * 300)
    space = make(tmp_path / "w", small.entity)
    shares = []

    def stop(progress):
        shares.append(progress.share)
        if len(shares) == 2:
            raise KeyboardInterrupt

    settings = CollectSettings(text_column="text")
    with pytest.raises(KeyboardInterrupt):
        collect([space], [source], kb, trained, settings, on_progress=stop)
    assert 0 < shares[0] <= shares[1] <= 1
    assert "interrupted" in space.status().next_step
    found = collect_one(space, [], kb, trained)
    assert found.skipped == {"contains no alias": 300}


def test_copies_and_longer_names_are_left_out(small, kb, trained, tmp_path):
    """A press release that comes three times is kept once; "Rey" in "Rey Island" is no mention."""
    alias = small.entity.aliases[0]
    words = " ".join(f"word{i}" for i in range(60))
    texts = [f"{alias} said {words}.", f"{alias} said {words}!", f"{alias} said {words}"]
    more = ["nothing at all", f"A word of {alias} here"]
    source = write_jsonl(tmp_path / "a.jsonl", [*texts, *more])
    found = collect_one(make(tmp_path / "rey", small.entity), [source], kb, trained)
    assert found.n_kept == 2
    assert found.skipped == {COPY: 2, "contains no alias": 1}
    name = next(n for n in kb.aliases(range(kb.n_aliases)) if n.count(" ") == 1 and n.isascii())
    entity = EmergingEntity("New", (name.split()[0],))
    source = write_jsonl(tmp_path / "b.jsonl", [f"They met at {name} on Monday."])
    found = collect_one(make(tmp_path / "new", entity), [source], kb, trained)
    assert (found.n_kept, found.skipped) == (0, {LONGER_NAME: 1})


def test_a_source_is_what_it_holds(small, kb, trained, tmp_path):
    """Interrupted ones are finished first; renamed ones are not read again, grown ones are."""
    alias = small.entity.aliases[0]
    texts = [f"{alias} came on day {i} and left." for i in range(3)]
    first = write_jsonl(tmp_path / "a.jsonl", texts)
    second = write_jsonl(tmp_path / "b.jsonl", [f"Here {alias} is, {i} left of it" for i in (1, 2)])
    space = make(tmp_path / "rey", small.entity)

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect([space], [first], kb, trained, on_progress=interrupt)
    assert "interrupted" in space.status().next_step
    # The ids of both files are d0, d1, ...; all five documents are there under their own.
    assert collect_one(space, [second], kb, trained).n_new == 5
    assert [d.id for d in space.documents] == ["d0", "d1", "d2", "d0~2", "d1~2"]
    n_read = collect_one(space, [first, second], kb, trained).n_read
    assert n_read == 5
    renamed = first.rename(tmp_path / "c.jsonl")
    assert collect_one(space, [renamed], kb, trained).n_read == 5
    grown = write_jsonl(renamed, [*texts, f"{alias} came again, to everybody's surprise."])
    found = collect_one(space, [grown], kb, trained)
    assert (found.n_new, found.skipped) == (1, {COPY: 3})
    write_jsonl(second, [f"{alias} is in a file of the same name and length"])
    assert collect_one(space, [second], kb, trained).n_new == 1
    collect([space], [second], kb, trained, fresh=True)
    assert [d.id for d in space.documents] == ["d0"]
    assert len(list(space.documents.folder.glob("*.zst"))) == 1


def test_how_a_file_is_read_belongs_to_it(small, kb, trained, tmp_path):
    """A table is read again with another column, a text with another encoding."""
    alias = small.entity.aliases[0]
    (tmp_path / "t.csv").write_text(f"story,n\n{alias} was here,1\n")
    (tmp_path / "t.txt").write_bytes(f"{alias} visits a caf\xe9".encode("latin-1"))
    space = make(tmp_path / "rey", small.entity)
    sources = [tmp_path / "t.csv", tmp_path / "t.txt"]
    found = collect_one(space, sources, kb, trained)
    assert found.skipped == {"no column that is called text": 1, "not valid UTF-8": 1}
    settings = CollectSettings(text_column="story", encoding="latin-1")
    assert collect([space], sources, kb, trained, settings)[0].n_new == 2
    assert [d.text[-4:] for d in space.documents] == ["here", "caf\xe9"]


def test_a_failed_collecting_leaves_all_as_it_was(small, kb, trained, tmp_path):
    """Also what --fresh was to forget, and after some files were read to their end."""
    alias = small.entity.aliases[0]
    first = write_jsonl(tmp_path / "a.jsonl", [f"{alias} came on day {i}." for i in range(3)])
    second = write_jsonl(tmp_path / "b.jsonl", [f"Here is {alias} on its own"])
    old, new = make(tmp_path / "old", small.entity), make(tmp_path / "new", small.entity)
    collect([old], [first], kb, trained)
    before, documents = old.documents.manifest, list(old.documents)

    def fail(files, **options):
        yield from read_files(files, **options)
        raise MissingExtraError("resiliparse", "web", "A web page")

    for fresh in (False, True):
        with pytest.raises(MissingExtraError):
            collect([old, new], [second], kb, trained, fresh=fresh, read=fail)
        assert (old.documents.manifest, list(old.documents)) == (before, documents)
        assert "interrupted" not in new.status().next_step
        assert list(new.documents.folder.iterdir()) == []
    assert [one.n_new for one in collect([old, new], [second], kb, trained)] == [1, 1]


def test_what_cannot_be_collected_changes_nothing(small, kb, trained, tmp_path):
    """A misspelled file is refused before any workspace remembers it."""
    space = make(tmp_path / "w", small.entity)
    pile = small.world.paths.pile_path
    for spaces, sources, match in (
        ([space], [tmp_path / "none.jsonl"], "no file or folder"),
        ([space], str(pile), "The sources are one text"),
        ([space, space], [pile], "named twice"),
        ([space], [], "--from"),
    ):
        with pytest.raises((CorpusFormatError, WorkspaceError), match=match):
            collect(spaces, sources, kb, trained)
        assert not space.documents.manifest.state


def test_workspaces_that_wait_for_different_sources(small, kb, trained, crawl, alone, tmp_path):
    """A new one joins one that has some of it, and one that has all and stays as it is."""
    first = write_jsonl(tmp_path / "first.jsonl", [f"{small.entity.aliases[0]} slept."], "x")
    old, fresh, late = (make(tmp_path / name, small.entity) for name in ("old", "fresh", "late"))
    collect([old], [first], kb, trained)
    found = collect([old, fresh], [crawl], kb, trained)
    assert found[0].n_kept == found[1].n_kept + 1
    assert found[0].n_new == found[1].n_new == alone[0][1].n_kept
    before = old.documents.manifest
    again = collect([old, late], [crawl], kb, trained)
    assert again[0] == replace(found[0], n_new=0)
    assert old.documents.manifest == before
    assert again[1] == alone[0][1]


def test_never_more_than_asked_for(small, kb, trained, crawl, tmp_path, monkeypatch):
    """`max_documents` is exact, and another workspace goes on."""
    monkeypatch.setattr(collecting, "BATCH_SIZE", 8)
    few = CollectSettings(max_documents=5)
    spaces = make_all(tmp_path, small)[:2]
    found = collect(spaces, [crawl], kb, trained, few)
    assert [one.n_kept for one in found] == [5, 5]
    assert all(space.status().is_collected for space in spaces)


def test_texts_in_a_column_of_another_name(small, kb, trained, tmp_path):
    """A table says where its texts are; an interrupted collecting goes on with that column."""
    alias = small.entity.aliases[0]
    table = tmp_path / "news.csv"
    table.write_text(
        f"nr,body\n1,{alias} came here\n2,nobody\n3,Tomorrow we will ask {alias} why\n"
    )
    space = make(tmp_path / "rey", small.entity)

    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(
            [space], [table], kb, trained, CollectSettings(text_column="body"), on_progress=stop
        )
    assert collect_one(space, [], kb, trained).n_kept == 2
