"""Texts that follow a grammar in their pieces only: in any order, and one of them very often.

What makes careless parsers quadratic is repetition: time is taken at one size and at four times it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from stamo import Document, KnowledgeBase, Linker, read_documents
from stamo import load_model as read_model
from stamo.build import notes, wikitext
from stamo.build.site import Site
from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.nif import NIF
from stamo_lab.campaign.artifacts import KB, MARKDOWN, MODEL
from stamo_lab.campaign.documents import pieces_of
from stamo_lab.campaign.table import Attack, Row, Target, in_trials, processor_seconds

BYTES = 100_000
STEP = 4
N_TRIALS = 3
"""Other work of the machine may slow one of two readings down; a pattern does so each time."""
WORST_RATIO = 3 * STEP
NOTICEABLE = 0.5
"""Seconds below which a ratio says nothing."""

PIECES = {
    "html": (
        *("<ul>", "<li>x", "<p>x", "<b>", "<font size=i>", "<table>", "<table><tr><td>", "<a>"),
        *("<b><p>", "<a><div>", "<select><option>", "<svg><g>", "<math><mi>", "<template>", "<!--"),
        *("<!-- x -->", "<script>", "<style>x", "</p>", "</b></i>", "&amp;", "&#x41;", "&", "<"),
        *(
            "<nobr>",
            "<button>",
            "<dd>x",
            "<h1>x",
            "<form><input>",
            "<iframe>",
            "<title>",
            "<x y=z ",
        ),
    ),
    "warc": (
        *("WARC/1.0\r\n\r\n", "WARC/1.0\r\nContent-Length: 9\r\n\r\n", "WARC/1.0", "\r\n\r\n"),
        "WARC/1.0\r\nContent-Length: 999999999\r\n\r\n",
        "WARC/1.0\r\nContent-Length: -1\r\n\r\n",
    ),
    "jsonl": (
        *("[", '{"a":', '{"text":"x"}\n', '"\\ud800', "\\"),
        '{"id":"a","text":"Rey","mentions":[[0,3]]}\n',
    ),
    "rss": (
        *("<item>", "</item>", "<item/>", "<title>", "</title>", "<description>", "<a b='c'/>"),
        *("</description>", "<![CDATA[", "]]>", "<link href='a'/>", "<!--", "-->", "&amp;", "&x;"),
        *("&lt;b>", "<content type='xhtml'><div>", "</div></content>", "Rey met Finn. ", "<a>"),
        *("<guid>", "</guid>", "<x:y xmlns:x='u'>", "<?p x?>", "<!DOCTYPE rss [", "\ufffe", "<"),
        *("<!ENTITY a 'b'>", "<!ENTITY % p SYSTEM 'file:///etc/passwd'>", "%p;", "&#0;", "</a>"),
    ),
    "ttl": (
        *("<a> <b> <c> .\n", "(", "<a> <b> [", '"', "# x\n", "@prefix a: <b> .\n", "_:a ", "<"),
        '<a> <b> "<x/>"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#XMLLiteral> .\n',
    ),
    "csv": ('"', ",", '"a"\n', "a\n", '""', "\r", "a,a\n", "\n"),
    "notes": MARKDOWN,
    "wikitext": (
        *("{{", "}}", "[[", "]]", "{|\n", "|}", "|-", "!!", "{{a|", "[[a|", "[[Finn|he]]", "\x7f"),
        *("<ref>", "</ref>", "<ref name=a/>", "<!--", "-->", "<nowiki>", "</nowiki>", "<math>"),
        *("[[File:a.jpg|thumb|", "[[Category:", "http://a.b ", "[http://a b]", "{{{1|", "}}}"),
        *("''", "'" * 5, "\n* ", "\n== x ==\n", "[http://", "{{{", "&lt;", "Rey", "<gallery>\n"),
    ),
    "text": (
        *("a", "A ", "A", ". ", "\n", "-", "Rey ", "e\u0301", "(", "\ud800", "'s ", "A.", "\0"),
        *("\u202e", "ß", "İ", "😀", "\r\n"),
    ),
}
HEADS = {"rss": "<rss><channel>", "ttl": f"@prefix nif: <{NIF}> .\n", "csv": "text\n"}


@cache
def use_of(folder: Path, kind: str) -> Callable[[str], object]:
    """Return what is done with a text of a kind."""
    if kind == "notes":
        return lambda text: (
            notes.clean_note(text),
            notes.split_front_matter(f"---\naliases: [{text}\n---"),
        )
    if kind == "wikitext":
        return lambda text: wikitext.clean(text, Site())
    if kind == "text":
        linker = Linker(KnowledgeBase.open(folder / KB), read_model(folder / MODEL))
        return lambda text: list(linker.link_documents([Document("d", text)]))
    path, matcher = folder / f"growth.{kind}", AliasMatcher(("Rey", "A. A."))

    def read(text: str) -> object:
        path.write_text(HEADS.get(kind, "") + text, errors="surrogatepass")
        return list(read_documents([path], matcher=matcher))

    return read


def grow(folder: Path, kind: str, seed: str) -> Attack:
    """Return what tries each piece of a kind again and again, at both sizes."""

    def attack(row: Row) -> Iterator[None]:
        use, pieces = use_of(folder, kind), list(PIECES[kind])
        random.Random(seed).shuffle(pieces)
        for number, piece in enumerate(pieces, start=1):
            for trial in range(N_TRIALS):
                seconds = []
                for size in (BYTES, STEP * BYTES):
                    start = processor_seconds()
                    use(piece * (size // len(piece)))
                    seconds.append(processor_seconds() - start)
                    row.took(seconds[-1])
                ratio = seconds[1] / max(seconds[0], 1e-3)
                if seconds[1] <= NOTICEABLE or ratio <= WORST_RATIO:
                    break
                if trial == N_TRIALS - 1:
                    row.fail(f"{piece!r}: {ratio:.0f} times as long for {STEP} times the size")
            row.note = "" if number == len(pieces) else f"{number} of {len(pieces)} patterns"
            yield

    return attack


def mix(folder: Path, kind: str, rng: random.Random) -> None:
    """Use pieces of a kind in any order."""
    use_of(folder, kind)(pieces_of(rng, PIECES[kind], 40))


def targets(folder: Path, seed: str) -> Iterator[Target]:
    """Yield every grammar."""
    for kind in PIECES:
        yield Target(f"mixed, {kind}", in_trials(partial(mix, folder, kind), seed), 1)
        yield Target(f"growth, {kind}", grow(folder, kind, seed), 2)
