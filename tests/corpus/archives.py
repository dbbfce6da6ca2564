"""Write small web archives in the exact form of crawls, and read documents."""

from __future__ import annotations

from stamo.corpus.reading import SkipCounter, read_documents
from stamo.corpus.types import Document


def http_answer(
    body: bytes, kind: bytes = b"text/html; charset=utf-8", extra: bytes = b""
) -> bytes:
    """Return an HTTP answer with header fields."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n" + extra + b"\r\n" + body


def warc_record(
    block: bytes, *, type: str = "response", id: str = "<urn:uuid:1>", trec_id: str = ""
) -> bytes:
    """Return one WARC record around `block`."""
    lines = [
        "WARC/1.0",
        f"WARC-Type: {type}",
        "WARC-Date: 2012-02-10T21:49:10Z",
        *([f"WARC-TREC-ID: {trec_id}"] if trec_id else []),
        "WARC-Target-URI: http://example.org/",
        "Content-Type: application/http; msgtype=response"
        if type == "response"
        else "Content-Type: text/plain",
        f"WARC-Record-ID: {id}",
        f"Content-Length: {len(block)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + block + b"\r\n\r\n"


def page(text: str, title: str = "A page") -> bytes:
    """Return an HTML page whose main content is `text`."""
    menu = "<nav><ul>" + "<li><a href='/'>Menu Rey</a></li>" * 5 + "</ul></nav>"
    return (
        f"<!doctype html><html><head><title>{title}</title><script>alert('Rey')</script></head>"
        f"<body>{menu}<article><p>{text}</p></article></body></html>"
    ).encode()


def read(*sources: object, **options: object) -> tuple[list[Document], SkipCounter]:
    """Return the documents of sources and what was left out."""
    skips = SkipCounter()
    return list(read_documents(list(sources), on_skip=skips, **options)), skips
