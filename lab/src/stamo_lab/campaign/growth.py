"""Time against size: what makes careless parsers quadratic, at one size and at four times it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from stamo.build.notes import clean_note, split_front_matter
from stamo.build.site import Site
from stamo.build.wikitext import clean
from stamo.corpus import web as html_process
from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.nif import NIF
from stamo.corpus.reading import read_documents
from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import Document
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from stamo.models.store import load_model
from stamo_lab.campaign.table import Attack, Row, processor_seconds, run_apart

BYTES = 250_000
STEP = 4
WORST_RATIO = 3 * STEP
NOTICEABLE = 1.0
"""Seconds below which a ratio says nothing."""

HTML = (
    *("<ul>", "<li>x", "<p>x", "<b>", "<font size=i>", "<table>", "<table><tr><td>", "<a>"),
    *("<b><p>", "<a><div>", "<select><option>", "<svg><g>", "<math><mi>", "<template>", "<!--"),
    *("<!-- x -->", "<script>", "<style>x", "</p>", "</b></i>", "&amp;", "&#x41;", "&", "<"),
    *("<nobr>", "<button>", "<dd>x", "<h1>x", "<form><input>", "<iframe>", "<title>", "<x y=z "),
)
WARC = (
    *("WARC/1.0\r\n\r\n", "WARC/1.0\r\nContent-Length: 9\r\n\r\n", "WARC/1.0", "\r\n\r\n"),
    *("WARC/1.0\r\nContent-Length: 999999999\r\n\r\n", "WARC/1.0\r\nContent-Length: -1\r\n\r\n"),
)
JSON = (
    "[",
    '{"a":',
    '{"text":"x"}\n',
    '{"id":"a","text":"Rey","mentions":[[0,3]]}\n',
    '"\\ud800',
    "\\",
)
WIKI = (
    *("{{", "}}", "[[", "]]", "{|\n", "{{a|", "[[a|", "[http://", "<ref>", "<!--", "''", "'" * 5),
    *("<nowiki>", "\n* ", "\n=", "{{{", "&lt;", "[[File:a|"),
)
FEED = ("<a>", "<item>", "<item/>", "<!--", "&amp;", "<![CDATA[", "<a b='c'/>", "<", "</a>")
TURTLE = (
    *("<a> <b> <c> .\n", "(", "<a> <b> [", '"', "# x\n", "@prefix a: <b> .\n", "_:a ", "<"),
    '<a> <b> "<x/>"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#XMLLiteral> .\n',
)
TABLE = ('"', ",", '"a"\n', "a\n", '""', "\r", "a,a\n", "\n")
NOTES = (
    *("[[", "]]", "[a](", "[[a|", "[[a]]", "`", "```\n", "<!--", "%%", "**", "_a", "[a]: b\n", "|"),
    *("> ", "<a ", "![[", "\\[", "[^1]", "\n- ", "^a ", "\t", "[a][", "~~~\n", "<pre", "'a',"),
)
TEXT = ("a", "A ", "A", ". ", "\n", "-", "Rey ", "e\u0301", "(", "\ud800", "'s ", "A.")

PIECES = {
    **{"html": HTML, "warc": WARC, "json": JSON, "feed": FEED, "turtle": TURTLE, "table": TABLE},
    **{"notes": NOTES, "wikitext": WIKI, "text": TEXT},
}


def patterns(folder: Path) -> Iterator[tuple[str, Callable[[str], object]]]:
    """Yield a name and what is done with a piece that is repeated to some size."""
    kb = KnowledgeBase.open(folder / "kb")
    linker = Linker(kb, load_model(folder / "model.safetensors"))
    matcher = AliasMatcher(("Rey", "A. A."))

    def read(name: str) -> Callable[[str], object]:
        def run(text: str) -> object:
            path = folder / name
            path.write_text(text, errors="surrogatepass")
            return list(read_documents([path], matcher=matcher))

        return run

    def link(text: str) -> object:
        return tokenize(text), list(linker.link_documents([Document("d", text)]))

    uses: dict[str, Callable[[str], object]] = {
        "html": read("growth.html"),
        "warc": read("growth.warc"),
        "json": read("growth.jsonl"),
        "feed": lambda text: read("growth.rss")(f"<rss><channel>{text}"),
        "turtle": lambda text: read("growth.ttl")(f"@prefix nif: <{NIF}> .\n{text}"),
        "table": lambda text: read("growth.csv")(f"text\n{text}"),
        "notes": lambda text: (clean_note(text), split_front_matter(f"---\naliases: [{text}\n---")),
        "wikitext": lambda text: clean(text, Site()),
        "text": link,
    }
    for kind, use in uses.items():
        for piece in PIECES[kind]:
            yield f"{kind} {piece!r}", lambda n, p=piece, u=use: u(p * (n // len(p)))  # type: ignore


def attack(folder: Path, kind: str, only: str) -> Attack:
    """Return what tries every pattern of a kind at both sizes."""

    def run(row: Row, tell: Callable[[], None]) -> None:
        logging.disable()
        for name, use in patterns(folder):
            if not name.startswith(f"{kind} ") or only not in name:
                continue
            seconds = []
            for size in (BYTES, STEP * BYTES):
                start = processor_seconds()
                use(size)
                seconds.append(processor_seconds() - start)
                row.took(seconds[-1])
                row.remember_memory()
                tell()
            ratio = seconds[1] / max(seconds[0], 1e-3)
            if seconds[1] > NOTICEABLE and ratio > WORST_RATIO:
                row.fail(f"{name}: {ratio:.0f} times as long for {STEP} times the size")
        html_process.close()
        row.remember_memory()

    return run


def rows(folder: Path, only: str) -> Iterator[Row]:
    """Measure all patterns, each kind in a process of its own: memory is what one kind takes."""
    for kind, pieces in PIECES.items():
        n = sum(only in f"{kind} {piece!r}" for piece in pieces)
        if n:
            yield run_apart(f"growth, {n} of {kind}", attack(folder, kind, only), 3600)
