"""A build that reads its dump on Spark gives the bytes of the embedded build."""

import bz2
import os
import re
import signal
from itertools import pairwise

import pytest

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.integrations.spark.jobs import SparkWorkers
from stamo_lab.world import WorldSettings, generate_world

pytestmark = pytest.mark.slow

SETTINGS = BuildSettings(dimensions=20, held_out=0.2)
PAGES_PER_STREAM = 25
HARD = """<page><title>Loop A</title><id>900001</id><revision><text>#REDIRECT [[Loop B]]</text>
</revision></page><page><title>Loop B</title><id>900002</id><revision><text>#REDIRECT [[Loop A]]
</text></revision></page><page><title>\U0001f600 smile</title><id>900003</id><revision><text>A
[[Loop A|loop]], a [[\uff21 wide]] and [[\U0001f600 smile|itself]].</text></revision></page>"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """A world as a plain file and as a multistream archive, hard pages behind it."""
    folder = tmp_path_factory.mktemp("dump")
    size = WorldSettings(n_articles=260, n_emerging=1, documents_per_entity=9)
    data = generate_world(size, folder / "world").paths.dump_path.read_bytes()
    text = (bz2.decompress(data) if data.startswith(b"BZh") else data).decode()
    text = text.replace("</mediawiki>", f"{HARD}</mediawiki>")
    starts = [found.start() for found in re.finditer("<page>", text)][::PAGES_PER_STREAM]
    edges = [0, *starts, text.index("</mediawiki>"), len(text)]
    streams = [text[a:b].encode() for a, b in pairwise(edges)]
    (folder / "plain.xml").write_text(text)
    (folder / "multistream.xml.bz2").write_bytes(b"".join(map(bz2.compress, streams)))
    return folder / "plain.xml", folder / "multistream.xml.bz2"


def contents(folder):
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {name: data for name, data in files.items() if name != "manifest.json"}


def test_same_bytes_although_a_task_is_killed(spark, dumps, tmp_path, monkeypatch):
    """Bytes of a plain dump, and ranges of an archive, are read in tasks; a lost one runs again."""
    monkeypatch.setattr("stamo.build.dump._RATIO", 1 << 8)  # several ranges
    marker = tmp_path / "killed"

    def map_chunks(function, items):
        def die_once(item):
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return function(item)

        return SparkWorkers(spark).map(die_once, items)

    plain, archive = dumps
    build_knowledge_base(plain, tmp_path / "embedded", SETTINGS)
    expected = contents(tmp_path / "embedded")
    for path in (plain, archive):
        build_knowledge_base(path, tmp_path / path.stem, SETTINGS, map_chunks=map_chunks)
        assert contents(tmp_path / path.stem) == expected
    assert marker.exists()
