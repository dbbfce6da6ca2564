"""Damaged, odd and lying documents for every reader."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import zstandard

from stamo.build.dump import DumpReader
from stamo.build.site import Site
from stamo.build.staging import ExtractSettings, extract_chunk
from stamo.build.wikitext import clean
from stamo.corpus.reading import read_documents
from stamo_lab.facc1 import read_facc1

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
FIELDS = ("id", "text", "mentions", "title", "start", "end", "entity", "url", "", "data", "result")
WIKITEXT = (
    *("{{", "}}", "[[", "]]", "{|", "|}", "|-", "|", "!!", "\n", "\n* ", "\n== x ==\n", "'" * 3),
    *("<ref>", "</ref>", "<ref name=a/>", "<!--", "-->", "<nowiki>", "</nowiki>", "<math>", "''"),
    *("[[File:a.jpg|thumb|", "[[Category:", "http://a.b ", "[http://a b]", "{{{1|", "}}}", "\x7f"),
    *("<div><b>", "</b></div>", "Rey", "[[Finn|he]]", "\ud800", "\0", "<gallery>\n", "__TOC__"),
)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change bytes as discs, networks and attackers do."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at : at + rng.choice((1, 4, 100))]
        elif kind == 2:
            changed[at:at] = rng.randbytes(rng.choice((1, 4, 30)))
        elif kind == 3:
            changed[at:at] = changed[: rng.choice((10, 200))]
        else:
            changed[at:at] = rng.choice(TOKENS)
    return bytes(changed)


TOKENS = (
    *(b"\xff\xfe", b"\xed\xa0\x80", b"\0", b"\r\n\r\n", b'{"a":' * 300, b"[" * 3000, b"1e999"),
    *(b"WARC/1.0\r\nContent-Length: 99999999\r\n\r\n", b"Content-Length: -1\r\n", b'"\\ud800"'),
    *(b"<ul>" * 400, b"<li>x" * 400, b"<p><b><i>" * 90, b"<table><a>" * 90, b"NaN", b"\x1b[31m"),
)

SEEDS = {
    "a.jsonl": b'{"id": "d1", "text": "Rey met Finn.", "mentions": [[0, 3]], "title": "T"}\n' * 3,
    "a.html": b"<html><title>T</title><body><ul><li>Rey<p>met <b>Finn</b> x<table><tr><td>y" * 3,
    "a.txt": "Rey met Finn in Zürich.\n\nRey went on.\n".encode(),
    "a.warc": (
        b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 68\r\n\r\nHTTP/1.1 200 OK\r\n"
        b"Content-Type: text/html\r\n\r\n<html><p>Rey met Finn now</p>\r\n\r\n"
    )
    * 3,
}


def read_file(folder: Path, name: str, rng: random.Random) -> int:
    """Read a damaged file of one format."""
    path = folder / name
    path.write_bytes(mutate(SEEDS[name], rng))
    return len(list(read_documents([path])))


HTML_PIECES = tuple(
    f"<{tag}>"
    for tag in (
        *("ul", "li", "p", "b", "font size=1", "table", "td", "div", "a", "select", "svg"),
        *("/p", "/b", "/table", "!--x--", "template", "nobr", "button", "h1", "dd", "option"),
    )
)


def read_hostile_html(folder: Path, rng: random.Random) -> int:
    """Read a page of a few patterns, repeated very often."""
    parts = [
        ("".join(rng.choices(HTML_PIECES, k=rng.choice((1, 2, 3)))) + rng.choice(("", "x")))
        * rng.choice((3, 50, 400, 4000, 20_000))
        for _ in range(rng.choice((1, 2, 3)))
    ]
    path = folder / "hostile.html"
    path.write_text("".join(parts)[:400_000])
    return len(list(read_documents([path])))


def read_archive(folder: Path, rng: random.Random) -> int:
    """Read a compressed file that was damaged before or after it was compressed."""
    name, kind = rng.choice(sorted(SEEDS)), rng.choice(sorted(PACKERS))
    data = SEEDS[name] if rng.random() < 0.7 else mutate(SEEDS[name], rng)
    path = folder / f"{name}.{kind}"
    packed = PACKERS[kind](data) * rng.choice((1, 1, 2))
    path.write_bytes(mutate(packed, rng) if rng.random() < 0.8 else packed)
    try:
        return len(list(read_documents([path])))
    finally:
        path.unlink()


def odd_value(rng: random.Random, depth: int = 0) -> object:
    """Return some JSON value, most of them where nobody expects them."""
    if depth < 3 and rng.random() < 0.3:
        n = rng.choice((0, 1, 3))
        if rng.random() < 0.5:
            return [odd_value(rng, depth + 1) for _ in range(n)]
        return {rng.choice(FIELDS): odd_value(rng, depth + 1) for _ in range(n)}
    texts = ("", "Rey", "\ud800", "\0", "9" * 400, "a" * 3000)
    return rng.choice((None, True, -1, 0, 3, 1e308, 2**63, -0.5, *texts))


def read_json_lines(folder: Path, rng: random.Random) -> int:
    """Read JSON lines that are well-formed and mean nothing."""
    lines = []
    for number in range(rng.choice((1, 3, 10))):
        line: dict[str, object] = {"id": f"d{number}", "text": "Rey met Finn.", "mentions": []}
        for _ in range(rng.choice((0, 1, 2))):
            line[rng.choice(FIELDS)] = odd_value(rng)
        lines.append(json.dumps(line if rng.random() < 0.8 else odd_value(rng)))
    path = folder / "odd.jsonl"
    path.write_text("\n".join(lines))
    return len(list(read_documents([path])))


def read_warc(folder: Path, rng: random.Random) -> int:
    """Read records whose heads lie; those that are right must all be found."""
    right, data = set(), b""
    for number in range(rng.choice((1, 5, 30))):
        words = f"Rey met Finn on page {number} of the book"
        body = OK + f"<html><p>{words}</p></html>".encode()
        length: object = len(body)
        if rng.random() < 0.3:
            length = rng.choice((0, -1, "x", "", 3, 10**9, 10**30, len(body) + 7))
        else:
            right.add(words)
        head = f"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: {length}\r\n\r\n"
        data += head.encode() + body + b"\r\n\r\n"
    path = folder / "odd.warc"
    path.write_bytes(data)
    found = {document.text for document in read_documents([path])}
    if right - found:
        raise RuntimeError(f"{len(right - found)} of {len(right)} good records were lost")
    return len(found)


def clean_wikitext(rng: random.Random) -> str:
    """Clean a page that follows the grammar in its pieces only."""
    pieces = rng.choices(WIKITEXT, k=rng.choice((3, 30, 300)))
    return clean("".join(piece * rng.choice((1, 1, 1, 40)) for piece in pieces), Site()).text


def read_dump(folder: Path, rng: random.Random) -> int:
    """Read the damaged beginning of a dump, up to plain text and links."""
    path = folder / "damaged.xml"
    path.write_bytes(mutate((folder / "dump.xml").read_bytes()[:20_000], rng))
    n = 0
    with DumpReader(path) as reader:
        settings = ExtractSettings(reader.site, 0.1, frozenset())
        for chunk in reader.chunks():
            n += extract_chunk(chunk, settings).pages.num_rows
    return n


def read_annotations(folder: Path, rng: random.Random) -> int:
    """Join pages with damaged annotations."""
    body = OK + b"<html><p>" + b"Rey met Finn at the market in the evening. " * 9 + b"</p></html>"
    name = "clueweb12-0000tw-00-00007"
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-TREC-ID: {name}\r\n"
    warc = folder / "0000tw-00.warc"
    warc.write_bytes(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body + b"\r\n\r\n")
    line = f"{name}\tUTF-8\tRey\t9\t12\t0.9\t6.67e-05\t/m/0dl567\n".encode()
    tsv = folder / "0000tw-00.anns.tsv"
    tsv.write_bytes(mutate(line * 3, rng))
    return len(list(read_facc1([warc], [tsv], {"/m/0dl567": "Rey (film)"})))
