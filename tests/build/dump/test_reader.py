"""The dump reader: all versions and formats, cut and damaged dumps, multistream archives."""

import bz2
import gzip
import io
import lzma
import os
import pickle
import sys
import threading
import tracemalloc
from collections import Counter
from types import SimpleNamespace

import pytest
import zstandard

from stamo.build.dump import (
    CUT_OFF,
    INVALID_TEXT,
    MALFORMED,
    NOT_CLOSED,
    OTHER_NAMESPACE,
    DumpReader,
    StreamRange,
    find_index,
    parse_chunk,
    too_large,
)
from stamo.errors import DumpError, SettingsError

COMPRESS = {
    ".xml": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}
TITLES = ["Ålesund", "Oslo", "Oslo", "Kristiania", "Talk:Oslo", "A & B"]


def header(version: str) -> str:
    return (
        f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-{version}/" version="{version}" '
        'xml:lang="nb">\n<siteinfo><sitename>Wiki</sitename><case>first-letter</case><namespaces>'
        '<namespace key="0" /><namespace key="1">Diskusjon</namespace></namespaces></siteinfo>\n'
    )


def page(title: str, number: int, version: str = "0.11") -> str:
    title = title.replace("&", "&amp;")
    modern = version in {"0.10", "0.11"}
    ns = f"<ns>{int(title.startswith('Talk:'))}</ns>" if modern else ""
    redirect = '<redirect title="Oslo" />' if modern and title == "Kristiania" else ""
    model = "<model>wikitext</model><format>text/x-wiki</format>" if modern else ""
    text = (
        "#REDIRECT [[Oslo]]"
        if title == "Kristiania"
        else f"Text {number} of &lt;b&gt; [[{title}]] ✓"
    )
    return (
        f"  <page>\n    <title>{title}</title>\n    {ns}<id>{number}</id>{redirect}\n"
        f"    <revision><id>{number}9</id><contributor><id>3</id></contributor>{model}\n"
        f'      <text xml:space="preserve">{text}</text>\n    </revision>\n  </page>\n'
    )


def dump(version: str = "0.11", titles: list[str] = TITLES) -> bytes:
    pages = "".join(page(title, number, version) for number, title in enumerate(titles, 1))
    return f"{header(version)}{pages}</mediawiki>\n".encode()


def read(path, **settings):
    """Read everything; give the pages and all counts together."""
    reader = DumpReader(path, **settings)
    pages, counts = [], Counter()
    for chunk in reader.chunks():
        # Chunks travel to worker processes.
        found, skipped = parse_chunk(pickle.loads(pickle.dumps(chunk)), reader.site)
        pages += found
        counts += skipped
    return pages, counts + reader.skipped


def write(path, data: bytes):
    path.write_bytes(data)
    return path


# What is read


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("version", ["0.3", "0.5", "0.10", "0.11"])
def test_every_version_in_every_format(tmp_path, version, suffix):
    """Titles, numbers and texts come out alike, two pages with one title included."""
    pages, counts = read(write(tmp_path / f"dump{suffix}", COMPRESS[suffix](dump(version))))
    assert [one.title for one in pages] == ["Ålesund", "Oslo", "Oslo", "Kristiania", "A & B"]
    assert [one.page_id for one in pages] == [1, 2, 3, 4, 6]
    assert pages[0].text == "Text 1 of <b> [[Ålesund]] ✓"
    assert pages[3].redirect == ("Oslo" if version in {"0.10", "0.11"} else None)
    assert counts == {OTHER_NAMESPACE: 1}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_the_name_of_the_file_does_not_matter(tmp_path, suffix):
    """The format is told from the bytes."""
    pages, _ = read(write(tmp_path / "dump.dat", COMPRESS[suffix](dump())))
    assert len(pages) == 5


def test_site_comes_from_the_header(tmp_path):
    """Language and namespaces are the wiki's own."""
    with DumpReader(write(tmp_path / "dump.xml", dump("0.3"))) as reader:
        assert reader.site.language == "nb"
        assert reader.site.namespace_of("Diskusjon:Oslo")[0] == 1


def test_dump_without_a_header_is_read(tmp_path):
    """A file that starts with its first page still gives its pages."""
    pages, counts = read(write(tmp_path / "part.xml", page("Oslo", 1).encode()))
    assert [one.title for one in pages] == ["Oslo"]
    assert not counts


def test_standard_input_is_read_as_a_dash(monkeypatch):
    """A pipe works like a file, with unknown progress."""
    monkeypatch.setattr(
        sys, "stdin", SimpleNamespace(buffer=io.BytesIO(gzip.compress(dump(), mtime=0)))
    )
    reader = DumpReader("-")
    chunks = list(reader.chunks())
    assert len(parse_chunk(chunks[0], reader.site)[0]) == 5
    assert reader.progress() is None


def test_chunks_are_numbered_and_progress_reaches_one(tmp_path):
    """Chunks come in the dump's order, and progress grows from nothing to everything."""
    data = dump(titles=[f"T{number}" for number in range(3000)])
    reader = DumpReader(write(tmp_path / "dump.xml", data), chunk_bytes=10_000)
    assert reader.progress() is None
    seen = [(chunk.index, reader.progress()) for chunk in reader.chunks()]
    assert [index for index, _ in seen] == list(range(len(seen)))
    shares = [share for _, share in seen]
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.9
    assert shares[-1] == reader.progress() == 1.0


def test_a_reader_is_read_once(tmp_path):
    """A second pass asks for a new reader instead of giving nothing."""
    reader = DumpReader(write(tmp_path / "dump.xml", dump()))
    assert list(reader.chunks())
    with pytest.raises(DumpError, match="make a new DumpReader"):
        list(reader.chunks())


# What is refused


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"Lorem ipsum", "begins with the bytes"),
        (b"<html><body>404</body></html>", "has no <page>"),
        (gzip.compress(b"CREATE TABLE page", mtime=0), "has no <page>"),
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
        list(DumpReader(path).chunks())
    assert str(path) in str(caught.value)


def test_missing_file_and_directory_are_refused(tmp_path):
    """Neither is opened, and both are named."""
    with pytest.raises(DumpError, match="There is no file"):
        _ = DumpReader(tmp_path / "nothing.xml").site
    with pytest.raises(DumpError, match="is a directory"):
        _ = DumpReader(tmp_path).site


def test_limits_must_be_positive(tmp_path):
    """A chunk or page of no bytes is refused at once."""
    with pytest.raises(SettingsError, match="positive"):
        DumpReader(tmp_path, chunk_bytes=0)


# Faults


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


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_cut_archive_keeps_what_it_holds(tmp_path, suffix):
    """Pages come out up to the cut, and the place of the cut is counted."""
    # Each page is a member of its own, so what is complete before a cut is known exactly.
    titles = ["One", "Two", "Three"]
    parts = [header("0.11"), *(page(title, 1) for title in titles), "</mediawiki>"]
    members = [COMPRESS[suffix](part.encode()) for part in parts]
    data = b"".join(members)
    ends = [sum(map(len, members[: n + 1])) for n in range(len(members))]
    for cut in range(6, len(data), 11):
        path = write(tmp_path / "dump", data[:cut])
        try:
            pages, counts = read(path)
        except DumpError:
            assert cut < ends[1]
            continue
        n_complete = sum(end <= cut for end in ends[1:4])
        assert [one.title for one in pages][:n_complete] == titles[:n_complete]
        assert cut in ends or counts[f"archive ends early after {cut:,} bytes"] == 1


def test_bad_pages_do_not_end_the_reading(tmp_path):
    """Invalid bytes, unknown entities and broken markup are counted; the neighbours come out."""
    broken = page("Broken", 1).replace("</text>", "")
    bomb = page("Bomb", 2).replace("Text", "&lol9;")
    invalid = page("Invalid", 3).encode().replace(b"Text", b"Te\xffxt")
    doctype = b'<!DOCTYPE m [<!ENTITY lol9 "lol">]>\n'
    data = doctype + header("0.11").encode() + broken.encode() + bomb.encode() + invalid
    data += page("Oslo", 4).encode() + b"</mediawiki>"
    pages, counts = read(write(tmp_path / "dump.xml", data))
    assert [one.title for one in pages] == ["Invalid", "Oslo"]
    assert pages[0].text.startswith("Te\ufffdxt 3")
    assert counts == {MALFORMED: 2, INVALID_TEXT: 1}


def test_page_of_20_megabytes_is_skipped_within_the_stated_memory(tmp_path):
    """A page above the limit is counted; memory stays below 2 chunks and 4 pages."""
    huge = page("Huge", 1).replace("Text", "x" * 20_000_000)
    parts = [header("0.11"), page("One", 1), huge, page("Two", 2), "</mediawiki>"]
    path = write(tmp_path / "dump.xml.gz", gzip.compress("".join(parts).encode(), 1))
    tracemalloc.start()
    try:
        pages, counts = read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [one.title for one in pages] == ["One", "Two"]
    assert counts == {too_large(8 << 20): 1}
    assert peak < 40 << 20


# Multistream archives


@pytest.fixture
def multistream(tmp_path):
    """An archive of one stream per two pages, with its index under the usual name."""
    titles = [f"Title {number}" for number in range(20)]
    titles[5], titles[7] = "Talk:Oslo", "Kristiania"
    streams, lines = [header("0.11").encode()], []
    archive = bz2.compress(streams[0])
    for first in range(0, len(titles), 2):
        lines += [f"{len(archive)}:{n}:{titles[n]}" for n in (first, first + 1)]
        archive += bz2.compress("".join(page(titles[n], n) for n in (first, first + 1)).encode())
    archive += bz2.compress(b"</mediawiki>")
    index = write(tmp_path / "w-multistream-index.txt", ("\n".join(lines) + "\n").encode())
    return write(tmp_path / "w-multistream.xml.bz2", archive), index


def ranges_of(path):
    """The byte ranges that workers get, if any."""
    chunks = DumpReader(path, chunk_bytes=100).chunks()
    return [(c.data.start, c.data.end) for c in chunks if isinstance(c.data, StreamRange)]


def test_multistream_with_index_equals_sequential_reading(multistream):
    """Ranges that workers decompress themselves give the same pages and counts."""
    path, index = multistream
    plain = write(path.with_name("plain.xml"), bz2.decompress(path.read_bytes()))
    sequential = read(plain, chunk_bytes=100)
    assert sequential == read(path, chunk_bytes=100)
    assert sequential == read(path, index_path=index)
    assert len(sequential[0]) == 19
    assert sequential[1] == {OTHER_NAMESPACE: 1}


def test_streams_are_found_without_an_index(multistream, monkeypatch):
    """Streams are found by their first bytes, wherever a read ends, the closing one too."""
    path, index = multistream
    with_index = ranges_of(path)
    index.unlink()
    for scan_bytes in (1 << 20, 256, 11):
        monkeypatch.setattr("stamo.build.dump._SCAN_BYTES", scan_bytes)
        found = ranges_of(path)
        assert found[:-2] == with_index[:-1]
        assert (found[-2][0], found[-2][1], found[-1][1]) == (
            with_index[-1][0],
            found[-1][0],
            with_index[-1][1],
        )
    assert len(with_index) == 11


@pytest.mark.parametrize("parts", ["one", "anywhere", "pages at once", "long"])
def test_other_archives_are_read_in_one_piece(tmp_path, monkeypatch, parts):
    """One stream, streams cut in the middle of pages, and streams too long for a worker."""
    monkeypatch.setattr("stamo.build.dump.MAX_FOUND_BYTES", 400)
    head = header("0.11").encode()
    body = "".join(page(f"Title {n}", n) for n in range(40)).encode() + b"</mediawiki>"
    whole = head + body
    archives = {
        "one": bz2.compress(whole),
        "anywhere": b"".join(
            bz2.compress(whole[at : at + 999]) for at in range(0, len(whole), 999)
        ),
        "pages at once": bz2.compress(whole[: len(head) + 500])
        + bz2.compress(whole[len(head) + 500 :]),
        "long": bz2.compress(head) + bz2.compress(body),
    }
    path = write(tmp_path / "w-multistream.xml.bz2", archives[parts])
    assert ranges_of(path) == []
    assert read(path, chunk_bytes=100) == read(write(tmp_path / "plain.xml", whole))


def test_a_pipe_is_read_once(multistream, tmp_path):
    """What cannot be read twice is not looked through for streams."""
    path, index = multistream
    index.unlink()
    pipe = tmp_path / "pipe-multistream.xml.bz2"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(path.read_bytes()))
    writer.start()
    assert read(pipe) == read(path)
    writer.join()


def test_index_makes_ranges_that_cover_the_archive(multistream):
    """Chunks are adjoining byte ranges from the first byte to the last, and drive the progress."""
    path, _ = multistream
    reader = DumpReader(path, chunk_bytes=100)
    ranges, shares = [], []
    for chunk in reader.chunks():
        assert isinstance(chunk.data, StreamRange)
        ranges.append((chunk.data.start, chunk.data.end))
        shares.append(reader.progress())
    assert len(ranges) == 11
    assert [end for _, end in ranges[:-1]] == [start for start, _ in ranges[1:]]
    assert (ranges[0][0], ranges[-1][1]) == (0, path.stat().st_size)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_compressed_index_is_read(multistream):
    """The index may be compressed, as Wikimedia's is."""
    path, index = multistream
    packed = write(index.with_suffix(".txt.bz2"), bz2.compress(index.read_bytes()))
    index.unlink()
    assert find_index(path) == packed
    assert any(isinstance(c.data, StreamRange) for c in DumpReader(path).chunks())


def test_index_of_a_numbered_part_is_found(tmp_path):
    """Large wikis split their dump; each part has its own index."""
    part = write(tmp_path / "enwiki-1-pages-articles-multistream2.xml-p10p20.bz2", b"")
    index = write(tmp_path / "enwiki-1-pages-articles-multistream-index2.txt-p10p20.bz2", b"")
    assert find_index(part) == index
    assert find_index(tmp_path / "other.xml.bz2") is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"not an index\n", "not offset:page id:title"),
        (b"77:1:A\n99:2:B\n", "does not belong"),
        (b"x" * 200_000, "not offset:page id:title"),
    ],
)
def test_wrong_index_is_refused_when_given_and_passed_over_when_found(multistream, content, says):
    """A named index must fit; one that merely lies there is reported and not used."""
    path, index = multistream
    sequential = read(path, index_path=index)
    n_ranges = len(ranges_of(path))
    index.write_bytes(content)
    with pytest.raises(DumpError, match=says):
        read(path, index_path=index, chunk_bytes=100)
    pages, counts = read(path, chunk_bytes=100)
    assert pages == sequential[0]
    assert [reason for reason in counts if reason.startswith("index not used") and says in reason]
    assert len(ranges_of(path)) == n_ranges + 1  # the closing tag has a stream of its own


def test_index_of_another_kind_of_input_is_refused(tmp_path, multistream):
    """Only bzip2 archives have streams to jump to."""
    path = write(tmp_path / "dump.xml", dump())
    with pytest.raises(DumpError, match=r"multistream \.bz2"):
        list(DumpReader(path, index_path=multistream[1]).chunks())


def test_cut_multistream_archive_keeps_its_complete_streams(multistream):
    """A broken download with a full index gives what it holds, as sequential reading does."""
    path, index = multistream
    archive = path.read_bytes()
    for cut in range(600, len(archive), 37):
        path.write_bytes(archive[:cut])
        with_index = read(path, chunk_bytes=100)
        index.rename(index.with_name("elsewhere"))
        assert read(path, chunk_bytes=100) == with_index
        index.with_name("elsewhere").rename(index)


def test_damaged_stream_costs_only_its_range(multistream):
    """With an index, the streams after a damaged one are still read."""
    path, _ = multistream
    archive = bytearray(path.read_bytes())
    middle = archive.index(b"BZh9", len(archive) // 2) + 60
    archive[middle : middle + 20] = bytes(20)
    path.write_bytes(archive)
    pages, counts = read(path, chunk_bytes=100)
    assert pages[-1].title == "Title 19"
    assert len(pages) == 17
    assert sum("archive is damaged" in reason for reason in counts) == 1


def test_range_that_swells_is_bounded(multistream, monkeypatch):
    """A range whose pages outgrow the bound ends there and is counted."""
    path, _ = multistream
    monkeypatch.setattr("stamo.build.dump.MAX_RANGE_TEXT", 1000)
    pages, counts = read(path)
    assert 0 < len(pages) < 19
    assert sum("multistream range" in reason for reason in counts) == 1


# Real data


@pytest.mark.data
def test_enwik8_yields_its_pages_and_one_cut_page(shared_data):
    """All complete articles of the real dump come out; its last page is cut in the middle."""
    reader = DumpReader(shared_data / "enwik8.xml.xz")
    n_pages, counts = 0, Counter()
    for chunk in reader.chunks():
        pages, skipped = parse_chunk(chunk, reader.site)
        n_pages += len(pages)
        counts += skipped
    assert n_pages == 12_238
    assert counts == {OTHER_NAMESPACE: 108}
    assert reader.skipped == {CUT_OFF: 1}


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_reads_as_utf_8_does(tmp_path, encoding, suffix):
    """Some exports are in UTF-16, with or without a byte order mark; their pages are the same."""
    text = '<?xml version="1.0" encoding="UTF-16"?>\n' + dump().decode()
    (tmp_path / "plain.xml").write_bytes(dump())
    path = tmp_path / f"wide.xml{suffix}"
    path.write_bytes(COMPRESS[suffix](text.encode(encoding)))
    assert pages_of(path) == pages_of(tmp_path / "plain.xml")


def test_a_dump_of_pages_alone_reads(tmp_path):
    """Neither siteinfo nor a root: what is missing keeps its default."""
    path = tmp_path / "bare.xml"
    path.write_text("".join(page(title, i) for i, title in enumerate(TITLES)), encoding="utf-8")
    assert [p.title for p in pages_of(path)] == [t for t in TITLES if not t.startswith("Talk:")]


def pages_of(path):
    with DumpReader(path) as reader:
        chunks = list(reader.chunks())
        return [p for chunk in chunks for p in parse_chunk(chunk, reader.site)[0]]
