"""Building: same bytes for any number of workers, and nothing half-written after any fault."""

import json
import lzma
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from stamo.build import counting
from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.errors import KnowledgeBaseError, StamoError
from stamo.kb.base import KnowledgeBase
from tests.build.dumps import make_pages, write_dump

SETTINGS = BuildSettings(held_out=0, dimensions=0)
AGAIN = BuildSettings(held_out=0, dimensions=0, overwrite=True)

FAULTY_BUILD = """
import json, multiprocessing, os, resource, signal, sys
from pathlib import Path
from stamo.errors import StamoError
from stamo.build.build import BuildSettings, build_knowledge_base

def progress(stage, done):
    if stage == options.get("kill_at"):
        pids = [child.pid for child in multiprocessing.active_children()]
        Path(options["pids"]).write_text(json.dumps(pids))
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    if "file_size" in options:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options["file_size"],) * 2)
    settings = BuildSettings(dimensions=0, overwrite=True, workers=options["workers"])
    try:
        build_knowledge_base(options["dump"], options["kb"], settings, progress)
    except StamoError as error:
        sys.exit(str(error))
"""


def files_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def names_in(directory):
    return {path.name for path in directory.iterdir()}


@pytest.fixture
def built(tmp_path):
    """A folder with a small dump and the knowledge base made from it."""
    dump = write_dump(tmp_path / "dump.xml")
    build_knowledge_base(dump, tmp_path / "kb", SETTINGS)
    return tmp_path


def run_faulty(folder, dump, **options):
    """Run a build in a process of its own that meets with an accident."""
    script = folder / "faulty.py"
    script.write_text(FAULTY_BUILD)
    options |= {"dump": str(dump), "kb": str(folder / "kb"), "pids": str(folder / "pids.json")}
    options.setdefault("workers", 1)
    return subprocess.run(
        [sys.executable, str(script), json.dumps(options)], capture_output=True, text=True
    )


def test_same_bytes_for_any_number_of_workers(tmp_path, monkeypatch):
    """One worker, two workers and other chunks of work give the same files, byte by byte."""
    dump = write_dump(tmp_path / "dump.xml", make_pages(80))
    results = []
    for number, (workers, chunk_bytes) in enumerate([(1, 20_000), (2, 20_000), (1, 4_000_000)]):
        monkeypatch.setattr("stamo.build.dump.CHUNK_BYTES", chunk_bytes)
        settings = BuildSettings(held_out=0.2, dimensions=6, workers=workers)
        summary = build_knowledge_base(dump, tmp_path / f"kb{number}", settings)
        results.append((summary.fingerprint, files_of(tmp_path / f"kb{number}")))
    assert len(results[0][1]) > 20
    for name, content in results[0][1].items():
        assert results[1][1][name] == content, f"{name} depends on the number of workers"
        assert results[2][1][name] == content, f"{name} depends on the chunks"
    assert len({fingerprint for fingerprint, _ in results}) == 1


def test_counting_gets_more_memory_when_it_needs_it(tmp_path, monkeypatch):
    """A limit that is too low is raised, and leaves no trace in the result or the summary."""
    dump = write_dump(tmp_path / "d.xml", make_pages(60))
    plain = build_knowledge_base(dump, tmp_path / "plain", SETTINGS)
    tried = []
    connect = counting.open_database
    monkeypatch.setattr("stamo.build.build.MEMORY_TO_TRY", (1, 100))
    monkeypatch.setattr(
        counting, "open_database", lambda *a, **k: tried.append(k["memory"]) or connect(*a, **k)
    )
    raised = build_knowledge_base(dump, tmp_path / "raised", SETTINGS)
    assert tried == ["1MB", "100MB"]
    assert raised.fingerprint == plain.fingerprint
    assert raised.skipped == plain.skipped
    assert raised.counts == plain.counts


def test_summary_tells_what_was_found_and_left_out(built):
    """Pages, links and what was left out are counted."""
    summary = build_knowledge_base(built / "dump.xml", built / "other", SETTINGS)
    counts = summary.counts
    assert counts["articles"] == counts["counted articles"] == 5
    assert counts["redirect pages"] == 5
    assert counts["disambiguation pages"] == 1
    assert counts["links in running text"] == counts["counted links"] == 11
    assert counts["entities"] == 6
    assert summary.skipped["page whose title came before"] == 1
    assert summary.skipped["redirect in a cycle"] == 2
    assert summary.skipped["link to a redirect in a cycle"] == 1
    assert summary.skipped["link to a disambiguation page"] == 1
    assert summary.skipped["empty page"] == 1
    assert set(summary.seconds) >= {"reading the dump", "counting", "manifest"}
    assert summary.peak_memory > 0


def test_progress_names_each_stage_and_reaches_its_end(tmp_path):
    """Every stage is reported from 0 to 1."""
    calls = []
    dump = write_dump(tmp_path / "dump.xml")
    build_knowledge_base(dump, tmp_path / "kb", SETTINGS, lambda *call: calls.append(call))
    stages = dict.fromkeys(stage for stage, _ in calls)
    assert next(iter(stages)) == "reading the dump"
    for stage in stages:
        shares = [done for name, done in calls if name == stage]
        assert shares[0] == 0
        assert shares[-1] == 1
        assert shares == sorted(shares)


def test_existing_knowledge_base_needs_overwrite(built):
    """Without `overwrite` the old one stays; with it the new one takes its place."""
    before = files_of(built / "kb")
    dump = write_dump(built / "new.xml", [("One", "[[Two]]")])
    with pytest.raises(KnowledgeBaseError, match="exists already"):
        build_knowledge_base(dump, built / "kb", SETTINGS)
    assert files_of(built / "kb") == before
    build_knowledge_base(dump, built / "kb", AGAIN)
    assert KnowledgeBase.open(built / "kb").n_entities == 2
    assert names_in(built) == {"dump.xml", "new.xml", "kb"}


@pytest.mark.parametrize("kind", ["directory", "empty", "file", "link"])
def test_foreign_target_is_left_alone(tmp_path, kind):
    """What is not a knowledge base is never replaced, not even with `overwrite`."""
    dump = write_dump(tmp_path / "dump.xml")
    target = tmp_path / "target"
    if kind == "file":
        target.write_text("mine")
    elif kind == "link":
        build_knowledge_base(dump, tmp_path / "real", SETTINGS)
        target.symlink_to("real")
    else:
        target.mkdir()
        if kind == "directory":
            (target / "manifest.json").write_text('{"format": "a web page"}')
    before = names_in(tmp_path)
    with pytest.raises(KnowledgeBaseError, match="is left alone"):
        build_knowledge_base(dump, target, AGAIN)
    assert names_in(tmp_path) == before


@pytest.mark.parametrize(
    "stage", ["reading the dump", "counting", "articles and link probability", "manifest"]
)
def test_ctrl_c_leaves_the_old_knowledge_base(built, stage):
    """After an interrupt at any stage the old files are there and nothing else is."""
    before, names = files_of(built / "kb"), names_in(built)

    def interrupt(name, done):
        if name == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_knowledge_base(built / "dump.xml", built / "kb", AGAIN, interrupt)
    assert files_of(built / "kb") == before
    assert names_in(built) == names


@pytest.mark.parametrize("stage", ["counting", "manifest"])
def test_kill_9_leaves_the_old_knowledge_base(built, stage):
    """A killed build changes nothing but leaves its work, which the next build removes."""
    before, names = files_of(built / "kb"), names_in(built)
    done = run_faulty(built, built / "dump.xml", kill_at=stage)
    assert done.returncode == -signal.SIGKILL
    assert files_of(built / "kb") == before
    leftovers = {name for name in names_in(built) - names if name.startswith(".kb.")}
    assert len(leftovers) == 1
    bystander = built / ".other.stamo-build-1"
    bystander.mkdir()
    build_knowledge_base(built / "dump.xml", built / "kb", AGAIN)
    assert not leftovers & names_in(built)
    assert bystander.exists()


def test_kill_9_ends_the_workers_too(tmp_path):
    """Workers notice that the main process is gone and end."""
    dump = write_dump(tmp_path / "dump.xml", make_pages(20))
    done = run_faulty(tmp_path, dump, kill_at="counting", workers=2)
    assert done.returncode == -signal.SIGKILL
    pids = json.loads((tmp_path / "pids.json").read_text())
    assert pids
    for _ in range(100):
        if not any(is_alive(pid) for pid in pids):
            break
        time.sleep(0.1)
    assert not [pid for pid in pids if is_alive(pid)]


def is_alive(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.parametrize("n_pages", [3, 300])
def test_full_disk_is_one_sentence(built, n_pages):
    """When nothing more can be written, the error says so and the old files stay."""
    before, names = files_of(built / "kb"), names_in(built)
    dump = write_dump(built / "large.xml", make_pages(n_pages))
    done = run_faulty(built, dump, file_size=10_000)
    assert done.returncode == 1
    assert done.stderr.startswith("The disk is full: ")
    assert done.stderr.count("\n") == 1
    assert files_of(built / "kb") == before
    assert names_in(built) == names | {"large.xml", "faulty.py"}


def test_two_builds_of_one_target_do_not_meet(built):
    """A second build of a target under way is refused and does not disturb the first."""
    errors = []

    def start_another(stage, done):
        if stage == "counting" and not errors:
            with pytest.raises(KnowledgeBaseError, match="Another process is making") as caught:
                build_knowledge_base(built / "dump.xml", built / "kb", AGAIN)
            errors.append(caught)

    build_knowledge_base(built / "dump.xml", built / "kb", AGAIN, start_another)
    assert errors
    kb = KnowledgeBase.open(built / "kb")
    kb.manifest.verify(kb.path)


def test_dump_without_links_is_a_knowledge_base(tmp_path):
    """Articles without any link give entities without documents."""
    dump = write_dump(tmp_path / "dump.xml", [("One", "Nothing here.")])
    build_knowledge_base(dump, tmp_path / "kb", SETTINGS)
    kb = KnowledgeBase.open(tmp_path / "kb")
    assert (kb.n_entities, kb.n_documents, kb.document_frequency.tolist()) == (1, 1, [0])
    assert kb.joint_matrix([0], [0]).tolist() == [[0]]


def test_dump_of_redirects_only_is_a_knowledge_base(tmp_path):
    """Without any article the redirects' targets are entities."""
    dump = write_dump(tmp_path / "dump.xml", [("A", "#REDIRECT [[B]]")])
    build_knowledge_base(dump, tmp_path / "kb", SETTINGS)
    kb = KnowledgeBase.open(tmp_path / "kb")
    assert kb.title(kb.entity_id("A")) == "B"
    assert list(kb.articles()) == []


@pytest.mark.data
def test_real_dump_keeps_its_promises(shared_data, tmp_path):
    """On real wikitext every mention is an alias of its entity and all numbers agree."""
    with lzma.open(shared_data / "enwik8.xml.xz") as file:
        (tmp_path / "part.xml").write_bytes(file.read(3_000_000))
    summary = build_knowledge_base(
        tmp_path / "part.xml", tmp_path / "kb", BuildSettings(dimensions=0)
    )
    kb = KnowledgeBase.open(tmp_path / "kb")
    assert summary.counts["articles"] > 100
    assert summary.skipped["page cut off at the end of the dump"] == 1
    assert kb.entity_counts.sum() == summary.counts["counted links"]
    assert np.all(kb.document_frequency <= kb.n_documents)
    assert np.all((kb.link_probability >= 0) & (kb.link_probability <= 1))
    for batch in kb.articles(held_out=False):
        for row in batch.to_pylist():
            spans = [(m["start"], m["end"]) for m in row["mentions"]]
            aliases = kb.alias_ids([row["text"][start:end] for start, end in spans])
            ids, _ = kb.by_alias.batch(aliases)
            gold = np.array([m["entity"] for m in row["mentions"]], dtype=np.int32)
            assert np.all((ids == gold[:, None]).any(axis=1) | (aliases < 0))
            assert np.count_nonzero(aliases < 0) <= 1  # a link text too long for a name


def test_a_dump_of_a_few_words_builds(tmp_path):
    """Where no word occurs five times every word counts, without siteinfo."""
    text = "[[Cargo]] builds [[Rust]] and nothing else"
    page = f"<page><title>Rust</title><id>1</id><revision><text>{text}</text></revision></page>"
    dump = tmp_path / "small.xml"
    dump.write_text(f"<mediawiki>{page}</mediawiki>")
    settings = BuildSettings(dimensions=8, held_out=0.0, workers=1)
    kb = KnowledgeBase.open(build_knowledge_base(dump, tmp_path / "kb", settings).path)
    assert kb.titles(range(kb.n_entities)) == ["Cargo", "Rust"]
    assert kb.dimensions > 0


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        ("dump.xml", {"held_out": 1.0}, "held-out share is 1.0"),
        ("dump.xml", {"workers": 0}, "number of workers is 0"),
        ("dump.xml", {"dimensions": -1}, "Vectors of -1 dimensions"),
        ("dump.xml", {"language": "??"}, "no language code"),
        ("dump.xml", {"ids": Path("none.sql")}, "no file of ids"),
        ("nowhere.xml", {}, r"nowhere\.xml"),
        ("notes", {}, "no Markdown note"),
        ("notes", {"disambiguation_templates": frozenset({"x"})}, "goes with a dump"),
        ("notes", {"source": "dump"}, "is a folder"),
        ("p.csv", {"held_out": 0.1}, "no article to hold out"),
    ],
)
def test_what_cannot_be_built_is_one_sentence(tmp_path, source, settings, message):
    """Settings out of range, sources that are not there, and what does not go with a source."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "p.csv").write_text("name\nFalcon\n")
    with pytest.raises(StamoError, match=message):
        build_knowledge_base(tmp_path / source, tmp_path / "kb", BuildSettings(**settings))
    assert names_in(tmp_path) == {"notes", "p.csv"}
