"""Splitting a byte stream into pages, and reading one page of any export version."""

import tracemalloc
from collections import Counter
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stamo.build.dump import (
    CUT_OFF,
    INVALID_TEXT,
    MALFORMED,
    NO_TEXT,
    NOT_CLOSED,
    OTHER_MODEL,
    OTHER_NAMESPACE,
    PageLimits,
    PageSplitter,
    _has_long_tag,
    parse_pages,
    too_large,
)
from stamo.build.site import Site

SITE = Site.parse(
    b'<mediawiki xml:lang="de"><siteinfo><case>first-letter</case><namespaces>'
    b'<namespace key="0" /><namespace key="10">Vorlage</namespace></namespaces></siteinfo>'
)


def revision(text: str, before: str = "", after: str = "") -> str:
    return f'<revision><id>7</id>{before}<text xml:space="preserve">{text}</text>{after}</revision>'


def page(title: str = "Oslo", revisions: str = "", head: str = "<id>12</id>") -> bytes:
    return f"<page>\n<title>{title}</title>\n{head}\n{revisions}\n</page>\n".encode()


def parse(data: bytes, namespaces: frozenset[int] = frozenset({0})):
    counts: Counter[str] = Counter()
    return list(parse_pages(data, SITE, namespaces, counts)), counts


def texts(data: bytes) -> list[str]:
    return [found.text for found in parse(data)[0]]


def split(blocks, chunk_bytes=1000, max_page_bytes=10_000, expects_end=False):
    splitter = PageSplitter(blocks, PageLimits(chunk_bytes, max_page_bytes))
    return list(splitter.chunks(expects_end=expects_end)), splitter.skipped


# One page


def test_page_of_export_0_3():
    """The oldest form has neither <ns> nor <redirect>; the title's prefix gives the namespace."""
    ((found,), counts) = parse(page("Oslo", revision("a &amp; b")))
    assert (found.title, found.namespace, found.page_id) == ("Oslo", 0, 12)
    assert (found.redirect, found.text) == (None, "a & b")
    assert not counts


def test_page_of_export_0_11():
    """Today's form carries namespace, redirect target, content model and attributes of the text."""
    data = (
        b"<page><title>Kristiania &amp; Co</title><ns>0</ns><id>5</id>"
        b'<redirect title="Oslo &amp; Co" />'
        b"<revision><id>1</id><parentid>0</parentid><timestamp>2024-01-01T00:00:00Z</timestamp>"
        b"<contributor><username>A</username><id>999</id></contributor><comment>x</comment>"
        b"<origin>1</origin><model>wikitext</model><format>text/x-wiki</format>"
        b'<text bytes="21" sha1="abc" xml:space="preserve">#REDIRECT [[Oslo]]</text>'
        b"<sha1>abc</sha1></revision></page>"
    )
    ((found,), counts) = parse(data)
    assert (found.title, found.page_id, found.redirect) == ("Kristiania & Co", 5, "Oslo & Co")
    assert found.text == "#REDIRECT [[Oslo]]"
    assert not counts


def test_redirect_without_target_is_left_to_the_text():
    """Exports 0.4 and 0.5 say <redirect /> only."""
    ((found,), _) = parse(page("A", revision("#REDIRECT [[B]]"), "<id>1</id><redirect />"))
    assert found.redirect is None


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [
        ("&lt;b&gt; &quot;q&quot; &apos;s&apos; &amp;amp;", "<b> \"q\" 's' &amp;"),
        ("&#65;&#x42;&#x1F600;", "AB\U0001f600"),
        ("&#38;lt;", "&lt;"),
        ("&amp;#65;", "&#65;"),
        ("<![CDATA[<b> & ]]>x", "<b> & x"),
        ("a<!-- hidden -->b", "ab"),
        ("one\r\ntwo\rthree&#13;", "one\ntwo\nthree\r"),
        ("  kept  ", "  kept  "),
    ],
)
def test_text_is_unescaped_exactly_once(escaped, plain):
    """References, CDATA sections, comments and line ends follow the rules of XML."""
    assert texts(page("A", revision(escaped))) == [plain]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"])))
def test_any_escaped_text_comes_back(text):
    """What a wiki escapes on export is what we read."""
    assert texts(page("A", revision(escape(text)))) == [text]


@pytest.mark.parametrize(
    ("revisions", "note"),
    [
        ('<revision><text xml:space="preserve" /></revision>', None),
        ('<revision><text bytes="0" sha1="x"></text></revision>', None),
        ('<revision><text bytes="120" /></revision>', NO_TEXT),
        ('<revision><text deleted="deleted" /></revision>', NO_TEXT),
        ("<revision><id>3</id></revision>", NO_TEXT),
        ("", NO_TEXT),
    ],
)
def test_page_without_text_is_kept_and_told_from_an_empty_one(revisions, note):
    """An empty page is an empty page; hidden and missing texts are counted besides."""
    ((found,), counts) = parse(page("A", revisions))
    assert found.text == ""
    assert list(counts) == ([note] if note else [])


def test_unwanted_namespaces_are_counted():
    """The declared number counts; without one the wiki's own prefixes do."""
    data = page("Vorlage:X", revision("t")) + page("Y", revision("t"), "<ns>14</ns>")
    data += page("Vorlage:Z", revision("article after all"), "<ns>0</ns>")
    found, counts = parse(data)
    assert [one.title for one in found] == ["Vorlage:Z"]
    assert counts == {OTHER_NAMESPACE: 2}


def test_prefix_hidden_in_a_reference_still_counts():
    """A title is unescaped before its namespace is looked up."""
    found, counts = parse(page("&#86;orlage:X", revision("t")))
    assert not found
    assert counts == {OTHER_NAMESPACE: 1}


def test_wanted_namespaces_are_a_choice():
    """Templates come out when they are asked for."""
    found, counts = parse(page("Vorlage:X", revision("t")), frozenset({0, 10}))
    assert [(one.title, one.namespace) for one in found] == [("Vorlage:X", 10)]
    assert not counts


@pytest.mark.parametrize(
    ("before", "after", "is_kept"),
    [
        ("<model>wikitext</model><format>text/x-wiki</format>", "", True),
        ("", "<model>wikitext</model>", True),
        ("<model>json</model>", "", False),
        ("", "<sha1/><model>css</model><format>text/css</format>", False),
        ("<format>application/json</format>", "", False),
        ("<model>wikitext</model>", "<content><model>mediainfo</model><text/></content>", True),
    ],
)
def test_only_wikitext_is_kept(before, after, is_kept):
    """The content model of the main slot decides, wherever the export version puts it."""
    found, counts = parse(page("A", revision("t", before, after)))
    assert [one.text for one in found] == (["t"] if is_kept else [])
    assert counts == ({} if is_kept else {OTHER_MODEL: 1})


def test_last_revision_of_a_history_wins():
    """Of several revisions the last is read, even when it is empty."""
    data = page("A", revision("old") + revision("new")) + page("B", revision("old") + revision(""))
    assert texts(data) == ["new", ""]


def test_invalid_utf8_is_replaced_and_counted():
    """Bad bytes cost single characters, not the page."""
    data = page("A", revision("x?y")).replace(b"?", b"\xff\xfe")
    found, counts = parse(data)
    assert [one.text for one in found] == ["x\ufffd\ufffdy"]
    assert counts == {INVALID_TEXT: 1}


def test_control_characters_are_replaced_and_counted():
    """Characters that XML forbids do not cost the page either."""
    found, counts = parse(page("A", revision("x\x00\x1fy")))
    assert [one.text for one in found] == ["x\ufffd\ufffdy"]
    assert counts == {INVALID_TEXT: 1}


@pytest.mark.parametrize(
    "bad",
    [
        b"<page></page>",
        b"<page/>",
        b"<page><title></title><id>1</id></page>",
        b"<page><title>A</title><id>x</id></page>",
        b"<page><title>A</title><id>" + b"9" * 5000 + b"</id></page>",
        b"<page><title>A</title><ns>zero</ns></page>",
        b"<page><title>A</title><revision><text>x</revision></page>",
        b"<page><title>A</title><revision><text>&nbsp;</text></revision></page>",
        b"<page><title>A</title><revision><text>x",
        b"<page><title>A</title>" + b"<a>" * 400_000 + b"</page>",
        b"<page><title>A</title><a " + b"b='' " * 400_000 + b"/></page>",
    ],
)
def test_malformed_page_is_counted_and_the_next_one_read(bad):
    """A page that no export would write is skipped alone."""
    found, counts = parse(bad + page("B", revision("fine")))
    assert [one.text for one in found] == ["fine"]
    assert counts == {MALFORMED: 1}


def test_entities_are_never_declared_or_expanded():
    """A document type inside a page is malformed; its entities stay unknown."""
    bomb = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
    inside = page("A", revision("&b;")).replace(b"<title>", bomb + b"<title>")
    found, counts = parse(bomb + page("A", revision("&b;&b;")) + inside)
    assert not found
    assert counts == {MALFORMED: 2}


@given(st.binary(max_size=300), st.integers(0, 400))
def test_noise_inside_a_page_never_raises(noise, place):
    """Whatever bytes a page holds, its neighbours come out."""
    data = bytearray(page("A", revision("text " * 20)))
    place = 6 + min(place, len(data) - 14)
    data[place : place + len(noise)] = noise.replace(b"<", b"&")
    found, _ = parse(page("Before", revision("1")) + bytes(data) + page("After", revision("2")))
    assert found[0].title == "Before"
    assert found[-1].title == "After"


# Splitting

HISTORY = page("H", "".join(revision(f"{number} " * 300) for number in range(30)))
HUGE = page("Huge", revision("x" * 30_000))
UNFINISHED = b"<page><title>Unfinished</title>" + b"u" * 500 + page("Next", revision("n" * 9850))
STREAM = (
    b"".join(page(f"P{number}", revision("y" * (97 * number % 700))) for number in range(40))
    + HISTORY
    + page("Q" * 700, revision("q"))
    + HUGE
    + UNFINISHED
    + b"junk" * 5000
    + page("Last", revision("z" * 500)).replace(b"</page>", b"</page \n>")
    + b"<page><title>cut"
)


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 7, 64, 1009, 65_536])
def test_chunks_do_not_depend_on_read_sizes(n_bytes):
    """The cuts follow from the bytes, however many arrive at a time."""
    whole, skipped = split([STREAM])
    blocks = [STREAM[start : start + n_bytes] for start in range(0, len(STREAM), n_bytes)]
    assert split(blocks) == (whole, skipped)
    assert skipped == {too_large(10_000): 1, MALFORMED: 1, CUT_OFF: 1}


def test_chunks_hold_all_pages_in_order():
    """Nothing is lost or doubled between chunks, and history pages keep their last revision."""
    chunks, _ = split([STREAM])
    found = [one for chunk in chunks for one in parse(chunk)[0]]
    expected = [*(f"P{number}" for number in range(40)), "H", "Q" * 700, "Next", "Last"]
    assert [one.title for one in found] == expected
    assert found[40].text == "29 " * 300


@given(st.lists(st.integers(1, 60)), st.integers(1, 3000), st.integers(1, 12_000))
def test_pages_do_not_depend_on_chunk_size(cuts, chunk_bytes, n_first):
    """Any chunk size and any read sizes give the same pages."""
    blocks, start = [STREAM[:n_first]], n_first
    for size in cuts:
        blocks.append(STREAM[start : start + size])
        start += size
    chunks, _ = split([block for block in [*blocks, STREAM[start:]] if block], chunk_bytes)
    assert len(parse(b"".join(chunks))[0]) == 44


@pytest.mark.parametrize(
    ("data", "expects_end", "reasons"),
    [
        (page("A") + b"</mediawiki>", True, {}),
        (page("A"), True, {NOT_CLOSED: 1}),
        (page("A"), False, {}),
        (page("A") + b"<page><ti", True, {CUT_OFF: 1}),
    ],
)
def test_the_way_a_dump_ends_is_counted(data, expects_end, reasons):
    """A missing end and an unfinished page are told apart from a proper end."""
    assert split([data], expects_end=expects_end)[1] == reasons


def test_too_large_pages_pass_in_bounded_memory():
    """20 MB pages, in one revision or in many, never sit in memory whole."""

    def blocks():
        yield b"<page><title>One</title><revision><text>"
        for _ in range(320):
            yield b"x" * 65_536
        yield b"</text></revision></page>" + b"<page><title>Many</title>"
        for number in range(320):
            yield revision(f"{number} " + "y" * 65_000).encode()
        yield b"</page>" + page("Small", revision("s"))

    tracemalloc.start()
    try:
        chunks, skipped = split(blocks(), chunk_bytes=1 << 20, max_page_bytes=1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    found = [one for chunk in chunks for one in parse(chunk)[0]]
    assert [(one.title, one.text[:5]) for one in found] == [("Many", "319 y"), ("Small", "s")]
    assert skipped == {too_large(1 << 20): 1}
    assert peak < (2 + 4) << 20  # 2 * chunk_bytes + 4 * max_page_bytes, as the dump reader states


def test_header_is_what_stands_before_the_first_page():
    """The header may arrive in any pieces; a stream without a page has none."""
    data = b"<mediawiki><siteinfo/>" + page("A")
    splitter = PageSplitter([data[i : i + 1] for i in range(len(data))], PageLimits(10, 1000))
    assert splitter.read_header() == b"<mediawiki><siteinfo/>"
    assert list(splitter.chunks(expects_end=False)) == [page("A").rstrip()]
    assert PageSplitter([b"<mediawiki>"], PageLimits(10, 10)).read_header() is None


def test_endless_header_is_given_up():
    """Content without a page is read for 1 MiB, no further."""
    n_read = 0

    def blocks():
        nonlocal n_read
        while True:
            n_read += 1
            yield b"<entity>" * 8192

    assert PageSplitter(blocks(), PageLimits(10, 10)).read_header() is None
    assert n_read <= 18


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b"<a" + b"x" * 65_535 + b">", True),
        (b"<a" + b"x" * 65_534 + b">", False),
        (b"<!" + b"x" * 99_999 + b">", False),
        (b"y" * 99_999 + b"<a>" + b"z" * 99_999, False),
        (b"<a" * 40_000, True),
        ((b"<a" * 32_000 + b">") * 3, False),
    ],
)
def test_long_tags_are_told_from_long_texts(page, expected):
    """Only what stands between a tag's beginning and the next end counts, looked at once."""
    assert _has_long_tag(page) is expected
