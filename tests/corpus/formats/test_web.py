"""Web pages and archives: main content only, decoded rightly, past every broken record."""

import gzip

import pytest

from stamo.corpus import web
from stamo.corpus.web import extract_html, read_records
from stamo.errors import CorpusFormatError
from tests.corpus import archives
from tests.corpus.archives import http_answer, page, warc_record

LONG = "A sentence about Rey that is long enough to be the content of a page. " * 3


def read(path, data):
    path.write_bytes(data)
    return archives.read(path)


def test_only_the_main_content_remains():
    """Menus, scripts and markup are gone; references are characters; nothing is run."""
    found = extract_html(page(LONG + "<b>R&amp;D</b> &lt;script&gt;").decode())
    assert found.title == "A page"
    assert found.text == LONG + "R&D <script>"


@pytest.mark.parametrize(
    "html",
    [
        "<table>" + "<tr><td>row" * 3000 + "</table>",
        "<div><p>row</div>" * 3000,
        "<p>row</p>" + "<!-- > -- '\" -->" * 3000,
        "<p>row</p><script>" + "if (a < b) x = '<a href=\"';" * 3000 + "</script>",
        "<p title='" + "word " * 5000 + "'>row</p>" * 50,
        "<p>row, <b>it's 5 < 6 & \"so</b></p>" * 500,
    ],
    ids=range(6),
)
def test_large_pages_for_people_are_read(html):
    """Many flat elements, comments, scripts and long attribute values are no reason to refuse."""
    assert "row" in extract_html(html).text


def test_a_page_is_bounded_in_time_and_memory(tmp_path, monkeypatch):
    """Pages made to exhaust the parser end at the child's limits; the next page is read."""
    code = "import sys; from stamo.corpus import web; web.CPU_SECONDS = 1; "
    monkeypatch.setattr(web, "_CODE", code + "web.serve(int(sys.argv[1]))")
    nested = "<ul>" * 400 + "<li>Rey" * 60_000
    again = "<p>" + "".join(f"<font size={i}>" for i in range(500)) + "<p>y" * 20_000
    web.close()
    try:
        with pytest.raises(CorpusFormatError, match=r"memory|fails|long"):
            extract_html(again)
        data = warc_record(http_answer(nested.encode())) + warc_record(http_answer(page(LONG)))
        documents, skips = read(tmp_path / "a.warc", data)
    finally:
        web.close()
    assert [d.text for d in documents] == [LONG.strip()]
    assert skips.skipped == {"HTML that takes too long to parse": 1}


def test_a_child_that_was_killed_is_replaced():
    """The next page is read as if nothing had happened."""
    assert extract_html(page(LONG)).text == LONG.strip()
    _, child, _ = web._child
    child.kill()
    child.wait()
    assert extract_html(page(LONG)).text == LONG.strip()


@pytest.mark.parametrize(
    ("charset", "kind", "head"),
    [
        ("iso-8859-1", b"text/html; charset=ISO-8859-1", ""),
        ("windows-1251", b"text/html", '<meta charset="windows-1251">'),
        ("shift_jis", b'text/html; charset="Shift_JIS"', ""),
        ("utf-8", b"text/html", ""),
        ("utf-8", b"text/html; charset=nonsense", ""),
    ],
)
def test_character_sets(tmp_path, charset, kind, head):
    """The header's character set wins, then the page's own, then what the bytes look like."""
    text = {"windows-1251": "Привет мир", "shift_jis": "日本語の文章です"}.get(
        charset, "Café déjà vu"
    )
    body = f"<html><head>{head}</head><body><p>{text}</p></body></html>".encode(charset)
    documents, _ = read(tmp_path / "a.warc", warc_record(http_answer(body, kind)))
    assert [d.text for d in documents] == [text]


def test_records_of_an_archive(tmp_path):
    """Pages and plain texts are read with their ids; other records are passed over or counted."""
    not_found = http_answer(page("gone")).replace(b"200 OK", b"404 Not Found")
    data = b"".join(
        [
            warc_record(b"software: x", type="warcinfo"),
            warc_record(b"GET / HTTP/1.1\r\n\r\n", type="request"),
            warc_record(http_answer(page("One")), id="<urn:uuid:a>"),
            warc_record(http_answer(page("Two")), trec_id="clueweb12-0000tw-00-00007"),
            warc_record("Plain wörds".encode(), type="conversion", id="<urn:uuid:c>"),
            warc_record(not_found),
            warc_record(http_answer(b"\x89PNG", b"image/png")),
            warc_record(b"no http at all"),
        ]
    )
    documents, skips = read(tmp_path / "a.warc", data)
    assert [(d.id, d.text) for d in documents] == [
        ("urn:uuid:a", "One"),
        ("clueweb12-0000tw-00-00007", "Two"),
        ("urn:uuid:c", "Plain wörds"),
    ]
    assert skips.skipped == {
        "HTTP status other than 200": 1,
        "neither HTML nor plain text": 1,
        "response that is not HTTP": 1,
    }


@pytest.mark.parametrize(
    ("body", "header"),
    [
        (
            b"5\r\n<p>He\r\n6;x=y\r\nllo</p\r\n1\r\n>\r\n0\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n",
        ),
        (b"<p>Hello</p>", b"Transfer-Encoding: chunked\r\n"),
        (gzip.compress(b"<p>Hello</p>", mtime=0), b"Content-Encoding: gzip\r\n"),
        (b"<p>Hello</p>", b"Content-Encoding: gzip\r\n"),
    ],
)
def test_transfer_codings(tmp_path, body, header):
    """Chunks and compression are undone, also where the archive did so and kept the header."""
    documents, _ = read(tmp_path / "a.warc", warc_record(http_answer(body, extra=header)))
    assert [d.text for d in documents] == ["Hello"]


def test_a_compressed_page_cannot_exhaust_the_memory(tmp_path):
    """A small record that unpacks to a huge page is left out, and the next one is read."""
    bomb = http_answer(gzip.compress(b" " * 50_000_000), extra=b"Content-Encoding: gzip\r\n")
    data = warc_record(bomb) + warc_record(http_answer(page("After")))
    documents, skips = read(tmp_path / "a.warc", data)
    assert [d.text for d in documents] == ["After"]
    assert skips.skipped == {"page larger than the limit": 1}


GOOD = warc_record(http_answer(page("Good")))
BROKEN = {
    "garbage between records": b"garbage\r\nmore garbage\r\n",
    "garbage that ends without a line break": b"garbage WARC/1.0 more garbage",
    "no length": GOOD.replace(b"Content-Length: ", b"X-Length: "),
    "negative length": GOOD.replace(b"Content-Length: ", b"Content-Length: -"),
    "length too long": GOOD.replace(b"Content-Length: ", b"Content-Length: 1"),
    "length too short": GOOD.replace(b"Content-Length: ", b"Content-Length: 1 \r\nX: "),
    "header without end": b"WARC/1.0\r\n" + b"X: y\r\n" * 20_000,
    "larger than the limit": warc_record(http_answer(b"x" * 16_000_001)),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_record_costs_only_itself(tmp_path, kind, compressed):
    """The records before and after a broken one are read, and the fault is counted."""
    parts = [GOOD, BROKEN[kind], GOOD, GOOD]
    data = b"".join(map(gzip.compress, parts) if compressed else parts)
    documents, skips = read(tmp_path / "a.warc", data)
    assert [d.text for d in documents] == ["Good"] * 3
    assert skips.skipped.total() >= 1


def test_an_archive_that_ends_early(tmp_path):
    """The last, incomplete record is counted."""
    documents, skips = read(tmp_path / "a.warc", GOOD + GOOD[:-150])
    assert [d.text for d in documents] == ["Good"]
    assert skips.skipped == {"WARC record ends early": 1}


LENGTHLESS = GOOD.replace(b"Content-Length: ", b"X-Length: ")
CUT = len(LENGTHLESS.split(b"\r\n\r\n", 1)[1]) + len(GOOD) * 2 + GOOD.index(b"WARC-Date") - 2
"""A length that ends at a line break inside another record."""


@pytest.mark.parametrize("length", [16_000_001, 10**12, 15_999_999, 700_000, CUT])
def test_a_wrong_length_swallows_no_record(tmp_path, length):
    """However long a record says it is, all records behind its start are found."""
    bad = LENGTHLESS.replace(b"\r\n", b"\r\nContent-Length: %d\r\n" % length, 1)
    documents, skips = read(tmp_path / "a.warc", bad + GOOD * 99)
    assert [d.text for d in documents] == ["Good"] * 99
    assert skips.skipped.total() == 1


SHORT = {
    "too long by far": b"WARC/1.0\r\nContent-Length: 15000000\r\n\r\nx\r\n\r\n",
    "without a length": b"WARC/1.0\r\nX: y\r\n\r\nx\r\n\r\n",
    "without an end": b"WARC/1.0\nA:b\n",
    "larger than the limit": b"WARC/1.0\r\nContent-Length: 99000000\r\n\r\nx\r\n\r\n",
}


@pytest.mark.parametrize("kind", SHORT)
def test_short_broken_records_are_not_looked_at_again_and_again(kind):
    """Each of many is left out once; what they claim to hold is looked for in one pass."""
    data = SHORT[kind] * 10_000
    blocks = (data[i : i + 65536] for i in range(0, len(data), 65536))
    assert all(isinstance(record, str) for record in read_records(blocks))
