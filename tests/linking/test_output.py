"""Linked documents for other programs and in a terminal."""

import csv
import io
import json
from html.parser import HTMLParser

import pytest
from rich.console import Console

from stamo.corpus.nif import EMERGING_IRI, NOT_IN_KB, parse_nif
from stamo.errors import SettingsError
from stamo.linking.output import LINK_COLUMNS, link_format, to_arrow, to_pandas
from stamo.linking.render import legend, render_document, render_text
from stamo.linking.results import LinkedDocument, LinkedMention, ScoredCandidate

HOSTILE = '<script>alert(1)</script> & "Rey"'
TEXT = f"Rey met Finn and Zork, {HOSTILE}."
CANDIDATES = (ScoredCandidate("Rey (film)", 0.75, 1.0, 0.5), ScoredCandidate("Rey", 0.2, 0.5, 0.5))
LINKED = LinkedDocument(
    "a, b\n",
    TEXT,
    (
        LinkedMention("Rey", 0, 3, "Rey (film)", 0.75, CANDIDATES),
        LinkedMention("Finn", 8, 12, "Finn <b>", 0.5),
        LinkedMention("Zork", 17, 21, None, 0.0),
    ),
)
PART = LinkedDocument("long", TEXT[8:], (LINKED.mentions[1],), part=1, offset=8)
FAILED = LinkedDocument("bad", "", error='it is "bad"\nand long')
LONE = LinkedDocument("lone \ud800", "Rey \udfff", (LinkedMention("Rey", 0, 3, "Rey", 1.0),))


def write(name, *documents):
    form = link_format(name, ["Rey (film)"])
    return form.head + b"".join(map(form.render, documents)) + form.tail


def test_json_lines():
    """A line each, with what `to_record` gives, short or with all candidates."""
    lines = write("jsonl", LINKED, FAILED, LONE).splitlines()
    short = [document.to_record(all_candidates=False) for document in (LINKED, FAILED)]
    assert [json.loads(line) for line in lines[:2]] == short
    everything = link_format("jsonl", all_candidates=True).render(LINKED)
    assert json.loads(everything) == LINKED.to_record(all_candidates=True)
    assert json.loads(lines[2])["id"] == LONE.id


def test_csv_has_a_row_for_each_mention():
    """Rows of one table, quoted where needed; what failed is a row too."""
    text = write("csv", LINKED, PART, FAILED, LONE).decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert tuple(rows[0]) == LINK_COLUMNS
    assert (rows[0]["id"], rows[0]["entity"], rows[0]["runner_up"]) == (
        "a, b\n",
        "Rey (film)",
        "Rey",
    )
    assert rows[2]["entity"] == ""
    assert (rows[3]["id"], rows[3]["start"]) == ("long", "8")
    assert (rows[4]["id"], rows[4]["error"]) == ("bad", FAILED.error)
    assert len(rows) == 6


def test_nif_names_known_emerging_and_no_entities():
    """The three kinds of entity have namespaces of their own; parts and failures stay valid."""
    first, lone, part = sorted(
        parse_nif(write("nif", LINKED, FAILED, PART, LONE)), key=lambda d: d.id
    )
    assert first.text == TEXT
    assert [m.entity for m in first.mentions] == [
        f"{EMERGING_IRI}Rey_(film)",
        "Finn <b>",
        f"{NOT_IN_KB}Zork",
    ]
    assert [(m.start, m.end, m.surface) for m in part.mentions] == [(0, 4, "Finn")]
    assert lone.text == "Rey \ufffd"


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs).get("class")))

    def handle_data(self, data):
        self.text += data


def test_html_shows_entities_and_runs_nothing():
    """The text stands as it is, entities inline; markup in it stays text."""
    page = write("html", LINKED, PART, FAILED, LONE).decode()
    reader = Reader()
    reader.feed(page)
    assert [c for tag, c in reader.tags if tag == "mark"][:3] == ["emerging", "known", "nil"]
    assert "script" not in {tag for tag, _ in reader.tags}
    assert HOSTILE in reader.text
    assert "ReyRey (film) 0.75 met FinnFinn <b> 0.50" in reader.text
    assert "default-src 'none'" in page
    assert page.endswith("</html>\n")


def test_tables_of_arrow_and_pandas():
    """One row each, with types; an empty result has the same columns."""
    table = to_arrow([LINKED, FAILED])
    assert table.column_names == list(LINK_COLUMNS)
    assert table["entity"].to_pylist() == ["Rey (film)", "Finn <b>", None, None]
    assert str(table.schema.field("start").type) == "int64"
    assert to_arrow([]).schema == table.schema
    frame = to_pandas([LINKED])
    assert list(frame.columns) == list(LINK_COLUMNS)
    assert frame["confidence"].tolist() == [0.75, 0.5, 0.0]


def test_a_spreadsheet_computes_nothing():
    """A name that begins as a formula does is a text in CSV; numbers stay numbers."""
    mention = LinkedMention("@Rey", 0, 4, "=1+1", 0.5)
    row = write("csv", LinkedDocument("-d", "@Rey", (mention,))).splitlines()[1]
    assert row == b"'-d,0,4,'@Rey,'=1+1,,0.5,,,"
    with pytest.raises(SettingsError, match="jsonl, csv, nif, html"):
        link_format("xml")


MENTION = LinkedMention(
    "Java", 3, 7, "Java (language)", 0.93, (ScoredCandidate("Java (language)", 0.93, 1.2, 0.4),)
)


def rendered(renderable):
    console = Console(file=io.StringIO(), width=100, force_terminal=True, highlight=False)
    console.print(renderable)
    return console.file.getvalue()


def test_text_shows_entities_and_nil():
    """Linked mentions carry entity and confidence; a mention that is not linked says NIL."""
    nil = LinkedMention("York", 12, 16, None, 0.2)
    text = render_text(LinkedDocument("a", "in Java and York.", (MENTION, nil)))
    assert text.plain == "in Java [Java (language) 0.93] and York [NIL 0.20]."


def test_text_cannot_steer_the_terminal():
    """Escape sequences and markup in a text are shown, not obeyed."""
    linked = LinkedDocument("a\x1b]0;x\x07", "\x1b[31mred[/b] Java", ())
    output = rendered(render_document(linked))
    assert "\x1b[31m" not in output
    assert "\x07" not in output
    assert "red[/b] Java" in output


def test_explanation_and_errors_are_shown():
    """Why a mention was linked stands below the text; an error stands in its place."""
    output = rendered(render_document(LinkedDocument("a", "in Java", (MENTION,)), explain=True))
    assert "confidence" in output
    assert "no other" in output
    assert "is bad" in rendered(render_document(LinkedDocument("a", "", error="it is bad")))
    assert "NIL" in rendered(legend(0.5))
