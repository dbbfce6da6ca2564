"""Markdown becomes running text, and links keep their spans."""

import pytest

from stamo.build.notes import MAX_FRONT_MATTER, clean_note, split_front_matter


def links_of(markdown, folder=""):
    """Return (label, target) of every link, after checking the spans."""
    page, _ = clean_note(markdown, folder)
    for start, end, surface in zip(page.starts, page.ends, page.surfaces, strict=True):
        assert page.text[start:end] == surface
    return list(zip(page.surfaces, page.targets, strict=True))


@pytest.mark.parametrize(
    ("markdown", "links"),
    [
        ("See [[Ada]].", [("Ada", "Ada")]),
        ("See [[Ada|the countess]].", [("the countess", "Ada")]),
        ("See [[Ada#Life|her life]].", [("her life", "Ada")]),
        ("| a | [[Ada\\|her]] |", [("her", "Ada")]),
        ("See **[[Ada|the *great* one]]**.", [("the great one", "Ada")]),
        ("[[Node.js]] and [[A]]s", [("Node.js", "Node.js"), ("A", "A")]),
        ("See [her](../ada%20l.md#life 'A').", [("her", "/ada l.md")]),
        ("See [her](<my ada.md>).", [("her", "/deep/my ada.md")]),
        ("See [her][1].\n\n[1]: /people/ada.md", [("her", "/people/ada.md")]),
        ("A long\n[[Ada|la-\nbel]] [[B|two]]", [("la- bel", "Ada"), ("two", "B")]),
    ],
)
def test_links_are_found(markdown, links):
    """Of wiki style with and without label and section, and of Markdown style with any target."""
    folder = "deep" if "my ada" in markdown or "../" in markdown else ""
    assert links_of(markdown, folder) == links


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("![[picture.png]] ![[Ada]] ![x](y.png) end", "end"),
        ("before\n\n```python\n[[code]]\n```\nafter", "before\n\nafter"),
        ("before\n\n    [[indented]] code\n\nafter", "before\n\nafter"),
        ("a `[[code]]` b", "a [[code]] b"),
        ("a <!-- [[hidden]]\n\nstill --> b %%[[also]]%% c", "a  b  c"),
        ("a \\[\\[no link\\]\\] b", "a [[no link]] b"),
        ("[web](https://example.org/x.md) [file](x.pdf) [own](#part)", "web  own"),
        ("[out](../../etc/passwd.md) [[#part]] [[]]", "out part [[]]"),
        (
            "# Title\n> quoted **bold** and _thin_\n- [ ] item ^abc",
            "Title\nquoted bold and thin\nitem",
        ),
        (
            "2 * 3 * 4, snake_case, a<sub>b</sub> &amp; x<y and z>w",
            "2 * 3 * 4, snake_case, ab & x<y and z>w",
        ),
        ("one\ntwo\n\nthree[^1]\n\n[^1]: a note", "one two\n\nthree\n\na note"),
    ],
)
def test_what_is_no_link_and_no_markup(markdown, text):
    """Embeds, code, comments and links out of the folder are none; what a reader sees is kept."""
    page, _ = clean_note(markdown)
    assert not page.targets
    assert page.text == text


def test_text_that_names_its_note():
    """A wiki of notes may write other names into the text."""
    page, redirects = clean_note("[[!redirects Groups]] A group. [[!include menu]]")
    assert redirects == ["Groups"]
    assert not page.targets


@pytest.mark.parametrize(
    "part",
    ["[[", "[[a|", "![[", "[a](", "[a](b \"", "`", "```a\n", "<!--", "%%a", "**", "*", "_", "> ",
     "- ", "[a][", "\\", "<a ", "&#2;", "a\n", "    a\n\n", "|", "[[a]]", "~~~\n", "[x]: ", "$$",
     " ", "\t", " \n", "\n"],
)  # fmt: skip
def test_hostile_notes_stay_linear(part):
    """A sign repeated 100,000 times is read like any other text; quadratic time would not end."""
    page, _ = clean_note(part * 100_000)
    assert len(page.starts) == len(page.targets)
    assert "\x02" not in page.text
    assert "\x03" not in page.text


@pytest.mark.parametrize(
    ("head", "title", "aliases"),
    [
        ("title: Project Falcon", "Project Falcon", []),
        ('title: "Falcon: a \\"bird\\""', 'Falcon: a "bird"', []),
        ("title: 'It''s'  ", "It's", []),
        ("title: >\n  folded", "", []),
        ("aliases: [Falcon, \"a, b\", 'c']", "", ["Falcon", "a, b", "c"]),
        ("aliases:\n  - Falcon\n  - 'FT 1'\ntags:\n  - bird", "", ["Falcon", "FT 1"]),
        ("alias: Falcon, FT1", "", ["Falcon", "FT1"]),
        ('aliases: ["open, b]', "", ['"open', "b"]),
    ],
)
def test_front_matter(head, title, aliases):
    """Titles and aliases are read in the forms that people write."""
    assert split_front_matter(f"---\n{head}\n---\nText") == (title, aliases, "Text")


@pytest.mark.parametrize(
    "text",
    ["--- no fence", "---\ntitle: never closed", "---\n" + "x: y\n" * MAX_FRONT_MATTER + "---\n"],
    ids=["dashes", "open", "huge"],
)
def test_what_is_no_front_matter_is_text(text):
    """Without an end in time nothing is taken from the note."""
    title, aliases, rest = split_front_matter(text)
    assert (title, aliases) == ("", [])
    assert rest == text
