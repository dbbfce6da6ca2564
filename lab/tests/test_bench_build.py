"""Measuring a build: the copies of the dump, and what is said of a missing program."""

import bz2
from xml.etree import ElementTree

import pytest

from stamo.build.dump import DumpReader, parse_chunk
from stamo.errors import SettingsError, SuiteError
from stamo_lab.bench import build as bench
from stamo_lab.bench.build import BuildBenchArgs, write_copies

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


def read_pages(path):
    with DumpReader(path) as reader:
        site = reader.site
        pages = [page for chunk in reader.chunks() for page in parse_chunk(chunk, site)[0]]
        assert not reader.skipped
    return site, pages


def test_copy_is_well_formed_and_has_the_elements_of_new_dumps(old_dump, tmp_path):
    """A cut 0.3 dump becomes XML that any parser reads, with namespaces and redirects."""
    (copy,) = write_copies(old_dump, tmp_path, [5])
    root = ElementTree.fromstring(bz2.decompress(copy.path.read_bytes()))
    pages = root.findall("page")
    assert copy.n_pages == len(pages) == 3
    assert [page.findtext("ns") for page in pages] == ["0", "1", "0"]
    redirects = [page.find("redirect") for page in pages]
    assert redirects[:2] == [None, None]
    assert redirects[2].get("title") == "A & B"
    assert pages[0].findtext("revision/text") == 'One <b> "two" [[C]].'


def test_first_line_of_the_copy_ends_with_the_language(old_dump, tmp_path):
    """wikipedia2vec takes the language from the first line, up to its last quote."""
    (copy,) = write_copies(old_dump, tmp_path, [5])
    first = bz2.decompress(copy.path.read_bytes()).decode().splitlines()[0]
    assert first.endswith('xml:lang="de">')
    assert first.count('"', first.index("xml:lang")) == 2


def test_copy_says_the_same_of_its_wiki(old_dump, tmp_path):
    """Our own reader finds the same site and the same articles in the copy."""
    with DumpReader(old_dump) as reader:
        site = reader.site
    (copy,) = write_copies(old_dump, tmp_path, [5])
    copied_site, pages = read_pages(copy.path)
    assert copied_site == site
    assert [page.title for page in pages] == ["A & B", 'C "x"']


def test_prefixes_grow_and_sizes_beyond_the_dump_give_it_once(tmp_path, monkeypatch):
    """Each prefix holds the one before it; two sizes beyond the end give one copy."""
    page = "<page><title>P{0}</title><id>{0}</id><revision><text>{1}</text></revision></page>\n"
    body = "".join(page.format(i, "word " * 2000) for i in range(300))
    dump = tmp_path / "dump.xml"
    dump.write_text(f'<mediawiki xml:lang="en">\n{body}</mediawiki>\n')
    monkeypatch.setattr(bench, "COPY_CHUNK_BYTES", 1 << 16)
    copies = write_copies(dump, tmp_path, [1, 2, 50, 90])
    titles = [[page.title for page in read_pages(copy.path)[1]] for copy in copies]
    assert len(copies) == 3
    assert titles[1][: len(titles[0])] == titles[0]
    assert titles[2][: len(titles[1])] == titles[1]
    assert len(titles[0]) < len(titles[1]) < len(titles[2]) == 300
    assert 1_000_000 <= copies[0].n_bytes < 1_100_000


def test_missing_wikipedia2vec_is_one_clear_sentence(old_dump, tmp_path):
    """Nothing is measured before the other program is known to be there."""
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    with pytest.raises(SuiteError, match=r"needs wikipedia2vec 2\.0 .* has none; install it with"):
        bench.bench_build(old_dump, BuildBenchArgs(their_python=str(bare)))


def test_interpreter_that_cannot_be_run_is_told(old_dump, tmp_path):
    """A wrong path of the other interpreter is named."""
    with pytest.raises(SuiteError, match="cannot be run"):
        bench.bench_build(old_dump, BuildBenchArgs(their_python=str(tmp_path / "nothing")))


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"sizes": ()}, {"sizes": (0, 5)}])
def test_arguments_are_checked(wrong):
    """A measurement of nothing is refused."""
    with pytest.raises(SettingsError):
        BuildBenchArgs(**wrong)


def test_our_build_is_measured_and_leaves_nothing_behind(old_dump, tmp_path):
    """Without the other program the result holds our counts, time and stages."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    args = BuildBenchArgs(workers=1, sizes=(1,), ours_only=True, scratch=scratch)
    said = []
    result = bench.bench_build(old_dump, args, said.append)
    assert result.theirs is None
    assert result.speedup is None
    assert result.ours[0].counts["articles"] == 1
    assert result.ours[0].disk > 0
    assert 0 < result.ours[0].seconds_by_step["reading the dump"] < result.ours[0].usage.seconds
    assert result.ours[0].usage.cpu_seconds > 0
    assert any("stamo" in what for what in said)
    assert not list(scratch.iterdir())


def test_wikipedia2vec_keeps_all_unless_its_thresholds_are_wanted():
    """Without thresholds it is told to drop nothing; with them it gets no option about it."""
    results = ["db", "words", "links", "mentions"]
    kept = bench.their_steps("dump", results, thresholds=False)
    assert kept["dictionary"] == ["build-dictionary", "--min-entity-count", "0", "db", "words"]
    assert "--min-link-prob" in kept["mention db"]
    default = bench.their_steps("dump", results, thresholds=True)
    assert list(default) == list(kept)
    assert not [word for step in default.values() for word in step if word.startswith("--")]
