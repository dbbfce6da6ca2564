"""Candidate mentions are found exactly, and the quick test of raw bytes never loses one."""

import html
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stamo.corpus.aliases import AliasGroups, AliasMatcher
from stamo.errors import SettingsError


def spans(text, *aliases, casefold=False):
    return [(m.start, m.end) for m in AliasMatcher(aliases, casefold=casefold).find(text)]


@pytest.mark.parametrize(
    ("text", "alias", "expected"),
    [
        ("Rey met Rey.", "Rey", [(0, 3), (8, 11)]),
        ("Reykjavik, Aubrey, rey", "Rey", []),
        ("Rey's staff, Rey-like, _Rey_", "Rey", [(0, 3), (13, 16), (24, 27)]),
        ("Rey2 and 2Rey", "Rey", []),
        ("Beyonce\u0301 sang", "Beyonce", []),
        ("Beyonce\u0301 sang", "Beyoncé", [(0, 8)]),
        ("Beyoncé sang", "Beyonce\u0301", [(0, 7)]),
        ("Yahoo! said", "Yahoo!", [(0, 6)]),
        ("我在北京市", "北京", [(2, 4)]),
        ("レイ氏", "レイ", [(0, 2)]),
        ("グレイ氏", "レイ", []),
        ("C++ (C+) a.b", "a.b", [(9, 12)]),
        ("axb", "a.b", []),
        ("", "Rey", []),
    ],
)
def test_aliases_match_between_word_boundaries(text, alias, expected):
    """An alias counts where the tokenizer sees whole words, in any script and Unicode form."""
    assert spans(text, alias) == expected


def test_white_space_inside_an_alias_may_vary():
    """A line break inside a name does not hide it; the surface stays the declared alias."""
    found = AliasMatcher(["Rey Skywalker"]).find("Here Rey\n  Skywalker and Rey\u00a0Skywalker.")
    assert [(m.surface, m.start, m.end) for m in found] == [
        ("Rey Skywalker", 5, 20),
        ("Rey Skywalker", 25, 38),
    ]


def test_the_longer_of_two_aliases_wins():
    """Overlapping aliases give one mention, the longest; its part is still found elsewhere."""
    found = AliasMatcher(["Rey", "Rey Skywalker"]).find("Rey Skywalker, Rey, Rey Skywalkers")
    assert [m.surface for m in found] == ["Rey Skywalker", "Rey", "Rey"]


def test_case_is_exact_unless_asked():
    """Case counts by default; with casefold every case is a mention of the declared alias."""
    text = "Rey REY rey"
    assert spans(text, "Rey") == [(0, 3)]
    assert spans(text, "Rey", casefold=True) == [(0, 3), (4, 7), (8, 11)]
    assert {m.surface for m in AliasMatcher(["Rey"], casefold=True).find(text)} == {"Rey"}


def test_empty_aliases_are_refused():
    """No alias, or an empty one, is an error and not a match of everything."""
    for aliases in ([], ["Rey", " "]):
        with pytest.raises(SettingsError):
            AliasMatcher(aliases)


def escape_all(text):
    units = text.encode("utf-16-be").hex()
    return '"' + "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)) + '"'


@pytest.mark.parametrize("alias", ["Rey", "Beyoncé", "北京", "Émile Zola", "𝒳", 'R/"\\y'])
@pytest.mark.parametrize("casefold", [False, True])
def test_json_escapes_hide_no_alias(alias, casefold):
    r"""However JSON writes a name, plainly or with \u escapes in either case, it is not lost."""
    matcher = AliasMatcher([alias], casefold=casefold)
    text = f"say {alias} twice"
    forms = [json.dumps(text), json.dumps(text, ensure_ascii=False), escape_all(text)]
    forms.append(escape_all(text).upper().replace("\\U", "\\u"))
    for form in forms:
        assert json.loads(form) == text
        assert matcher.may_be_in_json(form.encode()), form


@pytest.mark.parametrize("casefold", [False, True])
def test_documents_without_the_alias_are_ruled_out(casefold):
    """The quick tests do rule documents out; otherwise they would be worthless."""
    matcher = AliasMatcher(["Rey", "Émile Zola"], casefold=casefold)
    other = "Nothing — of “interest” & here…"
    assert not matcher.may_be_in_text(other.encode())
    assert not matcher.may_be_in_json(json.dumps(other).encode())
    assert not matcher.may_be_in_html(f"<p>{html.escape(other)}&#8217;&#39;&nbsp;</p>".encode())


@pytest.mark.parametrize(
    "page", ["<p>R<b>e</b>y</p>", "&#82;ey", "&#x52;ey", "&#x00052;ey", "<i>Rey</i>", "R&#101;y"]
)
def test_markup_hides_no_alias(page):
    """Tags inside a name and character references do not rule a page out."""
    assert AliasMatcher(["Rey"]).may_be_in_html(page.encode())


words = st.text(st.sampled_from("aBé\u0301北ß 1-KİK"), min_size=1, max_size=6)


FILLERS = [f"Filler{i} Name{i}" for i in range(5)]


@settings(deadline=None)
@given(words.filter(lambda a: a.strip()), words, words, st.booleans(), st.booleans())
def test_the_quick_tests_are_safe(alias, before, after, casefold, many):
    """Whenever a mention is found in the text, the raw bytes were not ruled out."""
    fillers = FILLERS if many else []
    matcher = AliasMatcher([alias, *fillers], casefold=casefold)
    text = before + alias.swapcase() + after + "\n" + alias
    if matcher.find(text):
        owners = AliasGroups([FILLERS, [alias]], casefold=casefold)
        assert 1 in owners.of(text)
        for plain in (False, True):
            lines = [json.dumps({"text": t}, ensure_ascii=plain) for t in ("b", text, "a")]
            raw = ("\n".join(lines) + "\n").encode()
            rows = matcher.lines_in_json(raw, np.array([i for i, c in enumerate(raw) if c == 10]))
            assert rows is None or 1 in rows
        assert matcher.may_be_in_text(text.encode())
        assert matcher.may_be_in_json(json.dumps(text).encode())
        assert matcher.may_be_in_json(json.dumps(text, ensure_ascii=False).encode())
        assert matcher.may_be_in_html(html.escape(text).encode())


parts = st.sampled_from(["Art", "Artemis", "One", "Duran", "EdArt", "nArt", "BBC", "x", "É", "é"])
gaps = st.sampled_from([" ", "\n", "\t ", "\u00a0", "-", ". ", "/", '"', "\u2003", "\\", ""])
texts = st.lists(st.tuples(parts, gaps), max_size=8).map(lambda some: "".join(map("".join, some)))
joints = st.sampled_from([" ", "-", ". ", "/", "\\", ""])
names = st.lists(st.tuples(parts, joints), min_size=1, max_size=3)


def test_hundreds_of_names_and_few_find_the_same():
    """Whatever looks for them, the same lines are told apart."""
    names = [f"{a}{b}{c} Hall" for a in "ABCDEGKRSTVZ" for b in "aeiou" for c in ("rn", "lt", "9")]
    lines = [f'{{"text": "near {name} and x{name}"}}' for name in names[::7]]
    lines += ['{"text": "near Hall, Arn of Hall"}', '{"text": "Zu9\\nHall"}']
    raw = ("\n".join(lines) + "\n").encode()
    ends = np.array([i for i, c in enumerate(raw) if c == 10])
    absent = [f"Q{i} Hall" for i in range(500)]
    expected = [*range(len(lines) - 2), len(lines) - 1]
    for some in (names, names + absent):
        assert AliasMatcher(some).lines_in_json(raw, ends) == expected
    assert AliasMatcher(names[:1]).lines_in_json(raw, ends) == [0]


def test_many_aliases_are_ruled_out_in_one_look():
    """A name of two words is there where both stand together, whole; a line break is no letter."""
    names = ["Art", "Artemis One", "Rey Skywalker", "Pence", "Beyoncé", "Ada", "Bo"]
    matcher = AliasMatcher(names)
    apart = ("Spence Pences", "Artemis Two", "One of Artemis", "Skywalker Reys", "Adam 2Bo")
    for text in apart:
        assert not matcher.may_be_in_text(text.encode()), text
        assert not matcher.may_be_in_json(json.dumps(text).encode()), text
    for text in ("x\nPence", "Artemis\u00a0One", "\u2013Bo", "Beyonce\u0301", "Rey\n \nSkywalker"):
        assert matcher.may_be_in_text(text.encode()), text
        assert matcher.may_be_in_json(json.dumps(text).encode()), text
    assert matcher.may_be_in_html(b"<p>foo</p><p>P<b>ence</b>")
    groups = AliasGroups([["Art", "Ada"], ["Artemis One"], ["\u5317\u4eac"], ["Ada"]])
    assert groups.of("Ada saw Artemis One") == [0, 1, 2, 3]
    assert groups.of("nobody") == [2]


@pytest.mark.parametrize("piece", [b"<!--", b"<x y=z ", b"</a", b"<a><b "])
def test_tags_that_never_end_are_looked_at_once(piece):
    """Each of many is looked at once, not to the end of the page; a name among them is found."""
    matcher = AliasMatcher(["Rey Skywalker"])
    assert not matcher.may_be_in_html(piece * 1_000_000)
    assert matcher.may_be_in_html(b"Rey Sky<b>walker " + piece * 9)
