"""A build on Spark gives the bytes of the embedded build, also when a task is killed."""

import bz2
import os
import re
import signal
from functools import partial

import pyarrow.parquet as pq
import pytest

from stamo.build.build import build_knowledge_base
from stamo.build.dump import DumpReader
from stamo.build.settings import BuildSettings
from stamo.build.staging import ExtractSettings
from stamo.integrations.spark.jobs import spark_engine, stage_chunk
from stamo.integrations.spark.session import SparkWorkers
from stamo_lab.world import WorldSettings, generate_world

pytestmark = pytest.mark.slow

PAGES_PER_STREAM = 25
HARD = """<page><title>Loop A</title><id>900001</id><revision><text>#REDIRECT [[Loop B]]</text>
</revision></page><page><title>Loop B</title><id>900002</id><revision><text>#REDIRECT [[Loop A]]
</text></revision></page><page><title>\U0001f600 smile</title><id>900003</id><revision><text>A
[[Loop A|loop]], a [[\uff21 wide]] and [[\U0001f600 smile|itself]].</text></revision></page>"""


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """A world as a multistream archive with its index, hard pages behind it."""
    folder = tmp_path_factory.mktemp("dump")
    made = generate_world(
        WorldSettings(n_articles=260, n_emerging=1, documents_per_entity=9), folder / "world"
    )
    path = made.paths.dump_path
    data = path.read_bytes()
    text = (bz2.decompress(data) if data.startswith(b"BZh") else data).decode()
    text = text.replace("</mediawiki>", f"{HARD}</mediawiki>")
    starts = [found.start() for found in re.finditer("<page>", text)][::PAGES_PER_STREAM]
    ends = [*starts[1:], text.index("</mediawiki>")]
    streams = [bz2.compress(text[: starts[0]].encode())]
    lines, offset = [], len(streams[0])
    for start, end in zip(starts, ends, strict=True):
        streams.append(bz2.compress(text[start:end].encode()))
        lines += [f"{offset}:{n}:page" for n in range(PAGES_PER_STREAM)]
        offset += len(streams[-1])
    streams.append(bz2.compress(b"</mediawiki>"))
    (folder / "world-multistream.xml.bz2").write_bytes(b"".join(streams))
    (folder / "world-multistream-index.txt").write_text("\n".join(lines) + "\n")
    return folder / "world-multistream.xml.bz2"


SETTINGS = {"dimensions": 20, "held_out": 0.2, "chunk_bytes": 1 << 17}


@pytest.fixture(scope="module")
def embedded(dump, tmp_path_factory):
    path = tmp_path_factory.mktemp("embedded") / "kb"
    build_knowledge_base(dump, path, BuildSettings(**SETTINGS))
    return contents(path)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class _Deadly(SparkWorkers):
    """Lets the first task of every kind of work be killed once."""

    def __init__(self, spark, folder):
        super().__init__(spark)
        self.folder, self.names = folder, []

    def map(self, function, items):
        name = function.func.__name__
        self.names.append(name)
        marker = self.folder / name

        def die_once(item):
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return function(item)

        return super().map(die_once, items)


def test_same_bytes_although_tasks_are_killed(spark, dump, embedded, tmp_path):
    """Every file equals that of the embedded build, and Spark ran each lost task again."""
    workers = _Deadly(spark, tmp_path)
    staged = tmp_path / "staged"
    settings = BuildSettings(**SETTINGS, keep_staged=staged)
    build_knowledge_base(dump, tmp_path / "kb", settings, engine=spark_engine(spark, workers))
    built = contents(tmp_path / "kb")
    assert built.keys() == embedded.keys()
    assert [name for name in built if built[name] != embedded[name]] == []
    assert workers.names == [
        "stage_chunk",
        "count_group",
        "encode_group",
        "sum_groups",
        "write_block",
    ]
    assert all((tmp_path / name).exists() for name in workers.names)
    assert len(list((staged / "link.parquet").iterdir())) > 1
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".kb")]
    assert "stamo_" not in str(spark.catalog.listDatabases())


def test_dump_without_an_index_is_read_too(spark, dump, tmp_path):
    """Chunks of one stream are handed to the tasks by the driver; they stage the same rows."""
    plain = tmp_path / "plain.xml.bz2"
    plain.write_bytes(dump.read_bytes())
    staged = [staged_rows(spark, path, tmp_path / path.name[:5]) for path in (dump, plain)]
    assert staged[0] == staged[1]
    assert len(staged[0]) > 250


def staged_rows(spark, path, work):
    (work / "page.parquet").mkdir(parents=True)
    (work / "text.parquet").mkdir()
    (work / "link.parquet").mkdir()
    with DumpReader(path, chunk_bytes=1 << 17) as reader:
        stage = partial(
            stage_chunk, settings=ExtractSettings(reader.site, 0.1, frozenset()), work=work
        )
        list(SparkWorkers(spark).map(stage, reader.chunks()))
    table = pq.read_table(work / "page.parquet").sort_by("position")
    return table.drop_columns("position").to_pylist()
