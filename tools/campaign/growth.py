"""Time against size: what makes careless parsers quadratic, at one size and at four times it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from stamo.build.dump.site import Site
from stamo.build.wikitext.clean import clean
from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.formats import html_process
from stamo.corpus.readers import read_documents
from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import Document
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from stamo.models.store import load_model
from tools.campaign.table import Attack, Row, processor_seconds, run_apart

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
TEXT = ("a", "A ", "A", ". ", "\n", "-", "Rey ", "e\u0301", "(", "\ud800", "'s ", "A.")


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

    for kind, pieces, use in (
        ("html", HTML, read("growth.html")),
        ("warc", WARC, read("growth.warc")),
        ("json", JSON, read("growth.jsonl")),
        ("wikitext", WIKI, lambda text: clean(text, Site())),
        ("text", TEXT, link),
    ):
        for piece in pieces:
            yield f"{kind} {piece!r}", lambda n, p=piece, u=use: u(p * (n // len(p)))  # type: ignore


def attack(folder: Path, only: str) -> Attack:
    """Return what tries every pattern at both sizes."""

    def run(row: Row, tell: Callable[[], None]) -> None:
        logging.disable()
        for name, use in patterns(folder):
            if only not in name:
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
    """Measure all patterns."""
    n = len(HTML) + len(WARC) + len(JSON) + len(WIKI) + len(TEXT)
    yield run_apart(f"growth, {n} patterns", attack(folder, only), 600)
