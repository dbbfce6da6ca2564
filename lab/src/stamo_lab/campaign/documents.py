"""Damaged, odd and lying documents for every reader."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from stamo import read_documents
from stamo.corpus.nif import NIF
from stamo_lab.campaign.table import Target, in_trials

FIELDS = ("id", "text", "mentions", "title", "start", "end", "entity", "url", "", "data", "result")
WORDS = ("Rey met Finn.", "", "\ud800", "\0", "=1+1", "İ" * 40, "😀Rey", "\x1b[31m")
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
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
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


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


def odd_value(rng: random.Random, depth: int = 0) -> Any:
    """Return some JSON value, most of them where nobody expects them."""
    if depth < 3 and rng.random() < 0.3:
        n = rng.choice((0, 1, 3))
        if rng.random() < 0.5:
            return [odd_value(rng, depth + 1) for _ in range(n)]
        return {rng.choice(FIELDS): odd_value(rng, depth + 1) for _ in range(n)}
    texts = ("", "Rey", "\ud800", "\0", "9" * 400, "a" * 3000)
    return rng.choice((None, True, -1, 0, 3, 1e308, 2**63, -0.5, *texts))


def odd_table(rng: random.Random, rows: list[list[str]]) -> bytes:
    """Write rows with some separator and quotes, perhaps damaged."""
    mark, quote = rng.choice(",;\t|"), rng.choice(('"', '"', ""))
    lines = [mark.join(f"{quote}{cell}{quote}" for cell in row) for row in rows]
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    return data if rng.random() < 0.6 else mutate(data, rng)


def pieces_of(rng: random.Random, pieces: tuple[str, ...], most: int = 3000) -> str:
    """Join some pieces, now and then very many of one."""
    chosen = rng.choices(pieces, k=rng.choice((3, 20, 80)))
    return "".join(piece * rng.choice((1, 1, 1, 1, 600, most)) for piece in chosen)[:2_000_000]


def damaged(name: str, rng: random.Random) -> bytes:
    """Return a damaged file of one format."""
    return mutate(SEEDS[name], rng)


def packed(kind: str, rng: random.Random) -> bytes:
    """Return a compressed file that was damaged before or after it was compressed."""
    data = SEEDS["a.jsonl"] if rng.random() < 0.7 else damaged("a.jsonl", rng)
    data = PACKERS[kind](data) * rng.choice((1, 1, 2))
    return mutate(data, rng) if rng.random() < 0.8 else data


def json_lines(rng: random.Random) -> bytes:
    """Return JSON lines that are well-formed and mean nothing."""
    lines = []
    for number in range(rng.choice((1, 3, 10))):
        line: dict[str, object] = {"id": f"d{number}", "text": "Rey met Finn.", "mentions": []}
        for _ in range(rng.choice((0, 1, 2))):
            line[rng.choice(FIELDS)] = odd_value(rng)
        lines.append(json.dumps(line if rng.random() < 0.8 else odd_value(rng)))
    return "\n".join(lines).encode()


def table(rng: random.Random) -> bytes:
    """Return a table whose header, quotes and rows do not agree."""
    head = rng.choice((["id", "text", "title"], ["text"], ["a", "text", "text"], ["x"], []))
    rows = [rng.choices(WORDS, k=rng.choice((0, 1, 3, 3, 4))) for _ in range(9)]
    return odd_table(rng, [head, *rows])


LITERALS = (
    *("4", "-1", "1e999", '"4"^^xsd:integer', '"9"^^xsd:dateTime', "true", "<a>", "[]", "()"),
    *('"' + "9" * 5000 + '"', '"x"@en', '"\\ud800"', '"😀Rey"', '"""a"b"""', "9" * 5000),
    "\"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>\"^^rdf:XMLLiteral",
)
TURTLE = (
    f"@prefix nif: <{NIF}> .\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    "@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .\n"
)


def nif(rng: random.Random) -> bytes:
    """Return contexts and phrases, some of whose numbers, types or texts are wrong."""
    text = rng.choice(("Rey met Finn. ", "😀 Rey ")) * rng.choice((1, 30))
    parts = [TURTLE, f'<u:c> a nif:Context ; nif:isString "{text}" .\n']
    for number in range(rng.choice((0, 1, 5, 40))):
        start = rng.randrange(-1, len(text) + 1)
        values = [start, start + rng.choice((0, 1, 3, 9)), f'"{text[max(start, 0) :][:3]}"']
        if rng.random() < 0.2:
            values[rng.randrange(3)] = rng.choice(LITERALS)
        begin, end, anchor = values
        parts.append(
            f"<u:p{number}> nif:referenceContext <u:c> ; nif:beginIndex {begin} ; "
            f"nif:endIndex {end} ; nif:anchorOf {anchor} .\n"
        )
    data = "".join(parts).encode("utf-8", "replace")
    return data if rng.random() < 0.6 else mutate(data, rng)


def read(
    folder: Path, name: str, make: Callable[[random.Random], bytes], rng: random.Random
) -> int:
    """Write a file and read its documents."""
    path = folder / name
    path.write_bytes(make(rng))
    return len(list(read_documents([path])))


def read_warc(folder: Path, rng: random.Random) -> None:
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
    lost = right - {document.text for document in read_documents([path])}
    if lost:
        raise RuntimeError(f"{len(lost)} of {len(right)} good records were lost")


NAMES = ("text", "id", "title", "url", "content", "", "\ud7ff", "TEXT", "x.y")
BROKEN_TEXT = b"hello\xff\xfeworld"
"""Three texts of which the second is no UTF-8."""


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
    )
    return rng.choice(kinds)()


def read_parquet(folder: Path, rng: random.Random) -> None:
    """Read a Parquet file of odd columns, perhaps damaged; texts beside broken ones are found."""
    path, names = folder / "odd.parquet", rng.choices(NAMES, k=rng.choice((1, 2, 4)))
    columns = [_column(rng) for _ in names]
    is_broken = rng.random() < 0.2
    if is_broken:
        offsets = pa.py_buffer(b"\0\0\0\0\5\0\0\0\7\0\0\0\14\0\0\0")
        buffers = [None, offsets, pa.py_buffer(BROKEN_TEXT)]
        names, columns = ["text"], [pa.Array.from_buffers(pa.string(), 3, buffers)]
    pq.write_table(
        pa.Table.from_arrays(columns, names=names),
        path,
        compression=rng.choice(("none", "snappy", "zstd")),
        row_group_size=rng.choice((1, 3)),
    )
    if not is_broken and rng.random() < 0.6:
        path.write_bytes(mutate(path.read_bytes(), rng))
    found = {document.text for document in read_documents([path])}
    if is_broken and not {"hello", "world"} <= found:
        raise RuntimeError(f"good rows were lost: {found}")


def targets(folder: Path, seed: str) -> Iterator[Target]:
    """Yield every reader of documents."""
    files: dict[str, Callable[[random.Random], bytes]] = {
        **{name: partial(damaged, name) for name in SEEDS},
        **{f"a.jsonl.{kind}": partial(packed, kind) for kind in PACKERS},
        "odd.jsonl": json_lines,
        "odd.csv": table,
        "odd.tsv": table,
        "odd.ttl": nif,
    }
    for name, make in files.items():
        trial = partial(read, folder, name, make)
        yield Target(f"readers, {name}", in_trials(trial, seed), 0.7)
    yield Target("readers, odd.warc", in_trials(partial(read_warc, folder), seed))
    yield Target("readers, odd.parquet", in_trials(partial(read_parquet, folder), seed))
