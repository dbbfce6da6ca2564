"""Documents come out of every kind of file, and whatever is broken is counted, never fatal."""

import bz2
import gzip
import io
import json
import lzma
import sys

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stamo.corpus import web
from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.reading import (
    NO_MENTION,
    Chunk,
    Unreadable,
    find_cut,
    list_files,
    read_chunks,
    read_documents,
    read_files,
    split_document,
)
from stamo.corpus.types import Document, Mention
from stamo.errors import CorpusFormatError, MissingExtraError
from tests.corpus.archives import http_answer, page, read, warc_record

WINDOW = 1000
COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
    "": bytes,
}


def lines(*records):
    return "".join(json.dumps(r) + "\n" for r in records).encode()


def read_stdin(data, window=WINDOW, **options):
    return list(read_chunks(["-"], window, stdin=io.BytesIO(data), **options))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_every_format_and_compression(tmp_path, suffix):
    """A folder gives its documents in the order of names, to collect and to link."""
    files = {
        "a.txt": b"Plain,text",
        "b.jsonl": b'{"text": "Line"}\n{"id": 7, "title": "T", "text": "Other"}',
        "c.html": page("Main text.", "Title &amp; more"),
        "d.warc": warc_record(http_answer(page("Crawled")), id="<urn:1>"),
        "e": b'{"text": "Looks like JSON"}',
        "f": b"{{Looks like text}}",
        "g/h.csv": b"id,text\nx,A row\n",
    }
    here = tmp_path / "pile"
    (here / "g").mkdir(parents=True)
    for name, data in files.items():
        (here / f"{name}{suffix}").write_bytes(COMPRESS[suffix](data))
    texts = ["Plain,text", "Line", "Other", "Main text.", "Crawled", "Looks like JSON"]
    texts += ["{{Looks like text}}", "A row"]
    documents, skips = read(here)
    assert [d.text for d in documents] == texts
    assert [d.title for d in documents[2:4]] == ["T", "Title & more"]
    assert documents[0].id.startswith(f"pile/a.txt{suffix}:")
    assert documents[1].id.startswith(f"pile/b.jsonl{suffix}#1:")
    assert not skips.skipped
    assert [(part.id, part.document.text) for part in read_chunks([here], WINDOW)] == [
        (str(here / f"a.txt{suffix}"), "Plain,text"),
        (f"pile/b.jsonl{suffix}:1", "Line"),
        ("7", "Other"),
        (str(here / f"c.html{suffix}"), "Main text."),
        ("urn:1", "Crawled"),
        (f"pile/e{suffix}:1", "Looks like JSON"),
        (str(here / f"f{suffix}"), "{{Looks like text}}"),
        ("x", "A row"),
    ]


def test_a_damaged_archive_gives_what_comes_before(tmp_path):
    """What is there is read, and that something is missing is said; ids do not depend on where."""
    data = lines(*({"text": f"{i}"} for i in range(1000)))
    *parts, ends, cut = read_stdin(gzip.compress(data)[:-100])
    assert len(parts) > 500
    assert [ends.error, "not valid JSON" in cut.error] == ["-: archive ends early.", True]
    broken = bytearray(gzip.compress(lines({"text": "1"})))
    broken[14:18] = b"\xff" * 4
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(lines({"text": "0"})) + broken)
    documents, skips = read(tmp_path / "d.jsonl.gz")
    assert [d.text for d in documents] == ["0"]
    assert any("damaged" in reason for reason in skips.skipped)


BAD_LINES = [
    (b"{not json", "not valid JSON"),
    (b'{"text": "x", "n": ' + b"9" * 10_000 + b"}", "not valid JSON"),
    (b"[1, 2]", 'not a JSON object; give one object like {"id"'),
    (b'{"text": 5}', 'no "text" string; give'),
    (b'{"title": "no text"}', 'no "text" string; give'),
    (b'{"text": "abc", "mentions": [{"start": 1}]}', "a mention without start and end"),
    (b'{"text": "abc", "mentions": [[0, 9]]}', "a mention lies outside the text"),
    (b'{"text": "abc", "mentions": [[-1, 2]]}', "a mention lies outside the text"),
    (b'{"text": "abc", "mentions": "all"}', '"mentions" is not a list'),
    (b"[" * 200_000, "JSON is nested too deeply"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_a_bad_line_leaves_the_others(tmp_path, line, message):
    """A bad line is counted, or becomes a record with its number; the lines around it are read."""
    good = json.dumps({"id": "x", "text": "abc", "mentions": [{"start": 0, "end": 2}]}).encode()
    data = good + b"\n" + line + b"\n\n" + good + b"\n"
    first, bad, last = read_stdin(data)
    assert isinstance(bad, Unreadable)
    assert bad.id == "-:2"
    assert message in bad.error
    assert first == last == Chunk(Document("x", "abc", (Mention("ab", 0, 2),)))
    (tmp_path / "d.jsonl").write_bytes(data)
    documents, skips = read(tmp_path / "d.jsonl")
    assert [d.text for d in documents] == ["abc", "abc"]
    assert skips.examples == {message.partition(";")[0]: "d.jsonl line 2"}


def test_to_collect_texts_are_tidied(tmp_path):
    """Half characters never reach a document, empty texts are none, long ones are cut."""
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "a\\ud800b", "id": "\\udfff"}\n{"text": " "}\n')
    (tmp_path / "c.txt").write_text("word " * 500_000)
    documents, skips = read(tmp_path)
    assert [d.text[:11] for d in documents] == ["a\ufffdb", "word word w"]
    assert 1_999_000 < len(documents[1].text) <= 2_000_000
    assert skips.mended == {"text cut at 2,000,000 characters": 1}
    assert skips.skipped == {"empty text": 1}
    for document in documents:
        (document.id + document.text).encode()


TABLE = "text\nΑθήνα 北京\n"
TEXTS = {
    "a.txt": "Αθήνα 北京",
    "b.jsonl": '{"text": "Αθήνα 北京"}\n',
    "c.csv": TABLE,
    "d.rss": "<rss><channel><item><title>Αθήνα 北京</title></item></channel></rss>",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_texts_are_in_utf8_or_marked(tmp_path, name, encoding):
    """A mark at the front of a file says that it is in UTF-8 or UTF-16, whatever its format."""
    (tmp_path / name).write_bytes(TEXTS[name].encode(encoding))
    documents, skips = read(tmp_path, matcher=AliasMatcher(["北京"]))
    assert [d.text for d in documents] == ["Αθήνα 北京"]
    assert not skips.skipped
    assert [p.document.text for p in read_chunks([tmp_path], 99)] == ["Αθήνα 北京"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b"caf\xe9 Rey"),
        ("b.jsonl", b'{"text": "caf\xe9"}\n{"text": "good"}\n'),
        ("c.csv", b"text\ncaf\xe9\ngood\n"),
        ("d.wet", warc_record(b"caf\xe9", type="conversion")),
    ],
)
def test_texts_in_another_encoding_are_refused(tmp_path, name, data):
    """One by one, with what to do about it; nothing is guessed."""
    (tmp_path / name).write_bytes(data)
    documents, skips = read(tmp_path)
    assert [d.text for d in documents] == ["good"] * data.count(b"good")
    assert skips.skipped == {"not valid UTF-8": 1}
    faults = [c.error for c in read_chunks([tmp_path], 99) if isinstance(c, Unreadable)]
    assert ["iconv -f" in fault for fault in faults] == [True]


def test_to_link_texts_stay_as_they_were_written():
    """Ids, texts and mentions are not tidied: the caller knows them by what was given."""
    record = {"id": " a\n", "text": "\ud800 ", "mentions": [[1, 2], {"start": 0, "end": 1}]}
    (part,) = read_stdin(json.dumps(record).encode())
    mentions = (Mention("\ud800", 0, 1), Mention(" ", 1, 2))
    assert part == Chunk(Document(" a\n", "\ud800 ", mentions))
    (part,) = read_stdin("Café".encode("utf-16"))
    assert part.document.text == "Café"
    assert read_stdin(b"") == [Chunk(Document("-", ""))]
    (part,) = read_stdin(b'\n{"text": "abc"}')
    assert part.id == "-:2"


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (b"caf\xe9 au lait", {}, "0xe9 follows about character"),
        (b'{"text": "\xff"}', {}, "not valid UTF-8; byte 10 of it is wrong"),
        (b"Text", {"json_lines": True}, "not valid JSON"),
        (b"%PDF-1.7\n...", {}, "-: PDF file; give plain text, JSON lines"),
        (b"PK\x03\x04....", {}, "-: zip archive; give"),
        (b'<?xml version="1.0"?><invoice/>', {}, "-: XML file of another kind; give"),
        (b"<mediawiki xmlns=...", {}, "-: MediaWiki dump; give"),
        (b'<?xml version="1.0"?><mediawiki>Rey</mediawiki>', {}, "-: MediaWiki dump; give"),
        (b"\x89PNG\r\n\0\0", {}, "-: binary file; give"),
    ],
)
def test_what_is_not_understood_is_a_sentence(data, options, message):
    """What is no document is named, and not read as text."""
    (bad,) = read_stdin(data, **options)
    assert isinstance(bad, Unreadable)
    assert message in bad.error


def test_missing_files(tmp_path):
    """To link, a missing file is a record; to collect, an error before anything is read."""
    (bad,) = read_chunks([tmp_path / "no.txt"], WINDOW)
    assert "check the path" in bad.error
    with pytest.raises(CorpusFormatError, match="nowhere"):
        read_documents([tmp_path, tmp_path / "nowhere"])
    with pytest.raises(CorpusFormatError, match=r"give a list of paths: \['news.jsonl'\]"):
        read_documents("news.jsonl")


def test_a_long_line_is_never_held(tmp_path, monkeypatch):
    """A line of many blocks is dropped while it streams, and the line numbers stay right."""
    path = tmp_path / "d.jsonl"
    path.write_bytes(b'{"text": "' + b"x" * 17_000_000 + b'"}\n' + lines({"text": "after"}))
    documents, skips = read(path)
    assert [d.id.split(":")[0] for d in documents] == ["d.jsonl#2"]
    assert skips.examples == {"line longer than the limit": "d.jsonl line 1"}


def test_links_that_leave_the_folder_are_not_followed(tmp_path):
    """A folder cannot smuggle in other files, and loops of links end."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "pile"
    folder.mkdir()
    (folder / "real.txt").write_text("real")
    (folder / "inside.txt").symlink_to(folder / "real.txt")
    (folder / "outside.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "broken.txt").symlink_to(tmp_path / "nowhere")
    (folder / "loop").symlink_to(folder)
    (folder / ".hidden").write_text("hidden")
    (folder / "empty.txt").write_bytes(b"")
    documents, skips = read(folder)
    assert [d.text for d in documents] == ["real", "real"]
    assert skips.skipped == {
        "symbolic link that leaves the folder": 1,
        "symbolic link that leads nowhere": 1,
        "symbolic link to a folder": 1,
        "empty file": 1,
    }


def test_files_come_one_by_one_with_their_bytes(tmp_path):
    """Who reads file by file knows where each ends; the bytes read are those on disk."""
    (tmp_path / "a.jsonl").write_bytes(lines({"text": "a"}, {"text": "b"}))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"text"))
    files, seen = list_files([tmp_path]), []
    found = [
        (file.name.partition("/")[2], [d.text for d in documents])
        for file, documents in read_files(files, on_bytes=seen.append)
    ]
    assert found == [("a.jsonl", ["a", "b"]), ("b.txt.gz", ["text"])]
    assert sum(seen) == sum(file.size for file in files) > 0
    address = (tmp_path / "a.jsonl").absolute().as_uri()
    assert [d.text for d in read_documents([address])] == ["a", "b"]


@pytest.mark.parametrize("name", ["d.jsonl", "d.html", "d.txt", "d.warc"])
def test_a_matcher_leaves_out_what_cannot_match(tmp_path, name):
    """With a matcher only documents that may hold an alias come out; the others are counted."""
    data = {
        "d.jsonl": lines({"text": "About Rey"}, {"text": "About Finn"}, {"text": "Poe"}),
        "d.html": page("About Finn").replace(b"Rey", b"Leia"),
        "d.txt": b"About Finn",
        "d.warc": warc_record(http_answer(b"<p>Finn</p>")) + warc_record(b"Rey", type="conversion"),
    }[name]
    (tmp_path / name).write_bytes(data)
    documents, skips = read(tmp_path / name, matcher=AliasMatcher(["Rey"]))
    assert all("Rey" in d.text for d in documents)
    n_records = {"d.jsonl": 3, "d.warc": 2}.get(name, 1)
    assert skips.skipped == {NO_MENTION: n_records - len(documents)}


def test_web_pages_need_the_extra(tmp_path, monkeypatch):
    """Without the extra, the first web page says how to install it."""
    (tmp_path / "a.html").write_bytes(page("text"))
    web.close()
    monkeypatch.setitem(sys.modules, "resiliparse", None)
    with pytest.raises(MissingExtraError, match=r"stamo\[web\]"):
        list(read_documents([tmp_path / "a.html"]))


@given(st.text(alphabet="ab .\n!é東", max_size=9000), st.integers(50, 400))
def test_chunks_join_to_the_text(text, window):
    """The chunks of a stream are contiguous, join to the text and fit the window."""
    chunks = read_stdin(text.encode(), window)
    assert "".join(chunk.document.text for chunk in chunks) == text
    offset = 0
    for chunk in chunks:
        assert chunk.offset == offset
        assert len(chunk.document.text) <= window
        offset += len(chunk.document.text)
    assert (chunks[0].number is None) == (len(chunks) == 1)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("a" * 60 + "\n\n" + "b. c d" * 10, 62),
        ("a" * 60 + ". " + "b c" * 30, 62),
        ("a" * 200, 100),
    ],
)
def test_cuts_prefer_paragraphs(text, cut):
    """A paragraph's end is preferred to a line's, a sentence's and a word's."""
    assert find_cut(text, 100) == cut


def test_a_cut_never_falls_into_a_mention():
    """A mention across the window's edge stays whole, in one chunk."""
    text = "x" * 990 + " New York City " + "y" * 900
    mention = Mention("New York City", 991, 1004)
    chunks = list(split_document(Document("a", text, (mention,)), WINDOW))
    placed = [(chunk.offset + m.start) for chunk in chunks for m in chunk.document.mentions]
    assert placed == [991]
    assert "".join(chunk.document.text for chunk in chunks) == text
