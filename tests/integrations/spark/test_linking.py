"""Linking on Spark gives what `stamo link` gives, as a set, and goes on when interrupted."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from stamo.cli.main import create_app
from stamo.corpus.reading import read_chunks
from stamo.errors import SettingsError, WorkerError
from stamo.integrations.spark.jobs import LinkJob, SparkWorkers, link_on_spark
from stamo.linking.linker import Linker

pytestmark = pytest.mark.slow

PIECE = 40_000


@pytest.fixture(scope="module")
def sources(world, tmp_path_factory):
    """The pile as lines with and without ids and with bad ones, as Parquet, and as a text."""
    folder = tmp_path_factory.mktemp("sources") / "pile"
    (folder / "more").mkdir(parents=True)
    lines = world.paths.pile_path.read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    without = [json.dumps({"text": row["text"]}) for row in rows[:60]]
    mixed = [*lines[:80], "{not json", "", *without, '{"text": 7}', *lines[80:200]]
    (folder / "a.jsonl").write_text("\n".join(mixed))
    table = pa.Table.from_pylist([{"id": r["id"], "text": r["text"]} for r in rows[200:300]])
    pq.write_table(table, folder / "b.parquet", row_group_size=30)
    (folder / "more" / "c.txt").write_text(rows[300]["text"])
    (folder / "more" / "d.pdf").write_bytes(b"%PDF-1.4 nothing to read")
    return folder


@pytest.fixture(scope="module")
def job(world_kb, world_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "deeped.safetensors"
    world_model.save(path)
    return LinkJob(world_kb.path, path)


@pytest.fixture(scope="module")
def expected(sources, world_kb, world_model):
    linker = Linker(world_kb, world_model)
    parts = read_chunks([sources], linker.window)
    return sorted(linked_key(d.to_record(all_candidates=False)) for d in linker.link_parts(parts))


def linked_key(record):
    """A document and its links as one comparable value."""
    mentions = [
        (m["start"], m["end"], m["surface"], m["entity"] or "", m["confidence"])
        for m in record.get("mentions") or ()
    ]
    return record["id"], record.get("part") or 0, record.get("error") or "", mentions


def linked_rows(folder):
    return sorted(map(linked_key, pq.read_table(folder).to_pylist()))


def test_output_equals_that_of_one_machine(spark, sources, job, expected, tmp_path):
    """Every document, link, confidence and fault is the same, however the files are cut."""
    run = link_on_spark(spark, [str(sources)], str(tmp_path / "out"), job, piece_bytes=PIECE)
    assert run.n_tasks > 4
    assert linked_rows(tmp_path / "out") == expected
    assert run.n_failed == sum(bool(row[2]) for row in expected) > 2
    assert run.n_linked + run.n_failed == len(expected)


def test_a_run_that_was_begun_keeps_its_tasks(spark, sources, job, expected, tmp_path):
    """Who goes on with other cores, and so would cut otherwise, takes the tasks that were begun."""
    before = link_on_spark(spark, [str(sources)], str(tmp_path / "out"), job, piece_bytes=PIECE)
    run = link_on_spark(spark, [str(sources)], str(tmp_path / "out"), job)
    assert (run.n_tasks, run.n_before) == (before.n_tasks, before.n_tasks)
    assert linked_rows(tmp_path / "out") == expected


def test_addresses_are_read_and_the_knowledge_base_is_shipped(
    spark, sources, job, expected, tmp_path
):
    """An address of a file system is read as a path is; KB and model reach tasks as archives."""
    out = tmp_path / "out"
    link_on_spark(
        spark, [f"file://{sources}"], f"file://{out}", job, shared=False, piece_bytes=PIECE
    )
    rows = [(id.removeprefix("file://"), *rest) for id, *rest in linked_rows(out)]
    assert sorted(rows, key=lambda row: row[0]) == [
        (id, part, error and f"file://{error}" if "pdf" in error else error, mentions)
        for id, part, error, mentions in expected
    ]


def test_interrupted_run_goes_on(spark, sources, job, expected, tmp_path, monkeypatch):
    """A rerun keeps the parts that are whole, removes half-written ones, and adds the rest."""
    monkeypatch.setattr("stamo.integrations.spark.jobs.TASKS_PER_CORE", 1)
    out = tmp_path / "out"

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        link_on_spark(spark, [str(sources)], str(out), job, piece_bytes=PIECE, on_task=stop)
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    (out / "_7-99-left").write_bytes(b"half a part")
    run = link_on_spark(spark, [str(sources)], str(out), job, piece_bytes=PIECE)
    # Tasks that were running may still have ended.
    assert 0 < len(before) <= run.n_before < run.n_tasks
    after = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert before.items() <= after.items()
    assert len(after) == run.n_tasks + 1  # and the plan
    assert linked_rows(out) == expected


def test_other_output_is_left_alone(spark, sources, job, tmp_path):
    """Other files, and links of other sources, are not mixed with new ones."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    with pytest.raises(SettingsError, match="left alone"):
        link_on_spark(spark, [str(sources)], str(tmp_path / "mine"), job)
    text = [str(sources / "more")]
    link_on_spark(spark, text, str(tmp_path / "out"), job)
    with pytest.raises(SettingsError, match="--overwrite"):
        link_on_spark(spark, [str(sources / "b.parquet")], str(tmp_path / "out"), job)
    link_on_spark(spark, [str(sources / "b.parquet")], str(tmp_path / "out"), job, overwrite=True)
    assert len(linked_rows(tmp_path / "out")) == 100


def test_task_that_always_fails_is_one_sentence(spark):
    """What Python said in the task is told, not the trace of the JVM."""

    def work(number):
        raise ValueError(f"no {number}")

    with pytest.raises(WorkerError, match=r"a task \(ValueError: no 1\); see its log"):
        list(SparkWorkers(spark).map(work, [1]))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--out", "x"], "--out goes with --engine spark"),
        (["--engine", "spark"], "name both, with --out FOLDER"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(options, sentence, job):
    """Options of the other engine are refused before anything is opened."""
    both = ["--kb", str(job.kb), "--model", str(job.model)]
    result = CliRunner().invoke(create_app(), ["link", *both, *options])
    assert result.exit_code == 1
    assert sentence in str(result.exception)
