"""Documents to link: parts of long texts, JSON lines, every format, bad input as records."""

import bz2
import gzip
import io
import json
import lzma

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stamo.corpus.reading import Chunk, Unreadable, find_cut, read_chunks, split_document
from stamo.corpus.types import Document, Mention
from tests.corpus.archives import http_answer, page, warc_record

WINDOW = 1000


def read_stdin(data, window=WINDOW, **options):
    return list(read_chunks(["-"], window, stdin=io.BytesIO(data), **options))


@given(st.text(alphabet="ab .\n!é東", max_size=9000), st.integers(50, 400))
def test_parts_join_to_the_text(text, window):
    """The parts of a stream are contiguous, join to the text and fit the window."""
    parts = read_stdin(text.encode(), window)
    assert "".join(part.document.text for part in parts) == text
    offset = 0
    for part in parts:
        assert part.offset == offset
        assert len(part.document.text) <= window
        offset += len(part.document.text)
    assert (parts[0].number is None) == (len(parts) == 1)


def test_cuts_prefer_paragraphs():
    """A paragraph's end is preferred to a line's, a sentence's and a word's."""
    assert find_cut("a" * 60 + "\n\n" + "b. c d" * 10, 100) == 62
    assert find_cut("a" * 60 + ". " + "b c" * 30, 100) == 62
    assert find_cut("a" * 200, 100) == 100


def test_a_cut_never_falls_into_a_mention():
    """A mention across the window's edge stays whole, in one part."""
    text = "x" * 990 + " New York City " + "y" * 900
    mention = Mention("New York City", 991, 1004)
    parts = list(split_document(Document("a", text, (mention,)), WINDOW))
    placed = [(part.offset + m.start, m) for part in parts for m in part.document.mentions]
    assert [start for start, _ in placed] == [991]
    assert "".join(part.document.text for part in parts) == text


def test_invalid_utf8_is_a_record():
    """A text that is not UTF-8 gives one record that names the byte."""
    (bad,) = read_stdin(b"caf\xe9 au lait")
    assert isinstance(bad, Unreadable)
    assert "0xe9" in bad.error


def test_a_missing_file_is_a_record(tmp_path):
    """A file that cannot be read gives a record, not an exception."""
    (bad,) = read_chunks([tmp_path / "no.txt"], WINDOW)
    assert "check the path" in bad.error


def test_empty_text_is_a_document():
    """An empty file is a document without text."""
    assert read_stdin(b"") == [Chunk(Document("-", ""))]


BAD_LINES = [
    (b"{not json", "not valid JSON"),
    (b"[1, 2]", 'not a JSON object; give one object like {"id"'),
    (b'{"text": 5}', 'no "text" string; give'),
    (b'{"text": "\xff"}', "not valid UTF-8"),
    (b'{"text": "abc", "mentions": [{"start": 1}]}', 'start and end; {"start": 1} is one'),
    (b'{"text": "abc", "mentions": [[0, 9]]}', "3 characters"),
    (b'{"text": "abc", "mentions": [[-1, 2]]}', "3 characters"),
    (b'{"text": "abc", "mentions": "all"}', "not a list"),
    (b"[" * 100_000, "nested too deeply"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_a_bad_line_leaves_the_others(line, message):
    """A bad line becomes a record with its number; the lines around it are read."""
    good = json.dumps({"id": "x", "text": "abc", "mentions": [{"start": 0, "end": 2}]}).encode()
    first, bad, last = read_stdin(good + b"\n" + line + b"\n\n" + good + b"\n")
    assert isinstance(bad, Unreadable)
    assert bad.id == "-:2"
    assert message in bad.error
    assert first == last == Chunk(Document("x", "abc", (Mention("ab", 0, 2),)))


def test_a_document_without_id_is_named_by_its_line():
    """The id falls back to file and line."""
    (part,) = read_stdin(b'\n{"text": "abc"}')
    assert part.id == "-:2"


def test_documents_stay_as_they_were_written():
    """To link, ids, texts and mentions are not tidied: the caller knows them by what he gave."""
    record = {"id": " a\n", "text": "\ud800 ", "mentions": [[1, 2], {"start": 0, "end": 1}]}
    (part,) = read_stdin(json.dumps(record).encode())
    mentions = (Mention("\ud800", 0, 1), Mention(" ", 1, 2))
    assert part == Chunk(Document(" a\n", "\ud800 ", mentions))


COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
    "": bytes,
}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_every_format_and_compression(tmp_path, suffix):
    """Text, JSON lines, pages and archives of a folder come out as documents, also compressed."""
    files = {
        "a.txt": b"Plain",
        "b.jsonl": b'{"text": "Line"}\n{"id": "x", "text": "Other"}',
        "c.html": page("Main text."),
        "d.warc": warc_record(http_answer(page("Crawled")), id="<urn:1>"),
        "e": b'{"text": "Looks like JSON"}',
        "f": b"{{Looks like text}}",
    }
    for name, data in files.items():
        (tmp_path / f"{name}{suffix}").write_bytes(COMPRESS[suffix](data))
    found = [(part.id, part.document.text) for part in read_chunks([tmp_path], WINDOW)]
    here = tmp_path.name
    assert found == [
        (str(tmp_path / f"a.txt{suffix}"), "Plain"),
        (f"{here}/b.jsonl{suffix}:1", "Line"),
        ("x", "Other"),
        (str(tmp_path / f"c.html{suffix}"), "Main text."),
        ("urn:1", "Crawled"),
        (f"{here}/e{suffix}:1", "Looks like JSON"),
        (str(tmp_path / f"f{suffix}"), "{{Looks like text}}"),
    ]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7\n...", "PDF file"),
        (b"PK\x03\x04....", "zip archive"),
        (b'<?xml version="1.0"?><invoice/>', "XML file of another kind"),
        (b"<mediawiki xmlns=...", "MediaWiki dump"),
        (b"\x89PNG\r\n\0\0", "binary file"),
    ],
)
def test_a_file_that_is_not_understood_is_named(tmp_path, data, kind):
    """What is no document is said in one sentence, whatever its name, and not read as text."""
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    (bad,) = read_chunks([path], WINDOW)
    assert bad.error.startswith(f"{path}: {kind}; give plain text, JSON lines")


def test_json_lines_may_be_demanded(tmp_path):
    """What is said to be JSON lines is read as such, so that a text is a bad line."""
    (bad,) = read_stdin(b"Text", json_lines=True)
    assert "not valid JSON" in bad.error


def test_a_damaged_archive_gives_its_documents_and_a_record():
    """What is there is linked; that something is missing is said."""
    data = b"".join(b'{"text": "%d"}\n' % i for i in range(1000))
    *parts, ends, cut = read_stdin(gzip.compress(data)[:-100])
    assert len(parts) > 500
    assert ends.error == "-: archive ends early."
    assert "not valid JSON" in cut.error


def test_utf16_is_read_where_it_is_marked():
    """A text with the mark of UTF-16 is decoded."""
    (part,) = read_stdin("Café".encode("utf-16"))
    assert part.document.text == "Café"
