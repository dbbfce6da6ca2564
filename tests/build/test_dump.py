"""The dump reader: all versions and formats, cut and damaged dumps, multistream archives."""

import bz2
import gzip
import io
import lzma
import os
import pickle
import sys
import tracemalloc
from collections import Counter
from types import SimpleNamespace
from xml.sax.saxutils import escape

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stamo.build import dump as module
from stamo.build.dump import (
    CUT_OFF,
    INVALID_TEXT,
    MALFORMED,
    NOT_CLOSED,
    OTHER_MODEL,
    OTHER_NAMESPACE,
    TOO_LARGE,
    DumpReader,
    PageChunk,
    PageSplitter,
    StreamRange,
    parse_chunk,
)
from stamo.build.site import Site
from stamo.errors import DumpError

SITE = Site.parse(
    b'<mediawiki xml:lang="de"><siteinfo><case>first-letter</case><namespaces>'
    b'<namespace key="0" /><namespace key="10">Vorlage</namespace></namespaces></siteinfo>'
)
COMPRESS = {
    "xml": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}
TITLES = ["Ålesund", "Oslo", "Oslo", "Kristiania", "Talk:Oslo", "A & B"]


# One page


def revision(text: str, before: str = "", after: str = "") -> str:
    return f'<revision><id>7</id>{before}<text xml:space="preserve">{text}</text>{after}</revision>'


def page(title: str = "Oslo", revisions: str = "", head: str = "<id>12</id>") -> bytes:
    return f"<page>\n<title>{title}</title>\n{head}\n{revisions}\n</page>\n".encode()


def parse(data: bytes, namespaces: frozenset[int] = frozenset({0})):
    return parse_chunk(PageChunk(0, data), SITE, namespaces)


def test_pages_of_the_oldest_and_the_newest_export():
    """0.3 has neither <ns> nor <redirect>; 0.11 has namespace, redirect, model and attributes."""
    new = (
        b"<page><title>Kristiania &amp; Co</title><ns>0</ns><id>5</id>"
        b'<redirect title="Oslo &amp; Co" />'
        b"<revision><id>1</id><parentid>0</parentid><timestamp>2024-01-01T00:00:00Z</timestamp>"
        b"<contributor><username>A</username><id>999</id></contributor><comment>x</comment>"
        b"<origin>1</origin><model>wikitext</model><format>text/x-wiki</format>"
        b'<text bytes="21" sha1="abc" xml:space="preserve">#REDIRECT [[Oslo]]</text>'
        b"<sha1>abc</sha1></revision></page>"
    )
    pages, counts = parse(page("Oslo", revision("a &amp; b")) + new)
    assert pages == [
        ("Oslo", 0, 12, None, "a & b"),
        ("Kristiania & Co", 0, 5, "Oslo & Co", "#REDIRECT [[Oslo]]"),
    ]
    assert not counts
    ((found,), _) = parse(page("A", revision("#REDIRECT [[B]]"), "<id>1</id><redirect />"))
    assert found.redirect is None  # exports 0.4 and 0.5 leave the target to the text


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"])))
def test_any_escaped_text_comes_back(text):
    """What a wiki escapes on export is what we read."""
    assert parse(page("A", revision(escape(text))))[0][0].text == text


@pytest.mark.parametrize(
    ("data", "wanted", "titles"),
    [
        (page("Vorlage:X", revision("t")), {0}, []),
        (page("&#86;orlage:X", revision("t")), {0}, []),
        (page("Y", revision("t"), "<ns>14</ns>"), {0}, []),
        (page("Vorlage:Z", revision("t"), "<ns>0</ns>"), {0}, ["Vorlage:Z"]),
        (page("Vorlage:X", revision("t")), {0, 10}, ["Vorlage:X"]),
    ],
)
def test_unwanted_namespaces_are_counted(data, wanted, titles):
    """The declared number counts; without one the wiki's own prefixes do, unescaped."""
    found, counts = parse(data, frozenset(wanted))
    assert [one.title for one in found] == titles
    assert counts == ({} if titles else {OTHER_NAMESPACE: 1})


@pytest.mark.parametrize(
    ("before", "after", "is_kept"),
    [
        ("<model>wikitext</model><format>text/x-wiki</format>", "", True),
        ("<model>json</model>", "", False),
        ("", "<sha1/><model>css</model><format>text/css</format>", False),
        ("<model>wikitext</model>", "<content><model>mediainfo</model><text/></content>", True),
    ],
)
def test_only_wikitext_is_kept(before, after, is_kept):
    """The content model of the main slot decides, wherever the export version puts it."""
    found, counts = parse(page("A", revision("t", before, after)))
    assert [one.text for one in found] == (["t"] if is_kept else [])
    assert counts == ({} if is_kept else {OTHER_MODEL: 1})


@pytest.mark.parametrize(
    ("text", "shown"), [(b"x\xff\xfey", "x\ufffd\ufffdy"), (b"x\x00\x1fy", "x\ufffd\ufffdy")]
)
def test_invalid_characters_are_replaced_and_counted(text, shown):
    """Bad bytes and what XML forbids cost single characters, not the page."""
    found, counts = parse(page("A", revision("?")).replace(b"?", text))
    assert [one.text for one in found] == [shown]
    assert counts == {INVALID_TEXT: 1}


@pytest.mark.parametrize(
    "bad",
    [
        b"<page></page>",
        b"<page><title>A</title><id>" + b"9" * 5000 + b"</id></page>",
        b"<page><title>A</title><revision><text>x</revision></page>",
        b"<page><title>A</title><revision><text>&nbsp;</text></revision></page>",
        b"<page><title>A</title><revision><text>x",
        b"<page><title>A</title>" + b"<a>" * 400_000 + b"</page>",
        b"<page><title>A</title><a " + b"b='' " * 400_000 + b"/></page>",
        b'<page><!DOCTYPE x [<!ENTITY b "ha">]><title>A</title>&b;</page>',
    ],
)
def test_malformed_page_is_counted_and_the_next_one_read(bad):
    """A page that no export would write is skipped alone; entities are never declared."""
    found, counts = parse(bad + page("B", revision("fine")))
    assert [one.text for one in found] == ["fine"]
    assert counts == {MALFORMED: 1}


@given(st.binary(max_size=300), st.integers(0, 400))
def test_noise_inside_a_page_never_raises(noise, place):
    """Whatever bytes a page holds, its neighbours come out."""
    data = bytearray(page("A", revision("text " * 20)))
    place = 6 + min(place, len(data) - 14)
    data[place : place + len(noise)] = noise.replace(b"<", b"&")
    found, _ = parse(page("Before", revision("1")) + bytes(data) + page("After", revision("2")))
    assert found[0].title == "Before"
    assert found[-1].title == "After"


def test_a_full_history_is_refused():
    """Which of several revisions is meant is not guessed; talk pages are not looked at."""
    history = revision("old") + revision("new")
    with pytest.raises(DumpError, match="full-history dumps are not read"):
        parse(page("A", history))
    assert parse(page("Vorlage:A", history))[1] == {OTHER_NAMESPACE: 1}


# Splitting

STREAM = (
    b"".join(page(f"P{number}", revision("y" * (97 * number % 700))) for number in range(40))
    + page("Q" * 700, revision("q"))
    + page("Huge", revision("x" * 30_000))
    + b"<page><title>Unfinished</title>"
    + b"u" * 500
    + page("Next", revision("n" * 9850))
    + b"junk" * 5000
    + page("Last", revision("z" * 500)).replace(b"</page>", b"</page \n>")
    + b"<page><title>cut"
)


def split(blocks, chunk_bytes=1000, expects_end=False, max_page=module.MAX_PAGE_BYTES):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MAX_PAGE_BYTES", max_page)
        splitter = PageSplitter(blocks, chunk_bytes)
        return list(splitter.chunks(expects_end=expects_end)), splitter.skipped


@given(st.lists(st.integers(1, 60)), st.integers(1, 3000), st.integers(1, 12_000))
def test_pages_do_not_depend_on_how_the_bytes_arrive(cuts, chunk_bytes, n_first):
    """Any chunk size and any read sizes give the same pages, and leave out the same."""
    blocks, start = [STREAM[:n_first]], n_first
    for size in cuts:
        blocks.append(STREAM[start : start + size])
        start += size
    chunks, skipped = split([*blocks, STREAM[start:]], chunk_bytes, max_page=10_000)
    titles = [one.title for chunk in chunks for one in parse(chunk)[0]]
    assert titles == [*(f"P{number}" for number in range(40)), "Q" * 700, "Next", "Last"]
    assert skipped == {TOO_LARGE: 1, MALFORMED: 1, CUT_OFF: 1}


# Whole dumps


def header(version: str) -> str:
    return (
        f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-{version}/" version="{version}" '
        'xml:lang="nb">\n<siteinfo><sitename>Wiki</sitename><case>first-letter</case><namespaces>'
        '<namespace key="0" /><namespace key="1">Diskusjon</namespace></namespaces></siteinfo>\n'
    )


def entry(title: str, number: int, version: str = "0.11") -> str:
    title = title.replace("&", "&amp;")
    modern = version in {"0.10", "0.11"}
    ns = f"<ns>{int(title.startswith('Talk:'))}</ns>" if modern else ""
    redirect = '<redirect title="Oslo" />' if modern and title == "Kristiania" else ""
    text = f"Text {number} of &lt;b&gt; [[{title}]] ✓"
    if title == "Kristiania":
        text = "#REDIRECT [[Oslo]]"
    return page(title, revision(text), f"{ns}<id>{number}</id>{redirect}").decode()


def dump(version: str = "0.11", titles: list[str] = TITLES) -> bytes:
    entries = "".join(entry(title, number, version) for number, title in enumerate(titles, 1))
    return f"{header(version)}{entries}</mediawiki>\n".encode()


def read(path, **settings):
    """Read everything; give the pages and all counts together."""
    pages, counts = [], Counter()
    with DumpReader(path, **settings) as reader:
        for chunk in reader.chunks():
            # Chunks travel to worker processes.
            found, skipped = parse_chunk(pickle.loads(pickle.dumps(chunk)), reader.site)
            pages += found
            counts += skipped
    return pages, counts + reader.skipped


def write(path, data: bytes):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("version", ["0.3", "0.11"])
def test_every_version_in_every_format(tmp_path, version, suffix):
    """Titles, numbers and texts come out alike, whatever the file is called."""
    path = write(tmp_path / "dump.dat", COMPRESS[suffix](dump(version)))
    pages, counts = read(path)
    assert [one.title for one in pages] == ["Ålesund", "Oslo", "Oslo", "Kristiania", "A & B"]
    assert [one.page_id for one in pages] == [1, 2, 3, 4, 6]
    assert pages[0].text == "Text 1 of <b> [[Ålesund]] ✓"
    assert pages[3].redirect == ("Oslo" if version == "0.11" else None)
    assert counts == {OTHER_NAMESPACE: 1}
    with DumpReader(path) as reader:
        assert reader.site.language == "nb"
        assert reader.site.namespace_of("Diskusjon:Oslo")[0] == 1


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\n  "])
def test_a_dump_of_pages_alone_reads(tmp_path, before):
    """Neither siteinfo nor a root: what is missing keeps its default."""
    entries = "".join(entry(title, i) for i, title in enumerate(TITLES)).encode()
    pages, counts = read(write(tmp_path / "bare.xml", before + entries))
    assert [p.title for p in pages] == [t for t in TITLES if not t.startswith("Talk:")]
    assert counts == {OTHER_NAMESPACE: 1}


def test_standard_input_is_read_as_a_dash(monkeypatch):
    """A pipe works like a file, with unknown progress."""
    data = gzip.compress(dump(), mtime=0)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    reader = DumpReader("-")
    (chunk,) = reader.chunks()
    assert len(parse_chunk(chunk, reader.site)[0]) == 5
    assert reader.progress() is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"Lorem ipsum", "begins with the bytes"),
        (b"7z\xbc\xaf\x27\x1c\x00\x04", "7z archive"),
        (b"PK\x03\x04....", "zip archive"),
        (dump().decode().encode("utf-16"), "expected a MediaWiki XML dump in UTF-8"),
        (gzip.compress(dump().decode().encode("utf-16")), "expected a MediaWiki XML dump in UTF-8"),
        (b"<html><body>404</body></html>", "has no <page>"),
        (gzip.compress(b"", mtime=0), "has no <page>"),
        (header("0.11").encode() + b"</mediawiki>", "has no <page>"),
        (bz2.compress(dump())[:30], "archive ends early after 30 bytes"),
        (b'<?xml version="1.0" encoding="ISO-8859-1"?>' + dump(), "encoding ISO-8859-1"),
    ],
)
def test_what_is_no_dump_is_refused_in_one_sentence(tmp_path, content, says):
    """The message names the file and what is wrong with it."""
    path = write(tmp_path / "dump", content)
    with pytest.raises(DumpError, match=says) as caught:
        DumpReader(path)
    assert str(path) in str(caught.value)


def test_missing_file_and_directory_are_refused(tmp_path):
    """Neither is opened, and both are named."""
    with pytest.raises(DumpError, match="There is no file"):
        DumpReader(tmp_path / "nothing.xml")
    with pytest.raises(DumpError, match="is a directory"):
        DumpReader(tmp_path)


def test_plain_dump_cut_at_every_byte_keeps_all_complete_pages(tmp_path):
    """Wherever the file ends, the pages before that place come out and the rest is counted."""
    data = dump(titles=["One", "Two & a half"])
    path = write(tmp_path / "dump.xml", data)
    whole, _ = read(path)
    first_page = data.index(b"<page>") + len(b"<page>")
    for cut in reversed(range(len(data))):
        os.truncate(path, cut)
        if cut < first_page:
            with pytest.raises(DumpError):
                read(path)
            continue
        pages, counts = read(path)
        n_complete = data[:cut].count(b"</page>")
        assert pages == whole[:n_complete]
        is_open = data[:cut].count(b"<page>") > n_complete
        is_closed = b"</mediawiki" in data[:cut]
        assert counts == ({CUT_OFF: 1} if is_open else {} if is_closed else {NOT_CLOSED: 1})


def test_page_of_20_megabytes_is_skipped_within_the_stated_memory(tmp_path):
    """A page above the limit is counted, wherever its tags are cut; memory stays bounded."""
    huge = entry("Huge", 1).replace("Text", "x" * 20_000_000)
    texts = [header("0.11"), entry("One", 1), huge, entry("Two", 2), "</mediawiki>"]
    path = write(tmp_path / "dump.xml.gz", gzip.compress("".join(texts).encode(), 1))
    tracemalloc.start()
    try:
        pages, counts = read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [one.title for one in pages] == ["One", "Two"]
    assert counts == {TOO_LARGE: 1}
    assert peak < 24 << 20


# Multistream archives


@pytest.fixture
def multistream(tmp_path):
    """An archive of one stream per two pages."""
    titles = [f"Title {number}" for number in range(20)]
    titles[5], titles[7] = "Talk:Oslo", "Kristiania"
    texts = [header("0.11")]
    texts += [entry(titles[n], n) + entry(titles[n + 1], n + 1) for n in range(0, 20, 2)]
    data = b"".join(bz2.compress(text.encode()) for text in [*texts, "</mediawiki>"])
    return write(tmp_path / "wiki.xml.bz2", data)


def ranges_of(path):
    """The byte ranges that workers get, if any."""
    with DumpReader(path, chunk_bytes=100) as reader:
        chunks = list(reader.chunks())
    return [(c.data.start, c.data.end) for c in chunks if isinstance(c.data, StreamRange)]


def test_ranges_of_a_multistream_archive_equal_sequential_reading(multistream, monkeypatch):
    """Streams are found by their first bytes, wherever a read ends, and cover the archive."""
    plain = write(multistream.with_name("plain.xml"), bz2.decompress(multistream.read_bytes()))
    sequential = read(plain, chunk_bytes=100)
    assert len(sequential[0]) == 19
    assert sequential[1] == {OTHER_NAMESPACE: 1}
    for scan_bytes in (1 << 20, 256, 11):
        monkeypatch.setattr(module, "_SCAN_BYTES", scan_bytes)
        found = ranges_of(multistream)
        assert len(found) == 12
        assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]
        assert (found[0][0], found[-1][1]) == (0, multistream.stat().st_size)
        assert read(multistream, chunk_bytes=100) == sequential


@pytest.mark.parametrize("streams", ["one", "anywhere", "pages at once", "long"])
def test_other_archives_are_read_in_one_piece(tmp_path, monkeypatch, streams):
    """One stream, streams cut in the middle of pages, and streams too long for a worker."""
    monkeypatch.setattr(module, "MAX_RANGE_BYTES", 400)
    head = header("0.11").encode()
    body = "".join(entry(f"Title {n}", n) for n in range(40)).encode() + b"</mediawiki>"
    whole = head + body
    edges = {
        "one": [],
        "anywhere": range(999, len(whole), 999),
        "pages at once": [len(head) + 500],
        "long": [len(head)],
    }[streams]
    ends = zip([0, *edges], [*edges, len(whole)], strict=True)
    archive = b"".join(bz2.compress(whole[a:b]) for a, b in ends)
    path = write(tmp_path / "wiki.xml.bz2", archive)
    assert ranges_of(path) == []
    assert read(path, chunk_bytes=100) == read(write(tmp_path / "plain.xml", whole))


def test_damage_costs_only_its_range(multistream, monkeypatch):
    """A cut archive, a damaged stream and a range that swells: the other pages are read."""
    data = bytearray(multistream.read_bytes())
    whole, _ = read(multistream, chunk_bytes=100)
    multistream.write_bytes(data[: len(data) * 2 // 3])
    pages, counts = read(multistream, chunk_bytes=100)
    assert pages == whole[: len(pages)]
    assert len(pages) >= 11
    assert sum("archive ends early" in reason for reason in counts) == 1
    middle = data.index(b"BZh9", len(data) // 2) + 60
    multistream.write_bytes(data[:middle] + bytes(20) + data[middle + 20 :])
    pages, counts = read(multistream, chunk_bytes=100)
    assert (len(pages), pages[-1].title) == (17, "Title 19")
    assert sum("archive is damaged" in reason for reason in counts) == 1
    monkeypatch.setattr(module, "MAX_RANGE_TEXT", 1000)
    multistream.write_bytes(data)
    pages, counts = read(multistream)
    assert 0 < len(pages) < 19
    assert sum("multistream range" in reason for reason in counts) == 1


@pytest.mark.data
def test_enwik8_yields_its_pages_and_one_cut_page(shared_data):
    """All complete articles of the real dump come out; its last page is cut in the middle."""
    pages, counts = read(shared_data / "enwik8.xml.xz")
    assert len(pages) == 12_238
    assert counts == {OTHER_NAMESPACE: 108, CUT_OFF: 1}
