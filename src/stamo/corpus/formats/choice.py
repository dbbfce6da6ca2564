"""Tell the format of a file; what is of none is named, never read as something else."""

from __future__ import annotations

from pathlib import PurePath

from stamo.corpus.formats.base import UTF8_MARK, UTF16_MARKS, Format
from stamo.corpus.formats.html import WebPage
from stamo.corpus.formats.jsonl import JsonLines
from stamo.corpus.formats.nif import NifFile
from stamo.corpus.formats.text import PlainText
from stamo.corpus.formats.warc import WebArchive
from stamo.system.streams import UNSUPPORTED

ARCHIVE, PAGE, LINES, TEXT = WebArchive(), WebPage(), JsonLines(), PlainText()
FORMATS: tuple[Format, ...] = (ARCHIVE, PAGE, LINES, NifFile(), TEXT)
KNOWN = "give plain text, JSON lines, HTML, WARC or NIF, also as .gz, .bz2, .xz or .zst"
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
_SNIFF_BYTES = 4096
_FOREIGN = {magic: f"{kind} archive" for magic, kind in UNSUPPORTED.items()} | {
    b"%PDF-": "PDF file",
    b"{\\rtf": "RTF file",
    b"PAR1": "Parquet file",
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
    start = head.removeprefix(UTF8_MARK).lstrip()[:_SNIFF_BYTES]
    named = _by_name(name)
    if ARCHIVE.recognises(start):
        return ARCHIVE
    if named is PAGE:
        return PAGE
    for magic, kind in _FOREIGN.items():
        if start.startswith(magic):
            return kind
    if b"\0" in start and not head.startswith(UTF16_MARKS):
        return "binary file"
    return named or next(form for form in FORMATS if form.recognises(start))


def _by_name(name: str) -> Format | None:
    path = PurePath(name.lower())
    suffix = PurePath(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix
    return next((form for form in FORMATS if suffix in form.suffixes), None)
