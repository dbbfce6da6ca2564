import json
import subprocess
import sys
from contextlib import suppress

import pytest

from stamo.corpus.types import EmergingEntity, Mention, without_overlaps
from stamo.errors import WorkspaceError
from stamo.workspace.collect import COPY, LONGER_NAME, CollectSettings, collect, outside_longer
from stamo.workspace.documents import free_id
from stamo.workspace.folder import Workspace
from tests.workspace.small_world import NOON

BATCH = CollectSettings(batch_size=8)


def make(path, entity):
    return Workspace.create(path, entity, created_by="ada", at=NOON)


def write_jsonl(path, texts, prefix="d"):
    lines = (json.dumps({"id": f"{prefix}{i}", "text": t}) for i, t in enumerate(texts))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_finds_exactly_the_candidate_mentions(small, collected):
    """Every mention with an alias of the entity is kept unlinked, and no other one."""
    mine = {
        (d.id, m.start, m.end) for d in collected.documents for m in d.mentions if m.entity is None
    }
    theirs = {
        (name, m["start"], m["end"])
        for line in small.world.paths.gold_path.read_text().splitlines()
        for record in [json.loads(line)]
        for name in [record["id"]]
        for m in record["mentions"]
        if m["candidate_of"] == small.entity.id
    }
    assert mine == theirs
    assert len(mine) > 50


def test_other_mentions_are_linked_to_known_entities(small, kb, collected):
    """All mentions that are no candidates carry the title of a known entity."""
    titles = {m.entity for d in collected.documents for m in d.mentions} - {None}
    assert (kb.entity_ids(sorted(titles)) >= 0).all()
    assert len(titles) > 20


def test_a_killed_collecting_goes_on_and_ends_with_the_same_parts(small, kb, trained, tmp_path):
    """After kill -9 in the middle, the end is as if nothing had happened."""
    whole = make(tmp_path / "whole", small.entity)
    collect(whole, [small.world.paths.pile_path], kb, trained, settings=BATCH)
    killed = make(tmp_path / "killed", small.entity)
    script = f"""
import os, signal
from pathlib import Path
from tests.workspace.small_world import SmallWorld
from tests.workspace.test_collect import BATCH
from stamo.workspace.collect import collect
from stamo.workspace.folder import Workspace
small = SmallWorld(Path({str(small.folder)!r}))
calls = []
def die(collected):
    calls.append(1)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
collect(Workspace.open({str(killed.path)!r}), [small.world.paths.pile_path], small.kb,
        small.trained, settings=BATCH, on_progress=die)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    left = killed.documents.manifest
    assert left.n_documents == 0, "documents count when their file is read whole"
    assert not left.complete
    assert "interrupted" in killed.status().next_step
    # What the process was about to write lies around; it must not be read.
    (killed.documents.folder / "00099.jsonl.zst").write_bytes(b"half")
    collect(killed, [], kb, trained, settings=BATCH)
    assert killed.documents.manifest == whole.documents.manifest
    assert list(killed.documents) == list(whole.documents)


def test_a_failing_callback_loses_nothing(small, kb, trained, tmp_path, monkeypatch):
    """Interruptions at any batch, again and again, give the same documents in the end."""
    monkeypatch.setattr("stamo.workspace.collect.CHECKPOINT_BYTES", 1)
    lines = small.world.paths.pile_path.read_text().splitlines(keepends=True)
    pile = tmp_path / "pile"
    pile.mkdir()
    for i in range(5):
        (pile / f"{i}.jsonl").write_text("".join(lines[i::5]))
    space = make(tmp_path / "rey", small.entity)
    for n in (1, 3, 1, 2):
        calls = iter(range(n))

        def stop(progress, calls=calls):
            if next(calls, None) is None:
                raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            collect(space, [pile], kb, trained, settings=BATCH, on_progress=stop)
        assert not space.documents.manifest.complete
    assert space.documents.manifest.state["position"][1] > "pile/0"
    resumed = collect(space, [pile], kb, trained, settings=BATCH)
    other = make(tmp_path / "other", small.entity)
    found = collect(other, [pile], kb, trained, settings=BATCH)
    assert list(space.documents) == list(other.documents)
    assert found.complete
    assert found.n_read == resumed.n_read == len(lines)
    assert found.skipped == resumed.skipped


def test_copies_are_left_out_and_counted(small, kb, trained, tmp_path):
    """A press release that comes three times is kept once."""
    alias = small.entity.aliases[0]
    words = " ".join(f"word{i}" for i in range(60))
    texts = [f"{alias} said {words}.", f"{alias} said {words}!", f"{alias} said {words}"]
    source = write_jsonl(
        tmp_path / "a.jsonl", [*texts, "nothing at all", f"A word of {alias} here"]
    )
    found = collect(make(tmp_path / "rey", small.entity), [source], kb, trained)
    assert found.n_kept == 2
    assert found.skipped[COPY] == 2
    assert found.skipped["contains no alias"] == 1


def test_documents_with_the_alias_only_in_longer_names_are_left_out(kb, trained, tmp_path):
    """The alias "Rey" in the known name "Rey Island" is no candidate mention."""
    name = next(n for n in kb.aliases(range(kb.n_aliases)) if n.count(" ") == 1 and n.isascii())
    entity = EmergingEntity("New", (name.split()[0],))
    source = write_jsonl(tmp_path / "a.jsonl", [f"They met at {name} on Monday."])
    found = collect(make(tmp_path / "rey", entity), [source], kb, trained)
    assert found.n_kept == 0
    assert found.skipped == {LONGER_NAME: 1}


def test_sources_are_finished_before_others_begin(small, kb, trained, tmp_path):
    """An interrupted collecting refuses other sources; a complete one takes more, once."""
    alias = small.entity.aliases[0]
    first = write_jsonl(tmp_path / "a.jsonl", [f"{alias} came on day {i}" for i in range(3)])
    second = write_jsonl(
        tmp_path / "b.jsonl", [f"Here {alias} is, {i} left of it" for i in range(2)]
    )
    space = make(tmp_path / "rey", small.entity)
    tiny = CollectSettings(batch_size=1)
    with pytest.raises(KeyboardInterrupt):
        collect(space, [first], kb, trained, settings=tiny, on_progress=_interrupt)
    with pytest.raises(WorkspaceError, match="was interrupted"):
        collect(space, [second], kb, trained)
    collect(space, [first], kb, trained, settings=tiny)
    with pytest.raises(WorkspaceError, match="is collected"):
        collect(space, [first], kb, trained)
    collect(space, [second], kb, trained)
    # The ids of both files are d0, d1, ...; all five documents are there under their own.
    assert [d.id for d in space.documents] == ["d0", "d1", "d2", "d0~2", "d1~2"]
    collect(space, [second], kb, trained, fresh=True)
    assert [d.id for d in space.documents] == ["d0", "d1"]


def _interrupt(collected):
    raise KeyboardInterrupt


def test_nothing_to_collect_is_an_error(small, kb, trained, tmp_path):
    """Without sources and without an interrupted collecting there is nothing to do."""
    with pytest.raises(WorkspaceError, match="--from"):
        collect(make(tmp_path / "rey", small.entity), [], kb, trained)


def test_a_limit_ends_collecting(small, kb, trained, tmp_path):
    """`max_documents` stops after the batch that reaches it."""
    settings = CollectSettings(batch_size=4, max_documents=8)
    space = make(tmp_path / "rey", small.entity)
    found = collect(space, [small.world.paths.pile_path], kb, trained, settings=settings)
    assert 8 <= found.n_kept <= 12
    assert found.complete


def test_candidates_and_longer_names():
    """An alias inside a longer name goes; a name that only overlaps an alias goes instead."""
    aliases = [Mention("Rey", 0, 3), Mention("Rey", 15, 18), Mention("Old Rey", 22, 29)]
    names = [Mention("Rey Island", 0, 10), Mention("Rey", 15, 18), Mention("Rey", 26, 29)]
    kept = outside_longer(aliases, [(name.start, name.end) for name in names])
    assert kept == aliases[1:]
    assert without_overlaps(names, kept) == names[:1]


def test_free_id():
    """A taken id gets the first free number."""
    assert free_id("a", {"b"}) == "a"
    assert free_id("a", {"a", "a~2"}) == "a~3"


def test_texts_in_a_column_of_another_name(small, kb, trained, tmp_path):
    """A table says where its texts are; an interrupted collecting goes on with that column."""
    alias = small.entity.aliases[0]
    table = tmp_path / "news.csv"
    table.write_text(
        f"nr,body\n1,{alias} came here\n2,nobody\n3,Tomorrow we will ask {alias} why\n"
    )
    space = make(tmp_path / "rey", small.entity)

    def stop(progress):
        if not progress.complete:
            raise KeyboardInterrupt

    settings = CollectSettings(text_column="body", batch_size=1)
    with pytest.raises(KeyboardInterrupt):
        collect(space, [table], kb, trained, settings=settings, on_progress=stop)
    assert collect(space, [], kb, trained).n_kept == 2
