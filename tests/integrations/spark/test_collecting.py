"""Collecting on Spark keeps the documents of the embedded engine, for many entities in one pass."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stamo.corpus.types import EmergingEntity
from stamo.integrations.spark.jobs import spark_reader
from stamo.workspace.collect import collect
from stamo.workspace.folder import Workspace
from tests.workspace.small_world import NOON, make_small_world

pytestmark = pytest.mark.slow

PIECE = 20_000


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_small_world(tmp_path_factory)


@pytest.fixture(scope="module")
def crawl(small, tmp_path_factory):
    """The pile as JSON lines without ids and with a bad one, as Parquet, and as WARC."""
    folder = tmp_path_factory.mktemp("crawl") / "crawl"
    folder.mkdir()
    rows = [json.loads(line) for line in small.world.paths.pile_path.read_text().splitlines()]
    third = len(rows) // 3
    lines = [json.dumps({"text": row["text"]}) for row in rows[:third]]
    (folder / "a.jsonl").write_text("\n".join([*lines[:9], "broken {", *lines[9:]]) + "\n")
    table = pa.Table.from_pylist([{"id": r["id"], "text": r["text"]} for r in rows[third:-third]])
    pq.write_table(table, folder / "b.parquet", row_group_size=20)
    (folder / "c.warc.gz").write_bytes(b"".join(map(archived, rows[-third:])))
    return folder


def archived(row):
    """One page as a member of a web archive."""
    body = f"<html><body><p>{row['text']}</p></body></html>".encode()
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + body
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\n"
        f"WARC-Target-URI: http://example.org/{row['id']}\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(page)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + page + b"\r\n\r\n")


def make_spaces(folder, small):
    first, second = small.world.emerging
    entities = [first, second, EmergingEntity("Twin", (first.aliases[0], second.aliases[0]))]
    return [
        Workspace.create(folder / f"w{i}", entity, created_by="ada", at=NOON)
        for i, entity in enumerate(entities)
    ]


@pytest.fixture(scope="module")
def embedded(small, crawl, tmp_path_factory):
    spaces = make_spaces(tmp_path_factory.mktemp("embedded"), small)
    found = collect(spaces, [str(crawl)], small.kb, small.trained)
    return [list(space.documents) for space in spaces], found


def test_same_documents_and_counts(spark, small, crawl, embedded, tmp_path):
    """Each workspace holds the same documents, in the same order, and tells the same counts."""
    spaces = make_spaces(tmp_path, small)
    read = spark_reader(spark, piece_bytes=PIECE)
    found = collect(spaces, [str(crawl)], small.kb, small.trained, read=read)
    assert [list(space.documents) for space in spaces] == embedded[0]
    assert found == embedded[1]
    assert all(one.n_kept > 20 and one.skipped for one in found)


def test_interrupted_collecting_goes_on(spark, small, crawl, embedded, tmp_path, monkeypatch):
    """A run that was stopped ends with the same documents as one that was not."""
    monkeypatch.setattr("stamo.workspace.collect.CHECKPOINT_BYTES", 1)
    spaces = make_spaces(tmp_path, small)
    monkeypatch.setattr("stamo.workspace.collect.BATCH_SIZE", 8)
    arguments = {"read": spark_reader(spark, piece_bytes=PIECE)}

    def stop(progress):
        if progress.n_kept > 160:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(spaces, [str(crawl)], small.kb, small.trained, on_progress=stop, **arguments)
    assert 0 < len(list(spaces[0].documents)) < len(embedded[0][0])
    collect(spaces, [], small.kb, small.trained, **arguments)
    assert [list(space.documents) for space in spaces] == embedded[0]
