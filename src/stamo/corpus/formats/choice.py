"""Tell the format of a file; what is of none is named, never read as something else."""

from __future__ import annotations

import re
from pathlib import PurePath

from stamo.corpus.formats.base import UTF8_MARK, UTF16_MARKS, Format
from stamo.corpus.formats.feed import XML_PROLOGUE, read_feed
from stamo.corpus.formats.html import read_html
from stamo.corpus.formats.jsonl import read_json_lines
from stamo.corpus.formats.nif import read_contexts
from stamo.corpus.formats.parquet import read_parquet
from stamo.corpus.formats.rows import read_table
from stamo.corpus.formats.text import read_text
from stamo.corpus.formats.warc import read_archive
from stamo.system.streams import UNSUPPORTED

_FEED_ROOT = rb"(?:<!DOCTYPE (?:rss|rdf)[^>[]{0,300}>\s*)?<(?:rss|feed|rdf:RDF)[\s>]"
_FEED_START = re.compile(rb"(?:%b)?+%b" % (XML_PROLOGUE.pattern, _FEED_ROOT), re.I | re.S)
_PAGE_START = re.compile(rb"<!doctype html|<html", re.I)
_NIF_START = rb"(?=[@<#p]).*?(?:nlp2rdf/ontologies/nif-core#|prefix nif:)"
ARCHIVE = Format(read_archive, (".warc", ".wet"), re.compile(rb"WARC/"))
PARQUET = Format(read_parquet, (".parquet",), re.compile(rb"PAR1"))
PAGE = Format(read_html, (".html", ".htm", ".xhtml"), _PAGE_START)
FEED = Format(read_feed, (".rss", ".atom"), _FEED_START)
LINES = Format(read_json_lines, (".jsonl", ".ndjson", ".json"), re.compile(rb"\{\s*[\"}]"))
_CONTEXTS = Format(read_contexts, (".ttl", ".nif"), re.compile(_NIF_START, re.I | re.S))
_TABLE = Format(read_table, (".csv", ".tsv"))
"""Only a file's name tells a table of texts from plain text."""
TEXT = Format(read_text, (".txt", ".text", ".md"))
"""What is of no other format is read as plain text."""
FORMATS = (ARCHIVE, PARQUET, PAGE, FEED, LINES, _CONTEXTS, _TABLE, TEXT)
KNOWN = (
    "give plain text, JSON lines, CSV, TSV, Parquet, HTML, WARC, RSS, Atom or NIF, also as .gz, "
    ".bz2, .xz or .zst"
)
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
_SNIFF_BYTES = 4096
_FOREIGN = {magic: f"{kind} archive" for magic, kind in UNSUPPORTED.items()} | {
    b"%PDF-": "PDF file",
    b"{\\rtf": "RTF file",
    b"SQLite format 3": "SQLite database",
    b"<mediawiki": "MediaWiki dump",
}


def choose_format(name: str, head: bytes) -> Format | str:
    """Choose by what a file looks like, and by its name where that leaves a doubt.

    Args:
        name: The file's name.
        head: Its first bytes, decompressed.

    Returns:
        The format, or what the file is instead.
    """
    path = PurePath(name.lower())
    suffix = PurePath(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix
    named = next((form for form in FORMATS if suffix in form.suffixes), None)
    start = _as_utf8(head).removeprefix(UTF8_MARK).lstrip()[:_SNIFF_BYTES]
    told = next((form for form in FORMATS if form.begins and form.begins.match(start)), TEXT)
    if told in (ARCHIVE, PARQUET, FEED):
        return told
    if named in (PAGE, FEED):
        return named
    inside = XML_PROLOGUE.sub(b"", start, count=1) if start.startswith(b"<?xml") else start
    for magic, kind in _FOREIGN.items():
        if inside.startswith(magic):
            return kind
    if inside is not start:
        return PAGE if _PAGE_START.match(inside) else "XML file of another kind"
    if named is PARQUET:
        return "file that is called .parquet and is none"
    if b"\0" in start and not head.startswith(UTF16_MARKS):
        return "binary file"
    return named or told


def _as_utf8(head: bytes) -> bytes:
    """Write the start of marked-up text in UTF-8; other text in UTF-16 is told by its mark."""
    if not head.startswith(UTF16_MARKS):
        return head
    text = head[: len(head) & ~1].decode("utf-16", "ignore")
    return text.encode("utf-8", "ignore") if text.lstrip().startswith("<") else head
