"""Streams of documents: parts of long texts, JSON lines, bad input as records."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stamo.corpus.types import Document, Mention
from stamo.linking.documents import (
    Part,
    Unreadable,
    find_cut,
    read_jsonl,
    read_path,
    read_text,
    split_document,
)

WINDOW = 1000


@given(st.text(alphabet="ab .\n!é東", max_size=9000), st.integers(50, 400))
def test_parts_join_to_the_text(text, window):
    """The parts of a stream are contiguous, join to the text and fit the window."""
    parts = list(read_text(io.BytesIO(text.encode()), "a", window))
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
    (bad,) = read_text(io.BytesIO(b"caf\xe9 au lait"), "a.txt", WINDOW)
    assert isinstance(bad, Unreadable)
    assert "0xe9" in bad.error


def test_a_missing_file_is_a_record(tmp_path):
    """A file that cannot be read gives a record, not an exception."""
    (bad,) = read_path(tmp_path / "no.txt", WINDOW)
    assert "check the path" in bad.error


def test_empty_text_is_a_document():
    """An empty file is a document without text."""
    (part,) = read_text(io.BytesIO(b""), "a", WINDOW)
    assert part == Part(Document("a", ""))


BAD_LINES = [
    (b"{not json", "not valid JSON"),
    (b"[1, 2]", 'has no "text"'),
    (b'{"text": 5}', 'has no "text"'),
    (b'{"text": "\xff"}', "not valid UTF-8"),
    (b'{"text": "abc", "mentions": [{"start": 1}]}', "give"),
    (b'{"text": "abc", "mentions": [[0, 9]]}', "3 characters"),
    (b'{"text": "abc", "mentions": [[-1, 2]]}', "3 characters"),
    (b'{"text": "abc", "mentions": "all"}', "no list"),
    (b"[" * 100_000, "not valid JSON"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_a_bad_line_leaves_the_others(line, message):
    """A bad line becomes a record with its number; the lines around it are read."""
    good = json.dumps({"id": "x", "text": "abc", "mentions": [{"start": 0, "end": 2}]}).encode()
    stream = io.BytesIO(good + b"\n" + line + b"\n\n" + good + b"\n")
    first, bad, last = read_jsonl(stream, "in.jsonl", WINDOW)
    assert isinstance(bad, Unreadable)
    assert message in bad.error
    assert first == last == Part(Document("x", "abc", (Mention("ab", 0, 2),)))


def test_a_document_without_id_is_named_by_its_line():
    """The id falls back to file and line."""
    (part,) = read_jsonl(io.BytesIO(b'\n{"text": "abc"}'), "in.jsonl", WINDOW)
    assert part.id == "in.jsonl:2"
