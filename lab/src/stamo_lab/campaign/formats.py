"""Feeds, tables, NIF and Parquet files that follow their grammar in their pieces only."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stamo.corpus.nif import NIF
from stamo.corpus.reading import read_documents
from stamo_lab.campaign.readers import mutate

WORDS = ("Rey met Finn.", "", "\ud800", "\0", "=1+1", "İ" * 40, "😀Rey", "\x1b[31m", "a" * 70_000)
FEED = (
    *("<item>", "</item>", "<entry>", "</entry>", "<title>", "</title>", "<description>"),
    *("</description>", "<![CDATA[", "]]>", "<link href='a'/>", "<!--", "-->", "&amp;", "&x;"),
    *("&lt;b>", "<content type='xhtml'><div>", "</div></content>", "Rey met Finn. ", "<a>", "\0"),
    *("<guid>", "</guid>", "<x:y xmlns:x='u'>", "<?p x?>", "<!DOCTYPE rss [", "\ufffe", "<", "'"),
    *("<!ENTITY a 'b'>", "<!ENTITY % p SYSTEM 'file:///etc/passwd'>", "%p;", "&p;", "&#0;"),
)
HEADS = (
    "<?xml version='1.0'?><rss version='2.0'><channel>",
    "<feed xmlns='http://www.w3.org/2005/Atom'>",
    "<?xml version='1.0' encoding='{}'?><rss>",
)
ENCODINGS = ("utf-8", "utf-16", "latin-1", "x-none", "utf-7", "rot13", "cp037")


def read_feed(folder: Path, rng: random.Random) -> int:
    """Read a feed of some pieces, now and then very many of one."""
    pieces = rng.choices(FEED, k=rng.choice((3, 20, 80)))
    body = "".join(piece * rng.choice((1, 1, 1, 1, 600, 3000)) for piece in pieces)
    head = rng.choice(HEADS).format(rng.choice(ENCODINGS))
    path = folder / "odd.rss"
    path.write_text(head + body[:2_000_000], encoding="utf-8", errors="replace")
    return len(list(read_documents([path])))


def read_table(folder: Path, rng: random.Random) -> int:
    """Read a table whose header, quotes and rows do not agree; rows after a bad one are found."""
    rows = [rng.choice((["id", "text", "title"], ["text"], ["a", "text", "text"], ["x"], []))]
    rows += [rng.choices(WORDS[:-1], k=rng.choice((0, 1, 3, 3, 4))) for _ in range(9)]
    mark, quote = rng.choice(",;\t|"), rng.choice(('"', '"', ""))
    lines = [mark.join(f"{quote}{cell}{quote}" for cell in row) for row in rows]
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    path = folder / rng.choice(("odd.csv", "odd.tsv"))
    path.write_bytes(data if rng.random() < 0.5 else mutate(data, rng))
    return len(list(read_documents([path])))


LITERALS = (
    *("4", "-1", "1e999", '"4"^^xsd:integer', '"9"^^xsd:dateTime', "true", "<a>", "[]", "()"),
    *('"' + "9" * 5000 + '"', '"x"@en', '"\\ud800"', '"😀Rey"', '"""a"b"""', "9" * 5000),
    "\"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>\"^^rdf:XMLLiteral",
)
TURTLE = (
    f"@prefix nif: <{NIF}> .\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    "@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .\n"
)


def odd_nif(rng: random.Random) -> bytes:
    """Return contexts and phrases, some of whose numbers, types or texts are wrong."""
    parts, n = [TURTLE], rng.choice((0, 1, 5, 40))
    text = rng.choice(("Rey met Finn. ", "😀 Rey ")) * rng.choice((1, 30))
    parts.append(f'<u:c> a nif:Context ; nif:isString "{text}" .\n')
    for number in range(n):
        start = rng.randrange(-1, len(text) + 1)
        values = [start, start + rng.choice((0, 1, 3, 9)), f'"{text[max(start, 0) :][:3]}"']
        if rng.random() < 0.2:
            values[rng.randrange(3)] = rng.choice(LITERALS)
        names = ("nif:beginIndex", "nif:endIndex", "nif:anchorOf")
        said = " ; ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
        parts.append(f"<u:p{number}> nif:referenceContext <u:c> ; {said} .\n")
    data = "".join(parts).encode("utf-8", "replace")
    return data if rng.random() < 0.6 else mutate(data, rng)


def read_nif(folder: Path, rng: random.Random) -> int:
    """Read odd NIF from a file."""
    path = folder / "odd.ttl"
    path.write_bytes(odd_nif(rng))
    return len(list(read_documents([path])))


NAMES = ("text", "id", "title", "url", "content", "", "\ud7ff", "TEXT", "x.y")


def _column(rng: random.Random) -> pa.Array:
    """Return three values of some type."""
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: pa.array(["Rey met Finn.", None, "Rey"]),
        lambda: pa.array(["Rey met Finn.", "Rey", ""], pa.large_string()).dictionary_encode(),
        lambda: pa.array([2**62, None, -1], pa.timestamp("us", rng.choice(("UTC", "No/Where")))),
        lambda: pa.array([2**31 - 1, None, 0], pa.int32()).cast(pa.date32()),
        lambda: pa.array([2**62, 0, None], pa.duration("s")),
        lambda: pa.array([["x" * 100_000], None, []]),
        lambda: pa.array([{"a": "Rey"}, None, {"a": None}]),
        lambda: pa.array([b"\xff\xfe", None, b"Rey"]).view(pa.binary()),
        lambda: pa.array([float("nan"), 1e308, None]),
        lambda: pa.nulls(3),
        _broken_text,
    )
    return rng.choice(kinds)()


def _broken_text() -> pa.Array:
    offsets = pa.py_buffer(b"\0\0\0\0\5\0\0\0\7\0\0\0\14\0\0\0")
    return pa.Array.from_buffers(
        pa.string(), 3, [None, offsets, pa.py_buffer(b"hello\xff\xfeworld")]
    )


def read_parquet(folder: Path, rng: random.Random) -> int:
    """Read a Parquet file of odd columns, perhaps damaged; texts beside broken ones are found."""
    path, names = folder / "odd.parquet", rng.choices(NAMES, k=rng.choice((1, 2, 4)))
    columns = [_column(rng) for _ in names]
    is_broken = rng.random() < 0.2
    if is_broken:
        names, columns = ["text"], [_broken_text()]
    pq.write_table(
        pa.Table.from_arrays(columns, names=names),
        path,
        compression=rng.choice(("none", "snappy", "zstd")),
        row_group_size=rng.choice((1, 3)),
    )
    if not is_broken and rng.random() < 0.6:
        path.write_bytes(mutate(path.read_bytes(), rng))
    found = [document.text for document in read_documents([path])]
    if is_broken and not {"hello", "world"} <= set(found):
        raise RuntimeError(f"good rows were lost: {found}")
    return len(found)
