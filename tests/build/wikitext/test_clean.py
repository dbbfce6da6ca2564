"""Cleaning wikitext: the text a reader sees, and the exact span of each link."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stamo.build.site import Site
from stamo.build.wikitext import clean, find_redirect, is_disambiguation
from tests.build.wikitext.links import anchors_of

SITE = Site()
GERMAN = Site.parse(
    b'<mediawiki xml:lang="de"><siteinfo><namespaces><namespace key="6">Datei</namespace>'
    b'<namespace key="14">Kategorie</namespace></namespaces></siteinfo>'
)


def anchors(wikitext, site=SITE, title=""):
    page = clean(wikitext, site, title)
    return [(page.text[a.start : a.end], a.target) for a in anchors_of(page)]


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("[[moon]]", [("moon", "Moon")]),
        ("[[Moon|the satellite]]", [("the satellite", "Moon")]),
        ("[[Moon (band)|]]", [("Moon", "Moon (band)")]),
        ("[[Paris, Texas|]]", [("Paris", "Paris, Texas")]),
        ("[[Moon]]s and [[sun|star]]light", [("Moons", "Moon"), ("starlight", "Sun")]),
        ("[[Moon]]<nowiki/>s", [("Moon", "Moon")]),
        ("[[Moon#Craters]]", [("Moon#Craters", "Moon")]),
        ("[[Moon#Craters|craters]]", [("craters", "Moon")]),
        ("[[AT&amp;T]]", [("AT&T", "AT&T")]),
        ("[[Moon|a&nbsp;b]]", [("a b", "Moon")]),
        ("[[Caf%C3%A9|x]]", [("x", "Café")]),
        ("'''[[Moon]]'''", [("Moon", "Moon")]),
        ("[[Moon|<b>bright</b> ''one'']]", [("bright one", "Moon")]),
        ("[[ Moon | big  moon ]]", [("big moon", "Moon")]),
        ("[[Moon|big\nmoon]]", [("big moon", "Moon")]),
        ("[[Moon|big<br />moon]]", [("big moon", "Moon")]),
        ("[[Moon<!-- x -->]]", [("Moon", "Moon")]),
        ("[[2001: A Space Odyssey]]", [("2001: A Space Odyssey",) * 2]),
        ('[[Park#<nowiki>"</nowiki>Hill|hill]]', [("hill", "Park")]),
        ("[[Moon|a [[Sun]] b]]", [("Sun", "Sun")]),
        ("\u202bאבג [[ירח]] דהו", [("ירח", "ירח")]),
    ],
)
def test_anchor_forms(wikitext, expected):
    """Every way to write a link gives the anchor a reader sees and the normalised target."""
    assert anchors(f"Before {wikitext} after.") == expected


@pytest.mark.parametrize(
    ("wikitext", "text", "reason"),
    [
        ("a [[#Craters]] b", "a #Craters b", "section"),
        ("a [[:Category:Moons]] b", "a Category:Moons b", "other namespace"),
        ("a [[Category:Moons|key]] b", "a b", "category"),
        ("a [[Image:Moon.jpg|thumb|the moon]] b", "a b", "file"),
        ("a [[fr:Lune]] b", "a b", "language"),
        ("a [[:fr:Lune]] b", "a fr:Lune b", "interwiki"),
        ("a [[Moon|{{unknown}}]] b", "a b", "empty"),
        ("a [[{{PAGENAME}}|here]] b", "a here b", "broken"),
        ("a [[Moon b", "a [[Moon b", "broken"),
        ("a [[http://x.org label]] b", "a label b", "broken"),
        (f"a [[{'x' * 300}|y]] b", "a y b", "broken"),
    ],
)
def test_links_that_are_no_anchors(wikitext, text, reason):
    """Links to anything but articles keep or lose their words as on the rendered page."""
    page = clean(wikitext, SITE)
    assert page.text == text
    assert not anchors_of(page)
    assert dict(page.n_dropped) == {reason: 1}


@pytest.mark.parametrize(
    ("language", "wikitext", "anchor"),
    [
        ("en", "[[Moon]]é", "Moon"),
        ("de", "[[Mond]]öfen", "Mondöfen"),
        ("ru", "[[Луна]]ми", "Лунами"),
        ("ja", "[[月]]は", "月"),
        ("zh", "[[月]]abc", "月"),
    ],
)
def test_link_trail_follows_the_language(language, wikitext, anchor):
    """Letters join the anchor where the language writes spaces between words."""
    assert anchors(wikitext, Site(language=language))[0][0] == anchor


def test_subpage_links_are_relative():
    """`[[/x]]` and `[[../x]]` lead below and beside the page they stand on."""
    found = anchors("[[/Craters]] [[../Sun|sun]] [[../|up]]", title="Sky/Moon")
    assert [target for _, target in found] == ["Sky/Moon/Craters", "Sky/Sun", "Sky"]
    assert anchors("[[/Craters]]") == [("/Craters", "/Craters")]


def test_local_namespaces_of_another_wiki():
    """A German dump leaves out `Datei:`, the older `Bild:`, and `Kategorie:`."""
    page = clean("[[Datei:a.jpg|[[A]]]] [[Bild:b.jpg]] [[Kategorie:C]] [[Mond]]", GERMAN)
    assert page.text == "Mond"
    assert page.other_links == [("A", "A")]


@pytest.mark.parametrize(
    "wikitext",
    [
        "{{box|a=[[Sun]]}}",
        "{{box|{{inner|[[Sun]]}}}}",
        "<ref>[[Sun]]<!-- [[Hidden]] --></ref>",
        "<gallery>\nImage:a.jpg|a [[Sun]]\n</gallery>",
        "[[Image:a.jpg|thumb|the [[Sun]] rises]]",
        "\n{|\n| a || [[Sun]]\n{|\n| b\n|}\n|}\n",
        "<table><tr><td>[[Sun]]</td></tr></table>",
        "\n| [[Sun]] || a row without a table\n",
    ],
)
def test_links_outside_the_running_text(wikitext):
    """Boxes, notes, captions and tables leave the text; their links are listed without a span."""
    page = clean(f"One {wikitext} two [[Moon]].", SITE)
    assert re.sub(r"\s+", " ", page.text) == "One two Moon."
    assert [a.target for a in anchors_of(page)] == ["Moon"]
    assert page.other_links == [("Sun", "Sun")]


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("a<!-- b -->c", "ac"),
        ("a\n<!-- b -->\nc", "a\nc"),
        ("a <!-- never closed", "a"),
        ("a <nowiki>[[b]] ''c''</nowiki> d", "a [[b]] ''c'' d"),
        ("<nowiki>&amp;lt;</nowiki>", "&lt;"),
        ("<pre><nowiki>b</nowiki></pre>", "b"),
        ("a <source lang=c>int [[b]];</source> d", "a d"),
        ('a<ref name="b"/> c<ref name=b>d</ref>.', "a c."),
        ("a<br>b<BR />c", "a\nb\nc"),
        ("'''a''' ''b'' '''''c'''''", "a b c"),
        ("l'''uomo'' bello", "l'uomo bello"),
        ("x\n== A [[moon]] ==\ny", "x\nA moon\ny"),
        ("* a\n** b\n# c\n: d\n; e", "a\nb\nc\nd\ne"),
        ("see [http://x.org the page] or [http://x.org]", "see the page or"),
        ("__TOC__a __NOEDITSECTION__ b __init__", "a b __init__"),
        ("a &amp; b &lt;i&gt; &mdash; &nbsp; c &bogus;", "a & b <i> — c &bogus;"),
        ("a   b\t c\n\n\n\nd \n e", "a b c\n\nd\ne"),
        ("Paris ({{IPA|x}}) and ({{y}}, )", "Paris (x) and"),
        ("a {{lang|fr|mot}} {{nowrap|[[b|c]]}} d", "a mot c d"),
        ("{{never closed [[a]]", "{{never closed a"),
        ("\n{|\n| row\n\nThe text goes on.", "The text goes on."),
        ("a\x00b\ud800c\r\nd", "ab\ufffdc\nd"),
        ("", ""),
    ],
)
def test_text(wikitext, text):
    """Markup goes, words stay, lines and paragraphs are kept."""
    assert clean(wikitext, SITE).text == text


def test_spans_are_exact_in_a_whole_page():
    """Spans hold although markup before, inside and between the anchors was removed."""
    page = clean(
        "{{box|x}}\n'''Io'''<ref>n</ref> is a [[moon]] of ''[[Jupiter (planet)|Jupiter]]''"
        "&nbsp;&mdash; a [[gas giant]]s' child.\n\n== Name ==\n* From [[Io (mythology)|''Io'']].",
        SITE,
    )
    assert page.text == "Io is a moon of Jupiter — a gas giants' child.\n\nName\nFrom Io."
    assert [(a.start, a.end) for a in anchors_of(page)] == [(8, 12), (16, 23), (28, 38), (58, 60)]
    assert anchors_of(page)[3].target == "Io (mythology)"


def test_caption_with_links_counts_as_a_file():
    """A file whose caption holds links is one file left out, in the text and inside a box."""
    page = clean("[[Image:a.jpg|x [[A]]]] {{box|[[Image:b.jpg|y [[B]]]]}} [[", SITE)
    assert dict(page.n_dropped) == {"file": 2, "broken": 1}


SIGNS = "[]{}|<>'=*#:;_-&\n\t\x00\x02\x03\x04 aé月א\ud800"
TOKENS = """
    [[ ]] {{ }} {| |} ''' <nowiki> </nowiki> <ref> </ref> <!-- --> <br> &nbsp; &#2; [http://a
    [[A|b]] [[a]] [[File: [[fr: {{lang| <table> </table> <pre> %41
"""
MARKUP = st.sampled_from([*SIGNS, *TOKENS.split(), "\n|", "\n=="])
WIKITEXT = st.lists(MARKUP, max_size=40).map("".join)


def test_link_on_the_line_of_an_open_table_keeps_the_others_right():
    """A table that is never closed loses its first line; the links behind it keep their targets."""
    for wikitext in ("x\n{| a [[One]]\nsee [[Two|b]]", "{| a [[One]] \nsee [[Two|b]]"):
        assert ("b", "Two") in anchors(wikitext)


def test_rest_of_sheltered_text_is_revealed():
    """A row that is cut out in the middle of literal text leaves no sign of ours behind."""
    assert clean("\n|<nowiki>\n|</nowiki>", SITE, "Page").text == "|"


@settings(max_examples=400, deadline=None)
@given(WIKITEXT)
@example("[[' <pre>]]")
def test_any_input_gives_sound_spans(wikitext):
    """Whatever comes in: no error, no control character, ordered spans, visible trimmed anchors."""
    page = clean(wikitext, SITE, "Page")
    position = 0
    for anchor in anchors_of(page):
        surface = page.text[anchor.start : anchor.end]
        assert position <= anchor.start < anchor.end <= len(page.text)
        assert surface == surface.strip()
        assert anchor.target
        position = anchor.end
    assert not re.search(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]", page.text)
    assert all(surface and target for surface, target in page.other_links)
    page.text.encode()


WORDS = st.from_regex(r"[A-Z][a-zéß]{0,8}( [a-z]{1,5}){0,2}", fullmatch=True)


@settings(deadline=None)
@given(
    st.lists(st.tuples(WORDS, WORDS, st.sampled_from(["", "''", "'''"])), min_size=1, max_size=8)
)
def test_labels_come_back(links):
    """Well-formed links give exactly their labels and targets, in order."""
    wikitext = "; ".join(f"{{{{x}}}}{q}[[{t}|{q}{a}{q}]]{q} &amp;" for t, a, q in links)
    assert anchors(wikitext) == [(label, target) for target, label, _ in links]


@pytest.mark.parametrize(
    ("wikitext", "target"),
    [
        ("#REDIRECT [[Moon]]", "Moon"),
        ("#redirect: [[moon#Craters|x]] {{R}}", "Moon"),
        ("\n # Redirect[[New_York]]", "New York"),
        ("#পুনর্নির্দেশ [[ঢাকা]]", "ঢাকা"),
        ("#تغییر مسیر [[ماه]]", "ماه"),
        ("#REDIRECT [[Wikipedia:About]]", "Wikipedia:About"),
        ("# [[Moon]] is a list item", None),
        ("See #REDIRECT [[Moon]]", None),
        ("#REDIRECT Moon", None),
        ("", None),
    ],
)
def test_find_redirect(wikitext, target):
    """A redirect is known by its first word, in many languages; its section is dropped."""
    assert find_redirect(wikitext, SITE) == target


@pytest.mark.parametrize(
    ("wikitext", "title", "expected"),
    [
        ("x {{disambig}}", "X", True),
        ("x {{ Disambiguation |geo}}", "X", True),
        ("{{template:dab}}", "X", True),
        ("{{消歧义}}", "X", True),
        ("a __DISAMBIG__", "X", True),
        ("plain", "X (disambiguation)", True),
        ("plain", "X（曖昧さ回避）", True),
        ("{{many meanings}}", "X", True),
        ("{{stub}} text", "X", False),
        ("<!-- {{disambig}} --> text", "X", False),
        ("<nowiki>{{disambig}}</nowiki>", "X", False),
        ("{{R to disambiguation}}", "X", False),
    ],
)
def test_is_disambiguation(wikitext, title, expected):
    """Visible templates of many languages, the magic word, the title or a name given decide."""
    assert is_disambiguation(wikitext, title, SITE, frozenset({"Many_meanings"})) == expected


@pytest.mark.parametrize(
    ("opening", "closing"), [("[[File:a|", "]]"), ("{{a|", "}}"), ("\n{|", "\n|}"), ("<ref>", "")]
)
def test_deep_nesting_is_read_without_recursion(opening, closing):
    """Balanced nesting of any depth is one part that goes; what is never closed is no error."""
    assert len(clean(opening * 100_000, SITE).text) <= len(opening) * 100_000
    page = clean(f"x {opening * 50_000}[[A]]{closing * 50_000} y", SITE)
    assert page.text.split()[0] == "x"
    assert not closing or (page.text.split(), page.other_links) == (["x", "y"], [("A", "A")])
