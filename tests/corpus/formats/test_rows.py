"""Tables, Parquet and feeds come through the one door; what is broken is named."""

import csv
import gzip
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stamo.corpus import formats, tables
from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.reading import NO_MENTION, Chunk, Unreadable, read_chunks
from tests.corpus.archives import read

ROWS = [
    {"id": "a", "title": "First", "text": "Rey left Jakku,\nat night."},
    {"id": "b", "title": "", "text": 'He said "no"; she went.'},
    {"id": "", "title": "Third", "text": "日本 is far. \U0001f680"},
]


def write_csv(path, rows=ROWS, **options):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), **options)
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(text.getvalue().encode())
    return path


def write_parquet(path, rows=ROWS, **options):
    pq.write_table(pa.Table.from_pylist(rows), path, **options)
    return path


RSS = """<?xml version="1.0" encoding="UTF-8"?>
<!-- a feed of ours -->
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel>
<title>News</title><link>http://example.org/</link>
<item><title>First</title><guid>a</guid><description>short</description>
<content:encoded><![CDATA[<p>Rey left <b>Jakku</b> &amp; went.</p><p>At night.</p>]]>
</content:encoded></item>
<item><title>R&amp;D pays</title><link>http://example.org/b</link>
<description>&lt;p&gt;One &lt;script&gt;alert(1)&lt;/script&gt;paragraph.&lt;/p&gt;</description>
</item>
<item><title>Only a headline about Finn</title></item>
</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>
<entry><title>First</title><id>urn:a</id><link href="http://example.org/a"/>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Rey left.</p><p>At night.</p>
</div></content></entry>
<entry><title type="html">Second &amp;amp; last</title><link href="http://example.org/b"/>
<summary>Plain words.</summary></entry></feed>"""


def texts(documents):
    return [d.text for d in documents]


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_row_is_a_document(tmp_path, write):
    """Text, id and title are found by the usual names; quoted line ends belong to the text."""
    path = write(tmp_path / f"news.{write.__name__.removeprefix('write_')}")
    documents, skips = read(path)
    assert texts(documents) == [row["text"] for row in ROWS]
    assert [d.id for d in documents[:2]] == ["a", "b"]
    assert documents[2].id.startswith(path.name)
    assert [d.title for d in documents] == ["First", None, "Third"]
    assert not skips.skipped
    parts = list(read_chunks([path], 10_000))
    assert [p.document.text for p in parts] == texts(documents)
    assert parts[2].id.endswith(":3")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.tsv", {"delimiter": "\t"}),
        ("a.csv", {"delimiter": ";"}),
        ("a.csv", {"delimiter": "|", "lineterminator": "\n"}),
        ("a.csv", {"quoting": csv.QUOTE_ALL}),
    ],
)
def test_dialects(tmp_path, name, options):
    """Commas, semicolons, bars and tabs are told by the header."""
    documents, _ = read(write_csv(tmp_path / name, **options))
    assert texts(documents) == [row["text"] for row in ROWS]


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_the_column_of_the_text(tmp_path, write):
    """Another column is named; a missing one is a sentence that lists those there are."""
    rows = [{"headline": "T", "Story": "Rey left."}, {"headline": "U", "Story": "Finn came."}]
    path = write(tmp_path / f"a.{write.__name__.removeprefix('write_')}", rows)
    documents, _ = read(path, text_column="story")
    assert [(d.title, d.text) for d in documents] == [("T", "Rey left."), ("U", "Finn came.")]
    (bad,) = read_chunks([path], 1000)
    assert "no column that is called text; its columns are 'headline', 'Story'" in bad.error
    assert "--text-column" in bad.error
    _, skips = read(path, text_column="body")
    assert list(skips.skipped) == ["no column 'body'"]


def test_bad_rows_are_counted_one_by_one(tmp_path):
    """Too few or too many fields, empty texts and broken characters."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,text\n1,one\n2\n3,a,b\n\n4,  \n5,caf\xe9\n6,six\n")
    documents, skips = read(path)
    assert texts(documents) == ["one", "six"]
    assert skips.skipped == {
        "row with another number of columns than the header": 2,
        "empty text": 1,
        "not valid UTF-8": 1,
    }


def test_an_open_quote_cannot_take_the_memory(tmp_path):
    """A quotation mark that never ends is found at the limit; what is behind it is not guessed."""
    path = tmp_path / "a.csv"
    for long in (b'"' + b"x\n" * 8_000_100, b"x" * 17_000_000 + b"\n"):
        path.write_bytes(b"text\nfirst\n" + long + b"last\n")
        documents, skips = read(path)
        assert texts(documents) == ["first"]
        assert skips.skipped == {"row longer than the limit": 1}


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_rows_without_an_alias_are_left_out(tmp_path, write):
    """To collect, only rows that may mention the entity are kept."""
    path = write(tmp_path / f"a.{write.__name__.removeprefix('write_')}")
    documents, skips = read(path, matcher=AliasMatcher(["Jakku"]))
    assert [d.id for d in documents] == ["a"]
    assert skips.skipped == {NO_MENTION: 2}


def test_parquet_that_is_none_or_damaged(tmp_path):
    """What only claims to be Parquet, is cut off, has no text or unpacks to too much."""
    good = write_parquet(tmp_path / "good.parquet").read_bytes()
    (tmp_path / "a.parquet").write_text("text\nhello\n")
    (tmp_path / "b.parquet").write_bytes(good[: len(good) // 2])
    write_parquet(tmp_path / "c.parquet", [{"text": 1}])
    middle = len(good) // 3
    (tmp_path / "d.parquet").write_bytes(good[:middle] + b"\xff" * 40 + good[middle + 40 :])
    documents, skips = read(tmp_path)
    assert "file that is called .parquet and is none" in skips.skipped
    assert "damaged Parquet file" in skips.skipped
    assert "column 'text' is not text but int64" in skips.skipped
    assert len(documents) >= 3


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["x"] * 3_000_000, "more records than its bytes hold"),
        ([f"{i}" + "x" * 2_000_000 for i in range(40)], "texts larger than the limit"),
    ],
)
def test_parquet_that_grows_is_refused_by_what_its_footer_says(tmp_path, texts, reason):
    """Few bytes that stand for many rows, or for much text, are told before they are unpacked."""
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": texts}), path, compression="zstd", use_dictionary=len(texts) > 99
    )
    documents, skips = read(path)
    assert documents == []
    assert list(skips.skipped) == [reason]


def test_rss(tmp_path):
    """Items with their fullest text, without markup; a headline is part of the text."""
    (tmp_path / "feed.xml").write_text(RSS)
    documents, skips = read(tmp_path)
    assert texts(documents) == [
        "First\n\nRey left Jakku & went.\n\nAt night.",
        "R&D pays\n\nOne paragraph.",
        "Only a headline about Finn",
    ]
    assert [d.id for d in documents[:2]] == ["a", "http://example.org/b"]
    assert documents[1].title == "R&D pays"
    assert not skips.skipped
    (tmp_path / "feed.xml").write_text(RSS[RSS.index("<rss ") :])
    assert texts(read(tmp_path)[0]) == texts(documents), "known without an XML declaration"


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("Shift_JIS", "東京から①京都へ。"),
        ("EUC-JP", "東京から京都へ。"),
        ("ISO-2022-JP", "東京から京都へ。"),
        ("GB2312", "从北京去镕基路。"),
        ("GB18030", "从北京去上海。"),
        ("Big5", "從臺北去高雄。"),
        ("EUC-KR", "서울에서 부산까지."),
        ("windows-1251", "Из Самары в Москву."),
        ("ISO-8859-2", "Z Krakowa do Łodzi."),
        ("UTF-16", "Από την Αθήνα."),
    ],
)
def test_a_feed_is_read_in_the_encoding_that_it_declares(tmp_path, encoding, said):
    text = f"<?xml version='1.0' encoding='{encoding}'?><rss><channel><item><title>{said}"
    codec = {"Shift_JIS": "cp932", "GB2312": "gbk"}.get(encoding, encoding)
    raw = f"{text}</title></item></channel></rss>".encode(codec)
    (tmp_path / "feed.xml").write_bytes(raw)
    documents, counter = read(tmp_path / "feed.xml")
    assert [document.text for document in documents] == [said]
    assert not counter.skipped


def test_atom(tmp_path):
    """Entries, also with content that is XHTML."""
    (tmp_path / "news.atom").write_text(ATOM)
    documents, _ = read(tmp_path)
    assert [" ".join(d.text.split()) for d in documents] == [
        "First Rey left. At night.",
        "Second & last Plain words.",
    ]
    assert [d.id for d in documents] == ["urn:a", "http://example.org/b"]
    (first, _) = read_chunks([tmp_path / "news.atom"], 1000)
    assert isinstance(first, Chunk)


BOMB = """<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">
]><rss><channel><item><title>&b;</title></item></channel></rss>"""
OUTSIDE = """<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/hostname">]>
<rss><channel><item><title>&x;</title></item></channel></rss>"""


UNKNOWN = "<?xml version='1.0' encoding='x-none'?><rss></rss>"


@pytest.mark.parametrize(
    ("text", "n_read", "reason"),
    [
        (BOMB, 0, "XML that declares entities"),
        (OUTSIDE, 0, "XML that declares entities"),
        (UNKNOWN, 0, "XML in an encoding that is not known"),
        (RSS[: RSS.index("<item><title>Only")], 2, "not well-formed XML"),
        (RSS[: RSS.index("<item><title>R&amp;D")] + "<a>" * 1000, 1, "XML of more than 512 levels"),
    ],
    ids=["grows", "reads files", "encoding", "cut off", "deep"],
)
def test_items_before_a_fault_of_a_feed_are_read(tmp_path, text, n_read, reason):
    """What is wrong is named; a feed can neither grow by entities nor read other files."""
    (tmp_path / "a.rss").write_text(text)
    documents, skips = read(tmp_path)
    assert len(documents) == n_read
    assert skips.skipped == {reason: 1}


def test_a_feed_or_an_item_that_is_too_large(tmp_path, monkeypatch):
    """Items that are short are read, and what is wrong with the others is named."""
    (tmp_path / "a.rss").write_text(RSS.replace("short", "x" * 5000))
    monkeypatch.setattr(formats, "MAX_RECORD_BYTES", 1000)
    documents, skips = read(tmp_path)
    assert skips.skipped == {"item larger than the limit": 1}
    assert len(documents) == 2
    monkeypatch.setattr(formats, "MAX_FEED_BYTES", 100)
    (bad,) = read_chunks([tmp_path / "a.rss"], 1000)
    assert isinstance(bad, Unreadable)
    assert "feed larger than the limit" in bad.error


SMALL = {
    "much.jsonl.gz": (gzip.compress(b"\n" * 48_000_000), "archive unpacks to more than 100 times"),
    "many.jsonl.gz": (gzip.compress(b"{}\n" * 30_000), "more records than its bytes hold"),
    "parts.jsonl": (b'{"text":"Rey","a":[' + b"{}," * 500_000 + b"{}]}", "more than 500,000 parts"),
    "spans.jsonl": (
        b'{"text":"Rey","mentions":[' + b"[0,3]," * 100_000 + b"[0,3]]}",
        "more than 100,000 mentions",
    ),
    "items.rss": (b"<rss>" + b"<item/>" * 100_001 + b"</rss>", "more than 100,000 items in a feed"),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_files_that_stand_for_very_much(tmp_path, name):
    """Reading ends at a limit, with one sentence."""
    data, reason = SMALL[name]
    (tmp_path / name).write_bytes(data)
    _, skips = read(tmp_path)
    assert any(reason in said for said in skips.skipped), dict(skips.skipped)


def test_one_long_cell_in_very_many_rows(tmp_path):
    """A text that a table stores once and names in every row is not read without end."""
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000), pa.array(["Rey " * 50_000]))
    pq.write_table(pa.table({"text": rows}), tmp_path / "a.parquet")
    documents, skips = read(tmp_path)
    assert len(documents) < 1000
    assert skips.skipped["more text than its bytes hold"] == 1


def test_a_page_with_an_xml_declaration_stays_a_page(tmp_path):
    """Other XML is refused (see the sentences of what is not understood)."""
    page = "<!DOCTYPE html><html><body><p>Rey left the planet in the evening.</p></body></html>"
    (tmp_path / "c").write_text(f'<?xml version="1.0"?>\n{page}')
    documents, _ = read(tmp_path / "c")
    assert texts(documents) == ["Rey left the planet in the evening."]


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"a,b\n1,caf\xe9\n", 2, "not UTF-8"),
        (b"a,b\n1,\0\n", 2, "holds a zero byte"),
        (b'a,b\n1,"x"y\n', 2, "is no CSV"),
        (b"a,b\n" + b"x," * 20_000, 2, "more than 10,000 columns"),
        (b'a\n"' + b"x\n" * 3000, 251, "is a quotation mark missing"),
    ],
)
def test_rows_that_are_read_strictly(data, line, reason):
    """Who needs every row of a table is told the line and what is wrong with it."""
    rows = tables.read_rows([data], max_row_bytes=500 if b"x\n" in data else 1 << 20)
    assert next(rows)[0] == 1
    with pytest.raises(tables.RowError, match=reason) as error:
        list(rows)
    assert error.value.line == line


def test_a_text_that_is_not_utf8_hides_no_other(tmp_path):
    """It is counted, and the rows after it are read."""
    offsets = pa.py_buffer(b"\0\0\0\0\5\0\0\0\7\0\0\0\14\0\0\0")
    buffers = [None, offsets, pa.py_buffer(b"hello\xff\xfeworld")]
    broken = pa.Array.from_buffers(pa.string(), 3, buffers)
    pq.write_table(pa.table({"text": broken}), tmp_path / "a.parquet")
    documents, skips = read(tmp_path)
    assert texts(documents) == ["hello", "world"]
    assert skips.skipped == {"not valid UTF-8": 1}
